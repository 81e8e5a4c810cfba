"""Tails, one coordinate at a time."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tessmc.transports import Tails


def test_each_side_has_a_tail_of_its_own():
    powers = jnp.full(1, 0.5), jnp.full(1, -0.5)
    tails = eqx.tree_at(lambda tails: (tails.log_left, tails.log_right), Tails(1), powers)

    def growth(sign):
        far, further = (tails.transform(sign * jnp.full(1, size))[0] for size in (1e3, 1e4))
        return np.log10(further / far)

    assert 1.4 < growth(-1) < 1.7
    assert 0.55 < growth(1) < 0.7


def test_it_starts_at_the_identity():
    points = jnp.array([-3.0, 0.0, 200.0])
    assert jnp.allclose(Tails(3).transform(points), points, rtol=1e-5)
