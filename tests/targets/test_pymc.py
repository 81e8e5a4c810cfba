"""PyMC models as targets: names, labels, the way without JAX, and global state."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.stats import norm

import tessmc
from twin_models import SCHOOLS, centred_in_pymc, non_centred_in_pymc

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
SHORT = {"num_chains": 16, "num_warmup": 20, "num_samples": 10, "progress": False}


class Square(Op):
    """An operation that JAX does not know."""

    def make_node(self, x):
        x = pt.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(self, _, inputs, outputs):
        outputs[0][0] = inputs[0] ** 2


def with_own_operation():
    with pm.Model(coords={"row": list("abc")}) as model:
        x = pm.Normal("x", 0, 2, dims="row")
        sigma = pm.HalfNormal("sigma", 1)
        pm.Deterministic("squared", Square()(x), dims="row")
        pm.Normal("y", Square()(x), sigma, observed=np.array([1.0, 0.5, 2]), dims="row")
    return model


def point_of(target, position):
    return {name: np.asarray(value) for name, value in target.values(position).items()}


def test_the_log_density_is_pymcs_own():
    model = non_centred_in_pymc()
    with jax.enable_x64(True):
        target, position = tessmc.from_pymc(model), jnp.linspace(-1, 1, 10)
        assert target.log_density(position) == pytest.approx(float(model.compile_logp()(point_of(target, position))))


def bounded():
    """Every kind of support that PyMC transforms."""
    with pm.Model() as model:
        pm.Uniform("interval", -1, 3)
        pm.Normal("ordered", 0, 1, shape=3, transform=pm.distributions.transforms.ordered, initval=[-1.0, 0.0, 1.0])
        pm.Dirichlet("simplex", np.array([1.0, 2, 3]))
        pm.Gamma("positive", 2, 1)
        top = pm.TruncatedNormal("top", 0, 1, lower=0, upper=2)
        pm.Uniform("below", 0, top)
        pm.LKJCholeskyCov("chol", eta=2.0, n=3, sd_dist=pm.Exponential.dist(1, shape=3), compute_corr=False)
    return model


def test_supports_are_pymcs_own():
    with jax.enable_x64(True):
        target = tessmc.from_pymc(bounded())
        for position in jax.random.normal(jax.random.key(1), (5, target.dim)):
            values = target.constrain(position)
            assert np.allclose(target.unconstrain(values), position)
            expected = float(target.model.compile_logp()(point_of(target, position)))
            assert target.log_density(position) == pytest.approx(expected)
            assert -1 < values["interval"] < 3
            assert (np.diff(values["ordered"]) > 0).all()
            assert values["simplex"].sum() == pytest.approx(1)
            assert 0 < values["below"] < values["top"] < 2


@pytest.fixture(scope="module")
def result():
    return tessmc.sample(tessmc.from_pymc(non_centred_in_pymc()), **SHORT)


def test_draws_have_the_models_names_and_labels(result):
    assert set(result.posterior) == {"mu", "tau", "z", "theta"}
    assert (result.posterior["tau"] > 0).all()
    data = result.to_arviz()
    assert data.posterior["theta"].dims == ("chain", "draw", "school")
    assert list(data.posterior["school"].values) == list("ABCDEFGH")
    assert data.observed_data["y"].dims == ("school",)
    assert data.log_likelihood["y"].dims == ("chain", "draw", "school")
    drawn = {name: values[3, 4] for name, values in result.posterior.items()}
    y, scale = SCHOOLS
    assert np.allclose(data.log_likelihood["y"][3, 4], norm.logpdf(y, drawn["theta"], scale))
    assert np.allclose(drawn["theta"], drawn["mu"] + drawn["tau"] * drawn["z"])


def test_draws_are_doubles_although_jax_is_set_to_floats(result):
    assert not jax.config.jax_enable_x64
    assert result.unconstrained.dtype == result.posterior["mu"].dtype == np.float64


def test_an_operation_that_jax_lacks_is_called_as_a_black_box():
    with pytest.warns(UserWarning, match="PyMC's compiled log density is called instead"):
        target = tessmc.from_pymc(with_own_operation())
    assert isinstance(target, tessmc.BlackBox)
    with jax.enable_x64(True):
        position = jnp.array([0.1, 0.5, -1, 2])
        expected = target.model.compile_logp()(point_of(target, position))
        assert target.log_density(position) == pytest.approx(float(expected))
    result = tessmc.sample(target, **SHORT)
    assert np.allclose(result.posterior["squared"], result.posterior["x"] ** 2)
    data = result.to_arviz()
    assert data.posterior["squared"].dims == ("chain", "draw", "row")
    assert data.log_likelihood["y"].shape == (16, 10, 3)


def test_init_is_in_the_support():
    target = tessmc.from_pymc(centred_in_pymc())
    values = {"mu": np.zeros(16), "tau": np.full(16, 2.0), "theta": np.ones((16, 8))}
    assert tessmc.sample(target, init=values, **SHORT).num_draws == 10
    with pytest.raises(ValueError, match="values of mu, tau, theta"):
        tessmc.sample(target, init={"mu": np.zeros(16)}, **SHORT)


def test_what_cannot_be_sampled_is_refused_by_name():
    with pm.Model() as coin:
        pm.Bernoulli("coin", 0.5)
    with pm.Model() as nothing:
        pass
    with pytest.raises(ValueError, match="`coin` is discrete"):
        tessmc.from_pymc(coin)
    with pytest.raises(ValueError, match="nothing to sample"):
        tessmc.from_pymc(nothing)
    with pytest.raises(TypeError, match=r"should be a pymc\.Model"):
        tessmc.from_pymc(lambda x: x)


def test_global_state_is_as_before():
    program = """
import os, sys
sys.path.insert(0, sys.argv[1])
import jax, tessmc
from twin_models import shares_in_pymc
tessmc.from_pymc(shares_in_pymc())
assert not jax.config.jax_enable_x64
assert os.environ.get("XLA_FLAGS") == sys.argv[2] if len(sys.argv) > 2 else "XLA_FLAGS" not in os.environ
assert len(jax.devices()) == 1
"""
    tests = str(Path(__file__).parents[1])
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    for flags in ([], ["--xla_force_host_platform_device_count=1"]):
        given = environment | ({"XLA_FLAGS": flags[0]} if flags else {})
        subprocess.run([sys.executable, "-c", program, tests, *flags], env=given, check=True)
