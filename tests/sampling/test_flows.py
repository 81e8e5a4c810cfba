"""FlowJAX's maps as transports, and what was learned as a FlowJAX distribution."""

import equinox as eqx
import flowjax.bijections as fb
import flowjax.flows as ff
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.distributions import Normal

import tessmc
from helpers import z_score
from tessmc.kernels import Gaussian, StudentT, TransportEllipticalSlice
from tessmc.sampling._flow import Reference, pushed

BASE, SMALL = Normal(jnp.zeros(2)), {"flow_layers": 2}


def flows():
    """Made when a test runs; with weights away from the identity."""
    key = jr.key(0)
    spline = fb.RationalQuadraticSpline(knots=4, interval=4)
    return {
        "masked autoregressive": lambda: ff.masked_autoregressive_flow(key, base_dist=BASE, nn_width=8, **SMALL),
        "block neural": lambda: ff.block_neural_autoregressive_flow(key, base_dist=BASE, nn_block_dim=4),
        "spline coupling": lambda: ff.coupling_flow(key, base_dist=BASE, transformer=spline, nn_width=8, **SMALL),
        "planar": lambda: ff.planar_flow(key, base_dist=BASE, width_size=8, negative_slope=0.1, **SMALL),
        "triangular spline": lambda: ff.triangular_spline_flow(key, base_dist=BASE, knots=4, **SMALL),
    }


def normal(x):
    return -jnp.sum((x - 1) ** 2) / 2


@pytest.fixture(params=flows(), scope="module")
def transport(request):
    # The initialisers of flows promote ranks.
    with jax.numpy_rank_promotion("allow"):
        yield flows()[request.param]().bijection


def test_any_bijection_is_a_transport(transport):
    """π stays as it is: chains begun in exact draws, and moved twice."""
    kernel = TransportEllipticalSlice(normal, transport)

    def moved(key):
        key_start, *keys = jr.split(key, 3)
        state = kernel.init(1 + jr.normal(key_start, (2,)))
        for each in keys:
            state, _ = kernel.step(each, state)
        return state.position

    draws = jax.jit(jax.vmap(moved))(jr.split(jr.key(1), 2048))
    assert abs(z_score(draws.sum(1), 2)) < 4
    assert abs(z_score(((draws - 1) ** 2).sum(1), 2)) < 4


def test_a_map_that_was_given_is_trained():
    with jax.numpy_rank_promotion("allow"):
        transport = flows()["masked autoregressive"]().bijection
    settings = {"num_chains": 16, "num_warmup": 24, "num_samples": 10, "progress": False}
    result = tessmc.sample(normal, like=2, transport=transport, **settings)
    assert result.stats["num_evaluations"].mean() < 1.5
    assert result.flow().log_prob(result.unconstrained).shape == (16, 10)


def without_inverse(invert):
    with jax.numpy_rank_promotion("allow"):
        return ff.planar_flow(jr.key(0), base_dist=BASE, width_size=4, flow_layers=1, invert=invert).bijection


def test_a_map_without_an_inverse_is_used_as_it_is():
    given = {"like": 2, "num_chains": 8, "num_samples": 5, "progress": False}
    result = tessmc.sample(normal, transport=without_inverse(False), num_warmup=0, **given)
    assert np.isfinite(result.unconstrained).all()
    for options in ({"num_warmup": 0, "init": np.zeros((8, 2))}, {"num_warmup": 4}):
        with pytest.raises(ValueError, match="has no inverse"):
            tessmc.sample(normal, transport=without_inverse(False), **given, **options)
    with pytest.raises(ValueError, match="cannot push"):
        tessmc.sample(normal, transport=without_inverse(True), num_warmup=0, **given)


@pytest.mark.parametrize("law", [Gaussian(), StudentT(0), StudentT(3), StudentT(5, 2.0)])
@pytest.mark.parametrize("dim", [1, 2])
def test_reference_laws_are_normalised_and_drawn_from(law, dim):
    reference = Reference(law, dim)
    # By importance: draws of a wider law.
    wide = StudentT(2, 3.0)
    points = jax.vmap(lambda key: wide.draw(key, jnp.zeros(dim), True))(jr.split(jr.key(0), 20_000))
    log_weights = reference.log_prob(points) - Reference(wide, dim).log_prob(points)
    assert abs(z_score(jnp.exp(log_weights), 1)) < 4
    inside = jnp.mean(jnp.exp(log_weights) * (jnp.sum(points**2, axis=1) < 1))
    draws = reference.sample(jr.key(1), (20_000,))
    assert abs(z_score(jnp.sum(draws**2, axis=1) < 1, float(inside))) < 6


def test_a_map_of_doubles_is_a_flow_of_what_jax_is_set_to():
    transport = fb.Affine(np.zeros(2), np.ones(2))
    with jax.enable_x64(True):
        double = jax.tree.map(lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf, transport)
        assert pushed(Gaussian(), double).log_prob(jnp.zeros(2)).dtype == jnp.float64
    assert pushed(Gaussian(), double).log_prob(jnp.zeros(2)).dtype == jnp.float32


def test_what_was_learned_comes_back_and_starts_another_run_warm(tmp_path):
    def banana(x):
        return -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2)

    settings = {"like": 2, "num_chains": 32, "num_samples": 20, "progress": False}
    first = tessmc.sample(banana, num_warmup=100, **settings)
    assert abs(float(first.flow().sample(jr.key(0), (4000,))[:, 1].mean()) - 2) < 0.5
    first.save(tmp_path / "run")
    loaded = tessmc.load(tmp_path / "run")
    points = jr.normal(jr.key(3), (5, 2))
    assert np.array_equal(loaded.flow().log_prob(points), first.flow().log_prob(points))
    again = tessmc.sample(banana, transport=loaded.transport, num_warmup=16, **settings)
    assert again.stats["num_evaluations"].mean() < 1.5
    assert again.num_evaluations_by_phase["warmup"] < first.num_evaluations_by_phase["warmup"] / 3
