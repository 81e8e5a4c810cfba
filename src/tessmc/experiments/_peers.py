"""The samplers that are compared, each as its authors recommend; all move the same unconstrained vector."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array

from tessmc._clock import Clock
from tessmc._random import split
from tessmc._types import Key, Point, Points, Scalar
from tessmc.adaptation import Decay, Warmup, WarmupTask, begin_fit, fit, kl_from_reference
from tessmc.engines import collect, count_evaluations
from tessmc.experiments._protocol import Batch, Sampler, Task
from tessmc.targets import AbstractTarget
from tessmc.transports import paper_coupling

# The paper's, for NUTS and NeuTra.
TARGET_ACCEPTANCE = 0.8
# What those who run a few chains for a while take by default.
NUM_CHAINS, NUM_WARMUP = 4, 1000

# One transition of one chain: (key, state) -> (state, gradients paid).
Step = Callable[[Key, Any], tuple[Any, Array]]


# --- ourselves -----------------------------------------------------------------------------------


def tess(task: Task) -> Iterator[Batch]:
    """As `tessmc.sample` runs."""
    watch = lambda *_: None  # noqa: E731
    asked = WarmupTask(task.target, None, None, task.key, task.num_chains, task.num_warmup, Clock(), watch)
    warmed = Warmup.auto().run(asked)
    chains, num_gradients, paid = warmed.chains, warmed.num_evaluations["fit"], 0
    while True:
        chains, draws = collect(warmed.kernel, chains, task.num_draws * warmed.stride)
        before, paid = paid, count_evaluations(chains)
        yield Batch(draws.position[:, warmed.stride - 1 :: warmed.stride], paid - before, num_gradients)
        num_gradients = 0


# --- many chains, by BlackJAX --------------------------------------------------------------------


def nuts(task: Task) -> Iterator[Batch]:
    """The no-U-turn sampler with one step size for all chains, adapted to a harmonic mean acceptance of 0.8."""
    yield from _nuts_on(task, task.target.log_density, lambda draws: draws, 0)


def neutra(task: Task, num_steps: int = 2000, num_points: int = 100) -> Iterator[Batch]:
    """NUTS in the reference space of a map that was fitted by (6) beforehand (Hoffman et al. 2019)."""
    key_map, key_fit = split(task.key, 2)
    transport = paper_coupling(key_map, task.target.dim, dtype=task.target.dtype)

    def from_reference(transport: Any, key: Key, target: AbstractTarget) -> Scalar:
        return kl_from_reference(transport, target.log_density, jr.normal(key, (num_points, target.dim), target.dtype))

    schedule = Decay(1e-2, 0.1, num_steps)
    state = fit(from_reference, begin_fit(transport), key_fit, task.target, schedule, jnp.int32(num_steps))
    transport = state.transport

    def log_density(reference: Point) -> Scalar:
        position, log_det = transport.transform_and_log_det(reference)
        return task.target.log_density(position) + log_det

    push = jax.jit(lambda references: jax.vmap(jax.vmap(transport.transform))(references))
    yield from _nuts_on(task, log_density, push, num_steps * num_points)


def _nuts_on(
    task: Task, log_density: Callable[[Point], Scalar], push: Callable[[Array], Array], num_gradients: int
) -> Iterator[Batch]:
    import blackjax
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    key_warmup, key_draws = split(task.key, 2)
    kernel = blackjax.nuts.build_kernel()
    scale = jnp.ones(task.target.dim, task.target.dtype)
    begin, update, finish = dual_averaging_adaptation(TARGET_ACCEPTANCE)
    states = jax.jit(jax.vmap(lambda position: blackjax.nuts.init(position, log_density)))(task.starts(task.num_chains))

    def move(key: Key, states: Any, step_size: Scalar) -> tuple[Any, Any]:
        keys = jr.split(key, task.num_chains)
        return jax.vmap(lambda key, state: kernel(key, state, log_density, step_size, scale))(keys, states)

    def adapt(carry: tuple[Any, Any], key: Key) -> tuple[tuple[Any, Any], Array]:
        states, adaptation = carry
        states, info = move(key, states, jnp.exp(adaptation.log_step_size))
        acceptance = 1 / jnp.mean(1 / jnp.maximum(info.acceptance_rate, 1e-10))
        return (states, update(adaptation, acceptance)), info.num_integration_steps.sum()

    keys = jr.split(key_warmup, task.num_warmup)
    (states, adaptation), paid = jax.jit(lambda carry: jax.lax.scan(adapt, carry, keys))((states, begin(1.0)))
    step_size = finish(adaptation)

    def step(key: Key, state: Any) -> tuple[Any, Array]:
        state, info = kernel(key, state, log_density, step_size, scale)
        return state, info.num_integration_steps

    for batch in draw_on(task, step, states, key_draws, num_gradients + int(paid.sum())):
        yield batch._replace(draws=np.asarray(push(jnp.asarray(batch.draws))))


def chees(task: Task) -> Iterator[Batch]:
    """HMC of one jittered trajectory length, adapted over all chains (Hoffman et al. 2021)."""
    import blackjax

    key_warmup, key_draws = split(task.key, 2)
    log_density, starts = task.target.log_density, task.starts(task.num_chains)
    warmup = blackjax.chees_adaptation(log_density, task.num_chains)
    # Not compiled as a whole: it gives back functions, too.
    (states, parameters), info = warmup.run(key_warmup, starts, 0.1, optax.adam(0.02), task.num_warmup)
    step = _counting(blackjax.dynamic_hmc(log_density, **parameters).step)
    yield from draw_on(task, step, states, key_draws, int(info.info.num_integration_steps.sum()))


def meads(task: Task) -> Iterator[Batch]:
    """Generalised HMC with persistent momentum, adapted in four folds of chains (Hoffman and Sountsov 2022)."""
    import blackjax

    key_warmup, key_draws = split(task.key, 2)
    log_density, starts = task.target.log_density, task.starts(task.num_chains)
    warmup = blackjax.meads_adaptation(log_density, task.num_chains)
    (states, parameters), _ = jax.jit(lambda key: warmup.run(key, starts, task.num_warmup))(key_warmup)
    step = blackjax.ghmc(log_density, **parameters).step
    yield from draw_on(
        task,
        lambda key, state: (step(key, state)[0], jnp.int32(1)),
        states,
        key_draws,
        task.num_chains * task.num_warmup,
    )


def _counting(step: Callable[[Key, Any], tuple[Any, Any]]) -> Step:
    def counted(key: Key, state: Any) -> tuple[Any, Array]:
        state, info = step(key, state)
        return state, info.num_integration_steps

    return counted


def draw_on(task: Task, step: Step, states: Any, key: Key, num_gradients: int) -> Iterator[Batch]:
    """Batches of all chains side by side; each draw waits for the slowest."""

    def move(states: Any, key: Key) -> tuple[Any, tuple[Points, Array]]:
        states, paid = jax.vmap(step)(jr.split(key, len(jax.tree.leaves(states)[0])), states)
        return states, (states.position, paid.sum())

    run = jax.jit(lambda states, key: jax.lax.scan(move, states, jr.split(key, task.num_draws)))
    for count in range(2**31):
        states, (positions, paid) = run(states, jr.fold_in(key, count))
        yield Batch(np.asarray(positions).swapaxes(0, 1), 0, num_gradients + int(np.asarray(paid, np.int64).sum()))
        num_gradients = 0


# --- a few chains, as a practitioner runs them ---------------------------------------------------


def numpyro(task: Task) -> Iterator[Batch]:
    """NumPyro's NUTS: four chains one beside the other, a diagonal mass matrix, a thousand transitions to adapt."""
    from numpyro.infer import MCMC, NUTS

    kernel = NUTS(potential_fn=lambda position: -task.target.log_density(position))
    mcmc = MCMC(
        kernel,
        num_warmup=NUM_WARMUP,
        num_samples=task.num_draws,
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    keys, starts = jr.split(task.key, NUM_CHAINS), task.starts(NUM_CHAINS)
    mcmc.warmup(keys, init_params=starts, extra_fields=("num_steps",), collect_warmup=True)
    num_gradients = int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
    while True:
        mcmc.run(keys if mcmc.last_state is None else mcmc.last_state.rng_key, extra_fields=("num_steps",))
        num_gradients += int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
        yield Batch(np.asarray(mcmc.get_samples(group_by_chain=True)), 0, num_gradients)
        num_gradients = 0
        mcmc.post_warmup_state = mcmc.last_state


# --- without gradients ---------------------------------------------------------------------------


def emcee(task: Task) -> Iterator[Batch]:
    """Stretch moves of an ensemble (Foreman-Mackey et al. 2013), all walkers' densities in one call."""
    from emcee import EnsembleSampler

    num_walkers = max(task.num_chains, 2 * task.target.dim + 2)
    ensemble = EnsembleSampler(num_walkers, task.target.dim, _in_batches(task.target), vectorize=True)
    ensemble.random_state = np.random.RandomState(np.asarray(jr.key_data(task.key))[-1]).get_state()
    state = ensemble.run_mcmc(np.asarray(task.starts(num_walkers), float), task.num_warmup)
    num_evaluations = num_walkers * (1 + task.num_warmup)
    while True:
        ensemble.reset()
        state = ensemble.run_mcmc(state, task.num_draws)
        yield Batch(ensemble.get_chain().swapaxes(0, 1), num_evaluations + num_walkers * task.num_draws, 0)
        num_evaluations = 0


def _in_batches(target: AbstractTarget) -> Callable[[np.ndarray], np.ndarray]:
    """The log density of many points at once; NaN is impossible."""
    density = jax.jit(jax.vmap(target.log_density))

    def log_density(points: np.ndarray) -> np.ndarray:
        return np.nan_to_num(np.asarray(density(points.astype(target.dtype)), float), nan=-np.inf, neginf=-np.inf)

    return log_density


SAMPLERS: dict[str, Sampler] = {
    "tess": tess,
    "nuts": nuts,
    "meads": meads,
    "chees": chees,
    "neutra": neutra,
    "numpyro": numpyro,
    "emcee": emcee,
}
