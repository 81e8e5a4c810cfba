"""Learning from draws of the map's own law: the whole of π is asked, whatever the chains have seen of it."""

import logging
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, Float

from tessmc._arrays import put
from tessmc._random import split
from tessmc._types import Count, Key, Points, Scalar
from tessmc.adaptation._buffer import Buffer, held_out_loss, log_ratios, spread_of_ratios, winsorised
from tessmc.adaptation._camp import Camp, HostState, padded
from tessmc.adaptation._fit import NADAM, Decay, FitState, Objective, begin_fit, fit, fit_side_by_side
from tessmc.adaptation._objectives import divergences_by_path, ratios_along_path
from tessmc.adaptation._rescue import resample, weights_of
from tessmc.adaptation._task import WarmupTask
from tessmc.engines import move_chains, place_all, restart_chains
from tessmc.kernels import AbstractLaw, StudentT
from tessmc.targets import AbstractTarget
from tessmc.transports import Spread, spread_of, with_spread

logger = logging.getLogger(__name__)

# Points of a step, in all of the fits that run side by side.
BATCH, NUM_FITS = 256, 2
# Steps until they meet.
STRIDE = 10
NUM_STEPS = 3000
# Up to so many dimensions; in more of them it is smaller in proportion, since all coordinates move in a step.
RATE, MAX_DIM = 1e-2, 100
NUM_STRETCHES = 2**12
# Points on the way from a chain to a draw of the map.
NUM_ANGLES = 8
MAX_APART = 0.02
# With such an s a map is learned once more, under the affine layer that its draws suggest.
FAR_FROM_GOOD = 1.5
NUM_LOOKS = 2**11


class Learned(NamedTuple):
    """What came of it: whether the map is to be taken, the camp under it, its s, and what was paid."""

    is_better: bool
    camp: Camp
    s: float
    num_evaluations: int


class Asking(NamedTuple):
    """What the objective is given.

    Attributes:
        stretches: by which normal points are multiplied to have the law φ; one of them is drawn for each point.
        share: of KL(π‖φ̂).
        width: by which the points are wider than φ; see `widen`.
    """

    target: AbstractTarget
    law: AbstractLaw
    stretches: Float[Array, " draw"]
    share: Scalar
    width: Scalar


def from_reference(transport: AbstractBijection, key: Key, asking: Asking) -> Scalar:
    """Both divergences between φ̂ and π, by path gradients and antithetic draws; see `divergences_by_path`."""
    key_normal, key_stretch, key_widen = jr.split(key, 3)
    half = jr.normal(key_normal, (BATCH // NUM_FITS // 2, asking.target.dim), asking.stretches.dtype)
    half = half * jr.choice(key_stretch, asking.stretches, (len(half), 1))
    half = widen(key_widen, half, asking.width)
    references = jnp.concatenate([half, -half])
    return divergences_by_path(
        ratios_along_path(transport, asking.law, asking.target.log_density, references), asking.share
    )


def widen(key: Key, references: Points, width: Scalar) -> Points:
    """Every other point further out as a whole, the rest in one coordinate: KL(φ̂‖π) alone makes light tails."""
    num_points, dim = references.shape
    coordinate = jax.nn.one_hot(jr.randint(key, (num_points,), 0, dim), dim, dtype=references.dtype)
    is_whole = (jnp.arange(num_points) % 2 == 0)[:, None]
    return references * (1 + width * jnp.where(is_whole, dim**-0.5, coordinate))


def learn_by_path(task: WarmupTask, camp: Camp, key: Key, rng: np.random.Generator, width: float) -> Camp:
    """The map after as many steps as the warm-up is long enough for.

    KL(φ̂‖π) alone for the first half: until the map is near, hardly any of its draws counts for KL(π‖φ̂).
    """
    dtype, dof = task.target.dtype, int(camp.law.dof)
    stretches = np.sqrt(dof / rng.chisquare(dof, NUM_STRETCHES)) if dof else np.ones(NUM_STRETCHES)

    def asking(share: float) -> Asking:
        return Asking(task.target, camp.law, *(put(value, dtype) for value in (stretches, share, width)))

    def asking_at(done: int, num_steps: int) -> Asking:
        return asking(0.0 if done < num_steps // 2 else 0.5)

    num_steps = count_steps(task)
    return camp._replace(transport=train(task, camp.transport, from_reference, asking_at, key, num_steps, RATE))


def train(
    task: WarmupTask,
    transport: AbstractBijection,
    objective: Objective,
    data_at: Callable[[int, int], Any],
    key: Key,
    num_steps: int,
    rate: float,
) -> Any:
    """The map after steps on an objective, two fits side by side.

    Args:
        task: whose journal remembers the steps.
        transport: from which to begin.
        objective: what is minimised.
        data_at: what it is given, by the number of steps done and of all.
        key: of this training alone.
        num_steps: a multiple of `STRIDE`, or it is rounded up to one.
        rate: of learning, at first.
    """
    schedule = Decay(rate * min(1, MAX_DIM / task.target.dim), 0.01, num_steps)
    state: Any = begin_fit(transport)
    keys = split(key, NUM_FITS)
    # Compiled here, and not by all fits at the same time.
    learn(objective, state, data_at(0, num_steps), schedule, keys[0], jnp.int32(0))

    def go_on(state: FitState) -> FitState:
        done = int(state.num_steps)
        task.watch("learning from π itself", num_steps, done)
        given = objective, state, data_at(done, num_steps), schedule
        return fit_side_by_side(partial(learn, *given, num_steps=jnp.int32(STRIDE)), keys)

    state = task.journal.repeat(state, lambda state: int(state.num_steps) >= num_steps, go_on)
    logger.info("%d steps by path gradients, %d of them skipped", num_steps, state.num_skipped)
    return state.transport


def learn(objective: Objective, state: FitState, data: Any, schedule: Decay, key: Key, num_steps: Count) -> FitState:
    """Steps by path gradients."""
    return fit(objective, state, key, data, schedule, num_steps, max_norm=jnp.float32(10), optimiser=NADAM)


def count_steps(task: WarmupTask) -> int:
    """`NUM_STEPS`, and less where a short warm-up was asked for."""
    return STRIDE * math.ceil(NUM_STEPS / STRIDE * min(1, task.num_warmup / 100))


def refine(task: WarmupTask, camp: Camp, held: Buffer, key: Key, rng: np.random.Generator) -> Learned:
    """The map from where it is, to be taken if held-out draws are likelier under it."""
    # A few chains far out are enough to ask for heavy tails, which the map then has to undo everywhere else.
    refined = camp if camp.law.dof >= 10 else camp._replace(law=StudentT(0))
    refined = learn_by_path(task, refined, key, rng, width=1.0)
    before, after = (held_out_loss(each.transport, held._replace(law=each.law)) for each in (camp, refined))
    logger.info("by path gradients the held-out loss goes from %.2f to %.2f", before, after)
    s = spread_of_ratios(refined.transport, held._replace(law=refined.law))
    return Learned(after < before, refined, s, count_steps(task) * BATCH)


def start_anew(task: WarmupTask, camp: Camp, held: Buffer, key: Key, rng: np.random.Generator) -> Learned:
    """A map that is learned without the chains, and chains drawn from it, unless it misses a mode that they know."""
    positions = np.asarray(camp.chains.state.position)
    num_chains, dim = positions.shape
    num_draws = num_chains * min(64, -(-NUM_LOOKS // num_chains))
    references = rng.standard_normal((num_draws, dim)).astype(positions.dtype)
    before = spread_of_ratios(camp.transport, held)
    # Correlations of chains that have not mixed say nothing.
    found, num_maps = _learn_under(task, camp, spread_of(positions, shrinkage=1.0), key, references, rng), 1
    inside = found.states.position[np.isfinite(found.states.log_ratio)]
    if found.s > FAR_FROM_GOOD and len(inside) > 2 * dim:
        # Of draws of a map that is near enough they do, and couplings need not learn what is linear.
        again = _learn_under(task, camp, spread_of(inside), jr.fold_in(key, 1), references, rng)
        found, num_maps = max(found, again, key=lambda each: each.bound), 2
    fresh, states, s, _ = found
    num_apart = count_apart(task, fresh, references[:num_chains])
    logger.info("by path gradients s goes from %.2f to %.2f; %d chains stand apart", before, s, num_apart)
    # The chains stand where a bad map left them; draws of the new one, weighed, stand better.
    weights = weights_of(np.minimum(states.log_ratio, np.quantile(states.log_ratio, 0.99)), 1.0)
    chosen = resample(rng, weights, num_chains)
    moved = HostState(*(part[chosen] for part in states)).on_device()
    is_whole = num_apart <= MAX_APART * num_chains or outweighs(found, camp, held)
    fresh = fresh._replace(chains=restart_chains(camp.chains, moved))
    num_asked = num_maps * (count_steps(task) * BATCH + num_draws) + NUM_ANGLES * num_chains
    return Learned(s < before and is_whole, fresh, s, num_asked)


class Found(NamedTuple):
    """A map learned without the chains, what it makes of reference draws, its s, and log Z from below."""

    camp: Camp
    states: HostState
    s: float
    bound: float


def _learn_under(
    task: WarmupTask, camp: Camp, spread: Spread, key: Key, references: np.ndarray, rng: np.random.Generator
) -> Found:
    """What is learned by path gradients under an affine layer."""
    fresh = camp._replace(transport=with_spread(camp.transport, spread), law=StudentT(0))
    fresh = learn_by_path(task, fresh, key, rng, width=0.0)
    states = ask_at(task, fresh, references)
    bound = float(np.mean(states.log_ratio, dtype=np.float64) - fresh.law.log_constant(references.shape[1]))
    return Found(fresh, states, winsorised(states.log_ratio), bound)


def outweighs(found: Found, camp: Camp, held: Buffer) -> bool:
    """Whether what the map knows of π has far more weight than the place where the chains are.

    E log π/φ̂ over draws of φ̂ is at most log Z. Over draws of the chains, with any map, it is at least the log of the
    part of Z in which they have come to rest. (Without the constants of the laws it would be neither.)
    """
    log_ratio = log_ratios(camp.transport, camp.law, held.drawn)[: int(held.num_exact)]
    dim = held.positions.shape[1]
    above = float(np.mean(log_ratio) - camp.law.log_constant(dim))
    logger.info("log Z is above %.1f by the map; what the chains know has at most %.1f of it", found.bound, above)
    return bool(found.bound > above + _margin(dim))


def _margin(dim: int) -> float:
    """Nats between the log densities of typical draws of a Gaussian, and ten more."""
    return 10 + 3 * np.sqrt(dim)


def ask_at(task: WarmupTask, camp: Camp, references: np.ndarray) -> HostState:
    """The states of chains at all these reference points: one density evaluation each."""
    kernel, num_chains = camp.kernel(task), task.num_chains
    starts = range(0, len(references), num_chains)
    blocks = [padded(references[start : start + num_chains], num_chains) for start in starts]
    placed = (
        place_all(kernel, move_chains(camp.chains, jax.device_put(block)), task.target.describe, task.journal)
        for block in blocks
    )
    found = [jax.device_get(chains.state) for chains in placed]
    return HostState(*(np.concatenate(parts)[: len(references)] for parts in zip(*found, strict=True)))


def count_apart(task: WarmupTask, camp: Camp, references: np.ndarray) -> int:
    """How many of the camp's chains stand in a mode that its map does not know.

    On the way from such a chain to a draw of the map, a reference point each, log π falls far below both ends. From a
    chain that only stands badly it rises.
    """
    starts = np.asarray(camp.recalled().chains.state.reference)
    angles = np.linspace(0, np.pi / 2, NUM_ANGLES)[:, None, None]
    ways = (starts * np.cos(angles) + references * np.sin(angles)).astype(starts.dtype)
    values = ask_at(task, camp, ways.reshape(-1, starts.shape[1])).log_density.reshape(NUM_ANGLES, -1)
    values = np.nan_to_num(values.astype(np.float64), nan=-1e30, neginf=-1e30)
    depth = np.minimum(values[0], values[-1]) - values.min(axis=0)
    return int(np.sum(depth > _margin(starts.shape[1])))
