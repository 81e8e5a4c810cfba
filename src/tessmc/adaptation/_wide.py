"""Draws from a law wider than π: they show what a learned map has made too rare for its own chains to find."""

from typing import NamedTuple

import numpy as np
from flowjax.bijections import Chain as Ladder

from tessmc.adaptation._buffer import Drawn, log_ratios, take
from tessmc.adaptation._rescue import next_power, resample, weights_of
from tessmc.engines import Draws
from tessmc.kernels import ChainState, StudentT


def wide() -> StudentT:
    """Wide and with heavy tails, in all directions in which a map can go."""
    return StudentT(3, scale=1.5)


class WideLaw(NamedTuple):
    """π_b ∝ φ̂^(1-b) π^b, with φ̂ the law of `wide` pushed through a map."""

    power: float
    transport: Ladder

    def weights(self, drawn: Drawn) -> np.ndarray:
        """What draws from π_b weigh for π, truncated so that no single one decides (Ionides 2008)."""
        weights = weights_of(log_ratios(self.transport, wide(), drawn), 1 - self.power)
        weights = np.minimum(weights, 1 / np.sqrt(len(weights)))
        return weights / weights.sum()

    def resampled(self, rng: np.random.Generator, drawn: Drawn) -> Drawn:
        """As many of the draws as they are worth for π, taken by their weights."""
        weights = self.weights(drawn)
        return take(drawn, resample(rng, weights, int(1 / np.sum(weights**2))))


class Trip(NamedTuple):
    """What was drawn from a wider law."""

    law: WideLaw
    draws: Draws


class Scouts(NamedTuple):
    """Chains that move under a wider law: the law of their next trip, where they stand, and their trips so far."""

    law: WideLaw
    state: ChainState
    trips: tuple[Trip, ...] = ()

    @property
    def recent(self) -> tuple[Trip, ...]:
        """The later half of the trips."""
        return self.trips[len(self.trips) // 2 :]


def widened(transport: Ladder, drawn: Drawn) -> WideLaw:
    """So wide that of draws from π half would count for it."""
    step = next_power(0.0, -log_ratios(transport, wide(), drawn))
    return WideLaw(max(1 - step, 0.1), transport)
