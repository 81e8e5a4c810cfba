"""The samplers that are compared, each as its authors recommend; all move the same unconstrained vector."""

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
from tessmc.engines import collect, count_evaluations, every
from tessmc.experiments._protocol import Batch, Sampler, Task
from tessmc.targets import AbstractTarget
from tessmc.transports import paper_coupling

# The paper's, for NUTS and NeuTra.
TARGET_ACCEPTANCE = 0.8
# What those who run a few chains for a while take by default.
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 1000, 1000

# One transition of one chain: (key, state) -> (state, gradients paid).
Step = Callable[[Key, Any], tuple[Any, Array]]


# --- ourselves -----------------------------------------------------------------------------------


def tess(task: Task, use_gradient: bool | None = None) -> Iterator[Batch]:
    """As `tessmc.sample` runs."""
    asked = WarmupTask(task.target, None, None, task.key, task.num_chains, task.num_warmup, Clock(), _say_nothing)
    warmed = Warmup.auto(use_gradient=use_gradient).run(asked)
    chains, num_gradients, paid = warmed.chains, warmed.num_evaluations["fit"], 0
    while True:
        chains, draws = collect(warmed.kernel, chains, task.num_draws * warmed.stride)
        before, paid = paid, count_evaluations(chains)
        yield Batch(every(draws, warmed.stride).position, paid - before, num_gradients)
        num_gradients = 0


def tess_free(task: Task) -> Iterator[Batch]:
    """Without gradients of the density, as a black box is sampled."""
    yield from tess(task, use_gradient=False)


def _say_nothing(*_: object) -> None:
    pass


# --- many chains, by BlackJAX --------------------------------------------------------------------


def nuts(task: Task) -> Iterator[Batch]:
    """The no-U-turn sampler with one step size for all chains, adapted to a harmonic mean acceptance of 0.8."""
    yield from _nuts_on(task, task.key, task.target.log_density, lambda draws: draws, 0)


def neutra(task: Task, num_steps: int = 2000, num_points: int = 100) -> Iterator[Batch]:
    """NUTS in the reference space of a map that was fitted by (6) beforehand (Hoffman et al. 2019)."""
    key_map, key_fit, key_nuts = split(task.key, 3)
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
    yield from _nuts_on(task, key_nuts, log_density, push, num_steps * num_points)


def _nuts_on(
    task: Task, key: Key, log_density: Callable[[Point], Scalar], push: Callable[[Array], Array], num_gradients: int
) -> Iterator[Batch]:
    import blackjax
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    key_warmup, key_draws = split(key, 2)
    kernel = blackjax.nuts.build_kernel()
    scale = jnp.ones(task.target.dim, task.target.dtype)
    begin, update, finish = dual_averaging_adaptation(TARGET_ACCEPTANCE)
    states = jax.jit(jax.vmap(lambda position: blackjax.nuts.init(position, log_density)))(task.starts(task.num_chains))

    def move(key: Key, state: Any, step_size: Scalar) -> tuple[Any, Any]:
        return kernel(key, state, log_density, step_size, scale)

    def adapt(carry: tuple[Any, Any], key: Key) -> tuple[tuple[Any, Any], Array]:
        states, adaptation = carry
        keys, step_size = jr.split(key, task.num_chains), jnp.exp(adaptation.log_step_size)
        states, info = jax.vmap(move, (0, 0, None))(keys, states, step_size)
        acceptance = 1 / jnp.mean(1 / jnp.maximum(info.acceptance_rate, 1e-10))
        return (states, update(adaptation, acceptance)), info.num_integration_steps.sum()

    keys = jr.split(key_warmup, task.num_warmup)
    (states, adaptation), paid = jax.jit(lambda carry: jax.lax.scan(adapt, carry, keys))((states, begin(1.0)))
    step = _counting(partial(move, step_size=finish(adaptation)))
    for batch in draw_on(task, step, states, key_draws, num_gradients + int(paid.sum())):
        yield batch._replace(draws=np.asarray(push(jnp.asarray(batch.draws))))


def chees(task: Task) -> Iterator[Batch]:
    """HMC of one jittered trajectory length, adapted over all chains (Hoffman et al. 2021)."""
    import blackjax

    key_warmup, key_draws = split(task.key, 2)
    log_density, starts = task.target.log_density, task.starts(task.num_chains)
    warmup = blackjax.chees_adaptation(log_density, task.num_chains)
    # Not compiled as a whole: it gives back functions, too. The jitter repeats itself after so many steps.
    (states, parameters), info = warmup.run(
        key_warmup, starts, 0.1, optax.adam(0.02), task.num_warmup, max_sampling_steps=2**20
    )
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


def mclmc(task: Task, num_tuning: int = 5000, num_steps: int = 10) -> Iterator[Batch]:
    """Microcanonical Langevin dynamics without correction (Robnik et al. 2023), a draw every ten steps.

    Length and step size are tuned on one chain, as BlackJAX does; all then burn in.
    """
    import blackjax
    from blackjax.mcmc import mclmc as microcanonical

    log_density, keys = task.target.log_density, split(task.key, 4)
    states = _states(task, lambda position, key: microcanonical.init(position, log_density, key), keys[0])
    kernel = microcanonical.build_kernel()
    _, tuned, num_tuned = blackjax.mclmc_find_L_and_step_size(
        kernel, num_tuning, jax.tree.map(lambda leaf: leaf[0], states), keys[1], log_density
    )

    def step(key: Key, state: Any) -> tuple[Any, Array]:
        def once(count: Array, state: Any) -> Any:
            each = jr.fold_in(key, count)
            return kernel(each, state, log_density, tuned.inverse_mass_matrix, tuned.L, tuned.step_size)[0]

        # Two gradients a step of McLachlan's integrator.
        return jax.lax.fori_loop(0, num_steps, once, state), jnp.int32(2 * num_steps)

    yield from _burnt_in(task, step, states, keys[2:], 2 * int(num_tuned))


def mams(task: Task, num_tuning: int = 5000) -> Iterator[Batch]:
    """The same dynamics with a Metropolis correction (Robnik et al. 2025), tuned to accept 0.9 of the proposals."""
    import blackjax
    from blackjax.mcmc import adjusted_mclmc_dynamic as adjusted

    log_density, keys = task.target.log_density, split(task.key, 4)
    states = _states(task, lambda position, key: adjusted.init(position, log_density, key), keys[0])
    kernel = adjusted.build_kernel(integration_steps_fn=adjusted.make_random_trajectory_length_fn(True))
    _, tuned, num_tuned = blackjax.adjusted_mclmc_find_L_and_step_size(
        kernel, log_density, num_tuning, jax.tree.map(lambda leaf: leaf[0], states), keys[1], 0.9
    )

    def step(key: Key, state: Any) -> tuple[Any, Array]:
        state, info = kernel(
            key,
            state,
            log_density,
            step_size=tuned.step_size,
            inverse_mass_matrix=tuned.inverse_mass_matrix,
            integration_steps_params=(tuned.L / tuned.step_size,),
        )
        return state, 2 * info.num_integration_steps

    yield from _burnt_in(task, step, states, keys[2:], 2 * int(num_tuned))


def laps(task: Task, num_steps: int = 15) -> Iterator[Batch]:
    """The same dynamics of an ensemble, first without the correction and then with it (Robnik and Seljak 2025).

    BlackJAX gives back where the chains end and how long their steps were, not the draws on the way: the corrected
    kernel goes on from there, its metric the variances of the ensemble, as LAPS has it.
    """
    from blackjax.adaptation.laps import laps as warm_up
    from blackjax.mcmc import adjusted_mclmc as adjusted
    from blackjax.mcmc.integrators import isokinetic_mclachlan

    log_density, dim, dtype = task.target.log_density, task.target.dim, task.target.dtype
    key_warmup, key_draws = split(task.key, 2)
    found, cost, _, states = warm_up(
        log_density,
        lambda key: jr.normal(key, (dim,), dtype),
        dim,
        task.num_warmup,
        4 * task.num_warmup,
        task.num_chains,
        jax.sharding.Mesh(jax.devices()[:1], ("chains",)),
        key_warmup,
        steps_per_sample=num_steps,
    )
    step_size, variances = found["phase_2"]["step_size"][-1], jnp.var(states.position, axis=0)
    kernel = adjusted.build_kernel(integrator=isokinetic_mclachlan)

    def step(key: Key, state: Any) -> tuple[Any, Array]:
        state, _ = kernel(key, state, log_density, step_size, (num_steps,), variances, 1.25)
        return state, jnp.int32(cost * num_steps)

    # A gradient a step before the correction.
    num_gradients = len(found["phase_1"]["L"]) + cost * num_steps * len(found["phase_2"]["L"])
    yield from draw_on(task, step, states, key_draws, task.num_chains * num_gradients)


def _states(task: Task, init: Callable[[Point, Key], Any], key: Key) -> Any:
    return jax.jit(jax.vmap(init))(task.starts(task.num_chains), jr.split(key, task.num_chains))


def _burnt_in(task: Task, step: Step, states: Any, keys: Sequence[Key], num_gradients: int) -> Iterator[Batch]:
    """Batches after a warm-up in which nothing is learned any more."""

    def move(states: Any, key: Key) -> tuple[Any, Array]:
        states, paid = jax.vmap(step)(jr.split(key, task.num_chains), states)
        return states, paid.sum()

    run = jax.jit(lambda states: jax.lax.scan(move, states, jr.split(keys[0], task.num_warmup)))
    states, paid = run(states)
    yield from draw_on(task, step, states, keys[1], num_gradients + int(np.asarray(paid, np.int64).sum()))


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


def nutpie(task: Task) -> Iterator[Batch]:
    """Nutpie's NUTS: four chains on all cores, a mass matrix from draws and gradients."""
    import nutpie as package
    from nutpie.compiled_pyfunc import from_pyfunc

    dim, dtype, num_calls = task.target.dim, task.target.dtype, itertools.count()
    density = jax.jit(jax.value_and_grad(task.target.log_density))
    jax.block_until_ready(density(task.starts(1)[0]))

    def log_density(position: np.ndarray) -> tuple[float, np.ndarray]:
        next(num_calls)
        value, slope = density(position.astype(dtype))
        return float(value), np.asarray(slope, np.float64)

    starts = iter(np.asarray(task.starts(NUM_CHAINS), np.float64))
    model = from_pyfunc(
        dim,
        lambda: log_density,
        lambda *_: lambda position: {"x": position},
        [np.dtype("float64")],
        [(dim,)],
        ["x"],
        make_initial_point_fn=lambda _: next(starts),
    )
    # It goes on behind our back; what it has so far is asked for.
    sampler = package.sample(
        model,
        draws=10**6,
        chains=NUM_CHAINS,
        cores=NUM_CHAINS,
        seed=int(np.asarray(jr.key_data(task.key))[-1]),
        blocking=False,
        progress_bar=False,
        save_warmup=False,
    )
    done, paid = 0, 0
    try:
        while True:
            time.sleep(0.2)
            with warnings.catch_warnings():
                # ArviZ, of a trace that is still empty.
                warnings.simplefilter("ignore", UserWarning)
                found = sampler.inspect().posterior["x"].to_numpy()
            # Chains that have not come as far are filled up with NaN.
            ready = int(np.isfinite(found[..., 0]).sum(axis=1).min(initial=found.shape[1]))
            if ready < done + task.num_draws:
                continue
            before, paid = paid, next(num_calls)
            yield Batch(found[:, done:ready], 0, paid - before)
            done = ready
    finally:
        sampler.cancel()


# --- without gradients ---------------------------------------------------------------------------


def emcee(task: Task) -> Iterator[Batch]:
    """Stretch moves of an ensemble (Foreman-Mackey et al. 2013), all walkers' densities in one call."""
    from emcee import EnsembleSampler

    num_walkers = max(task.num_chains, 2 * task.target.dim + 2)
    density, paid = CountedDensity(task.target), 0
    ensemble = EnsembleSampler(num_walkers, task.target.dim, density, vectorize=True)
    ensemble.random_state = np.random.RandomState(np.asarray(jr.key_data(task.key))[-1]).get_state()
    state = ensemble.run_mcmc(np.asarray(task.starts(num_walkers), float), task.num_warmup)
    while True:
        ensemble.reset()
        state = ensemble.run_mcmc(state, task.num_draws)
        before, paid = paid, density.num_evaluations
        yield Batch(ensemble.get_chain().swapaxes(0, 1), paid - before, 0)


def zeus(task: Task) -> Iterator[Batch]:
    """Slice sampling along differences of an ensemble (Karamanis, Beutler and Peacock 2021)."""
    from zeus import EnsembleSampler

    num_walkers = max(task.num_chains, 2 * task.target.dim + 2)
    # It draws from NumPy's own stream.
    np.random.seed(np.asarray(jr.key_data(task.key))[-1])  # noqa: NPY002
    density, paid = CountedDensity(task.target), 0
    ensemble = EnsembleSampler(
        num_walkers, task.target.dim, density, vectorize=True, verbose=False, check_walkers=False
    )
    ensemble.run_mcmc(np.asarray(task.starts(num_walkers), float), task.num_warmup, progress=False)
    while True:
        ensemble.run_mcmc(None, task.num_draws, progress=False)
        before, paid = paid, density.num_evaluations
        yield Batch(ensemble.get_chain()[-task.num_draws :].swapaxes(0, 1), paid - before, 0)


def pocomc(task: Task) -> Iterator[Batch]:
    """Preconditioned Monte Carlo: particles tempered from N(0, I) to the target with a flow (Karamanis et al. 2022).

    They have weights and no chains: as many as they are worth are drawn by weight and dealt into four rows, so that
    its R-hat says nothing. A further batch is a run of its own.
    """
    import pocomc as package
    from scipy.stats import norm

    prior, density, paid = package.Prior(task.target.dim * [norm()]), CountedDensity(task.target), 0
    seeds = np.random.default_rng(np.asarray(jr.key_data(task.key)))
    while True:
        sampler = package.Sampler(
            prior,
            lambda points: density(points) - prior.logpdf(points),
            vectorize=True,
            random_state=int(seeds.integers(2**31)),
        )
        sampler.run(n_evidence=0, progress=False)
        points, weights, *_ = sampler.posterior()
        size = int(1 / np.sum(weights**2)) // NUM_CHAINS
        draws = seeds.choice(points, (NUM_CHAINS, size), p=weights)
        before, paid = paid, density.num_evaluations
        yield Batch(draws, paid - before, 0)


class CountedDensity:
    """The log density of many points at once, for samplers in NumPy; NaN is impossible, and points are counted."""

    def __init__(self, target: AbstractTarget):
        self.num_evaluations, self._dtype = 0, target.dtype
        self._density = jax.jit(jax.vmap(target.log_density))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        points = np.atleast_2d(points)
        self.num_evaluations += len(points)
        # Filled up to powers of two: every other size would be compiled.
        size = 1 << (len(points) - 1).bit_length()
        filled = np.concatenate([points, np.repeat(points[:1], size - len(points), axis=0)]).astype(self._dtype)
        values = np.asarray(self._density(filled), float)[: len(points)]
        return np.nan_to_num(values, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)


# What the paper's budget is for those who have a custom of their own: draws of each chain.
OWN_DRAWS = {"numpyro": NUM_DRAWS, "nutpie": NUM_DRAWS}
SAMPLERS: dict[str, Sampler] = {
    "tess": tess,
    "tess_free": tess_free,
    "nuts": nuts,
    "meads": meads,
    "chees": chees,
    "neutra": neutra,
    "mclmc": mclmc,
    "mams": mams,
    "laps": laps,
    "numpyro": numpyro,
    "nutpie": nutpie,
    "emcee": emcee,
    "zeus": zeus,
    "pocomc": pocomc,
}
