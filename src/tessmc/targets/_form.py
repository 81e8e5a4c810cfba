"""What a position looks like: an array or a pytree, with names and supports."""

import math
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


class Form(eqx.Module):
    """The leaves of a position, and how an unconstrained vector becomes one.

    Args:
        like: one example position: an array, a pytree of arrays, or an int for a flat vector.
        support: a NumPyro constraint, or a pytree of them matching `like`; `None` is the real line.
    """

    sites: tuple[Site, ...]
    structure: jax.tree_util.PyTreeDef = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)

    def __init__(self, like: PyTree[Any], support: PyTree[Any]):
        like = _as_example(like)
        leaves, self.structure = jax.tree.flatten_with_path(like)
        supports = _match_supports(support, like)
        self.sites = tuple(
            Site(_name(path), leaf, leaf_support) for (path, leaf), leaf_support in zip(leaves, supports, strict=True)
        )
        self.dim = sum(math.prod(site.free_shape) for site in self.sites)
        if self.dim == 0:
            raise ValueError(f"`like` has no free parameter to sample: {like!r}; pass an example position")
        self.dtype = np.dtype(jnp.result_type(*(site.dtype for site in self.sites)))

    def constrain(self, position: Point) -> tuple[PyTree[Array], Scalar]:
        """A position as the user has it, and the log-determinant of the way there."""
        sizes = [math.prod(site.free_shape) for site in self.sites]
        parts = jnp.split(position, np.cumsum(sizes)[:-1])
        found = [site.constrain(part) for site, part in zip(self.sites, parts, strict=True)]
        values, log_dets = zip(*found, strict=True)
        return self.structure.unflatten(values), sum(log_dets)

    def named(self, value: PyTree[Any]) -> dict[str, Any]:
        """The leaves of a position by name."""
        return {site.name: leaf for site, leaf in zip(self.sites, self.structure.flatten_up_to(value), strict=True)}

    def example(self) -> PyTree[Array]:
        return self.structure.unflatten(jnp.zeros(site.shape, site.dtype) for site in self.sites)


class FormedTarget(AbstractTarget):
    """A target whose positions have a form."""

    form: eqx.AbstractVar[Form]

    def constrain(self, position: Point) -> dict[str, Array]:
        return self.form.named(self.form.constrain(position)[0])

    def unconstrain(self, value: PyTree[Any]) -> Point:
        free = [
            jnp.ravel(site.transform.inv(leaf)).astype(self.dtype)
            for site, leaf in zip(self.form.sites, self.form.structure.flatten_up_to(value), strict=True)
        ]
        return jnp.concatenate(free)

    def check_init(self, init: PyTree[Any], num_chains: int) -> PyTree[Array]:
        leaves, structure = jax.tree.flatten(init)
        if structure != self.form.structure:
            raise ValueError(
                f"`init` should have the structure of `like`, {self.form.structure}, of arrays with a leading chain "
                f"axis, but has {structure}"
            )
        checked = [_check_leaf(site, leaf, num_chains) for site, leaf in zip(self.form.sites, leaves, strict=True)]
        return self.form.structure.unflatten(checked)


def _as_example(like: PyTree[Any]) -> PyTree[Any]:
    if isinstance(like, bool | np.bool_) or like is None:
        raise TypeError(f"`like` should be an example position or a dimension, but is {like!r}")
    if isinstance(like, int | np.integer):
        if like < 1:
            raise ValueError(f"`like` = {like} as a dimension should be at least 1")
        return jnp.zeros(int(like))
    return like


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
