"""The closed-form affine layer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tessmc.transports import FixedAffine, quadratic_terms, spread_of, spread_of_scores, spread_of_values

COVARIANCE = np.array([[4.0, 1.8, 0.0], [1.8, 1.0, 0.0], [0.0, 0.0, 1e-8]])
MEAN = np.array([1.0, -2.0, 3e-4])


def covariance_of(spread):
    root = spread.scale[:, None] * spread.factor
    return root @ root.T


def draws(num, seed=0):
    return np.random.default_rng(seed).multivariate_normal(MEAN, COVARIANCE, num)


@pytest.mark.parametrize("dof", [0, 30])
def test_mean_and_covariance_of_a_gaussian(dof):
    spread = spread_of(draws(20_000), dof)
    root = np.sqrt(np.diag(COVARIANCE))
    assert np.all(np.abs(spread.shift - MEAN) < 0.05 * root)
    assert np.all(np.abs(covariance_of(spread) - COVARIANCE) < 0.1 * np.outer(root, root))


def test_a_student_t_is_found_despite_its_tails():
    points = stats.multivariate_t(MEAN[:2], COVARIANCE[:2, :2], df=2, seed=1).rvs(20_000)
    assert np.allclose(covariance_of(spread_of(points, 2)), COVARIANCE[:2, :2], rtol=0.1)
    likely = {dof: spread_of(points, dof).log_density(points, dof).mean() for dof in (0, 10, 2)}
    assert max(likely, key=likely.get) == 2


def test_the_log_density_is_that_of_scipy():
    spread = spread_of(draws(500)[:, :2])
    points = draws(5, seed=2)[:, :2]
    covariance = covariance_of(spread)
    assert np.allclose(
        spread.log_density(points, 0), stats.multivariate_normal(spread.shift, covariance).logpdf(points)
    )
    assert np.allclose(spread.log_density(points, 4), stats.multivariate_t(spread.shift, covariance, 4).logpdf(points))


def test_few_points_in_many_dimensions_are_shrunk():
    points = np.random.default_rng(3).normal(size=(40, 30))
    assert np.linalg.cond(covariance_of(spread_of(points))) < 50
    assert np.linalg.cond(covariance_of(spread_of(points, shrinkage=0.0))) > 100


def test_points_that_agree_have_a_spread_all_the_same():
    spread = spread_of(np.full((10, 2), 5.0), 5)
    assert np.all(np.isfinite(spread.pull(np.full((1, 2), 5.0))))
    assert np.all(spread.scale > 0)


def test_scores_give_the_covariance_wherever_the_points_are():
    points = np.random.default_rng(4).uniform(-1, 5, (50, 3)) * np.array([1, 1, 1e-4])
    scores = -np.linalg.solve(COVARIANCE, (points - MEAN).T).T
    spread = spread_of_scores(points, scores)
    root = np.sqrt(np.diag(COVARIANCE))
    assert np.allclose(covariance_of(spread) / np.outer(root, root), COVARIANCE / np.outer(root, root), atol=1e-3)
    assert np.allclose(spread.shift / root, MEAN / root, atol=1e-3)


def test_scores_at_few_points_in_many_dimensions_give_the_scales():
    scale = np.linspace(0.5, 2, 120)
    points = 1.5 * np.random.default_rng(9).normal(size=(28, 120))
    spread = spread_of_scores(points, -(points - 3) / scale**2)
    assert np.allclose(spread.scale, scale, rtol=1e-6)
    assert np.allclose(spread.shift, 3, atol=1e-5)
    assert np.allclose(spread.factor, np.eye(120), atol=1e-6)


@pytest.mark.parametrize("height", [1e3, 1e8, 1e15, 1e25])
def test_a_score_far_out_does_no_harm(height):
    rng = np.random.default_rng(10)
    points, scores = rng.normal(size=(2, 28, 120))
    points[3], scores[3], scores[5, 7] = height, -height, height**2
    spread = spread_of_scores(points, scores)
    assert np.isfinite(spread.log_density(points, 0)).all()


def log_normal_at(points):
    away = points - MEAN
    return 7 - np.sum(away * np.linalg.solve(COVARIANCE, away.T).T, axis=1) / 2


def test_values_alone_show_a_gaussian_wherever_they_are():
    root = np.sqrt(np.diag(COVARIANCE))
    points = MEAN + root * np.random.default_rng(7).uniform(-0.3, 0.7, (quadratic_terms(3) + 5, 3))
    spread = spread_of_values(points, log_normal_at(points), spread_of(points))
    assert np.allclose(covariance_of(spread) / np.outer(root, root), COVARIANCE / np.outer(root, root), atol=1e-3)
    assert np.allclose(spread.shift / root, MEAN / root, atol=1e-3)


def test_where_a_density_bends_upwards_the_spread_stays_finite():
    points = np.random.default_rng(8).normal(size=(200, 2))
    spread = spread_of_values(points, points[:, 0] ** 2 - points[:, 1] ** 2, spread_of(points))
    assert np.allclose(spread.scale, [20, 0.7], rtol=0.2)
    again = spread_of_values(np.repeat(points[:20], 10, axis=0), np.zeros(200), spread_of(points))
    assert np.isfinite(covariance_of(again)).all()


def test_a_layer_of_very_different_scales_is_undone():
    layer = FixedAffine(MEAN, np.array([1e-8, 1.0, 1e8]), np.linalg.cholesky(np.eye(3) + 0.5), np.dtype("float32"))
    points = jnp.asarray(np.random.default_rng(6).normal(size=(100, 3)), jnp.float32)
    shifted = eqx.tree_at(lambda layer: layer.shift, layer, jnp.zeros(3))
    again = jax.vmap(shifted.inverse)(jax.vmap(shifted.transform)(points))
    assert jnp.allclose(again, points, atol=1e-5)


def test_push_undoes_pull():
    spread = spread_of(draws(100), 5)
    points = draws(7, seed=5)
    assert np.allclose(spread.push(spread.pull(points)), points)
