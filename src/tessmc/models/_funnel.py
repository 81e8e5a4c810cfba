"""Neal's funnel."""

import jax.numpy as jnp
from jaxtyping import Array

from tessmc._types import Scalar
from tessmc.targets import Target


def funnel(dim: int = 10) -> Target:
    """Neal's funnel: v ~ N(0, 3²), then z_i ~ N(0, e^v) for the other dim - 1 coordinates.

    Args:
        dim: of the whole, `log_scale` (that is v/2) included; at least 2.
    """
    if dim < 2:
        raise ValueError(f"a funnel needs a dimension of at least 2, got {dim}")
    return Target(_log_density, {"log_scale": jnp.zeros(()), "z": jnp.zeros(dim - 1)})


def _log_density(position: dict[str, Array]) -> Scalar:
    log_scale, z = position["log_scale"], position["z"]
    return -((log_scale / 1.5) ** 2) / 2 - z.size * log_scale - jnp.sum((z * jnp.exp(-log_scale)) ** 2) / 2
