"""What the objectives are at a perfect map, and that they notice another."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine

from tessmc.adaptation._objectives import (
    FAR,
    MAX_WEIGHT,
    divergences_by_path,
    kl_from_target_by_path,
    log_pushed,
    log_variance,
    ratios_along_path,
    references_of,
)
from tessmc.kernels import Gaussian, StudentT


def target(x):
    return -jnp.sum(((x - 1) / 2) ** 2) / 2


GAUSSIAN = Gaussian()
PERFECT = Affine(jnp.ones(3), jnp.full(3, 2.0))
OTHER = Affine(jnp.zeros(3), jnp.full(3, 1.5))
DRAWS = 1 + 2 * jr.normal(jr.key(0), (200, 3))


def test_the_log_variance_is_zero_where_the_ratio_is_constant():
    def found(transport):
        return log_variance(jax.vmap(target)(DRAWS) - log_pushed(transport, GAUSSIAN, DRAWS))

    assert found(PERFECT) < 1e-8
    assert found(OTHER) > 0.1


def test_the_log_variance_is_linear_far_out():
    assert np.isclose(log_variance(jnp.array([0.0, 0.0, 10.0])), (2 * 10 - 2) / 3)
    assert np.isclose(log_variance(jnp.array([0.0, 0.0, 1.0])), 1 / 6)


def by_path(transport, log_density, references, share, law=GAUSSIAN):
    return divergences_by_path(ratios_along_path(transport, law, log_density, references), jnp.float32(share))


def gradient_of_shift(shift, references, share, law=GAUSSIAN):
    def loss(shift):
        return by_path(Affine(shift, jnp.full(3, 2.0)), target, references, share, law)

    return jax.grad(loss)(shift)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("law", [GAUSSIAN, StudentT(0)], ids=["gaussian", "limit"])
def test_the_path_gradient_has_no_noise_at_a_perfect_map(law, share):
    few = jr.normal(jr.key(1), (4, 3))
    assert jnp.allclose(gradient_of_shift(jnp.ones(3), few, share, law), 0, atol=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_both_divergences_have_their_gradients(share):
    """Between Gaussians of one spread both are |shift - 1|²/(2 · 2²)."""
    many = jr.normal(jr.key(2), (100_000, 3))
    exact = jnp.full(3, -0.1)
    assert jnp.allclose(gradient_of_shift(jnp.full(3, 0.6), many, share), exact, atol=0.01)


def test_the_divergences_differ_where_spreads_do():
    """KL(φ̂‖π) and KL(π‖φ̂) of a φ̂ with the scale σ have the derivatives σ/4 - 1/σ and 1/σ - 4/σ³, a dimension."""
    many = jr.normal(jr.key(3), (100_000, 1))

    def slope(scale, share):
        def loss(scale):
            transport = Affine(jnp.ones(1), scale)
            return by_path(transport, target, many, share)

        return jax.grad(loss)(jnp.array([scale]))[0]

    assert np.isclose(slope(2.5, 0.0), 2.5 / 4 - 1 / 2.5, atol=0.01)
    assert np.isclose(slope(2.5, 1.0), 1 / 2.5 - 4 / 2.5**3, atol=0.01)


def test_a_single_draw_does_not_decide():
    """One draw of 64 has all the weight, and counts sixteen times at the most."""

    def peaked(x):
        return jnp.where(x[0] > 2, 100.0, 0.0) + x[0]

    references = jnp.concatenate([jnp.full((1, 1), 3.0), jnp.zeros((63, 1))])
    gradient = jax.grad(lambda shift: by_path(Affine(shift, jnp.ones(1)), peaked, references, 1))(jnp.zeros(1))
    # At u, the slope of log φ̂ - log π is -u - 1.
    assert np.isclose(gradient[0], MAX_WEIGHT * -4 / 64, rtol=1e-4)


def test_draws_beyond_a_wall_are_left_out():
    def walled(x):
        return jnp.where(x[0] < 1, target(x), -jnp.inf)

    def summed_gradient(references, share):
        def loss(shift):
            return by_path(Affine(shift, jnp.ones(1)), walled, references, share)

        return len(references) * jax.grad(loss)(jnp.zeros(1))

    references = jnp.array([[0.0], [0.3], [5.0]])
    assert jnp.allclose(summed_gradient(references, 0.0), summed_gradient(references[:2], 0.0))
    assert jnp.isfinite(summed_gradient(references, 0.5)).all()


def gradient_at(positions, shift, scale, usual=1e30, log_density=target):
    """Of KL(π‖φ̂) by path gradients at positions, by the shift and the scale of an affine map."""

    def loss(parameters):
        transport = Affine(*parameters)
        ratios = ratios_along_path(transport, GAUSSIAN, log_density, references_of(transport, positions))
        return kl_from_target_by_path(ratios, jnp.float32(usual))

    return jax.grad(loss)((shift, scale))


def test_at_draws_of_the_target_the_path_gradient_is_that_of_the_divergence():
    """KL(π‖φ̂) of Gaussians, by shift and by scale: (shift - 1)/σ² and 1/σ - (4 + (shift - 1)²)/σ³, a dimension."""
    draws = 1 + 2 * jr.normal(jr.key(2), (200_000, 1))
    by_shift, by_scale = gradient_at(draws, jnp.array([0.6]), jnp.array([2.5]))
    assert np.isclose(by_shift[0], -0.4 / 2.5**2, atol=0.005)
    assert np.isclose(by_scale[0], 1 / 2.5 - (4 + 0.4**2) / 2.5**3, atol=0.005)


def test_at_a_perfect_map_no_position_moves_it():
    anywhere = 30 * jr.normal(jr.key(2), (5, 3))
    for gradient in gradient_at(anywhere, jnp.ones(3), jnp.full(3, 2.0)):
        assert jnp.allclose(gradient, 0, atol=1e-4)


def test_slopes_far_above_what_is_usual_count_for_less():
    """At 3 FAR above a third; beyond a wall nothing."""
    position = jnp.array([[5.0]])

    def slope(height):
        # With the identity for a map, r = height + x.
        def steep(x):
            return height + x[0] - x[0] ** 2 / 2

        return gradient_at(position, jnp.zeros(1), jnp.ones(1), 0.0, steep)[0][0]

    assert np.isclose(slope(-5.0), -1)
    assert np.isclose(slope(3 * FAR - 5), -1 / 3)
    beyond = gradient_at(position, jnp.zeros(1), jnp.ones(1), 0.0, lambda x: jnp.where(x[0] < 1, target(x), -jnp.inf))
    assert beyond[0][0] == 0
