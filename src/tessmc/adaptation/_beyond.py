"""Whether there is more of the target than the draws show: beyond the outermost of them, or where chains began."""

import numpy as np

from tessmc._arrays import put
from tessmc.adaptation._buffer import Drawn
from tessmc.adaptation._camp import Camp, HostState, recall
from tessmc.adaptation._task import WarmupTask
from tessmc.engines import move_chains, place_all

NUM_STEPS = 16
# Nats by which the map makes a place rarer than any that has been drawn.
MARGIN = 1.0
# And by which it has forgotten a place.
FORGOTTEN = 10.0


def look_beyond(task: WarmupTask, camp: Camp, drawn: Drawn, rng: np.random.Generator) -> tuple[Camp, int]:
    """How many walkers, one a chain, end where the map is lighter than at any draw; and the camp that paid for it.

    They start at the draws at which it is lightest, step by the difference of two of these, and leave π invariant:
    of draws that stand for π few go further out, since few have come from there. But where the map cannot follow the
    target no chain goes on, and walkers do.
    """
    kernel, walkers = camp.kernel(task), camp.chains
    known = _recalled(camp, *drawn)
    is_sound = np.isfinite(known.log_ratio)
    known = HostState(*(part[is_sound] for part in known))
    outermost = np.resize(np.argsort(-known.log_ratio), task.num_chains)
    now = HostState(*(part[outermost] for part in known))
    starts, (size, dim) = now.position.copy(), now.position.shape
    for _ in range(NUM_STEPS):
        one, other = rng.integers(size, size=(2, size))
        length = 2.38 / np.sqrt(2 * dim) * np.exp(rng.standard_normal(size))
        steps = length[:, None] * (starts[one] - starts[other])
        references = _recalled(camp, (now.position + steps).astype(starts.dtype), now.log_density).reference
        is_lost = ~np.isfinite(references).all(axis=1)
        references[is_lost] = now.reference[is_lost]
        walkers = move_chains(walkers, put(references, starts.dtype))
        walkers = place_all(kernel, walkers, task.target.describe, task.journal)
        is_taken = np.log(rng.random(size)) < np.asarray(walkers.state.log_density) - now.log_density
        for part, tried in zip(now, walkers.state, strict=True):
            part[is_taken] = np.asarray(tried)[is_taken]
    chains = camp.chains._replace(num_evaluations=walkers.num_evaluations)
    return camp._replace(chains=chains), int((now.log_ratio > known.log_ratio.max() + MARGIN).sum())


def num_forgotten(camp: Camp, starts: Drawn, drawn: Drawn) -> int:
    """How many chains began where π is as high as at the draws, and the map far lighter than at any of them."""
    is_high = starts.log_densities > np.median(drawn.log_densities)
    began, known = (_recalled(camp, *points).log_ratio for points in (starts, drawn))
    return int((is_high & ~(began < known[np.isfinite(known)].max() + FORGOTTEN)).sum())


def _recalled(camp: Camp, positions: np.ndarray, log_densities: np.ndarray) -> HostState:
    return recall(camp.transport, camp.law, camp.bridge, positions, log_densities)
