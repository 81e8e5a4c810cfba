"""Targets against formulas written another way."""

import jax
import jax.numpy as jnp
import jax.random as jr
import pytest
from scipy import stats

from tessmc.models import BananaMap, banana, funnel


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
