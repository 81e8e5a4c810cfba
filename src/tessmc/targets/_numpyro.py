"""A NumPyro model."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree
from numpyro import handlers
from numpyro.infer import init_to_uniform
from numpyro.infer.util import constrain_fn, log_likelihood, potential_energy, unconstrain_fn

from tessmc._types import Point, Scalar
from tessmc.targets._function import NOT_TRACEABLE
from tessmc.targets._target import AbstractTarget, Labels, check_named

# What NumPyro records of a call of a model: name → site.
Trace = Mapping[str, dict[str, Any]]


def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> "NumpyroTarget":
    """The posterior of a NumPyro model, to be given to `tessmc.sample`.

    Draws have the names and shapes that NumPyro's own `MCMC.get_samples()` gives them, deterministic sites included.
    Discrete latent sites marked with `infer={"enumerate": "parallel"}` are summed over by NumPyro, which needs funsor.

    Args:
        model: a function with NumPyro's primitives.
        *args: its arguments.
        **kwargs: its arguments by name.

    Raises:
        ValueError: a latent site is discrete and not marked, or there is none.
    """
    return NumpyroTarget(model, args, kwargs)


class NumpyroTarget(AbstractTarget):
    """What `from_numpyro` makes of a model."""

    model: Callable[..., Any]
    marginal: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    free: dict[str, Array]
    dim: int = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)
    is_summed: bool = eqx.field(static=True)

    def __init__(self, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]):
        if not callable(model):
            raise TypeError(f"`model` should be a function with NumPyro's primitives, but is a {type(model).__name__}")
        model, self.args, self.kwargs = _with_arguments(model, args, kwargs)
        trace = _trace(model, self.args, self.kwargs)
        latent = {name: site for name, site in trace.items() if _is_latent(site)}
        discrete = [name for name, site in latent.items() if site["fn"].support.is_discrete]
        _refuse(trace, latent, discrete)
        # What is to be optimised is not sampled, and what else is random is drawn once.
        fixed = {name: site["value"] for name, site in trace.items() if site["type"] == "param"}
        self.model = handlers.seed(handlers.substitute(model, data=fixed), 0)
        self.is_summed = bool(discrete)
        self.marginal = _summed_over(self.model, trace) if discrete else self.model
        values = {name: site["value"] for name, site in latent.items() if name not in discrete}
        self.free = unconstrain_fn(self.model, self.args, self.kwargs, values)
        flat, _ = ravel_pytree(self.free)
        self.dim, self.dtype = flat.size, np.dtype(flat.dtype)

    def log_density(self, position: Point) -> Scalar:
        free = self.sites(position)
        return -potential_energy(self.marginal, self.args, self.kwargs, free, enum=self.is_summed).astype(self.dtype)

    def constrain(self, position: Point) -> dict[str, Array]:
        found = constrain_fn(self.model, self.args, self.kwargs, self.sites(position), return_deterministic=True)
        return {name: jnp.asarray(value) for name, value in found.items()}

    def unconstrain(self, value: PyTree[Any]) -> Point:
        free = unconstrain_fn(self.model, self.args, self.kwargs, value)
        return ravel_pytree({name: free[name] for name in self.free})[0].astype(self.dtype)

    def check_init(self, init: PyTree[Any], num_chains: int) -> PyTree[Array]:
        shapes = jax.eval_shape(self.constrain, np.zeros(self.dim, self.dtype))
        return check_named(init, {name: shapes[name].shape for name in self.free}, num_chains)

    def labels(self) -> Labels:
        sites = {name: site for name, site in self._trace().items() if site["type"] == "sample"}
        plates = {frame.name: frame.size for site in sites.values() for frame in site["cond_indep_stack"]}
        coords = {name: np.arange(size) for name, size in plates.items()}
        return Labels(coords, {name: _dims_of(name, site) for name, site in sites.items()})

    def data_groups(self) -> dict[str, dict[str, np.ndarray]]:
        found = {name: np.asarray(site["value"]) for name, site in self._trace().items() if _is_observed(site)}
        return {"observed_data": found} if found else {}

    def log_likelihood(self, position: Point) -> dict[str, Array]:
        if self.is_summed:
            return {}
        latent = constrain_fn(self.model, self.args, self.kwargs, self.sites(position))
        found = log_likelihood(self.model, latent, *self.args, batch_ndims=0, **self.kwargs)
        return {name: found[name] for name, site in self._trace().items() if _is_observed(site)}

    def sites(self, position: Point) -> dict[str, Array]:
        """The unconstrained values of the latent sites, by name."""
        return ravel_pytree(self.free)[1](position)

    def _trace(self) -> Trace:
        return _trace(self.model, self.args, self.kwargs)


def _trace(model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace:
    # As NumPyro begins: of a site with an improper prior nothing can be drawn.
    begun = handlers.substitute(handlers.seed(model, 0), substitute_fn=init_to_uniform)
    return handlers.trace(begun).get_trace(*args, **kwargs)


def _with_arguments(model: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Callable[..., Any], Any, Any]:
    """The model with arguments that compiled programs can take as theirs; if it lets none be, with none left to give.

    A model may do with its data what NumPy alone can, or take a length from them: then they are constants.
    """
    if not all(_survives(leaf) for leaf in jax.tree.leaves((args, kwargs)) if isinstance(leaf, np.ndarray)):
        return partial(model, *args, **kwargs), (), {}
    try:
        given = jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, (args, kwargs))
        hash(tuple(leaf for leaf in jax.tree.leaves(given) if not eqx.is_array(leaf)))
        eqx.filter_eval_shape(lambda args, kwargs: _trace(model, args, kwargs) and None, *given)
    except (*NOT_TRACEABLE, TypeError, ValueError):
        return partial(model, *args, **kwargs), (), {}
    return model, *given


def _survives(data: np.ndarray) -> bool:
    """Whether data are the same to a millionth of their range in the precision that JAX is set to.

    Times in seconds since 1970 are not; a model may take their mean away first, which NumPy does in doubles.
    """
    if data.dtype.kind not in "fiu":
        return True
    known = data[np.isfinite(data)]
    if known.size == 0:
        return True
    with np.errstate(over="ignore"):
        off = known.astype(jax.dtypes.canonicalize_dtype(data.dtype)).astype(float) - known
    return bool(np.abs(off).max() <= 1e-6 * (np.ptp(known.astype(float)) or abs(float(known[0]))))


def _refuse(trace: Trace, latent: Trace, discrete: list[str]) -> None:
    """What cannot be sampled."""
    for name in discrete:
        if latent[name]["infer"].get("enumerate") != "parallel":
            raise ValueError(
                f"the latent site `{name}` is discrete; mark it with infer={{'enumerate': 'parallel'}} to have NumPyro "
                "sum over it, or sum over it in the model"
            )
    for name, site in latent.items():
        if isinstance(site["fn"], dist.Delta):
            raise ValueError(f"the latent site `{name}` has a Delta distribution; write numpyro.deterministic instead")
        # A mask by itself may only drop a prior. Of `obs_mask` NumPyro makes two sites, and leaves out half of either.
        if name.endswith("_unobserved") and f"{name.removesuffix('_unobserved')}_observed" in trace:
            raise ValueError(
                f"the density does not depend on some entries of the latent site `{name}`, which a mask leaves out; "
                "instead of using `obs_mask`, give what is missing a site of its own"
            )
    if len(latent) == len(discrete):
        raise ValueError("the model has no continuous latent site: there is nothing to sample")


def _summed_over(model: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
    """The model without its discrete sites, as NumPyro does it."""
    try:
        from numpyro.contrib.funsor import config_enumerate, enum
    except ImportError as error:
        raise ImportError('discrete sites are summed over by funsor; pip install "tessmc[funsor]"') from error
    frames = [frame.dim for site in trace.values() for frame in site.get("cond_indep_stack", ())]
    return enum(config_enumerate(model), min(frames, default=0) - 1)


def _is_latent(site: dict[str, Any]) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _is_observed(site: dict[str, Any]) -> bool:
    """Data, not a term that the model adds to its density."""
    return site["type"] == "sample" and site["is_observed"] and not isinstance(site["fn"], dist.Unit)


def _dims_of(name: str, site: dict[str, Any]) -> list[str]:
    """The names of the plates that a site lies in; axes without one are numbered, as ArviZ does it."""
    plates = {frame.dim: frame.name for frame in site["cond_indep_stack"]}
    num_batch, num_event = len(site["fn"].batch_shape), len(site["fn"].event_shape)
    axes = [plates.get(axis - num_batch, f"{name}_dim_{axis}") for axis in range(num_batch)]
    return axes + [f"{name}_dim_{num_batch + axis}" for axis in range(num_event)]
