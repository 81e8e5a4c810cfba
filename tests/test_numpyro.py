"""Our sampler as a kernel of NumPyro's MCMC."""

import arviz as az
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro.distributions as dist
import pytest
from flowjax.bijections import Affine
from numpyro.infer import MCMC, Predictive

import tessmc
from targets.test_numpyro import X, Y, line

pytestmark = pytest.mark.usefixtures("ranks_promoted")


def mcmc_of(kernel, num_warmup=60, num_chains=16, **options):
    given = {"num_samples": 50, "chain_method": "vectorized", "progress_bar": False, **options}
    return MCMC(kernel, num_warmup=num_warmup, num_chains=num_chains, **given)


@pytest.fixture(scope="module")
def mcmc(ranks_promoted):  # noqa: ARG001
    mcmc = mcmc_of(tessmc.numpyro.TESS(line), num_chains=32)
    mcmc.run(jr.PRNGKey(0), X, Y, extra_fields=("num_evaluations", "potential_energy"))
    return mcmc


def test_the_draws_are_those_of_the_posterior(mcmc):
    draws = mcmc.get_samples(group_by_chain=True)
    assert {name: values.shape for name, values in draws.items()} == {"slope": (32, 50), "noise": (32, 50)}
    slopes, noises = np.meshgrid(np.linspace(-4, 6, 400), np.linspace(0.01, 6, 400))
    terms = dist.Normal(slopes[..., None] * X, noises[..., None]).log_prob(Y).sum(-1)
    weights = np.exp(terms - 0.5 * slopes**2 - 0.5 * noises**2)
    for name, grid in (("slope", slopes), ("noise", noises)):
        mean = (weights * grid).sum() / weights.sum()
        error = az.mcse(np.asarray(draws[name]))
        assert abs(draws[name].mean() - mean) < 4 * error
        # Chains that repeat themselves have a mean, too.
        assert az.ess(np.asarray(draws[name])) > 400


def test_numpyro_can_do_with_it_what_it_does_with_its_own(mcmc, capsys):
    mcmc.print_summary()
    assert "noise" in capsys.readouterr().out
    extra = mcmc.get_extra_fields(group_by_chain=True)
    assert extra["num_evaluations"].shape == extra["potential_energy"].shape == (32, 50)
    assert 1 <= extra["num_evaluations"].mean() < 3
    predicted = Predictive(line, mcmc.get_samples())(jr.key(1), X)
    assert predicted["y"].shape == (1600, 7)
    data = az.from_numpyro(mcmc)
    assert data.posterior["slope"].shape == (32, 50)
    assert data.log_likelihood["y"].shape == (32, 50, 7)


def test_potential_energies_are_those_of_the_draws(mcmc):
    target = tessmc.from_numpyro(line, X, Y)
    draws = mcmc.get_samples()
    energies = -jax.vmap(lambda slope, noise: target.log_density(jnp.stack([jnp.log(noise), slope])))(
        draws["slope"], draws["noise"]
    )
    assert np.allclose(mcmc.get_extra_fields()["potential_energy"], energies, atol=1e-3)


def test_it_goes_on_where_it_was(mcmc):
    last = mcmc.last_state
    mcmc.post_warmup_state = last
    mcmc.run(last.rng_key, X, Y)
    assert mcmc.get_samples()["slope"].shape == (1600,)
    assert mcmc.last_state.i > last.i


def test_a_map_may_be_given(capfd, monkeypatch):
    # Where these are set NumPyro shows no bar.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.delenv("CI", raising=False)
    kernel = tessmc.numpyro.TESS(line, transport=Affine(jnp.zeros(2), jnp.ones(2)))
    mcmc = mcmc_of(kernel, num_warmup=0, num_samples=5, num_chains=4, progress_bar=True)
    mcmc.run(jr.key(0), X, Y, init_params={"slope": jnp.zeros(4), "noise": jnp.zeros(4)})
    assert mcmc.get_samples()["slope"].shape == (20,)
    assert "evaluations a draw" in capfd.readouterr().err


def test_chains_that_do_not_move_together_are_refused():
    with pytest.raises(ValueError, match='chain_method="vectorized"'):
        mcmc_of(tessmc.numpyro.TESS(line), chain_method="sequential").run(jr.key(0), X, Y)
    with pytest.raises(ValueError, match='chain_method="vectorized"'):
        mcmc_of(tessmc.numpyro.TESS(line), num_chains=1).run(jr.key(0), X, Y)
