"""How far a run is, for who looks on: at most ten times a second, and for at most two hundredths of the time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessmc.diagnostics import running
from tessmc.engines import Draws, Journal
from tessmc.sampling._goal import Goal
from tessmc.sampling._signals import Wish

# Seconds between two events of a phase.
PAUSE = 0.1
# The share of the time that R-hat and ESS may take, and seconds for each number among the draws, at first.
MAX_SHARE, SECONDS_A_NUMBER = 0.02, 3e-7
# Draws of a chain that R-hat and ESS need, and the latest ones of which s and evaluations are told.
MIN_DRAWS, NUM_LATEST = 20, 100


@dataclass(frozen=True)
class Progress:
    """How far a run is; the `callback` of `tessmc.sample` is called with it.

    What is not known yet is None.

    Attributes:
        phase: what is done: "compiling", then parts of the warm-up such as "gathering" and "learning", then "sampling".
        done: steps of this phase that are done; in "sampling", draws of every chain.
        total: steps that the phase has at most.
        fraction: how far the phase is, from 0 to 1.
        num_chains: of the run.
        num_draws: of every chain, after the warm-up.
        num_evaluations: of the density, by all chains, so far.
        evaluations_per_draw: of the latest draws.
        s: standard deviation of the log ratio over the latest draws: 0 if the map were perfect.
        r_hat: the largest R-hat of all unconstrained coordinates. It is computed now and then, from draws in memory.
        ess: the least bulk ESS of all unconstrained coordinates, likewise.
        seconds: since the run began.
        seconds_left: for this phase, about; a warm-up that has nothing left to learn ends earlier.
    """

    phase: str
    done: int
    total: int | None
    fraction: float | None
    num_chains: int
    num_draws: int
    num_evaluations: int
    evaluations_per_draw: float | None
    s: float | None
    r_hat: float | None
    ess: float | None
    seconds: float
    seconds_left: float | None


Listener = Callable[[Progress], Any]


class Reporter:
    """Makes events of what a run says of itself; without listeners it does nothing."""

    def __init__(self, listeners: Sequence[Listener], num_chains: int, goal: Goal, wish: Wish):
        self.listeners, self.num_chains, self.goal, self.wish = listeners, num_chains, goal, wish
        self.journal = Journal()
        self.recent: Callable[[], Draws] | None = None
        self.phase, self.done, self.total = "", 0, 0
        self._found: dict[str, float | None] = {}
        self._began, self._stepped, self._first, self._last = 0.0, 0.0, 0, -np.inf
        self._look = Look()

    def step(self, phase: str, total: int, done: int, found: dict[str, Any] | None = None) -> None:
        """How far a phase is, and what was found in it; the first word of a new phase begins it."""
        if not self.listeners:
            return
        is_new, self.done, self.total = phase != self.phase, done, total
        self._stepped = time.perf_counter()
        if is_new:
            self.phase, self._began, self._first = phase, self._stepped, done
        if found is not None:
            known = {"s": found.get("s"), "evaluations_per_draw": found.get("evaluations")}
            self._found |= {name: float(value) for name, value in known.items() if value is not None}
        self.beat(is_urgent=is_new or done == total)

    def beat(self, is_urgent: bool = False) -> None:
        """Tell how far the run is, if that has not been done just now."""
        if not self.listeners or not self.phase:
            return
        now = time.perf_counter()
        if not is_urgent and now - self._last < PAUSE:
            return
        event = self._event(now)
        for listener in self.listeners:
            listener(event)
        self._last = time.perf_counter()

    def _event(self, now: float) -> Progress:
        num_draws = self.done if self.phase == "sampling" else 0
        draws = self.recent() if self.recent is not None else None
        if draws is not None and draws.log_ratio.size:
            self._found |= _latest(draws)
            self._look.at(draws.position, now - self.wish.since)
        fraction = self._fraction()
        return Progress(
            phase=self.phase,
            done=self.done,
            # As many draws as an ESS needs: nobody knows how many these are.
            total=None if self.total == 0 or self._is_open() else self.total,
            fraction=fraction,
            num_chains=self.num_chains,
            num_draws=num_draws,
            num_evaluations=self.journal.num_made + self.journal.spent,
            evaluations_per_draw=self._found.get("evaluations_per_draw"),
            s=self._found.get("s"),
            r_hat=self._look.r_hat,
            ess=self._look.ess,
            seconds=now - self.wish.since,
            seconds_left=self._left(fraction, now),
        )

    def _is_open(self) -> bool:
        return self.phase == "sampling" and self.goal.num_samples is None and self.goal.target_ess is not None

    def _fraction(self) -> float | None:
        if self._is_open():
            assert self.goal.target_ess is not None
            return None if self._look.ess is None else min(1.0, self._look.ess / self.goal.target_ess)
        return self.done / self.total if self.total else None

    def _left(self, fraction: float | None, now: float) -> float | None:
        left = []
        first = self._first / self.total if self.total and not self._is_open() else 0.0
        if fraction is not None and fraction > first:
            left.append((self._stepped - self._began) * (1 - fraction) / (fraction - first) - (now - self._stepped))
        if self.goal.max_seconds is not None:
            left.append(self.goal.max_seconds - (now - self.wish.since))
        return min((seconds for seconds in left if seconds >= 0), default=None)


class Look:
    """R-hat and ESS, looked at whenever the time that it takes is a small share of what has gone by."""

    def __init__(self) -> None:
        self.r_hat: float | None = None
        self.ess: float | None = None
        self._seconds, self._rate, self._size = 0.0, SECONDS_A_NUMBER, 0

    def at(self, positions: np.ndarray, elapsed: float) -> None:
        """Look, if there are more draws than before, and there is time for it."""
        is_worth_it = positions.shape[1] >= MIN_DRAWS and positions.size >= 1.25 * self._size
        if not is_worth_it or self._seconds + self._rate * positions.size > MAX_SHARE * elapsed:
            return
        began = time.perf_counter()
        self.r_hat, self.ess = (value if np.isfinite(value) else None for value in running(positions))
        taken = time.perf_counter() - began
        self._seconds, self._rate, self._size = self._seconds + taken, taken / positions.size, positions.size


def _latest(draws: Draws) -> dict[str, float | None]:
    ratios, tries = draws.log_ratio[:, -NUM_LATEST:], draws.num_tries[:, -NUM_LATEST:]
    return {"s": float(ratios.std()), "evaluations_per_draw": float(tries.mean())}


SILENT = Reporter([], 0, Goal(None), Wish())
