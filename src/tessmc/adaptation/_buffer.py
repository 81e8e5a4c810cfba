"""Draws to train on and to look at, in arrays of fixed size, and what a map makes of them."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, Float

from tessmc._arrays import put
from tessmc._types import Count, Key, Points, Scalar
from tessmc.adaptation._camp import no_bridge, padded, recall
from tessmc.adaptation._objectives import huber, log_pushed, log_variance
from tessmc.engines import Draws
from tessmc.kernels import AbstractLaw
from tessmc.targets import AbstractTarget

BATCH, NUM_EXACT = 256, 192


class Drawn(NamedTuple):
    """Draws of many chains in one row, with the densities that were paid for."""

    positions: np.ndarray
    log_densities: np.ndarray


def in_a_row(kept: Sequence[Draws]) -> Drawn:
    """All draws of finite density."""
    positions = np.concatenate([draws.position.reshape(-1, draws.position.shape[2]) for draws in kept])
    log_densities = np.concatenate([draws.log_density.ravel() for draws in kept]).astype(np.float64)
    return take(Drawn(positions, log_densities), np.isfinite(log_densities))


def take(drawn: Drawn, chosen: np.ndarray) -> Drawn:
    return Drawn(*(part[chosen] for part in drawn))


def together(*parts: Drawn) -> Drawn:
    return Drawn(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))


class Buffer(NamedTuple):
    """The first `num_exact` draws stand for π, those up to `size` need not, and the rest is filled up."""

    positions: Points
    log_densities: Float[Array, " draw"]
    num_exact: Count
    size: Count
    law: AbstractLaw

    @property
    def drawn(self) -> Drawn:
        """The draws without what was filled up."""
        size = int(self.size)
        return Drawn(np.asarray(self.positions)[:size], np.asarray(self.log_densities, np.float64)[:size])


def mix(exact: Drawn, others: Drawn, size: int, law: AbstractLaw) -> Buffer:
    """At most three quarters draws that stand for π, and others."""
    exact, others = thin(exact, size * 3 // 4), thin(others, size // 4)
    drawn = together(exact, others)
    positions = jax.device_put(padded(drawn.positions, size))
    log_densities = put(padded(drawn.log_densities, size), positions.dtype)
    return Buffer(positions, log_densities, jnp.int32(len(exact.positions)), jnp.int32(len(drawn.positions)), law)


def from_values(transport: AbstractBijection, key: Key, buffer: Buffer) -> Scalar:
    """KL(π‖φ̂) and the log-variance: densities that have been paid for, no gradient of π."""
    positions, log_densities = _batch(key, buffer)
    log_pushes = log_pushed(transport, buffer.law, positions)
    return -jnp.mean(log_pushes[:NUM_EXACT]) + log_variance(log_densities - log_pushes)


def _batch(key: Key, buffer: Buffer) -> tuple[Points, Array]:
    # What KL(π‖φ̂) is averaged over comes from π; the other objectives may ask about a place wherever it is.
    first, last = jnp.arange(BATCH) < NUM_EXACT, buffer.size > buffer.num_exact
    low = jnp.where(~first & last, buffer.num_exact, 0)
    chosen = jr.randint(key, (BATCH,), low, jnp.where(first, buffer.num_exact, buffer.size))
    return buffer.positions[chosen], buffer.log_densities[chosen]


@eqx.filter_jit
def scores_of(target: AbstractTarget, positions: Points) -> Points:
    """∇ log π at every position."""
    return jax.lax.map(jax.grad(target.log_density), positions, batch_size=BATCH)


def log_ratios(transport: AbstractBijection, law: AbstractLaw, drawn: Drawn) -> np.ndarray:
    """R = log π - log φ̂ at the draws."""
    return drawn.log_densities - pull_all(transport, law, drawn.positions)[1]


def pull_all(transport: AbstractBijection, law: AbstractLaw, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """U and log φ̂(x) at all positions x."""
    bridge = no_bridge(positions.shape[1], positions.dtype)
    found = recall(transport, law, bridge, positions, np.zeros(len(positions), positions.dtype))
    return found.reference.astype(np.float64), -found.log_ratio.astype(np.float64)


def spread_of_ratios(transport: AbstractBijection, buffer: Buffer) -> float:
    """s, the standard deviation of r; see `winsorised`."""
    return winsorised(log_ratios(transport, buffer.law, buffer.drawn)[: int(buffer.num_exact)])


def held_out_loss(transport: AbstractBijection, held: Buffer) -> float:
    """KL(π‖φ̂) and the log-variance of draws that were not trained on: single draws far out count in full."""
    found = log_ratios(transport, held.law, held.drawn)
    loss = np.mean(found[: int(held.num_exact)]) + np.mean(huber(found - np.median(found)))
    return float(loss) if np.isfinite(loss) else float("inf")


def winsorised(found: np.ndarray) -> float:
    """The standard deviation, with the lowest hundredth and the highest thousandth drawn in.

    Where r is low the map only wastes tries; where it is high, chains stay long: those draws should count.
    """
    found = np.where(np.isnan(found), np.inf, found)
    low, high = np.quantile(found, [0.01, 0.999], method="nearest")
    return (
        float(np.std(np.clip(found, low, high), dtype=np.float64)) if np.isfinite([low, high]).all() else float("inf")
    )


def divide(kept: Sequence[Draws], window: int) -> tuple[Drawn, Drawn]:
    """Draws to train on, and those of every eighth chain, held out."""
    folds = [np.broadcast_to(_fold(*draws.log_density.shape), draws.log_density.shape).ravel() for draws in kept]
    is_finite = np.isfinite(np.concatenate([draws.log_density.ravel() for draws in kept]))
    drawn, is_held = in_a_row(kept), np.concatenate(folds)[is_finite] == window % 8
    return (take(drawn, ~is_held), take(drawn, is_held)) if 0 < is_held.sum() < len(is_held) else (drawn, drawn)


def _fold(num_chains: int, num_draws: int) -> np.ndarray:
    """Parts of eight that are held out in turn: of chains, or, where they are too few, of draws."""
    return np.arange(num_chains)[:, None] % 8 if num_chains >= 8 else np.arange(num_draws)[None, :] * 8 // num_draws


def thin(drawn: Drawn, size: int) -> Drawn:
    """At most so many of the draws, evenly."""
    num_draws = len(drawn.positions)
    return take(drawn, np.linspace(0, num_draws - 1, min(size, num_draws)).astype(int))
