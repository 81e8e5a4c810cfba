"""The written-out Threefry gives JAX's own numbers, bit for bit."""

import jax
import jax.numpy as jnp
import jax.random as jr
import pytest

from tessmc._random import as_key, split, straight, streams

KEY = jr.key(123)


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: jr.normal(key, (7, 3)),
        lambda key: jr.uniform(key, (5,), minval=-2.0),
        lambda key: jr.exponential(key),
        lambda key: jr.bits(key, (9,), jnp.uint8),
        lambda key: jr.key_data(jr.split(key, (3, 2))),
        lambda key: jr.key_data(jr.fold_in(key, 2**31 + 5)),
        lambda key: jr.normal(jr.split(jr.fold_in(key, 1))[1], (4,)),
        lambda key: jax.vmap(lambda k: jr.normal(k, (3,)))(jr.split(key, 4)),
    ],
)
def test_same_numbers_as_jax(draw, dtype):
    del dtype  # the test runs with 64-bit numbers on and off
    assert jnp.array_equal(draw(straight(KEY)), draw(KEY))


def test_keys_made_on_the_host_are_those_of_jax():
    expected = jr.key_data(jr.split(KEY, 5))
    assert jnp.array_equal(jr.key_data(streams(KEY, 5)), expected)
    assert jnp.array_equal(jnp.stack([jr.key_data(key) for key in split(KEY, 5)]), expected)
    assert jnp.array_equal(jr.key_data(streams(KEY, 5)[3]), jr.key_data(jr.fold_in(KEY, 3)))


def test_a_straight_key_stays_as_it_is():
    key = straight(KEY)
    assert straight(key) is key


@pytest.mark.parametrize("impl", ["rbg", "unsafe_rbg"])
def test_streams_of_other_generators_are_as_good(impl):
    """JAX's `rbg` would give all chains of a `vmap` the numbers of the first."""
    keys = jax.vmap(jr.fold_in, in_axes=(None, 0))(straight(jr.key(0, impl=impl)), jnp.arange(100))
    assert len(jnp.unique(jax.vmap(jr.uniform)(keys))) == 100
    assert not jnp.array_equal(jr.key_data(keys), jr.key_data(jr.split(straight(jr.key(1, impl=impl)), 100)))


def test_keys_of_other_generators_become_threefry():
    key = as_key(jr.key(3, impl="rbg"))
    assert jr.key_data(key).shape == (2,)
    assert jnp.array_equal(jr.key_data(as_key(jr.key_data(key))), jr.key_data(key))
