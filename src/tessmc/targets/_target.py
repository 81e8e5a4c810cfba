"""What every target can do, whatever it was made from."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, PyTree

from tessmc._types import Point, Scalar


class AbstractTarget(eqx.Module):
    """A density π on unconstrained vectors x, and the names and supports of what x stands for."""

    dim: eqx.AbstractVar[int]
    dtype: eqx.AbstractVar[np.dtype]

    def __hash__(self) -> int:
        # Arrays have no hash, but `jax.jit(target.log_density)` asks for one: a target is known by its identity.
        return id(self)

    @abstractmethod
    def log_density(self, position: Point) -> Scalar:
        """Log π(x) up to a constant, the log-determinant of `constrain` included."""

    @abstractmethod
    def constrain(self, position: Point) -> dict[str, Array]:
        """The named values, in their supports and shapes, that an unconstrained vector stands for."""

    @abstractmethod
    def unconstrain(self, value: PyTree[Any]) -> Point:
        """The unconstrained vector of a position given as the user gives it."""

    @abstractmethod
    def check_init(self, init: PyTree[Any], num_chains: int) -> PyTree[Array]:
        """`init` as arrays with a leading chain axis, or an error that says what does not fit."""

    def describe(self, position: Point) -> str:
        """A position in the user's own words, for messages."""
        return in_words(self.constrain(position))


def in_words(values: dict[str, Any]) -> str:
    """Values by name, in a line."""
    with np.printoptions(precision=6, threshold=20):
        return ", ".join(f"{name} = {np.array2string(np.asarray(value))}" for name, value in values.items())
