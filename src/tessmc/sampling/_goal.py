"""When a run ends."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessmc.diagnostics import convergence
from tessmc.engines import Layout, Stopped
from tessmc.sampling._result import MAX_JUDGED, some_of
from tessmc.sampling._signals import Wish

# Draws of a chain that a goal may need, if nothing else bounds them.
MAX_DRAWS = 100_000
# A goal is looked at after so many draws of a chain, and whenever they are so many times as many.
FIRST_LOOK, GROWTH = 100, 1.25


@dataclass(frozen=True)
class Goal:
    """When a run ends: whatever comes first."""

    num_samples: int | None
    target_ess: float | None = None
    max_seconds: float | None = None
    max_evaluations: int | None = None

    def words(self) -> dict[str, Any]:
        """For a run folder; seconds are those of one call."""
        return {"num_samples": self.num_samples, "target_ess": self.target_ess, "max_evaluations": self.max_evaluations}

    @property
    def num_draws(self) -> int:
        return self.num_samples or (FIRST_LOOK if self.target_ess is None else MAX_DRAWS)

    def next_look(self, num_draws: int) -> int:
        """How many draws to make before the goal is looked at again: the same, however a run is divided."""
        if self.target_ess is None:
            return self.num_draws
        look = FIRST_LOOK
        while look <= num_draws:
            look = int(np.ceil(GROWTH * look))
        return min(look, self.num_draws)

    def is_look(self, num_draws: int) -> bool:
        return self.target_ess is not None and num_draws > 0 and self.next_look(num_draws - 1) == num_draws


def pause_at(wish: Wish, goal: Goal, layout: Layout | None = None) -> None:
    """Where a run may end; if several processes make it, for all of them."""
    reason = wish.reason
    if not reason and goal.max_seconds is not None and time.perf_counter() - wish.since > goal.max_seconds:
        reason = f"max_seconds={goal.max_seconds:g} is over"
    reason = reason if layout is None else layout.agree(reason)
    if reason:
        raise Stopped(reason)


def check_count(name: str, count: Any, least: int) -> None:
    """Refuse what is not a whole number, or too small."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"`{name}` should be an int, but is {count!r}")
    if count < least:
        raise ValueError(f"`{name}` should be at least {least}, but is {count}")


def least_ess(posterior: Mapping[str, np.ndarray], num_draws: int, wanted: float) -> float:
    """The least of bulk and tail ESS; what never moves, as the zeros of a triangle, counts with all its draws.

    Of very many draws, those of all chains counted, so many are looked at that those wanted can be seen.
    """
    least = [0.0]
    for _, draws in some_of(posterior, num_draws, max(MAX_JUDGED, int(4 * wanted))):
        columns = draws.reshape(*draws.shape[:2], -1)
        found = convergence(columns)
        least += np.minimum(found.ess_bulk, found.ess_tail).tolist()
    return float(np.nan_to_num(least[1:] or least).min())
