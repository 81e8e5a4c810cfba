"""Samplers of many chains side by side, by BlackJAX."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array

from tessmc._random import split
from tessmc._types import Key, Point, Points, Scalar
from tessmc.adaptation import Decay, begin_fit, fit, kl_from_reference
from tessmc.experiments._protocol import Batch, Task
from tessmc.targets import AbstractTarget
from tessmc.transports import paper_coupling

# The paper's, for NUTS and NeuTra.
TARGET_ACCEPTANCE = 0.8

# One transition of one chain: (key, state) -> (state, gradients paid).
Step = Callable[[Key, Any], tuple[Any, Array]]


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
