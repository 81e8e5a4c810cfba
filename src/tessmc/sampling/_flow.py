"""What a run has learned, as a FlowJAX distribution."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax.bijections import AbstractBijection
from flowjax.distributions import AbstractDistribution, Transformed
from jaxtyping import Array

from tessmc._arrays import put
from tessmc._types import Key, Point
from tessmc.kernels import AbstractLaw


class Reference(AbstractDistribution):
    """φ, the law of the reference space."""

    law: AbstractLaw
    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: None = eqx.field(static=True)

    def __init__(self, law: AbstractLaw, dim: int):
        self.law, self.shape, self.cond_shape = law, (dim,), None

    def _log_prob(self, x: Point, condition: Any = None) -> Array:  # noqa: ARG002
        return self.law.log_density(x) + self.law.log_constant(len(x))

    def _sample(self, key: Key, condition: Any = None) -> Point:  # noqa: ARG002
        return self.law.draw(key, jnp.zeros(self.shape), is_fresh=True)


def pushed(law: AbstractLaw, transport: AbstractBijection) -> Transformed:
    """φ̂, the law of T(u) for u ~ φ, as precise as JAX is set to be now."""
    arrays, rest = eqx.partition(transport, eqx.is_array)
    arrays = jax.tree.map(lambda leaf: put(leaf, jax.dtypes.canonicalize_dtype(leaf.dtype)), arrays)
    transport = eqx.combine(arrays, rest)
    return Transformed(Reference(law, *transport.shape), transport)
