"""A JAX log density over an array or a pytree, with supports."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree
from numpyro.distributions import biject_to, constraints
from numpyro.distributions.transforms import Transform

from tessmc._types import Point, Scalar
from tessmc.targets._target import AbstractTarget

NOT_TRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


class Site(eqx.Module):
    """One leaf of a position: its name, its shape, and the map onto its support."""

    name: str = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)
    support: constraints.Constraint
    transform: Transform
    free_shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, name: str, leaf: Any, support: constraints.Constraint | None):
        self.name = name
        self.shape = np.shape(leaf)
        self.dtype = _float_dtype(name, leaf)
        self.support = constraints.real if support is None else support
        try:
            self.transform = biject_to(self.support)
            self.free_shape = self.transform.inverse_shape(self.shape)
        except (NotImplementedError, ValueError) as error:
            raise ValueError(
                f"the support of `{name}`, {self.support!r}, does not fit its shape {self.shape}"
                f"{f': {error}' if str(error) else ': it is not a continuous support'}"
            ) from error
        if len(self.shape) < self.support.event_dim:
            raise ValueError(
                f"the support of `{name}`, {self.support!r}, describes arrays of at least "
                f"{self.support.event_dim} axes, but `like` gives it the shape {self.shape}"
            )

    def constrain(self, free: Array) -> tuple[Array, Scalar]:
        free = free.reshape(self.free_shape).astype(self.dtype)
        value = self.transform(free)
        return value, jnp.sum(self.transform.log_abs_det_jacobian(free, value))


class Target(AbstractTarget):
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
    sites: tuple[Site, ...]
    structure: jax.tree_util.PyTreeDef = eqx.field(static=True)
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
        like = _as_example(like)
        leaves, self.structure = jax.tree.flatten_with_path(like)
        supports = _match_supports(support, like)
        self.sites = tuple(
            Site(_name(path), leaf, leaf_support) for (path, leaf), leaf_support in zip(leaves, supports, strict=True)
        )
        self.function, self.data = jax.tree.map(_as_argument, (log_density, tuple(data)))
        self.dim = sum(math.prod(site.free_shape) for site in self.sites)
        if self.dim == 0:
            raise ValueError(f"`like` has no free parameter to sample: {like!r}; pass an example position")
        self.dtype = np.dtype(jnp.result_type(*(site.dtype for site in self.sites)))
        self._check_density()

    def log_density(self, position: Point) -> Scalar:
        values, log_dets = zip(*self._constrain(position), strict=True)
        value = self.function(self.structure.unflatten(values), *self.data)
        return (value + sum(log_dets)).astype(self.dtype)

    def constrain(self, position: Point) -> dict[str, Array]:
        values = (value for value, _ in self._constrain(position))
        return {site.name: value for site, value in zip(self.sites, values, strict=True)}

    def unconstrain(self, value: PyTree[Any]) -> Point:
        free = [
            jnp.ravel(site.transform.inv(leaf)).astype(self.dtype)
            for site, leaf in zip(self.sites, self.structure.flatten_up_to(value), strict=True)
        ]
        return jnp.concatenate(free)

    def check_init(self, init: PyTree[Any], num_chains: int) -> PyTree[Array]:
        leaves, structure = jax.tree.flatten(init)
        if structure != self.structure:
            raise ValueError(
                f"`init` should have the structure of `like`, {self.structure}, of arrays with a leading chain axis, "
                f"but has {structure}"
            )
        checked = [_check_leaf(site, leaf, num_chains) for site, leaf in zip(self.sites, leaves, strict=True)]
        return self.structure.unflatten(checked)

    def _constrain(self, position: Point) -> list[tuple[Array, Scalar]]:
        sizes = [math.prod(site.free_shape) for site in self.sites]
        parts = jnp.split(position, np.cumsum(sizes)[:-1])
        return [site.constrain(part) for site, part in zip(self.sites, parts, strict=True)]

    def _check_density(self) -> None:
        """Call the density once with abstract values: no arithmetic, no compilation."""
        returned: list[Any] = []

        def call(value: PyTree[Array], data: tuple[Any, ...]) -> None:
            returned.append(self.function(value, *data))

        example = self.structure.unflatten(jnp.zeros(site.shape, site.dtype) for site in self.sites)
        try:
            eqx.filter_eval_shape(call, example, self.data)
        except NOT_TRACEABLE as error:
            raise TypeError(
                "the log density cannot be traced by JAX: it turns its argument into a NumPy array or a Python "
                "number. Write it with jax.numpy and jax.lax, or, if it is not JAX at all, wrap it in "
                "tessmc.BlackBox, which is still to come"
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
            "compute it with jax.numpy, or wrap a function that is not JAX in tessmc.BlackBox, which is still to come"
        )
    if value.shape != ():
        raise ValueError(
            f"{wanted}, but returned an array of shape {value.shape}; sum the terms (jnp.sum), or take the one "
            "element with [0]"
        )
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"{wanted}, but returned {value.dtype}; convert it with .astype(float)")


def _as_example(like: PyTree[Any]) -> PyTree[Any]:
    if isinstance(like, bool | np.bool_) or like is None:
        raise TypeError(f"`like` should be an example position or a dimension, but is {like!r}")
    if isinstance(like, int | np.integer):
        if like < 1:
            raise ValueError(f"`like` = {like} as a dimension should be at least 1")
        return jnp.zeros(int(like))
    return like


def _as_argument(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".") or "x"


def _float_dtype(name: str, leaf: Any) -> np.dtype:
    """The dtype in which a leaf is sampled: its own, as far as JAX's x64 flag allows."""
    try:
        dtype = jnp.asarray(leaf).dtype
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`like` should hold arrays, but `{name}` is a {type(leaf).__name__}; "
            "pass one example position, an array or a pytree of arrays"
        ) from error
    if dtype not in (jnp.float32, jnp.float64):
        raise TypeError(f"`like` should hold float32 or float64, but `{name}` is {dtype}; pass zeros of a float dtype")
    return np.dtype(dtype)


def _is_support(node: Any) -> bool:
    return node is None or isinstance(node, constraints.Constraint)


def _match_supports(support: PyTree[Any], like: PyTree[Any]) -> list[constraints.Constraint | None]:
    """One support a leaf of `like`; a support higher up in the tree counts for all leaves below it."""
    for node in jax.tree.leaves(support, is_leaf=_is_support):
        if not _is_support(node):
            raise TypeError(
                f"`support` should hold NumPyro constraints (numpyro.distributions.constraints), but has {node!r}"
            )
    try:
        matched = jax.tree.broadcast(support, like, is_leaf=_is_support)
    except ValueError as error:
        raise ValueError(
            f"`support` does not match `like`: {jax.tree.structure(support, is_leaf=_is_support)} "
            f"against {jax.tree.structure(like)}; give one constraint for each leaf"
        ) from error
    return jax.tree.leaves(matched, is_leaf=_is_support)


def _check_leaf(site: Site, leaf: Any, num_chains: int) -> Array:
    values = jnp.asarray(leaf)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        raise TypeError(f"`init` should hold floats, but `{site.name}` is {values.dtype}; pass floats")
    if values.ndim and values.shape[1:] == site.shape and values.shape[0] != num_chains:
        raise ValueError(
            f"`init` has {values.shape[0]} chains but num_chains is {num_chains}; pass num_chains={values.shape[0]}"
        )
    if values.shape != (num_chains, *site.shape):
        raise ValueError(
            f"`init` of `{site.name}` should have shape {(num_chains, *site.shape)}, chains first, "
            f"but has {values.shape}"
        )
    values = values.astype(site.dtype)
    is_inside = np.asarray(site.support(values)) & np.isfinite(values).all(
        axis=tuple(range(values.ndim - site.support.event_dim, values.ndim))
    )
    if not is_inside.all():
        chain = int(np.argwhere(~is_inside)[0][0])
        raise ValueError(
            f"`init` of `{site.name}` in chain {chain} is {np.asarray(values[chain])}, "
            f"outside its support {site.support!r}"
        )
    return values
