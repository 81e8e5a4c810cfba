"""Our kernels in BlackJAX's clothes."""

import blackjax
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from blackjax.util import run_inference_algorithm
from flowjax.bijections import Affine

import tessmc
from helpers import Sinh, WithoutLogDet, z_score
from tessmc.kernels import TransportEllipticalSlice


def quartic(p):
    return -jnp.sum(p["x"] ** 4) / 4 - p["s"] ** 2 / 2


START = {"s": jnp.array(0.3), "x": jnp.array([0.5, -0.2])}


def test_a_position_of_whole_numbers_moves():
    algorithm = tessmc.blackjax.tess(lambda p: -(p["a"] ** 2 + p["b"] ** 2) / 2, Affine(jnp.zeros(2), jnp.ones(2)))
    state = algorithm.init({"a": 0.5, "b": 1})
    moved, _ = algorithm.step(jr.key(0), state)
    assert moved.position["b"] == moved.reference[1] != 1


def test_a_step_is_that_of_our_kernel():
    transport = Sinh((3,))
    algorithm = tessmc.blackjax.tess(quartic, transport)
    kernel = TransportEllipticalSlice(lambda x: quartic({"s": x[0], "x": x[1:]}), transport)
    state, info = jax.jit(algorithm.step)(jr.key(5), algorithm.init(START))
    expected, _ = kernel.step(jr.key(5), kernel.init(jnp.array([0.3, 0.5, -0.2])))
    assert state.position["s"].shape == ()
    assert np.allclose(jnp.append(state.position["s"], state.position["x"]), expected.position)
    assert state.logdensity == pytest.approx(float(quartic(state.position)), abs=1e-5)
    assert info.num_tries >= 1


def test_it_runs_where_blackjaxs_own_algorithms_run():
    algorithm = tessmc.blackjax.tess(quartic, Sinh((3,)))
    final, (states, infos) = run_inference_algorithm(
        rng_key=jr.key(0), inference_algorithm=algorithm, num_steps=50, initial_position=START
    )
    assert states.position["x"].shape == (50, 2)
    assert infos.num_tries.shape == (50,)
    assert np.allclose(final.position["x"], states.position["x"][-1])


def z_after_three_steps(transport):
    """E[x²] = 1 of chains begun in exact draws of N(0, 1)."""
    algorithm = tessmc.blackjax.tess(lambda x: -jnp.sum(x**2) / 2, transport)

    def moved(key):
        key_start, *keys = jr.split(key, 4)
        state = algorithm.init(jr.normal(key_start, (1,)))
        for each in keys:
            state, _ = algorithm.step(each, state)
        return state.position[0] ** 2

    return z_score(jax.jit(jax.vmap(moved))(jr.split(jr.key(11), 4096)), 1.0)


def test_the_target_is_invariant():
    assert abs(z_after_three_steps(Sinh((1,)))) < 4


def test_a_forgotten_log_det_is_noticed():
    assert abs(z_after_three_steps(WithoutLogDet(Sinh((1,)), (1,)))) > 8


def test_elliptical_slice_has_the_posterior_of_a_gaussian():
    mean, cov = jnp.array([1.0, -1.0]), jnp.array([[1.0, 0.5], [0.5, 2.0]])
    algorithm = tessmc.blackjax.elliptical_slice(lambda x: -2 * (x[0] - 3) ** 2, mean=mean, cov=cov)

    def moved(key):
        key_start, key_steps = jr.split(key)
        start = jr.multivariate_normal(key_start, mean, cov)
        step = lambda state, key: (algorithm.step(key, state)[0], None)  # noqa: E731
        return jax.lax.scan(step, algorithm.init(start), jr.split(key_steps, 60))[0].position

    draws = jax.jit(jax.vmap(moved))(jr.split(jr.key(2), 2048))
    # The posterior of x₀ ~ N(1, 1) with a measurement 3 of variance 1/4.
    assert abs(z_score(draws[:, 0], 2.6)) < 4
    assert abs(z_score((draws[:, 0] - 2.6) ** 2, 0.2)) < 4
    assert abs(z_score(draws[:, 1], -1 + 0.5 * 1.6)) < 4
    flat = tessmc.blackjax.elliptical_slice(quartic, mean=0.0, cov=np.ones(3))
    assert flat.step(jr.key(0), flat.init(START))[0].position["x"].shape == (2,)


def test_adaptation_gives_states_and_the_parameters_of_tess():
    starts = {"s": jr.normal(jr.key(0), (16,)), "x": jr.normal(jr.key(1), (16, 2))}
    adaptation = tessmc.blackjax.tess_adaptation(quartic, num_chains=16)
    (states, parameters), info = adaptation.run(jr.key(3), starts, num_steps=30)
    assert isinstance(adaptation, blackjax.base.AdaptationAlgorithm)
    assert states.position["x"].shape == (16, 2)
    algorithm = tessmc.blackjax.tess(quartic, **parameters)
    moved, infos = jax.jit(jax.vmap(algorithm.step))(jr.split(jr.key(4), 16), states)
    assert np.allclose(moved.logdensity, jax.vmap(quartic)(moved.position), atol=1e-4)
    assert infos.num_tries.mean() < 4
    assert info.history[-1]["stage"] == "window"
    assert sum(info.num_evaluations.values()) >= 16 * 30


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="has shape \\(2,\\), but positions have 3 numbers"):
        tessmc.blackjax.tess(quartic, Sinh((2,))).init(START)
    with pytest.raises(ValueError, match="16 chains but num_chains is 8"):
        tessmc.blackjax.tess_adaptation(lambda x: -jnp.sum(x**2), 8).run(jr.key(0), jnp.zeros((16, 2)))
