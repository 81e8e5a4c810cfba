"""The map of the automatic warm-up."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from helpers import shaken
from tessmc.adaptation._fit import trainable
from tessmc.transports import ladder_map, rung_mask
from tessmc.transports._coupling import AffineCoupling
from tessmc.transports._ladder import orders


@pytest.mark.parametrize(("dim", "num"), [(1, 4), (2, 1), (5, 3), (16, 4), (51, 6), (300, 9)])
def test_any_two_coordinates_stand_apart_in_some_layer(dim, num):
    found = orders(np.random.default_rng(0), dim, num)
    assert all(np.array_equal(np.sort(order), np.arange(dim)) for order in found)
    halves = np.array([np.argsort(order) < (dim + 1) // 2 for order in found])
    assert len({tuple(column) for column in halves.T}) == dim


def test_a_ladder_begins_at_the_identity():
    ladder = ladder_map(jr.key(0), 3, np.dtype("float32"))
    point = jr.normal(jr.key(2), (3,))
    assert jnp.allclose(eqx.filter_jit(ladder.transform)(point), point, atol=1e-6)


def test_points_keep_the_precision_that_was_asked_for(dtype):
    del dtype  # the test runs with 64-bit numbers on and off
    ladder = ladder_map(jr.key(0), 3, np.dtype("float32"))
    assert ladder.transform(jnp.zeros(3, jnp.float32)).dtype == jnp.float32


def test_what_lies_far_out_counts_by_its_logarithm():
    coupling = AffineCoupling(np.random.default_rng(0), 2, moves_first=True, width=4, has_skip=True)
    coupling = eqx.tree_at(lambda layer: layer.skip, coupling, jnp.ones((2, 1)))
    near, far = (coupling.transform(jnp.array([0.0, given]))[0] for given in (0.1, 1e6))
    assert jnp.isclose(near, 0.1, rtol=0.01)
    assert 10 < far < 50


def test_every_coordinate_is_told_of_every_other():
    jacobian = jax.jacobian(eqx.filter_jit(shaken(ladder_map(jr.key(0), 7, np.dtype("float32")), scale=0.1).transform))(
        jnp.ones(7)
    )
    assert jnp.all(jnp.abs(jacobian) > 1e-6)


def test_a_rung_trains_what_it_names():
    ladder = ladder_map(jr.key(0), 3, np.dtype("float32"))
    sizes = [
        int(ravel_pytree(trainable(rung_mask(ladder, rung))[0])[0].sum()) for rung in ("affine", "tails", "couplings")
    ]
    everything = ravel_pytree(trainable(ladder)[0])[0].size
    assert 0 == sizes[0] < sizes[1] < sizes[2] == everything
