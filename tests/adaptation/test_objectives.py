"""What the objectives are at a perfect map, and that they notice another."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine

from helpers import Sinh
from tessmc.adaptation._objectives import fisher, kl_by_path, log_pushed, log_variance
from tessmc.kernels import Gaussian, StudentT


def target(x):
    return -jnp.sum(((x - 1) / 2) ** 2) / 2


PERFECT = Affine(jnp.ones(3), jnp.full(3, 2.0))
OTHER = Affine(jnp.zeros(3), jnp.full(3, 1.5))
DRAWS = 1 + 2 * jr.normal(jr.key(0), (200, 3))


def test_the_log_variance_is_zero_where_the_ratio_is_constant():
    def found(transport):
        return log_variance(jax.vmap(target)(DRAWS) - log_pushed(transport, Gaussian(), DRAWS))

    assert found(PERFECT) < 1e-8
    assert found(OTHER) > 0.1


def test_the_log_variance_is_linear_far_out():
    assert np.isclose(log_variance(jnp.array([0.0, 0.0, 10.0])), (2 * 10 - 2) / 3)
    assert np.isclose(log_variance(jnp.array([0.0, 0.0, 1.0])), 1 / 6)


def test_the_fisher_divergence_is_zero_for_a_perfect_map():
    scores = jax.vmap(jax.grad(target))(DRAWS)
    assert fisher(PERFECT, Gaussian(), DRAWS, scores) < 1e-8
    assert fisher(OTHER, Gaussian(), DRAWS, scores) > 0.1


def test_the_fisher_divergence_is_that_of_the_ratio():
    # A map whose Jacobian varies.
    bent = Sinh((3,))

    def log_ratio(reference):
        position, log_det = bent.transform_and_log_det(reference)
        return target(position) + log_det - StudentT(5).log_density(reference)

    gradients = jax.vmap(jax.grad(log_ratio))(jax.vmap(bent.inverse)(DRAWS))
    scores = jax.vmap(jax.grad(target))(DRAWS)
    direct = jnp.mean(jnp.sum(gradients**2, axis=1)) / 2
    assert np.isclose(fisher(bent, StudentT(5), DRAWS, scores), direct, rtol=1e-4)


@pytest.mark.parametrize("law", [Gaussian(), StudentT(0)], ids=["gaussian", "limit"])
def test_the_path_gradient_has_no_noise_at_a_perfect_map(law):
    def gradient(shift, few):
        return jax.grad(lambda shift: kl_by_path(Affine(shift, jnp.full(3, 2.0)), law, target, few))(shift)

    few = jr.normal(jr.key(1), (4, 3))
    assert jnp.allclose(gradient(jnp.ones(3), few), 0, atol=1e-6)
    many = jr.normal(jr.key(2), (20_000, 3))
    exact = jnp.full(3, -0.25)  # of |shift - 1|² / (2 · 2²) at 0
    assert jnp.allclose(gradient(jnp.zeros(3), many), exact, atol=0.02)
