"""Targets against formulas written another way."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

from tessmc.models import (
    BananaMap,
    banana,
    funnel,
    gaussian,
    mixture,
    oxygen,
    oxygen_flat,
    predator_prey,
    regime_switching,
    ring,
    sparse_logistic,
    student_t,
)


def test_the_banana_is_a_bent_gaussian():
    transport, density = BananaMap(), banana().log_density
    for reference in jr.normal(jr.key(0), (5, 2)):
        position, log_det = transport.transform_and_log_det(reference)
        expected = -jnp.sum(reference**2) / 2
        assert jnp.isclose(density(position) + log_det, expected + jnp.log(8) / 2, atol=1e-5)


@pytest.mark.parametrize("dim", [2, 10])
def test_the_funnel_is_nested_gaussians(dim):
    def scipy_density(x):
        return stats.norm.logpdf(2 * x[0], scale=3) + stats.norm.logpdf(x[1:], scale=float(jnp.exp(x[0]))).sum()

    density = funnel(dim).log_density
    points = jr.normal(jr.key(1), (6, dim))
    differences = [float(density(x)) - scipy_density(x) for x in points]
    assert max(differences) - min(differences) < 1e-3


def test_a_funnel_names_its_parts():
    value = jax.jit(lambda x: funnel(4).constrain(x))(jnp.arange(4.0))
    assert {name: part.shape for name, part in value.items()} == {"log_scale": (), "z": (3,)}


def test_a_funnel_of_one_dimension_is_refused():
    with pytest.raises(ValueError, match="at least 2, got 1"):
        funnel(1)


# --- oxygen --------------------------------------------------------------------------------------


def test_oxygen_is_a_curve_with_noise():
    times = np.arange(20) / 4
    target, flat = oxygen(), oxygen_flat()
    _, demand = target.data

    def log_likelihood(first, second):
        return stats.norm.logpdf(demand, first * (1 - np.exp(-second * times)), np.sqrt(2e-4)).sum()

    low, high = np.array([-0.5, -2.0]), np.array([0.4, -1.5])
    values = [jax.tree.map(float, target.constrain(jnp.asarray(point))) for point in (low, high)]
    jacobians = [np.log(expit(point) * expit(-point)).sum() for point in (low, high)]
    expected = np.diff(
        [log_likelihood(*value.values()) + extra for value, extra in zip(values, jacobians, strict=True)]
    )
    found = target.log_density(jnp.asarray(high)) - target.log_density(jnp.asarray(low))
    assert np.isclose(found, expected[0], rtol=1e-4)
    found = flat.log_density(jnp.array([1.0, 0.1])) - flat.log_density(jnp.array([1.2, 0.09]))
    assert np.isclose(found, log_likelihood(1.0, 0.1) - log_likelihood(1.2, 0.09), rtol=1e-3)


# --- models with data ----------------------------------------------------------------------------

# Points and log densities (with -log y, and with the transforms' log-determinants) published with posteriordb's
# hudson_lynx_hare-lotka_volterra, in the order alpha, beta, gamma, delta, p0, q0, sigma_p, sigma_q.
CHECK_POINTS = [
    ((0.476243, 0.0218016, 0.943388, 0.0311668, 30.1462, 5.21438, 0.219003, 0.254075), -137.527751),
    ((0.426816, 0.0221044, 0.956091, 0.0335151, 30.5458, 6.38933, 0.266172, 0.23022), -139.094198),
    ((0.675375, 0.0348327, 0.663477, 0.0185571, 32.5595, 5.26995, 0.350901, 0.242303), -141.546029),
]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Small files in the place of the data sets."""
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "google_returns.csv", rng.normal(scale=0.03, size=40), header="return", comments="")
    credit = np.column_stack([rng.integers(0, 5, (30, 24)), rng.integers(1, 3, 30)])
    np.savetxt(tmp_path / "german_credit_numeric.csv", credit, delimiter=",", header="x", comments="")
    monkeypatch.setenv("TESSMC_DATA", str(tmp_path))
    return credit


def test_predator_prey_at_published_points():
    target = predator_prey("1900_1920")
    names = ("alpha", "beta", "gamma", "delta", "p0", "q0", "sigma_p", "sigma_q")
    for values, expected in CHECK_POINTS:
        point = target.unconstrain({name: jnp.asarray(value) for name, value in zip(names, values, strict=True)})
        # Our density is of log y.
        assert np.isclose(target.log_density(point) - target.data[0].sum(), expected, atol=2e-3)


def test_the_step_of_the_solver_is_fine_enough():
    coarse, fine = predator_prey("1900_1920"), predator_prey("1900_1920", steps_a_year=80)
    for seed in range(5):
        point = jnp.log(jnp.asarray(CHECK_POINTS[0][0]))[jnp.array([0, 1, 3, 2, 4, 5, 6, 7])]
        point = point + 0.1 * jr.normal(jr.key(seed), (8,))
        assert abs(coarse.log_density(point) - fine.log_density(point)) < 0.02


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("make", [lambda: predator_prey("1900_1920"), regime_switching, sparse_logistic])
def test_values_and_gradients_are_finite_far_out(make):
    target = make()
    for radius in (1.0, 5.0, 20.0):
        points = radius * jr.normal(jr.key(0), (50, target.dim))
        values, gradients = jax.jit(jax.vmap(jax.value_and_grad(target.log_density)))(points)
        if radius < 10:
            assert np.isfinite(values).all()
            assert np.isfinite(gradients).all()
        assert not np.any(np.asarray(values) == np.inf)


@pytest.mark.usefixtures("data")
def test_regime_switching_sums_over_all_paths():
    target = regime_switching()
    returns = np.asarray(target.data[0])
    point = 0.3 * np.random.default_rng(1).normal(size=9)
    value = jax.tree.map(np.asarray, target.constrain(jnp.asarray(point, jnp.float32)))
    stay, before = value["stay"], np.concatenate([[value["r0"]], returns[:-1]])
    moves = np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
    means = np.stack([np.full(len(returns), value["alpha"][0]), value["alpha"][1] + value["rho"] * before], 1)
    log_normals = stats.norm.logpdf(returns[:, None], means, value["sigma"])
    regimes = np.log([value["xi0"], 1 - value["xi0"]])
    for row in log_normals:
        regimes = logsumexp(regimes[:, None] + np.log(moves), axis=0) + row
    prior = (
        stats.norm.logpdf(value["alpha"], 0, 0.1).sum()
        + stats.norm.logpdf(value["rho"], 1, 0.1)
        + stats.halfcauchy.logpdf(value["sigma"]).sum()
        + stats.beta.logpdf(stay, 10, 2).sum()
        + stats.norm.logpdf(value["r0"])
        + stats.beta.logpdf(value["xi0"], 2, 2)
    )
    jacobian = np.log(value["rho"]) + np.log(value["sigma"]).sum() + np.log(stay * (1 - stay)).sum()
    jacobian += np.log(value["xi0"] * (1 - value["xi0"]))
    constants = 2 * stats.halfcauchy.logpdf(0) + 2 * stats.beta.logpdf(0.5, 10, 2) - 2 * 10 * np.log(0.5)
    constants += stats.beta.logpdf(0.5, 2, 2) - 2 * np.log(0.5)
    expected = logsumexp(regimes) + prior + jacobian - constants
    assert np.isclose(target.log_density(jnp.asarray(point, jnp.float32)), expected, rtol=1e-4)


def test_sparse_logistic_is_a_bernoulli_regression(data):
    target = sparse_logistic()
    assert target.dim == 51
    features = data[:, :-1]
    design = 2 * (features - features.min(0)) / np.ptp(features, axis=0) - 1
    design = np.column_stack([np.ones(30), design])

    def expected(value):
        probability = expit(design @ (value["tau"] * value["lambda"] * value["beta"]))
        scales = np.append(value["lambda"], value["tau"])
        return (
            stats.bernoulli.logpmf(data[:, -1] == 1, probability).sum()
            + stats.norm.logpdf(value["beta"]).sum()
            + stats.gamma.logpdf(scales, 0.5, scale=2).sum()
            + np.log(scales).sum()
        )

    points = 0.5 * jr.normal(jr.key(3), (2, 51))
    exact = [expected(jax.tree.map(np.asarray, target.constrain(point))) for point in points]
    found = [target.log_density(point) for point in points]
    assert np.isclose(found[1] - found[0], exact[1] - exact[0], rtol=1e-4)


def test_other_years_are_refused():
    with pytest.raises(ValueError, match="'1900_1920'"):
        predator_prey("1900")


# --- targets with known answers ------------------------------------------------------------------


def differences(density, expected, dim):
    """Log densities are known up to a constant: they differ from the right ones by the same everywhere."""
    points = 3 * np.random.default_rng(0).normal(size=(5, dim)).astype(np.float32)
    return np.ptp([float(density(jnp.asarray(x))) - float(expected(x.astype(float))) for x in points])


def test_a_gaussian_has_the_condition_that_was_asked_for():
    target = gaussian(6, condition=100.0)
    covariance = np.linalg.inv(np.asarray(target.data[0], float))
    assert np.isclose(np.linalg.cond(covariance), 100, rtol=1e-3)
    assert differences(target.log_density, stats.multivariate_normal(np.zeros(6), covariance).logpdf, 6) < 1e-3


def test_a_student_t_is_scipys():
    expected = stats.multivariate_t(np.zeros(4), np.eye(4), df=2.5).logpdf
    assert differences(student_t(4, dof=2.5).log_density, expected, 4) < 1e-4


def test_a_ring_is_normal_in_its_radius():
    expected = stats.norm(2.0, 0.5).logpdf
    assert differences(ring(2.0, 0.5).log_density, lambda x: expected(np.linalg.norm(x)), 2) < 1e-3


def test_a_mixture_is_a_sum():
    parts = [stats.multivariate_normal(mean, 0.49 * np.eye(2)).pdf for mean in ([0.0, 1.0], [4.0, -1.0])]
    target = mixture([[0.0, 1.0], [4.0, -1.0]], [3.0, 1.0], scale=0.7)
    assert differences(target.log_density, lambda x: np.log(3 * parts[0](x) + parts[1](x)), 2) < 1e-3


@pytest.mark.parametrize(("means", "weights"), [([[0.0], [1.0]], [1.0]), ([0.0, 1.0], [1.0, 1.0]), ([[0.0]], [0.0])])
def test_a_mixture_needs_a_mean_for_each_weight(means, weights):
    with pytest.raises(ValueError, match="a row of `means` for each of its `weights`"):
        mixture(means, weights)
