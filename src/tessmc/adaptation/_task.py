"""What a warm-up is given, and what it gives back."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection

from tessmc._arrays import put
from tessmc._clock import Clock
from tessmc._types import Key, Points
from tessmc.engines import NO_JOURNAL, Chain, Draws, Journal
from tessmc.kernels import TransportEllipticalSlice
from tessmc.targets import AbstractTarget

# One entry an epoch or window, what was measured in it by name.
History = list[dict[str, Any]]


class WarmupResult(NamedTuple):
    """A map, chains that stand in its reference space, and how they came there.

    Attributes:
        history: an entry for the first fit and one for every epoch.
        num_evaluations: of the density, by chains (`"warmup"`) and by fits (`"fit"`).
        draws: those of the target that chains made on the way.
        stride: transitions to make for a draw.
    """

    kernel: TransportEllipticalSlice
    chains: Chain
    history: History
    num_evaluations: dict[str, int]
    draws: list[Draws]
    stride: int = 1


class WarmupTask(NamedTuple):
    """What a warm-up is given.

    Attributes:
        start: unconstrained positions of the chains; None to begin from N(0, I) in reference space.
        watch: hears what is being done, how many steps it has and how many of them are done; and the last entry of the
            history, where there is a new one.
        journal: remembers what a run before this has done; all long pieces of work are noted there.
    """

    target: AbstractTarget
    transport: AbstractBijection | None
    start: Points | None
    key: Key
    num_chains: int
    num_warmup: int
    clock: Clock
    watch: Callable[..., None]
    journal: Journal = NO_JOURNAL


class AbstractWarmup(eqx.Module):
    """How the map is learned before the draws that count."""

    @abstractmethod
    def run(self, task: WarmupTask) -> WarmupResult:
        """Learn a map and bring the chains into its reference space."""

    @abstractmethod
    def outline(self, task: WarmupTask) -> tuple[TransportEllipticalSlice, Chain]:
        """A kernel and chains like those of the result, with other numbers in them: nothing is asked or learned."""


def normal_by_numpy(key: Key, count: int, like: Points | np.ndarray) -> Points:
    # By NumPy, which has nothing to compile.
    rng = np.random.default_rng([*np.asarray(jr.key_data(key)).tolist(), count])
    return put(rng.standard_normal(like.shape), like.dtype)
