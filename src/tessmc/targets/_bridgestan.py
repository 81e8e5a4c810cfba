"""A Stan model by way of BridgeStan, or anything with the same interface."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from tessmc._types import Point
from tessmc.targets._black_box import BlackBox
from tessmc.targets._target import in_words

# Of a parameter: its shape, and where its entries stand among all numbers of the model.
Place = tuple[tuple[int, ...], np.ndarray]


def is_bridgestan(model: Any) -> bool:
    """Whether something can be asked as BridgeStan's models can."""
    return callable(getattr(model, "param_unc_num", None)) and callable(getattr(model, "log_density", None))


class StanBlackBox(BlackBox):
    """A model that is asked in its unconstrained space; values in their supports are its own, if it tells them.

    What Stan rejects by an error counts as impossible, as it does in Stan. `init` is given unconstrained.
    """

    model: Any
    places: dict[str, Place] | None

    def __init__(self, model: Any):
        super().__init__(model.log_density, int(model.param_unc_num()), on_error="reject")
        self.model = model
        tells = callable(getattr(model, "param_constrain", None)) and callable(getattr(model, "param_names", None))
        self.places = places_of(model.param_names()) if tells else None

    def constrain(self, position: Point) -> dict[str, Array]:
        if self.places is None:
            return super().constrain(position)
        size = sum(place.size for _, place in self.places.values())
        like = jax.ShapeDtypeStruct((size,), position.dtype)
        flat = jax.pure_callback(self._constrain, like, position, vmap_method="sequential")
        return {name: flat[place].reshape(shape) for name, (shape, place) in self.places.items()}

    def _constrain(self, position: Any) -> np.ndarray:
        return np.asarray(self.model.param_constrain(np.asarray(position, np.float64)), position.dtype)

    def describe(self, position: Point) -> str:
        # Where the model fails, it may have no other words for it.
        return in_words({"theta_unc": position})


def places_of(names: Sequence[str]) -> dict[str, Place]:
    """Parameters by the names of their entries, such as `theta.2.1`, counted from 1 in any order."""
    found: dict[str, dict[tuple[int, ...], int]] = {}
    for place, name in enumerate(names):
        base, *index = name.split(".")
        if not all(part.isdigit() for part in index):
            # An entry of a tuple: by its own name.
            base, index = name, []
        found.setdefault(base, {})[tuple(int(part) - 1 for part in index)] = place
    return {base: _place(entries) for base, entries in found.items()}


def _place(entries: dict[tuple[int, ...], int]) -> Place:
    shape = tuple(int(most) + 1 for most in np.max(list(entries), axis=0)) if () not in entries else ()
    return shape, np.array([entries[index] for index in np.ndindex(shape)])
