"""What every target can do, whatever it was made from."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from tessmc._types import Point, Scalar


class Labels(NamedTuple):
    """Names of axes, as ArviZ has them.

    Attributes:
        coords: dimension → labels.
        dims: name of a parameter, or of data → its dimensions.
    """

    coords: dict[str, Any]
    dims: dict[str, list[str]]


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

    # What a model knows beyond its density, for ArviZ.

    def labels(self) -> Labels:
        """Names of axes."""
        return Labels({}, {})

    def data_groups(self) -> dict[str, dict[str, np.ndarray]]:
        """Groups of ArviZ that hold data, such as `"observed_data"` → name → values."""
        return {}

    def log_likelihood(self, position: Point) -> dict[str, Array]:  # noqa: ARG002
        """The log likelihood of every observation, by the name of the data; of a model that tells them apart."""
        return {}


def check_named(init: PyTree[Any], shapes: Mapping[str, tuple[int, ...]], num_chains: int) -> dict[str, Array]:
    """Starting values by name, with a leading chain axis, or an error that says what does not fit."""
    if not isinstance(init, Mapping) or set(init) != set(shapes):
        has = f"has {', '.join(map(str, init)) or 'nothing'}" if isinstance(init, Mapping) else f"is {init!r}"
        raise ValueError(f"`init` should be a dict with values of {', '.join(shapes)}, but {has}")
    values = {name: jnp.asarray(init[name]) for name in shapes}
    for name, shape in shapes.items():
        if values[name].shape != (num_chains, *shape):
            raise ValueError(
                f"`init` of `{name}` should have shape {(num_chains, *shape)}, chains first, but has "
                f"{values[name].shape}"
            )
    return values


def in_words(values: dict[str, Any]) -> str:
    """Values by name, in a line."""
    with np.printoptions(precision=6, threshold=20):
        return ", ".join(f"{name} = {np.array2string(np.asarray(value))}" for name, value in values.items())
