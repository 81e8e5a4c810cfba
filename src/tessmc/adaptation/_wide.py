"""Draws from a law wider than π: they show what a learned map has made too rare for its own chains to find."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tessmc.adaptation._rescue import DOF, Bridge, next_power, resample, weights_of
from tessmc.engines import Draws
from tessmc.kernels import ChainState, StudentT
from tessmc.transports import FixedAffine, Spread, spread_of


class Drawn(NamedTuple):
    """Draws of many chains in one row, with the densities that were paid for."""

    positions: np.ndarray
    log_densities: np.ndarray


class WideLaw(NamedTuple):
    """π_b ∝ q^(1-b) π^b, with q a Student-t that is much wider than π."""

    power: float
    spread: Spread

    def bridge(self, dtype: np.dtype) -> Bridge:
        return Bridge(jnp.asarray(np.array(self.power, dtype)), FixedAffine(*self.spread, dtype), StudentT(DOF))

    def weights(self, drawn: Drawn) -> np.ndarray:
        """What draws from π_b weigh for π, truncated so that no single one decides (Ionides 2008)."""
        away = drawn.log_densities - self.spread.log_density(drawn.positions, DOF)
        weights = weights_of(away, 1 - self.power)
        weights = np.minimum(weights, 1 / np.sqrt(len(weights)))
        return weights / weights.sum()

    def resampled(self, rng: np.random.Generator, drawn: Drawn, most: int) -> Drawn:
        """As many of the draws as they are worth for π, at most so many, taken by their weights."""
        weights = self.weights(drawn)
        num = min(int(1 / np.sum(weights**2)), most)
        return take(drawn, resample(rng, weights, num))


class Scouts(NamedTuple):
    """Chains that move under a wider law, where they stand, and what they have drawn."""

    law: WideLaw
    state: ChainState
    draws: tuple[Draws, ...] = ()


def widened(drawn: Drawn) -> WideLaw:
    """So wide that of draws from π half would count for it."""
    spread = spread_of(drawn.positions, DOF)
    spread = spread._replace(scale=4 * spread.scale)
    step = next_power(0.0, spread.log_density(drawn.positions, DOF) - drawn.log_densities)
    return WideLaw(max(1 - step, 0.1), spread)


def in_a_row(kept: Sequence[Draws]) -> Drawn:
    """All draws of finite density."""
    positions = np.concatenate([draws.position.reshape(-1, draws.position.shape[2]) for draws in kept])
    log_densities = np.concatenate([draws.log_density.ravel() for draws in kept]).astype(np.float64)
    return take(Drawn(positions, log_densities), np.isfinite(log_densities))


def take(drawn: Drawn, chosen: np.ndarray) -> Drawn:
    return Drawn(*(part[chosen] for part in drawn))


def together(*parts: Drawn) -> Drawn:
    return Drawn(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))
