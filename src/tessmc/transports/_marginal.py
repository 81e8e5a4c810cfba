"""Tails, one coordinate at a time."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array

from tessmc._arrays import put
from tessmc._types import Point

# |log a| stays below: what is learned from few draws far out should not overflow further out.
MAX_LOG_POWER = 1.5


class Tails(AbstractBijection):
    """y = shift + scale · sinh(a asinh u)/a in every coordinate, with an a of its own on the left and on the right.

    Near 0 it is linear, far out |y| grows like |u|^a: a > 1 makes a tail heavier, a < 1 lighter (Jones and Pewsey
    2009, "Sinh-arcsinh distributions"). It starts at the identity, a = 1.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: None = eqx.field(static=True)
    shift: Point
    log_scale: Point
    log_left: Point
    log_right: Point

    def __init__(self, dim: int, dtype: Any = float):
        self.shape, self.cond_shape = (dim,), None
        self.shift, self.log_scale, self.log_left, self.log_right = (put(np.zeros(dim), dtype) for _ in range(4))

    def transform_and_log_det(self, x: Point, condition: None = None) -> tuple[Point, Array]:
        power = self._power(x)
        bent = power * jnp.arcsinh(x)
        y = self.shift + jnp.exp(self.log_scale) * jnp.sinh(bent) / power
        return y, jnp.sum(self.log_scale + _log_cosh(bent) - jnp.log1p(x**2) / 2)

    def inverse_and_log_det(self, y: Point, condition: None = None) -> tuple[Point, Array]:
        standard = (y - self.shift) * jnp.exp(-self.log_scale)
        power = self._power(standard)
        bent = jnp.arcsinh(power * standard)
        x = jnp.sinh(bent / power)
        return x, -jnp.sum(self.log_scale + _log_cosh(bent) - jnp.log1p(x**2) / 2)

    def _power(self, point: Point) -> Array:
        log_power = jnp.where(point < 0, self.log_left, self.log_right)
        return jnp.exp(MAX_LOG_POWER * jnp.tanh(log_power / MAX_LOG_POWER))


def _log_cosh(x: Array) -> Array:
    # Of large numbers, too.
    return jnp.logaddexp(x, -x) - jnp.log(2.0)
