"""The banana of Figure 1."""

import equinox as eqx
import jax.numpy as jnp
from flowjax.bijections import AbstractBijection
from jaxtyping import Array

from tessmc._types import Point, Scalar
from tessmc.targets import Target


def banana() -> Target:
    """π(x₁, x₂) ∝ exp(-[x₁²/8 + (x₂ - x₁²/4)²]/2), Figure 1."""
    return Target(_log_density, jnp.zeros(2))


def _log_density(x: Point) -> Scalar:
    return -(x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2) / 2


class BananaMap(AbstractBijection):
    """The exact map of Figure 1, T(u₁, u₂) = (√8 u₁, u₂ + 2u₁²)."""

    shape: tuple[int, ...] = eqx.field(default=(2,), static=True)
    cond_shape: None = eqx.field(default=None, static=True)

    def transform_and_log_det(self, x: Point, condition: None = None) -> tuple[Point, Array]:
        position = jnp.stack([jnp.sqrt(8) * x[0], x[1] + 2 * x[0] ** 2])
        return position.astype(x.dtype), jnp.log(8).astype(x.dtype) / 2

    def inverse_and_log_det(self, y: Point, condition: None = None) -> tuple[Point, Array]:
        reference = jnp.stack([y[0] / jnp.sqrt(8), y[1] - y[0] ** 2 / 4])
        return reference.astype(y.dtype), -jnp.log(8).astype(y.dtype) / 2
