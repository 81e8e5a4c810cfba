"""A PyMC model."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from tessmc._arrays import in_precision_of
from tessmc._types import Point, Scalar
from tessmc.targets._black_box import BlackBox
from tessmc.targets._target import AbstractTarget, Labels, check_named

# Values of some of PyTensor's variables → values of others.
Function = Callable[..., Sequence[Array]]


def from_pymc(model: Any) -> "PymcTarget | PymcBlackBox":
    """The posterior of a PyMC model, to be given to `tessmc.sample`.

    Draws have the names, coordinates and dimensions of the model's free and deterministic variables; transforms are
    PyMC's own. A model with an operation that JAX lacks is called as a black box, by PyMC's compiled log density.

    Args:
        model: a `pymc.Model`.

    Raises:
        ImportError: PyMC is not installed.
        ValueError: a free variable is discrete, or there is none.
    """
    pymc, _ = _import_pymc()
    if not isinstance(model, pymc.Model):
        raise TypeError(f"`model` should be a pymc.Model, but is a {type(model).__name__}")
    if not model.free_RVs:
        raise ValueError("the model has no free variable: there is nothing to sample")
    for variable in model.free_RVs:
        if model.rvs_to_values[variable] in model.discrete_value_vars:
            raise ValueError(f"the free variable `{variable.name}` is discrete; sum over it in the model")
    try:
        return PymcTarget(model)
    except NotImplementedError as error:
        warnings.warn(
            f"{error}; PyMC's compiled log density is called instead, a point at a time, as a tessmc.BlackBox is",
            stacklevel=2,
        )
        return PymcBlackBox(model)


class Modelled(AbstractTarget):
    """What a PyMC model says of a position beside its density."""

    model: eqx.AbstractVar[Any]
    # Of the transformed variables, sorted by name.
    shapes: eqx.AbstractVar[dict[str, tuple[int, ...]]]
    # Transformed variables to those that users name, and back; and to the log likelihoods of the data.
    push: eqx.AbstractVar[Function]
    pull: eqx.AbstractVar[Function]
    likelihood: eqx.AbstractVar[Function]

    def values(self, position: Point) -> dict[str, Array]:
        """The transformed variables, of which PyMC's log density is a function."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
        parts = jnp.split(position, ends[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def constrain(self, position: Point) -> dict[str, Array]:
        return dict(zip(map(_name, _named(self.model)), self.push(**self.values(position)), strict=True))

    def unconstrain(self, value: PyTree[Any]) -> Point:
        given = {variable.name: jnp.asarray(value[variable.name]) for variable in self.model.free_RVs}
        free = dict(zip(map(_name, self.model.value_vars), self.pull(**given), strict=True))
        return jnp.concatenate([jnp.ravel(free[name]) for name in self.shapes])

    def check_init(self, init: PyTree[Any], num_chains: int) -> PyTree[Array]:
        shapes = jax.eval_shape(self.constrain, np.zeros(self.dim, self.dtype))
        return check_named(init, {name: shapes[name].shape for name in map(_name, self.model.free_RVs)}, num_chains)

    def labels(self) -> Labels:
        from pymc.backends.arviz import coords_and_dims_for_inferencedata

        return Labels(*coords_and_dims_for_inferencedata(self.model))

    def data_groups(self) -> dict[str, dict[str, np.ndarray]]:
        from pymc.backends.arviz import find_constants, find_observations

        found = {"observed_data": find_observations(self.model), "constant_data": find_constants(self.model)}
        return {group: values for group, values in found.items() if values}

    def log_likelihood(self, position: Point) -> dict[str, Array]:
        return dict(zip(map(_name, self.model.observed_RVs), self.likelihood(**self.values(position)), strict=True))


class PymcTarget(Modelled):
    """A PyMC model whose operations JAX knows."""

    model: Any
    shapes: dict[str, tuple[int, ...]] = eqx.field(static=True)
    push: Function
    pull: Function
    likelihood: Function
    density: Function
    dim: int = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)

    def __init__(self, model: Any):
        start = _start(model)
        self.model, self.shapes = model, {name: value.shape for name, value in start.items()}
        # PyMC's densities are written for doubles: in single precision some are infinite where they should not be.
        self.dim, self.dtype = sum(value.size for value in start.values()), np.result_type(*start.values())
        self.density = _jaxified(model.value_vars, [model.logp()])
        self.push, self.pull, self.likelihood = (_jaxified(*graph) for graph in _graphs(model))
        with in_precision_of(self.dtype):
            # Some operations that JAX does not know are met only here.
            jax.eval_shape(self.log_density, jnp.zeros(self.dim, self.dtype))

    def log_density(self, position: Point) -> Scalar:
        return self.density(**self.values(position))[0]


class PymcBlackBox(BlackBox, Modelled):
    """A PyMC model with an operation that JAX does not know."""

    model: Any
    shapes: dict[str, tuple[int, ...]] = eqx.field(static=True)
    push: Function
    pull: Function
    likelihood: Function

    def __init__(self, model: Any):
        start = _start(model)
        self.model, self.shapes = model, {name: value.shape for name, value in start.items()}
        self.push, self.pull, self.likelihood = (_called(*graph) for graph in _graphs(model))
        with in_precision_of(np.result_type(*start.values())):
            super().__init__(partial(_call, model.compile_logp()), start)

    constrain = Modelled.constrain
    unconstrain = Modelled.unconstrain
    check_init = Modelled.check_init


def _call(log_density: Any, point: dict[str, np.ndarray]) -> float:
    return float(log_density(point))


def _name(variable: Any) -> str:
    return variable.name


def _start(model: Any) -> dict[str, np.ndarray]:
    """A position of a model, by the names of its transformed variables."""
    return {name: np.asarray(value) for name, value in sorted(model.initial_point().items())}


def _named(model: Any) -> list[Any]:
    """What users call by name: free variables in their supports, and deterministic ones."""
    from pymc.util import get_default_varnames

    return get_default_varnames(model.unobserved_value_vars, include_transformed=False)


def _graphs(model: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and outputs of the three functions that a `Modelled` has."""
    yield model.value_vars, _named(model)
    yield _pulled(model)
    yield model.value_vars, model.logp(model.observed_RVs, sum=False) if model.observed_RVs else []


def _pulled(model: Any) -> tuple[list[Any], list[Any]]:
    """Free variables in their supports, and the transformed values in their terms."""
    from pytensor.graph.replace import clone_replace

    given = {variable: variable.type(name=variable.name) for variable in model.free_RVs}

    def forward(variable: Any) -> Any:
        transform = model.rvs_to_transforms[variable]
        # A support may depend on other variables.
        return given[variable] if transform is None else transform.forward(given[variable], *variable.owner.inputs)

    return list(given.values()), clone_replace([forward(variable) for variable in given], given)


def _jaxified(inputs: list[Any], outputs: list[Any]) -> Function:
    """A graph as a function that JAX compiles."""
    _, in_jax = _import_pymc()
    names = [variable.name for variable in inputs]
    run = in_jax.get_jaxified_graph(inputs=inputs, outputs=outputs) if outputs else lambda *_: []

    def call(**values: Array) -> Sequence[Array]:
        with warnings.catch_warnings():
            # PyTensor asks for doubles, and gets what JAX is set to.
            warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
            return run(*(values[name] for name in names))

    return call


def _called(inputs: list[Any], outputs: list[Any]) -> Function:
    """A graph as a function that PyTensor compiles, and JAX calls."""
    import pytensor

    run = pytensor.function(inputs, outputs, on_unused_input="ignore")
    names = [variable.name for variable in inputs]

    def on_host(*values: Any) -> list[np.ndarray]:
        return run(*(np.asarray(value, variable.dtype) for value, variable in zip(values, inputs, strict=True)))

    def call(**values: Array) -> Sequence[Array]:
        given = [values[name] for name in names]
        # Only the shapes count.
        found = on_host(*(np.zeros(value.shape) for value in given))
        like = [jax.ShapeDtypeStruct(np.shape(value), value.dtype) for value in found]
        return jax.pure_callback(on_host, like, *given, vmap_method="sequential")

    return call


def _import_pymc() -> tuple[Any, Any]:
    """PyMC, and its way to JAX, which on import changes what is not its own."""
    try:
        import pymc
    except ImportError as error:
        raise ImportError('PyMC is not installed; pip install "tessmc[pymc]"') from error
    # In a thread of its own: in this one a `with jax.enable_x64(...)` may hide what JAX is set to.
    with ThreadPoolExecutor(1) as pool:
        return pymc, pool.submit(_import_in_jax).result()


def _import_in_jax() -> Any:
    """Import it, and leave JAX's precision and the number of its devices as they are."""
    flags, is_double = os.environ.get("XLA_FLAGS"), jnp.result_type(float) == jnp.float64
    try:
        import pymc.sampling.jax as in_jax
    finally:
        jax.config.update("jax_enable_x64", is_double)
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags
    return in_jax
