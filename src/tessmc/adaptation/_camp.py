"""Where the chains are between two marches: under which map, law and bridge; and how they come under others."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import AbstractBijection
from flowjax.bijections import Chain as Ladder
from jaxtyping import Array, Float

from tessmc._arrays import put
from tessmc._types import Point, Points, Scalar, Truth
from tessmc.adaptation._task import WarmupTask
from tessmc.engines import Chain, Draws, collect, march, restart_chains
from tessmc.kernels import AbstractLaw, ChainState, StudentT, TransportEllipticalSlice
from tessmc.transports import FixedAffine

# Heavy tails of the first law: whatever lies beyond the cloud is still reached.
DOF = 5
# Draws are handed to the map in blocks of so many: one program for any number of them.
BLOCK = 2**11


class Bridge(eqx.Module):
    """Log π_b = (1 - b) log q + b log π, with q a Student-t of a given spread, or φ̂ itself."""

    power: Scalar
    spread: FixedAffine
    law: StudentT
    is_from_pushed: Truth

    def __call__(self, log_density: Scalar, position: Point, log_pushed: Scalar) -> Scalar:
        log_start = jnp.where(self.is_from_pushed, log_pushed, self.law.log_density(self.spread.inverse(position)))
        return (1 - self.power) * log_start + self.power * log_density


def bridge_from_pushed(power: float, dim: int, dtype: np.dtype) -> Bridge:
    """From φ̂ to π; with a power of 1, π itself in the shape of a bridge: one program serves all."""
    nowhere = FixedAffine(np.zeros(dim), np.ones(dim), np.eye(dim), dtype)
    return Bridge(put(power, dtype), nowhere, StudentT(DOF), put(True, bool))


def no_bridge(dim: int, dtype: np.dtype) -> Bridge:
    """π itself."""
    return bridge_from_pushed(1.0, dim, dtype)


class Camp(NamedTuple):
    """Chains under a map, and the law and the bridge with which they move: all that one march needs."""

    transport: Ladder
    chains: Chain
    law: StudentT
    bridge: Bridge
    first_try: bool = False

    def kernel(self, task: WarmupTask) -> TransportEllipticalSlice:
        return TransportEllipticalSlice(
            task.target.log_density,
            self.transport,
            law=self.law,
            first_try=put(self.first_try, bool),
            bridge=self.bridge,
        )

    def recalled(self) -> "Camp":
        """The chains where they stand, under the camp's map, law and bridge as they are now: nothing is paid for."""
        before = self.chains.state
        found = recall(self.transport, self.law, self.bridge, *map(np.asarray, (before.position, before.log_density)))
        return self._replace(chains=restart_chains(self.chains, found.on_device()))

    def march(self, task: WarmupTask, num_transitions: int) -> "Camp":
        """So many transitions of every chain, from where they stand."""
        until = int(np.asarray(self.chains.iteration).min()) + num_transitions
        chains = march(self.kernel(task), self.recalled().chains, until, task.target.describe, journal=task.journal)
        return self._replace(chains=chains)

    def collect(self, task: WarmupTask, num_draws: int) -> tuple["Camp", Draws]:
        """So many draws of every chain, from where they stand."""
        kernel = self.kernel(task)
        describe, journal = task.target.describe, task.journal
        chains, draws = collect(kernel, self.recalled().chains, num_draws, describe=describe, journal=journal)
        return self._replace(chains=chains), draws


class HostState(NamedTuple):
    """The fields of `ChainState` for many chains, in arrays of NumPy."""

    reference: np.ndarray
    position: np.ndarray
    log_density: np.ndarray
    log_ratio: np.ndarray

    def on_device(self) -> ChainState:
        return ChainState(*jax.device_put(tuple(self)))


def recall(
    transport: AbstractBijection, law: AbstractLaw, bridge: Bridge, positions: np.ndarray, log_densities: np.ndarray
) -> HostState:
    """The states of chains at positions whose log densities are known."""
    starts = range(0, len(positions), BLOCK)
    blocks = [
        [jax.device_put(padded(part[start : start + BLOCK], BLOCK)) for part in (positions, log_densities)]
        for start in starts
    ]
    found = [jax.device_get(_recall_block(transport, law, bridge, *block)) for block in blocks]
    return HostState(*(np.concatenate(parts)[: len(positions)] for parts in zip(*found, strict=True)))


@eqx.filter_jit
def _recall_block(
    transport: AbstractBijection,
    law: AbstractLaw,
    bridge: Bridge,
    positions: Points,
    log_densities: Float[Array, " chain"],
) -> ChainState:
    kernel = TransportEllipticalSlice(_never, transport, law=law, bridge=bridge)
    return jax.vmap(kernel.recall)(positions, log_densities)


def _never(position: Point) -> Scalar:
    raise AssertionError(f"the density is known at {position}")


def padded(rows: np.ndarray, size: int) -> np.ndarray:
    """The rows, filled up with copies of the first."""
    return np.concatenate([rows, np.repeat(rows[:1], size - len(rows), axis=0)])
