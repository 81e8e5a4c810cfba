"""Every kernel leaves the target invariant, with every map, in both precisions."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from helpers import TRANSPORTS, WithoutLogDet, all_transports
from tessmc.engines import collect, place_chains
from tessmc.kernels import EllipticalSlice, Gaussian, StudentT, TransportEllipticalSlice
from verify.exactness import (
    FALSE_ALARM,
    MAX_TESTS,
    NUM_CHAINS,
    assert_exact,
    exact_draws,
    gumbel,
    p_of_mean,
    p_of_moments,
    p_of_ranks,
)

PRIORS = {
    "standard": lambda: (jnp.zeros(2), jnp.eye(2)),
    "correlated": lambda: (jnp.array([1.0, -0.5]), jnp.array([[2.0, 0.9], [0.9, 0.7]])),
}


def elliptical(prior):
    """Algorithm 3 with the Gumbel target as prior times likelihood."""
    mean, covariance = PRIORS[prior]()
    precision = jnp.linalg.inv(covariance)
    return EllipticalSlice(lambda x: gumbel(x) + (x - mean) @ precision @ (x - mean) / 2, mean, covariance)


def after_two_steps(kernel, starts, seed=1):
    @jax.jit
    @jax.vmap
    def end(key, start):
        state = kernel.init(start)
        for key_step in jr.split(key):
            state, _ = kernel.step(key_step, state)
        return state.position

    return end(jr.split(jr.key(seed), len(starts)), starts)


# --- moments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRANSPORTS)
def test_algorithm_1_by_step(name, dtype):
    transport = all_transports()[name]
    kernel = TransportEllipticalSlice(gumbel, transport)
    starts = exact_draws(0, NUM_CHAINS, transport.shape[0], dtype)
    assert_exact(p_of_moments(after_two_steps(kernel, starts)))


@pytest.mark.parametrize("name", TRANSPORTS)
def test_algorithm_1_by_the_tick_engine(name, dtype):
    transport = all_transports()[name]
    kernel = TransportEllipticalSlice(gumbel, transport)
    starts = exact_draws(2, NUM_CHAINS, transport.shape[0], dtype)
    _, draws = collect(kernel, place_chains(jr.key(3), jax.jit(jax.vmap(kernel.pull))(starts)), 2)
    assert_exact(p_of_moments(draws.position[:, -1]))


@pytest.mark.parametrize("prior", PRIORS)
def test_algorithm_3_by_step(prior, dtype):
    starts = exact_draws(4, NUM_CHAINS, 2, dtype)
    assert_exact(p_of_moments(after_two_steps(elliptical(prior), starts)))


@pytest.mark.parametrize("prior", PRIORS)
def test_algorithm_3_by_the_tick_engine(prior, dtype):
    kernel = elliptical(prior)
    starts = exact_draws(5, NUM_CHAINS, 2, dtype)
    _, draws = collect(kernel, place_chains(jr.key(6), jax.jit(jax.vmap(kernel.pull))(starts)), 2)
    assert_exact(p_of_moments(draws.position[:, -1]))


def test_a_bound_on_tries_that_is_often_reached_does_no_harm(dtype):
    """Staying put at the bound is part of the kernel, and exact."""
    kernel = TransportEllipticalSlice(gumbel, all_transports()["coupling_2d"], max_tries=2)
    starts = exact_draws(7, NUM_CHAINS, 2, dtype)
    _, draws = collect(kernel, place_chains(jr.key(8), jax.jit(jax.vmap(kernel.pull))(starts)), 2)
    assert draws.is_stuck.mean() > 0.02
    assert_exact(p_of_moments(draws.position[:, -1]))


@pytest.mark.parametrize("dof", [None, 3, 10])
def test_with_a_fresh_first_try(dof, dtype):
    """Before each ellipse a fresh point, of a Gaussian or a Student-t reference."""
    law = Gaussian() if dof is None else StudentT(dof)
    kernel = TransportEllipticalSlice(gumbel, all_transports()["coupling_2d"], law=law, first_try=jnp.bool(True))
    starts = exact_draws(9, NUM_CHAINS, 2, dtype)
    assert_exact(p_of_moments(after_two_steps(kernel, starts)))
    _, draws = collect(kernel, place_chains(jr.key(10), jax.jit(jax.vmap(kernel.pull))(starts)), 2)
    assert_exact(p_of_moments(draws.position[:, -1]))
    assert_exact(p_of_ranks(ranks_among_neighbours(kernel, starts[: NUM_CHAINS // 4], 11), NUM_RANKS))


# --- ranks ---------------------------------------------------------------------------------------

NUM_RANKS = 5


def ranks_among_neighbours(kernel, starts, seed):
    """Ranks of an exact draw among a chain of five of which it is one at random (Gandy and Scott 2020).

    A reversible chain that is run from the draw in both directions is a stationary stretch around it.
    """

    @jax.jit
    @jax.vmap
    def rank(key, start):
        key_place, key_tie, key_forward, key_backward = jr.split(key, 4)
        state = kernel.init(start)
        place = jr.randint(key_place, (), 0, NUM_RANKS)

        def walk(key):
            def step(state, key):
                state, _ = kernel.step(key, state)
                return state, statistics(state)

            return jax.lax.scan(step, state, jr.split(key, NUM_RANKS - 1))[1]

        others = jnp.concatenate([walk(key_forward), walk(key_backward)])
        order = jnp.arange(NUM_RANKS - 1)
        is_used = jnp.concatenate([order < NUM_RANKS - 1 - place, order < place])[:, None]
        mine = statistics(state)[None, :]
        below = jnp.sum(is_used & (others < mine), axis=0)
        ties = jnp.sum(is_used & (others == mine), axis=0)
        return below + jr.randint(key_tie, ties.shape, 0, ties + 1)

    def statistics(state):
        return jnp.stack([state.position[0], state.position[-1], state.log_density])

    return np.asarray(rank(jr.split(jr.key(seed), len(starts)), starts))


@pytest.mark.parametrize("name", TRANSPORTS)
def test_algorithm_1_ranks(name, dtype):
    transport = all_transports()[name]
    starts = exact_draws(10, NUM_CHAINS // 4, transport.shape[0], dtype)
    ranks = ranks_among_neighbours(TransportEllipticalSlice(gumbel, transport), starts, 11)
    assert_exact(p_of_ranks(ranks, NUM_RANKS))


@pytest.mark.parametrize("prior", PRIORS)
def test_algorithm_3_ranks(prior, dtype):
    starts = exact_draws(12, NUM_CHAINS // 4, 2, dtype)
    assert_exact(p_of_ranks(ranks_among_neighbours(elliptical(prior), starts, 13), NUM_RANKS))


# --- the joint law of parameters and data --------------------------------------------------------


def joint_after_three_rounds(make_kernel, mean, cholesky, dtype, seed):
    """Geweke's (2004) successive-conditional simulator: y given x, then x given y by the kernel, in turn.

    Model: x ~ N(mean, C Cᵀ), y ~ N(x₁ + x_d²/2, 1/4). Begun in exact draws, x stays in its prior if the kernel
    leaves every posterior of the model invariant.
    """
    dim = len(mean)

    def simulate(key, x):
        return x[0] + x[-1] ** 2 / 2 + jr.normal(key, dtype=dtype) / 2

    @jax.jit
    @jax.vmap
    def run(key):
        key_start, *keys = jr.split(key, 4)
        x = mean + cholesky @ jr.normal(key_start, (dim,), dtype)
        for key_round in keys:
            key_data, key_step = jr.split(key_round)
            y = simulate(key_data, x)
            kernel = make_kernel(lambda x, y=y: -2 * (y - x[0] - x[-1] ** 2 / 2) ** 2)
            x = kernel.step(key_step, kernel.init(x))[0].position
        return jnp.linalg.solve(cholesky, x - mean)

    return np.asarray(run(jr.split(jr.key(seed), NUM_CHAINS)), np.float64)


def p_of_standard_normal(z):
    found = [p_of_mean(z, 0), p_of_mean(z**2, 1), p_of_mean(z**3, 0), p_of_mean(z[:, :-1] * z[:, 1:], 0)]
    return np.concatenate(found)


@pytest.mark.parametrize("prior", PRIORS)
def test_algorithm_3_jointly(prior, dtype):
    mean, covariance = PRIORS[prior]()
    cholesky = jnp.linalg.cholesky(covariance)
    z = joint_after_three_rounds(
        lambda log_likelihood: EllipticalSlice(log_likelihood, mean, covariance), mean, cholesky, dtype, 20
    )
    assert_exact(p_of_standard_normal(z))


@pytest.mark.parametrize("name", TRANSPORTS)
def test_algorithm_1_jointly(name, dtype):
    transport = all_transports()[name]
    (dim,) = transport.shape
    mean, covariance = jnp.full(dim, 0.3), 0.6 * jnp.eye(dim) + 0.4
    cholesky = jnp.linalg.cholesky(covariance)
    precision = jnp.linalg.inv(covariance)

    def make_kernel(log_likelihood):
        return TransportEllipticalSlice(
            lambda x: log_likelihood(x) - (x - mean) @ precision @ (x - mean) / 2, transport
        )

    assert_exact(p_of_standard_normal(joint_after_three_rounds(make_kernel, mean, cholesky, dtype, 21)))


# --- the suite is able to fail -------------------------------------------------------------------


def test_one_percent_of_an_sd_is_seen():
    """In the mean or in the spread of one coordinate alone."""
    draws = np.asarray(exact_draws(30, NUM_CHAINS, 3, jnp.float32), np.float64)
    sd = np.pi / np.sqrt(6)
    for biased in (draws + np.array([0.01 * sd, 0, 0]), draws * np.array([1, 1.01, 1])):
        with pytest.raises(AssertionError, match="p = "):
            assert_exact(p_of_moments(biased))
    assert_exact(p_of_moments(draws))


@pytest.mark.parametrize("name", ["sinh", "coupling_2d"])
def test_a_forgotten_log_determinant_is_seen(name):
    transport = all_transports()[name]
    kernel = TransportEllipticalSlice(gumbel, WithoutLogDet(transport, transport.shape))
    starts = exact_draws(31, NUM_CHAINS, 2, jnp.float32)
    with pytest.raises(AssertionError, match="p = "):
        assert_exact(p_of_moments(after_two_steps(kernel, starts)))
    ranks = ranks_among_neighbours(kernel, starts[: NUM_CHAINS // 4], 32)
    with pytest.raises(AssertionError, match="p = "):
        assert_exact(p_of_ranks(ranks, NUM_RANKS))


def test_the_budget_covers_all_tests(request):
    assert len(request.session.items) <= MAX_TESTS
    assert FALSE_ALARM <= 1e-4
