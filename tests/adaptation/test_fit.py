"""Objectives and the loop that minimises them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine, Identity

from helpers import shaken
from tessmc.adaptation import Decay, begin_fit, fit, kl_from_reference, kl_from_target
from tessmc.adaptation._fit import fit_side_by_side
from tessmc.transports import paper_coupling

SCHEDULE = Decay(0.02, 0.1, 500)


def from_target(transport, key, positions):
    del key
    return kl_from_target(transport, positions)


def test_kl_from_target_is_the_cross_entropy():
    """(5) for a Gaussian map: -E[log φ̂(x)] less the constant d/2 log 2π, in closed form."""
    positions = jnp.array([[1.0, 2.0], [3.0, -1.0]])
    shift, scale = jnp.array([0.5, -0.5]), jnp.array([2.0, 0.5])
    z = (positions - shift[None, :]) / scale[None, :]
    expected = jnp.mean(jnp.sum(z**2 / 2 + jnp.log(scale)[None, :], axis=1))
    assert jnp.isclose(kl_from_target(Affine(shift, scale), positions), expected)


def test_kl_from_reference_is_what_it_says():
    """(6) for a Gaussian map and target, with draws whose mean and variance are exactly 0 and 1."""
    references = jnp.array([[1.0, -1.0], [-1.0, 1.0]])
    shift, scale = jnp.array([0.5, -0.5]), jnp.array([2.0, 0.5])
    expected = jnp.sum((shift**2 + scale**2) / 2 - jnp.log(scale))
    found = kl_from_reference(Affine(shift, scale), lambda x: -jnp.sum(x**2) / 2, references)
    assert jnp.isclose(found, expected)


def test_objectives_are_least_at_the_true_map():
    """Draws of a Gaussian: (5) and (6) have zero gradient at its mean and sd, and not elsewhere."""
    references = jr.normal(jr.key(0), (4000, 2))
    references = (references - references.mean(0)[None, :]) / references.std(0)[None, :]
    mean, sd = jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])
    positions = mean[None, :] + sd[None, :] * references

    def log_density(x):
        return -jnp.sum(((x - mean) / sd) ** 2) / 2

    for loss in (
        lambda shift, log_sd: kl_from_target(Affine(shift, jnp.exp(log_sd)), positions),
        lambda shift, log_sd: kl_from_reference(Affine(shift, jnp.exp(log_sd)), log_density, references),
    ):
        gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
        assert all(jnp.allclose(part, 0, atol=1e-4) for part in gradient(mean, jnp.log(sd)))
        assert not any(jnp.allclose(part, 0, atol=1e-2) for part in gradient(mean + 0.3, jnp.log(sd) + 0.3))


def test_a_fit_learns_a_banana():
    u = jr.normal(jr.key(1), (512, 2))
    positions = jnp.stack([u[:, 0], u[:, 1] + u[:, 0] ** 2], axis=1)
    state = begin_fit(paper_coupling(jr.key(0), 2, width=16))
    before = kl_from_target(state.transport, positions)
    state = fit(from_target, state, jr.key(2), positions, SCHEDULE, jnp.int32(500))
    assert state.loss < before - 0.5
    assert state.loss < 1.1  # a perfect map has d/2 = 1
    assert state.num_skipped == 0
    assert state.num_steps == 500


def test_fits_in_parts_are_one_fit():
    positions = jr.normal(jr.key(1), (64, 2)) * 3
    whole = fit(from_target, begin_fit(paper_coupling(jr.key(0), 2)), jr.key(2), positions, SCHEDULE, jnp.int32(30))
    parts = begin_fit(paper_coupling(jr.key(0), 2))
    for num_steps in (10, 0, 20):
        parts = fit(from_target, parts, jr.key(2), positions, SCHEDULE, jnp.int32(num_steps))
    assert not eqx.tree_equal(whole.transport, begin_fit(paper_coupling(jr.key(0), 2)).transport)
    assert eqx.tree_equal(whole, parts)


def nan_in_odd_steps(transport, key, data):
    """The loss is NaN for about half of the keys, its gradient with it."""
    bad = jr.bernoulli(key)
    return kl_from_target(transport, data) * jnp.where(bad, jnp.nan, 1.0)


def infinite_gradient(transport, key, data):
    """A finite loss, √0 at the start, whose gradient is not finite."""
    del key
    reference = jax.vmap(transport.inverse)(data)
    return jnp.sum(jnp.sqrt(jnp.abs(reference - data)))


def test_steps_that_are_not_finite_are_skipped_and_counted():
    positions = 2 * jr.normal(jr.key(1), (64, 2))
    start = begin_fit(paper_coupling(jr.key(0), 2))
    state = fit(nan_in_odd_steps, start, jr.key(2), positions, SCHEDULE, jnp.int32(100))
    assert 30 < state.num_skipped < 70
    assert jnp.isfinite(state.loss)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(eqx.filter(state, eqx.is_inexact_array)))
    assert state.loss < kl_from_target(start.transport, positions)


def test_a_gradient_that_is_not_finite_is_skipped_too():
    start = begin_fit(paper_coupling(jr.key(0), 2))
    state = fit(infinite_gradient, start, jr.key(2), jnp.ones((4, 2)), SCHEDULE, jnp.int32(5))
    assert state.num_skipped == 5
    assert eqx.tree_equal(state.transport, start.transport)


def test_the_learning_rate_decays_by_the_factor_over_the_horizon():
    schedule = Decay(0.5, 0.1, 400)
    assert jnp.allclose(schedule(jnp.array(0)), 0.5)
    assert jnp.allclose(schedule(jnp.array(400)), 0.05)
    assert jnp.allclose(schedule(jnp.array(200)), 0.5 * 10**-0.5)


def test_another_horizon_compiles_nothing_new():
    traces = []

    def objective(transport, key, positions):
        del key
        traces.append(None)
        return kl_from_target(transport, positions)

    state = begin_fit(shaken(paper_coupling(jr.key(0), 2)))
    for horizon, num_steps in ((10, 1), (300, 5)):
        fit(objective, state, jr.key(0), jnp.ones((4, 2)), Decay(0.1, 0.1, horizon), jnp.int32(num_steps))
    assert len(traces) == 1


def test_a_map_without_parameters_cannot_be_trained():
    with pytest.raises(ValueError, match="pass num_warmup=0"):
        begin_fit(Identity((2,)))


def from_reference(transport, key, scale):
    return kl_from_reference(transport, lambda x: -jnp.sum((x / scale) ** 2) / 2, jr.normal(key, (4, 2), scale.dtype))


@pytest.mark.parametrize("has_x64", [False, True])
def test_fits_side_by_side_meet_in_the_middle(has_x64):
    """In the precision of the thread that asks, which is not that of new threads."""
    with jax.enable_x64(has_x64):
        state = begin_fit(Affine(jnp.zeros(2), jnp.ones(2)))

        def run(key):
            return fit(from_reference, state, key, jnp.asarray(2.0), SCHEDULE, jnp.int32(20))

        keys = [jr.key(1), jr.key(2)]
        ways = [run(key).transport.loc for key in keys]
        found = fit_side_by_side(run, keys)
        assert not jnp.allclose(*ways)
        assert jnp.allclose(found.transport.loc, sum(ways) / 2)
        assert found.transport.loc.dtype == ways[0].dtype == (jnp.float64 if has_x64 else jnp.float32)
        assert found.num_steps == 20
