"""The same model in NumPyro and in PyMC: one log density, and the posterior that NUTS finds."""

import warnings

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from numpyro.infer import MCMC, NUTS

import tessmc
from tessmc.diagnostics import standard_errors
from twin_models import TWINS

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.usefixtures("ranks_promoted"),
]
SHORT = {"num_chains": 64, "num_warmup": 100, "num_samples": 100, "progress": False}


@pytest.fixture(params=TWINS)
def twins(request):
    return TWINS[request.param]


def in_chart(target, chart, position):
    """The log density with respect to coordinates that do not depend on how a language transforms its variables."""
    jacobian = jax.jacfwd(lambda position: chart(target.constrain(position)))(position)
    return target.log_density(position) - jnp.linalg.slogdet(jacobian)[1]


def test_both_languages_have_the_same_log_density(twins):
    with jax.enable_x64(True):
        one, other = tessmc.from_numpyro(twins.numpyro), tessmc.from_pymc(twins.pymc())
        differences = []
        for position in jr.normal(jr.key(0), (4, one.dim)):
            values = one.constrain(position)
            translated = other.unconstrain(twins.translate(values))
            assert np.allclose(twins.chart(other.constrain(translated)), twins.chart(values))
            differences.append(in_chart(one, twins.chart, position) - in_chart(other, twins.chart, translated))
    # Up to a constant: the two normalise LKJ's density differently.
    assert np.ptp(differences) < 1e-4


def test_both_have_the_posterior_of_nuts(twins):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nuts = MCMC(
            NUTS(twins.numpyro, target_accept_prob=0.95),
            num_warmup=400,
            num_samples=500,
            num_chains=8,
            chain_method="vectorized",
            progress_bar=False,
        )
        nuts.run(jr.key(1))
    expected = moments({name: np.asarray(values) for name, values in nuts.get_samples(group_by_chain=True).items()})
    for target in (tessmc.from_numpyro(twins.numpyro), tessmc.from_pymc(twins.pymc())):
        result = tessmc.sample(target, **SHORT)
        found = moments({name: result.posterior[name] for name in expected if name in result.posterior})
        assert found
        for name, (mean, error) in found.items():
            assert np.all(np.abs(mean - expected[name][0]) < 4 * np.hypot(error, expected[name][1])), name


def moments(draws):
    """Means, and their Monte Carlo errors, of entries that vary."""
    found = {}
    for name, values in draws.items():
        flat = values.reshape(*values.shape[:2], -1)
        flat = flat[..., flat.std((0, 1)) > 1e-6]
        found[name] = flat.mean((0, 1)), standard_errors(flat)[0]
    return found
