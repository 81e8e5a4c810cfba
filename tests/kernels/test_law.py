"""Departures from the paper that leave π invariant: a fresh first try, and a Student-t reference."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine
from scipy import stats

from helpers import Sinh, z_score
from tessmc.engines import collect, place_chains
from tessmc.kernels import Gaussian, StudentT, TransportEllipticalSlice
from tessmc.kernels._law import chi_square

LAWS = {"gaussian": Gaussian(), "t3": StudentT(3), "t_limit": StudentT(0), "wide": StudentT(3, scale=1.5)}
WIDE = Affine(jnp.full(2, 0.3), jnp.full(2, 2.0))


def log_density(x):
    return -jnp.sum(x**2) / 2


def second_moment(kernel, num_chains=2**15):
    """z-score of E[x²] = 1 after three steps from exact N(0, I) draws."""
    starts = jr.normal(jr.key(0), (num_chains, 2))
    _, draws = collect(kernel, place_chains(jr.key(1), jax.vmap(kernel.pull)(starts)), 3)
    return z_score(jnp.asarray(draws.position[:, -1].ravel() ** 2), 1.0)


@pytest.mark.parametrize("transport", [WIDE, Sinh((2,))], ids=["wide", "sinh"])
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("first_try", [False, jnp.bool(True)], ids=["ellipse", "first_try"])
def test_target_is_invariant(name, transport, first_try):
    kernel = TransportEllipticalSlice(log_density, transport, law=LAWS[name], first_try=first_try)
    assert abs(second_moment(kernel)) < 4


class WrongVariance(StudentT):
    """A twin that forgets that the variance depends on where the chain is."""

    def draw(self, key, reference, is_fresh):
        return super().draw(key, jnp.zeros_like(reference), is_fresh)


def test_a_variance_that_does_not_depend_on_the_chain_is_noticed():
    assert abs(second_moment(TransportEllipticalSlice(log_density, WIDE, law=WrongVariance(3)))) > 6


class WrongDraw(Gaussian):
    """A twin whose fresh points have another law than the one in the log ratio."""

    def draw(self, key, reference, is_fresh):
        return super().draw(key, reference, is_fresh) * jnp.where(is_fresh, 0.8, 1.0)


def test_fresh_points_of_another_law_are_noticed():
    kernel = TransportEllipticalSlice(log_density, WIDE, law=WrongDraw(), first_try=jnp.bool(True))
    assert abs(second_moment(kernel)) > 8


@pytest.mark.parametrize("name", LAWS)
def test_step_and_engine_draw_alike(name):
    kernel = TransportEllipticalSlice(log_density, WIDE, law=LAWS[name], first_try=jnp.bool(True))
    references = jr.normal(jr.key(2), (4, 2))
    _, draws = collect(kernel, place_chains(jr.key(3), references), 30)
    key = jr.fold_in(jr.key(3), 2)

    def step(state, iteration):
        state, info = kernel.step(jr.fold_in(key, iteration), state)
        return state, (state.position, info.num_tries)

    _, (positions, num_tries) = jax.jit(lambda: jax.lax.scan(step, kernel.evaluate(references[2]), jnp.arange(30)))()
    assert np.allclose(draws.position[2], positions, atol=1e-4)
    assert np.array_equal(draws.num_tries[2], num_tries)


def test_with_a_perfect_map_draws_are_independent():
    """An ellipse keeps half of u² from draw to draw, a fresh point nothing."""
    perfect = Affine(jnp.zeros(2), jnp.ones(2))

    def correlation(first_try):
        kernel = TransportEllipticalSlice(log_density, perfect, first_try=first_try)
        squares = collect(kernel, place_chains(jr.key(4), jr.normal(jr.key(5), (512, 2))), 50)[1].position ** 2
        return np.corrcoef(squares[:, 1:].ravel(), squares[:, :-1].ravel())[0, 1]

    assert abs(correlation(jnp.bool(True))) < 4 / np.sqrt(512 * 50 * 2)
    assert 0.4 < correlation(False) < 0.6


def test_a_switch_compiles_nothing_new():
    traces = []

    def counted(x):
        traces.append(None)
        return log_density(x)

    chains = place_chains(jr.key(1), jnp.zeros((3, 2)))
    num_traces = []
    for first_try, dof in ((True, 3), (False, 0), (True, 10)):
        kernel = TransportEllipticalSlice(counted, WIDE, law=StudentT(dof), first_try=jnp.bool(first_try))
        collect(kernel, chains, 2)
        num_traces.append(len(traces))
    assert num_traces[0] == num_traces[-1] > 0


def test_fresh_points_of_a_student_t():
    points = jax.vmap(lambda key: StudentT(5).draw(key, jnp.ones(3), True))(jr.split(jr.key(6), 20_000))
    assert all(stats.kstest(np.asarray(column), stats.t(5).cdf).pvalue > 1e-4 for column in points.T)


@pytest.mark.parametrize("dof", [1, 4, 9])
def test_chi_square(dof):
    draws = jax.vmap(lambda key: chi_square(key, jnp.int32(dof), 12, jnp.dtype("float32")))(jr.split(jr.key(7), 20_000))
    assert stats.kstest(np.asarray(draws), stats.chi2(dof).cdf).pvalue > 1e-4


def test_the_log_density_of_a_student_t():
    x, y = jnp.array([0.3, -2.0]), jnp.array([5.0, 1.0])
    exact = stats.multivariate_t(shape=np.eye(2), df=7)
    ours = StudentT(7).log_density(x) - StudentT(7).log_density(y)
    assert np.isclose(ours, exact.logpdf(x) - exact.logpdf(y), atol=1e-5)
    assert StudentT(0).log_density(x) == Gaussian().log_density(x)
