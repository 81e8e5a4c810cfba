"""A JAX log density over an array or a pytree, with supports."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from tessmc._types import Point, Scalar
from tessmc.targets._form import Form, FormedTarget

NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


class Target(FormedTarget):
    """A log density of an array or a pytree, written in JAX.

    Args:
        log_density: log π up to a constant, called with a position like `like`, then with `data`.
        like: one example position: an array, a pytree of arrays, or an int for a flat vector. Only its
            shapes and dtypes are used.
        support: a NumPyro constraint, or a pytree of them matching `like`; `None` is the real line.
        data: further arguments of `log_density`. They enter the compiled program as arguments, so that
            large arrays are not copied into it and other data of the same shapes compile nothing new. A
            callable that is a pytree (`jax.tree_util.Partial`, an Equinox module) does the same.
    """

    function: Callable[..., Scalar]
    data: tuple[Any, ...]
    form: Form
    dim: int = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)

    def __init__(
        self,
        log_density: Callable[..., Scalar],
        like: PyTree[Any],
        *,
        support: PyTree[Any] = None,
        data: tuple[Any, ...] = (),
    ):
        if not callable(log_density):
            raise TypeError(
                f"the target should be a log density, a function of one position, but is a "
                f"{type(log_density).__name__}; pass a JAX function or a tessmc.Target"
            )
        if not isinstance(data, tuple | list):
            raise TypeError(
                f"`data` should be a tuple of the arguments that follow the position, but is a {type(data).__name__}; "
                "pass data=(x,) for one argument"
            )
        self.form = Form(like, support)
        self.dim, self.dtype = self.form.dim, self.form.dtype
        self.function, self.data = jax.tree.map(_as_argument, (log_density, tuple(data)))
        self._check_density()

    def log_density(self, position: Point) -> Scalar:
        value, log_det = self.form.constrain(position)
        return (self.function(value, *self.data) + log_det).astype(self.dtype)

    def _check_density(self) -> None:
        """Call the density once with abstract values: no arithmetic, no compilation."""
        returned: list[Any] = []

        def call(value: PyTree[Array], data: tuple[Any, ...]) -> None:
            returned.append(self.function(value, *data))

        example = self.form.example()
        try:
            eqx.filter_eval_shape(call, example, self.data)
        except NOT_TRACEABLE as error:
            raise TypeError(
                "the log density cannot be traced by JAX: it turns its argument into a NumPy array or a Python "
                "number. Write it with jax.numpy and jax.lax, or, if it is not JAX at all, pass "
                "tessmc.BlackBox(log_density, like)"
            ) from error
        except Exception as error:
            error.add_note(f"raised by the log density when tessmc called it with a position like {example}")
            raise
        _check_value(returned[0])


def _check_value(value: Any) -> None:
    wanted = "the log density should return a floating-point JAX scalar"
    if value is None:
        raise TypeError(f"{wanted}, but returned None; is a `return` missing?")
    if not isinstance(value, jax.Array):
        raise TypeError(
            f"{wanted}, but returned a {type(value).__name__}, {value!r}, which does not depend on its argument; "
            "compute it with jax.numpy, or pass a function that is not JAX as tessmc.BlackBox(log_density, like)"
        )
    if value.shape != ():
        raise ValueError(
            f"{wanted}, but returned an array of shape {value.shape}; sum the terms (jnp.sum), or take the one "
            "element with [0]"
        )
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"{wanted}, but returned {value.dtype}; convert it with .astype(float)")


def _as_argument(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
