"""Algorithms 1 and 3: exact, bounded, and the same transition however it is run."""

import operator

import jax
import jax.numpy as jnp
import jax.random as jr
import pytest
from flowjax.bijections import Identity

from helpers import Sinh, WithoutLogDet, shaken, standard_normal, z_score
from tessmc.kernels import ChainState, EllipticalSlice, TransportEllipticalSlice, ask, begin, tell
from tessmc.models import BananaMap, banana
from tessmc.transports import paper_coupling


def run(kernel, state, seed, num_steps):
    """All states of one chain, from a scan."""

    def step(state, key):
        state, info = kernel.step(key, state)
        return state, (state, info)

    return jax.lax.scan(step, state, jr.split(jr.key(seed), num_steps))[1]


# --- the arc -------------------------------------------------------------------------------------


def arc_at(angle, lower=-5.0, upper=1.28):
    zero = jnp.zeros(())
    arc = begin(jr.key(0), ChainState(jnp.array([1.0, 0.0]), jnp.zeros(2), zero, zero))
    return arc._replace(angle=zero + angle, lower=zero + lower, upper=zero + upper, log_height=zero - 1)


def test_the_bracket_shrinks_towards_the_chain():
    _, left = tell(arc_at(-2.0), jnp.array(-5.0))
    assert (left.lower, left.upper) == (-2.0, jnp.float32(1.28))
    _, right = tell(arc_at(1.0), jnp.array(-5.0))
    assert (right.lower, right.upper) == (-5.0, 1.0)
    for arc in (left, right):
        assert arc.lower <= arc.angle <= arc.upper


def test_the_first_bracket_is_the_whole_ellipse_and_holds_the_chain():
    arc = begin(jr.key(3), ChainState(jnp.zeros(2), jnp.zeros(2), jnp.zeros(()), jnp.zeros(())))
    assert jnp.isclose(arc.upper - arc.lower, 2 * jnp.pi)
    assert arc.lower < 0 < arc.upper
    assert arc.angle == arc.upper


@pytest.mark.parametrize(
    ("log_ratio", "is_inside"),
    [(0.0, True), (-0.99, True), (-1.0, False), (-jnp.inf, False), (jnp.nan, False), (jnp.inf, False)],
)
def test_inside_is_above_the_height_and_a_number(log_ratio, is_inside):
    assert tell(arc_at(0.5), jnp.array(log_ratio))[0] == is_inside


def test_ask_turns_the_point_towards_the_momentum():
    arc = arc_at(jnp.pi / 2)
    assert jnp.allclose(ask(arc), arc.momentum, atol=1e-6)
    assert jnp.array_equal(ask(arc_at(0.0)), arc.reference)


# --- bounds and bad values -----------------------------------------------------------------------


def test_nan_is_never_accepted_and_is_counted():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(x[0] > 0, -x[0], jnp.nan), Identity((1,)))
    states, infos = jax.jit(lambda: run(kernel, kernel.init(jnp.ones(1)), 1, 500))()
    assert jnp.all(states.position > 0)
    assert jnp.all(jnp.isfinite(states.log_density))
    assert jnp.all(infos.num_nan < infos.num_tries)
    assert infos.num_nan.sum() > 100


def test_a_chain_that_starts_at_nan_takes_the_first_finite_point():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(jnp.abs(x[0] - 1) < 1e-3, jnp.nan, 0.0), Identity((1,)))
    state, info = jax.jit(kernel.step)(jr.key(0), kernel.init(jnp.ones(1)))
    assert jnp.isfinite(state.log_density)
    assert info.num_tries == 1


def test_infinite_density_is_not_accepted_and_is_counted():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(x[0] > 0, -x[0], jnp.inf), Identity((1,)))
    states, infos = jax.jit(lambda: run(kernel, kernel.init(jnp.ones(1)), 1, 200))()
    assert jnp.all(states.position > 0)
    assert infos.num_infinite.sum() > 0


def test_a_search_is_bounded_and_the_chain_stays():
    kernel = TransportEllipticalSlice(
        lambda x: jnp.where(x[0] == 1, 0.0, -jnp.inf), Identity((1,)), max_tries=7
    )  # nothing but the start itself is inside
    state = kernel.init(jnp.ones(1))
    after, info = jax.jit(kernel.step)(jr.key(0), state)
    assert info.num_tries == 7
    assert info.is_stuck
    assert jax.tree.all(jax.tree.map(jnp.array_equal, after, state))


def test_one_density_evaluation_a_try():
    calls = []

    def log_density(x):
        jax.debug.callback(lambda value: calls.append(value), x[0])
        return -10 * jnp.sum(x**2)

    kernel = TransportEllipticalSlice(log_density, Identity((2,)))
    state = kernel.init(jnp.ones(2))
    jax.effects_barrier()
    calls.clear()
    total = 0
    step = jax.jit(kernel.step)
    for key in jr.split(jr.key(0), 20):
        state, info = step(key, state)
        total += int(info.num_tries)
    jax.effects_barrier()
    assert len(calls) == total > 20


def test_the_carried_log_ratio_is_that_of_the_point():
    kernel = TransportEllipticalSlice(lambda x: -jnp.sum(x**4), Sinh((2,)))
    states, _ = jax.jit(lambda: run(kernel, kernel.init(jnp.ones(2)), 3, 20))()
    again = jax.vmap(kernel.evaluate)(states.reference)
    assert jnp.allclose(states.log_ratio, again.log_ratio, atol=1e-5)
    assert jnp.allclose(states.position, again.position, atol=1e-6)


def test_a_prior_covariance_must_be_positive_definite():
    with pytest.raises(ValueError, match="not positive definite"):
        EllipticalSlice(standard_normal, jnp.zeros(2), jnp.array([[1.0, 2.0], [2.0, 1.0]]))


@pytest.mark.parametrize("shapes", [((2,), (3, 3)), ((2, 2), (2, 2)), ((), ())])
def test_a_prior_that_does_not_fit_is_refused(shapes):
    with pytest.raises(ValueError, match="do not fit"):
        EllipticalSlice(standard_normal, jnp.zeros(shapes[0]), jnp.ones(shapes[1]))


# --- exactness -----------------------------------------------------------------------------------


def z_after_three_steps(kernel, num_chains=4096, dim=2):
    """z-scores of E[x] = 0 and E[x²] = 1 for chains begun in exact N(0, I) draws."""

    @jax.jit
    @jax.vmap
    def end(key):
        key_start, key_run = jr.split(key)
        state = kernel.init(jr.normal(key_start, (dim,)))
        for key_step in jr.split(key_run, 3):
            state, _ = kernel.step(key_step, state)
        return state.position

    ends = end(jr.split(jr.key(11), num_chains))
    return z_score(ends.ravel(), 0.0), z_score(ends.ravel() ** 2, 1.0)


def test_target_is_invariant():  # Proposition 1
    first, second = z_after_three_steps(TransportEllipticalSlice(standard_normal, Sinh((2,))))
    assert abs(first) < 4
    assert abs(second) < 4


def test_a_forgotten_log_det_is_noticed():  # the twin: the test above is able to fail
    forgetful = WithoutLogDet(Sinh((2,)), (2,))
    assert abs(z_after_three_steps(TransportEllipticalSlice(standard_normal, forgetful))[1]) > 8


def test_identity_map_makes_algorithm_1_algorithm_3():
    def log_likelihood(x):
        return -jnp.sum(jnp.cosh(x)) + x[0]

    first = TransportEllipticalSlice(lambda x: log_likelihood(x) + standard_normal(x), Identity((3,)))
    third = EllipticalSlice(log_likelihood, jnp.zeros(3), jnp.eye(3))
    start = jnp.array([0.3, -0.2, 1.0])
    states_1, infos_1 = jax.jit(lambda: run(first, first.init(start), 5, 200))()
    states_3, infos_3 = jax.jit(lambda: run(third, third.init(start), 5, 200))()
    assert jnp.allclose(states_1.position, states_3.position, atol=1e-5)
    assert jnp.array_equal(infos_1.num_tries, infos_3.num_tries)


@pytest.mark.parametrize("name", ["Algorithm 1", "Algorithm 3"])
def test_a_conjugate_gaussian_posterior_is_met(name):
    mean, covariance = jnp.array([1.0, -1.0]), jnp.array([[2.0, 0.8], [0.8, 1.0]])
    observed, noise = jnp.array([2.0, 0.5]), jnp.diag(jnp.array([0.5, 2.0]))
    precision = jnp.linalg.inv(covariance) + jnp.linalg.inv(noise)
    expected_covariance = jnp.linalg.inv(precision)
    expected = expected_covariance @ (jnp.linalg.solve(covariance, mean) + jnp.linalg.solve(noise, observed))

    def log_likelihood(x):
        return -(x - observed) @ jnp.linalg.solve(noise, x - observed) / 2

    def log_posterior(x):
        return log_likelihood(x) - (x - mean) @ jnp.linalg.solve(covariance, x - mean) / 2

    if name == "Algorithm 1":
        kernel = TransportEllipticalSlice(log_posterior, Sinh((2,)))
    else:
        kernel = EllipticalSlice(log_likelihood, mean, covariance)

    @jax.jit
    @jax.vmap
    def ends(key):
        return run(kernel, kernel.init(mean), jr.bits(key), 60)[0].position[-1]

    positions = ends(jr.split(jr.key(4), 4096))  # independent chains, long past their start
    centred = positions - expected[None, :]
    for i in range(2):
        assert abs(z_score(positions[:, i], expected[i])) < 4
        for j in range(2):
            assert abs(z_score(centred[:, i] * centred[:, j], expected_covariance[i, j])) < 4


def test_the_exact_map_of_figure_1_accepts_at_once_and_forgets():
    kernel = TransportEllipticalSlice(banana().log_density, BananaMap())
    states, infos = jax.jit(lambda: run(kernel, kernel.init(jnp.array([1.0, 2.0])), 8, 20_000))()
    assert jnp.all(infos.num_tries == 1)
    for u in states.reference.T:
        assert abs(jnp.corrcoef(u[1:], u[:-1])[0, 1]) < 4 / jnp.sqrt(u.size)


def test_momentum_height_and_angle_are_independent():
    """Also of the first angle after a rejection: a key used twice would tie two of them together."""

    @jax.jit
    @jax.vmap
    def numbers(key):
        zero = jnp.zeros(())
        arc = begin(key, ChainState(jnp.zeros(1), jnp.zeros(1), zero, zero))
        _, again = tell(arc, -jnp.inf + zero)
        _, third = tell(again, -jnp.inf + zero)
        shrunk = [(next_.angle - next_.lower) / (next_.upper - next_.lower) for next_ in (again, third)]
        height = 1 - jnp.exp(arc.log_height)
        return jnp.stack([jax.scipy.special.ndtr(arc.momentum[0]), height, arc.angle / (2 * jnp.pi), *shrunk])

    uniforms = numbers(jr.split(jr.key(0), 20_000))
    bound = 4 / jnp.sqrt(len(uniforms))
    for power in (uniforms, (uniforms - 0.5) ** 2):
        correlation = jnp.corrcoef(power.T) - jnp.eye(5)
        assert jnp.max(jnp.abs(correlation)) < bound
    for column in uniforms.T:
        for power in (1, 2, 3):
            assert abs(z_score(column**power, 1 / (power + 1))) < 4


@pytest.mark.parametrize("name", ["Algorithm 1", "Algorithm 3"])
def test_kernels_work_under_jit_vmap_and_scan(name):
    if name == "Algorithm 1":
        kernel = TransportEllipticalSlice(standard_normal, shaken(paper_coupling(jr.key(0), 2)))
    else:
        kernel = EllipticalSlice(standard_normal, jnp.ones(2), jnp.eye(2))
    starts = jr.normal(jr.key(1), (3, 2))
    keys = jr.split(jr.key(2), 3)
    plain = [kernel.step(key, kernel.init(start)) for key, start in zip(keys, starts, strict=True)]
    compiled = [jax.jit(kernel.step)(key, jax.jit(kernel.init)(start)) for key, start in zip(keys, starts, strict=True)]
    states, infos = jax.vmap(kernel.step)(keys, jax.vmap(kernel.init)(starts))
    scanned = jax.lax.scan(lambda _, args: (None, kernel.step(args[0], kernel.init(args[1]))), None, (keys, starts))[1]
    for i, (state, info) in enumerate(plain):
        for other, other_info in (compiled[i], jax.tree.map(operator.itemgetter(i), (states, infos))):
            assert jnp.allclose(other.position, state.position, atol=1e-5)
            assert other_info.num_tries == info.num_tries
        assert jnp.allclose(scanned[0].position[i], state.position, atol=1e-5)
