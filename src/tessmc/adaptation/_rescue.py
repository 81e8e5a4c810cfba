"""Chains that start far away are brought into the typical set: temper, gather, temper again.

`temper` draws a cloud wider than that of the chains, and leads it to π by way of log π_b = (1 - b) log q + b log π
with rising b, weighing and resampling: chains in hopeless places die out, and separate modes keep their weights.
`gather` moves chains along ellipses of their own cloud, which widens, narrows and turns with them, until the cloud
stands still: it gets anywhere, but on the way the whole cloud may run into one mode.
"""

import logging
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from tessmc._arrays import put
from tessmc.adaptation._camp import DOF, Bridge, Camp, no_bridge, recall
from tessmc.adaptation._task import History, WarmupTask
from tessmc.engines import count_evaluations, move_chains, place_all
from tessmc.kernels import StudentT
from tessmc.transports import FixedAffine, Spread, spread_of, with_spread

logger = logging.getLogger(__name__)


class Tempered(NamedTuple):
    """What came of tempering.

    Attributes:
        power: the last b: 1, unless the budget was too small. With 0 nothing of the new cloud had a density, or there
            was no budget, and the chains are where they were.
        acceptance: the share of the cloud's points from which some chain descends.
    """

    camp: Camp
    power: float
    acceptance: float

    def account(self) -> dict[str, float]:
        """What the history says of it."""
        return {"power": self.power, "acceptance": self.acceptance}


def rescue(task: WarmupTask, camp: Camp, rng: np.random.Generator, history: History) -> Camp:
    """From the starts to the typical set, with at most a quarter of the warm-up for each stage."""
    budget = task.num_warmup // 4
    first = temper(task, camp, rng, budget)
    history.append({**entry("temper", task, first.camp), **first.account()})
    camp = gather(task, first.camp, budget)
    history.append(entry("gather", task, camp))
    second = temper(task, camp, rng, budget)
    camp = merge(camp, second.camp) if second.power > 0 else second.camp
    history.append({**entry("temper", task, camp), **second.account()})
    return camp


def entry(stage: str, task: WarmupTask, camp: Camp) -> dict[str, Any]:
    """What the history says of every stage; seconds are those since `sample` was called."""
    return {
        "stage": stage,
        "iteration": int(np.asarray(camp.chains.iteration).min()),
        "num_evaluations": count_evaluations(camp.chains),
        "dof": int(camp.law.dof),
        "seconds": task.clock.seconds()["total"],
    }


def gather(task: WarmupTask, camp: Camp, budget: int, stride: int = 2) -> Camp:
    """Move until the cloud of chains stands still, or the budget of transitions is spent.

    The ellipses are wider than the cloud: so a cloud that is too narrow grows fast, and one that is too wide is
    cut down by the slices.
    """
    dim, num_chains = task.target.dim, task.num_chains
    spreads = [spread_of(np.asarray(camp.chains.state.position), DOF)]
    for done in range(stride, budget + 1, stride):
        camp = camp._replace(transport=with_spread(camp.transport, spreads[-1], inflation=1 + 1 / np.sqrt(dim)))
        camp = camp.march(task, stride)
        spreads.append(spread_of(np.asarray(camp.chains.state.position), DOF))
        task.watch("gathering", budget, done)
        # A standard deviation of k points is known up to a factor of about 1 ± 1/√(2k).
        if len(spreads) > 4 and distance(spreads[-1], spreads[-4]) < 4 / np.sqrt(num_chains):
            logger.info("the chains gathered in %d transitions each", done)
            break
    return camp


def distance(one: Spread, other: Spread) -> float:
    """How far two clouds are apart in any coordinate: nats of scale, or shifts in scales."""
    growth = np.abs(np.log(one.scale / other.scale))
    shift = np.abs(one.shift - other.shift) / np.maximum(one.scale, other.scale)
    return float(np.maximum(growth, shift).max())


def temper(task: WarmupTask, camp: Camp, rng: np.random.Generator, budget: int, stride: int = 3) -> Tempered:
    """Draw a new cloud and lead it to π."""
    if budget < 1:
        return Tempered(camp, 0.0, 0.0)
    dtype = task.target.dtype
    positions, log_densities = (
        np.asarray(part) for part in (camp.chains.state.position, camp.chains.state.log_density)
    )
    # Strays count like the others, unless they are lost: they may stand in another mode.
    start = spread_of(positions[~is_hopeless(log_densities, log_densities)])
    start = start._replace(scale=1.5 * start.scale)
    cloud = start.push(_draw_t(rng, *positions.shape)).astype(dtype)
    camp = camp._replace(transport=with_spread(camp.transport, start))
    references = recall(camp.transport, camp.law, camp.bridge, cloud, np.zeros_like(log_densities)).reference
    moved = move_chains(camp.chains, jax.device_put(references))
    chains = place_all(camp.kernel(task), moved, task.target.describe, task.journal)
    if not np.isfinite(np.asarray(chains.state.log_density)).any():
        logger.info("no point of a wider cloud has a density: the chains stay where they gathered")
        stayed = camp._replace(chains=camp.chains._replace(num_evaluations=chains.num_evaluations))
        return Tempered(stayed, 0.0, 0.0)
    anchor = FixedAffine(*start, dtype)
    power = 0.0
    num_stages = 0
    ancestors = np.arange(task.num_chains)
    while power < 1 and stride * num_stages < budget:
        num_stages += 1
        state = chains.state
        log_weight = np.asarray(state.log_density, np.float64) - start.log_density(np.asarray(state.position), DOF)
        last, power = power, next_power(power, log_weight)
        chosen = resample(rng, weights_of(log_weight, power - last), task.num_chains)
        chains, ancestors = chains._replace(state=jax.tree.map(partial(_pick, chosen), state)), ancestors[chosen]
        spread = spread_of(np.asarray(chains.state.position), DOF)
        bridge = Bridge(put(power, dtype), anchor, StudentT(DOF), put(False, bool))
        camp = Camp(with_spread(camp.transport, spread, inflation=1.2), chains, camp.law, bridge)
        chains = camp.march(task, stride).chains
        task.watch("tempering", 1000, int(1000 * power))
    logger.info("tempering reached b = %.3g in %d transitions", power, stride * num_stages)
    camp = camp._replace(chains=chains, bridge=no_bridge(task.target.dim, dtype))
    return Tempered(camp, power, len(np.unique(ancestors)) / task.num_chains)


def _pick(chosen: np.ndarray, leaf: Array) -> Array:
    # By NumPy, which has nothing to compile.
    return jax.device_put(np.asarray(leaf)[chosen])


def merge(gathered: Camp, tempered: Camp) -> Camp:
    """Every other chain of either cloud, but for gathered ones that stand hopelessly low.

    Tempering finds what is likely and the weights of modes, but of a thin tail few of its first points survive;
    gathered chains stay wherever they came, in tails and in traps.
    """
    before, after = gathered.chains.state, tempered.chains.state
    is_lost = is_hopeless(np.asarray(before.log_density), np.asarray(after.log_density))
    is_kept = (np.arange(len(is_lost)) % 2 == 0) & ~is_lost
    state = jax.tree.map(partial(_choose, is_kept), before, after)
    transport = with_spread(tempered.transport, spread_of(np.asarray(state.position), DOF))
    return tempered._replace(transport=transport, chains=tempered.chains._replace(state=state))


def is_hopeless(log_densities: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Whether a chain stands far below all that is usual."""
    low, middle = np.quantile(usual[np.isfinite(usual)], [0.05, 0.5])
    return ~(log_densities >= low - 2 * (middle - low) - 5)


def _choose(is_first: np.ndarray, one: Array, other: Array) -> Array:
    is_first = is_first.reshape(-1, *(one.ndim - 1) * [1])
    return jax.device_put(np.where(is_first, one, other))


def weights_of(log_weight: np.ndarray, step: float) -> np.ndarray:
    """Normalised weights of a step in b; a density that is not finite has none."""
    scaled = np.where(np.isfinite(log_weight), step * log_weight, -np.inf)
    weights = np.exp(scaled - scaled.max()) if np.isfinite(scaled.max()) else np.ones(len(scaled))
    return weights / weights.sum()


def next_power(power: float, log_weight: np.ndarray) -> float:
    """The next b, at which half of the chains still count."""

    def is_far(step: float) -> bool:
        weights = weights_of(log_weight, step)
        return bool(1 / np.sum(weights**2) < np.isfinite(log_weight).sum() / 2)

    if not is_far(1 - power):
        return 1.0
    low, high = 1e-30, 1 - power
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (low, middle) if is_far(middle) else (middle, high)
    return float(power + low)


def resample(rng: np.random.Generator, weights: np.ndarray, num: int) -> np.ndarray:
    """Systematic resampling: of n = `num`, i is taken about n·wᵢ times."""
    places = (np.arange(num) + rng.random()) / num
    return np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)


def _draw_t(rng: np.random.Generator, num_points: int, dim: int) -> np.ndarray:
    return rng.standard_normal((num_points, dim)) * np.sqrt(DOF / rng.chisquare(DOF, (num_points, 1)))
