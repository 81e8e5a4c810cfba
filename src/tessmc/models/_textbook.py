"""Targets whose answers are known, to test with."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tessmc._types import Scalar
from tessmc.targets import Target


def gaussian(dim: int = 100, condition: float = 1e4) -> Target:
    """N(0, Σ), with the variances along random axes evenly spaced in their logarithm.

    Args:
        dim: d.
        condition: the greatest variance over the least; their product is 1.
    """
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(dim, dim)))[0]
    variances = np.geomspace(condition**-0.5, condition**0.5, dim)
    precision = (rotation / variances) @ rotation.T
    return Target(lambda x, precision: -x @ precision @ x / 2, jnp.zeros(dim), data=(jnp.asarray(precision, float),))


def student_t(dim: int = 10, dof: float = 3.0) -> Target:
    """The multivariate Student-t around 0 with unit scale."""
    return Target(lambda x: -(dof + dim) / 2 * jnp.log1p(jnp.sum(x**2) / dof), jnp.zeros(dim))


def ring(radius: float = 5.0, width: float = 0.3) -> Target:
    """A ring in the plane: the density falls with the distance from a circle like that of N(0, width²)."""
    return Target(lambda x: -(((jnp.linalg.norm(x) - radius) / width) ** 2) / 2, jnp.zeros(2))


def mixture(means: Any, weights: Any, scale: float = 1.0) -> Target:
    """Σ wₖ N(μₖ, scale² I).

    Args:
        means: μ, one row each; an array or what makes one.
        weights: w, positive; they need not add up to one.
        scale: the standard deviation of every part.
    """
    centers, log_weights = jnp.asarray(means, float), jnp.log(jnp.asarray(weights, float))
    if centers.ndim != 2 or log_weights.shape != centers.shape[:1] or not bool(jnp.isfinite(log_weights).all()):
        raise ValueError(
            f"a mixture needs a row of `means` for each of its `weights`, which are positive, but has shapes "
            f"{centers.shape} and {log_weights.shape}"
        )

    def log_density(x: Array, centers: Array, log_weights: Array) -> Scalar:
        return jax.nn.logsumexp(log_weights - jnp.sum((x[None, :] - centers) ** 2, axis=1) / (2 * scale**2))

    return Target(log_density, jnp.zeros(centers.shape[1]), data=(centers, log_weights))
