"""NumPyro models as targets: names, shapes, labels, what is refused."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density

import tessmc
from tessmc.targets._numpyro import _survives
from twin_models import covariance, non_centred, shares

pytestmark = pytest.mark.usefixtures("ranks_promoted")


def line(x, y=None, *, scale=1.0):
    slope = numpyro.sample("slope", dist.Normal(0, scale))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, noise), obs=y)


def clusters(y):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(2)))
    with numpyro.plate("cluster", 2):
        centre = numpyro.sample("centre", dist.Normal(0, 3))
    with numpyro.plate("row", len(y)):
        member = numpyro.sample("member", dist.Categorical(weights), infer={"enumerate": "parallel"})
        numpyro.sample("y", dist.Normal(centre[member], 1), obs=y)


X = np.linspace(-1, 1, 7)
Y = 2 * X + np.cos(9 * X)


@pytest.mark.parametrize("model", [non_centred, covariance, shares])
def test_draws_are_named_and_shaped_as_numpyros_own(model):
    nuts = MCMC(NUTS(model), num_warmup=1, num_samples=2, num_chains=1, progress_bar=False)
    nuts.run(jr.key(0))
    target = tessmc.from_numpyro(model)
    found = target.constrain(jnp.zeros(target.dim))
    assert {name: value.shape for name, value in found.items()} == {
        name: values.shape[1:] for name, values in nuts.get_samples().items()
    }


def test_the_log_density_is_numpyros_with_the_jacobian():
    target = tessmc.from_numpyro(line, X, Y, scale=2.0)
    values = target.constrain(jnp.array([0.3, -0.7]))
    expected, _ = log_density(line, (X, Y), {"scale": 2.0}, values)
    # noise = exp(free), whose log-determinant is the free value itself; by their names "noise" comes first.
    assert target.log_density(jnp.array([0.3, -0.7])) == pytest.approx(float(expected) + 0.3, abs=1e-4)
    assert np.allclose(target.unconstrain(values), [0.3, -0.7], atol=1e-6)


def test_data_are_arguments_of_what_is_compiled():
    leaves = [leaf for leaf in jax.tree.leaves(tessmc.from_numpyro(line, X, Y)) if isinstance(leaf, jax.Array)]
    assert [sum(leaf.shape == (7,) and np.allclose(leaf, data) for leaf in leaves) for data in (X, Y)] == [1, 1]


def test_a_model_that_needs_its_data_as_numbers_has_them():
    def model(size, y):
        centre = numpyro.sample("centre", dist.Normal(0, 1).expand([int(size)]))
        numpyro.sample("y", dist.Normal(centre.sum(), 1), obs=float(np.asarray(y).mean()))

    assert tessmc.from_numpyro(model, np.array(3), Y).dim == 3


def test_improper_priors_have_a_posterior():
    def model():
        a = numpyro.sample("a", dist.ImproperUniform(constraints.ordered_vector, (), (2,)))
        numpyro.sample("y", dist.Normal(a.sum(), 1), obs=1.0)

    target = tessmc.from_numpyro(model)
    # a = (0.5, 0.5 + e^0.2), with the log-determinant 0.2.
    expected = dist.Normal(1 + np.exp(0.2), 1).log_prob(1.0) + 0.2
    assert target.log_density(jnp.array([0.5, 0.2])) == pytest.approx(float(expected), abs=1e-5)


def test_discrete_sites_are_summed_over():
    y = np.array([-2.0, -1.5, 1.0, 2.5])
    target = tessmc.from_numpyro(clusters, y)
    assert target.dim == 3
    position = jnp.array([-1.0, 2.0, 0.4])  # centres, then the free value of the weights
    values = target.constrain(position)
    assert set(values) == {"weights", "centre"}
    terms = dist.Normal(values["centre"][None], 1).log_prob(y[:, None]) + jnp.log(values["weights"])[None]
    expected = jax.nn.logsumexp(terms, axis=1).sum() + dist.Normal(0, 3).log_prob(values["centre"]).sum()
    expected += jnp.log(values["weights"]).sum()  # the transform's log-determinant; the prior is flat
    assert target.log_density(position) == pytest.approx(float(expected), abs=1e-4)
    assert target.log_likelihood(position) == {}


def test_what_cannot_be_sampled_is_refused_by_name():
    def coin():
        numpyro.sample("coin", dist.Bernoulli(0.5))
        numpyro.sample("x", dist.Normal(0, 1))

    def fixed():
        numpyro.sample("fixed", dist.Delta(1.0))

    with pytest.raises(ValueError, match="`coin` is discrete"):
        tessmc.from_numpyro(coin)
    with pytest.raises(ValueError, match="`fixed` has a Delta"):
        tessmc.from_numpyro(fixed)
    with pytest.raises(ValueError, match="nothing to sample"):
        tessmc.from_numpyro(lambda: numpyro.sample("y", dist.Normal(0, 1), obs=1.0))
    with pytest.raises(TypeError, match="function with NumPyro's primitives"):
        tessmc.from_numpyro(3)


def test_data_that_single_precision_would_spoil_stay_as_they_are():
    times = 1.7e9 + 10.0 * np.arange(20)

    def trend(times):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        standard = (times - times.mean()) / times.std()
        numpyro.sample("y", dist.Normal(slope * standard, 0.1), obs=np.zeros(20))

    expected, _ = log_density(trend, (times,), {}, {"slope": 1.0})
    assert tessmc.from_numpyro(trend, times).log_density(jnp.ones(1)) == pytest.approx(float(expected), rel=1e-5)


def test_data_that_survive_single_precision():
    fine = [1.0, np.nan, 3.0], [0.1], [np.nan], [np.inf, 2.0], [2**20, 5], [True], [], 100 + np.linspace(0, 9, 50)
    spoiled = 1.7e9 + np.arange(5.0), [1e300, 1.0], [2**40, 5], [2**25, 2**25 + 1.0]
    assert all(_survives(np.array(data)) for data in fine)
    assert not any(_survives(np.array(data)) for data in spoiled)


def test_entries_that_nothing_depends_on_are_refused():
    def model():
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        seen = np.array([True, False, True])
        numpyro.sample("y", dist.Normal(mu, 1).expand([3]), obs=np.array([0.5, np.nan, -1]), obs_mask=seen)

    with pytest.raises(ValueError, match="entries of the latent site `y_unobserved`"):
        tessmc.from_numpyro(model)


def test_a_mask_that_drops_a_prior_is_none_that_drops_an_entry():
    def model():
        mu = numpyro.sample("mu", dist.Normal(0, 1).mask(False))
        numpyro.sample("y", dist.Normal(mu, 1), obs=0.5)

    expected = dist.Normal(0.7, 1).log_prob(0.5)
    assert tessmc.from_numpyro(model).log_density(jnp.array([0.7])) == pytest.approx(float(expected), abs=1e-5)


@pytest.fixture(scope="module")
def result():
    target = tessmc.from_numpyro(line, X, Y)
    return tessmc.sample(target, num_chains=16, num_warmup=20, num_samples=10, progress=False)


def test_arviz_gets_data_likelihoods_and_plates(result):
    data = result.to_arviz()
    assert np.allclose(data.observed_data["y"], Y)
    assert data.log_likelihood["y"].dims == ("chain", "draw", "row")
    slope, noise = (result.posterior[name][3, 4] for name in ("slope", "noise"))
    expected = dist.Normal(slope * X, noise).log_prob(Y)
    assert np.allclose(data.log_likelihood["y"][3, 4], expected, atol=1e-4)
    assert "log_likelihood" not in result.to_arviz(log_likelihood=False)


def test_init_is_by_name():
    target, values = tessmc.from_numpyro(line, X, Y), {"slope": np.zeros(4), "noise": np.full(4, 0.5)}
    assert target.check_init(values, 4)["noise"].shape == (4,)
    with pytest.raises(ValueError, match="values of slope, noise, but has slope"):
        target.check_init({"slope": np.zeros(4)}, 4)
    with pytest.raises(ValueError, match=r"`noise` should have shape \(4,\)"):
        target.check_init(values | {"noise": np.ones(3)}, 4)
    with pytest.raises(ValueError, match=r"outside its support|boundary"):
        tessmc.sample(target, num_chains=4, init=values | {"noise": np.full(4, -1.0)}, progress=False)
