"""What every sampler is given and gives back, so that all can be timed and judged alike."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax.random as jr
import numpy as np
from jaxtyping import Float

from tessmc._arrays import put
from tessmc._types import Key, Points
from tessmc.targets import AbstractTarget


class Task(NamedTuple):
    """One run of one sampler.

    Attributes:
        num_chains: for samplers of many chains; those with a custom of their own keep to it.
        num_warmup: transitions of each chain, likewise.
        num_draws: of each chain, that are given back at a time.
        init: points to start at, if not at draws of N(0, I).
    """

    target: AbstractTarget
    key: Key
    num_chains: int = 128
    num_warmup: int = 400
    num_draws: int = 100
    init: Points | None = None

    def starts(self, num_chains: int) -> Points:
        """Draws of N(0, I) in the unconstrained space, if nothing else is known: where every sampler begins."""
        if self.init is not None:
            return self.init[:num_chains]
        rng = np.random.default_rng(np.asarray(jr.key_data(self.key)))
        return put(rng.standard_normal((num_chains, self.target.dim)), self.target.dtype)


class Batch(NamedTuple):
    """Draws, and what was paid for them; in the first batch, for the warm-up as well.

    Attributes:
        num_evaluations: of the log density alone.
        num_gradients: of the log density and its gradient.
    """

    draws: Float[np.ndarray, "chain draw dim"]
    num_evaluations: int
    num_gradients: int


# Warms up, then gives batches for as long as it is asked.
Sampler = Callable[[Task], Iterator[Batch]]
