"""The tick engine makes the very draws that `step` makes, however many chains run and however they are chunked."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine, Identity

from helpers import shaken
from tessmc import DensityError
from tessmc.engines import advance, collect, count_evaluations, march, place_chains, settle
from tessmc.kernels import TransportEllipticalSlice
from tessmc.transports import paper_coupling

KEY = jr.key(42)


def quartic(x):
    return -jnp.sum(x**4) / 4


ELEMENTWISE = TransportEllipticalSlice(quartic, Affine(jnp.array([0.3]), jnp.array([1.7])))
GENERAL = TransportEllipticalSlice(lambda x: quartic(x) - x[0] * x[2], shaken(paper_coupling(jr.key(0), 3)))
KERNELS = {"elementwise": (ELEMENTWISE, 1), "general": (GENERAL, 3)}


def engine(kernel, references, num_draws):
    return collect(kernel, place_chains(KEY, references), num_draws)[1]


def steps(kernel, reference, chain, num_draws):
    """The draws of one chain by `step` in a loop, with the random stream that the engine gives it."""
    key = jr.fold_in(KEY, chain)

    @jax.jit
    def run(reference):
        def step(state, iteration):
            state, info = kernel.step(jr.fold_in(key, iteration), state)
            return state, (state.position, info.num_tries)

        return jax.lax.scan(step, kernel.evaluate(reference), jnp.arange(num_draws))[1]

    return run(reference)


@pytest.mark.parametrize("name", KERNELS)
def test_same_draws_by_step_and_by_engines_of_any_size(name):
    kernel, dim = KERNELS[name]
    num_draws = 100 if name == "elementwise" else 30
    references = jr.normal(jr.key(1), (128, dim))
    many = engine(kernel, references, num_draws)
    one = engine(kernel, references[:1], num_draws)
    alone, num_tries = steps(kernel, references[0], 0, num_draws)
    same = np.array_equal if name == "elementwise" else lambda a, b: np.allclose(a, b, atol=1e-3)
    assert same(many.position[0], one.position[0])
    assert same(many.position[0], alone)
    assert np.array_equal(many.num_tries[0], num_tries)
    third, _ = steps(kernel, references[3], 3, num_draws)
    assert same(many.position[3], third)


def test_same_draws_where_the_last_of_many_go_on_apart():
    references = jr.normal(jr.key(1), (512, 1))
    many = engine(ELEMENTWISE, references, 20)
    few = engine(ELEMENTWISE, references[:100], 20)
    for name, values in few._asdict().items():
        assert np.array_equal(getattr(many, name)[:100], values), name
    assert np.all(np.isin(many.num_tries, np.arange(1, 101)))


@pytest.mark.parametrize("name", KERNELS)
def test_same_bits_for_any_chunks(name):
    kernel, dim = KERNELS[name]
    references = jr.normal(jr.key(1), (5, dim))
    whole = engine(kernel, references, 40)

    chains = place_chains(KEY, references)
    parts = []
    for num_draws in (1, 7, 32):
        chains, draws = collect(kernel, chains, num_draws)
        parts.append(draws)
    for name_, values in whole._asdict().items():
        assert np.array_equal(values, np.concatenate([getattr(part, name_) for part in parts], axis=1)), name_


def test_same_bits_for_any_number_of_ticks_a_call():
    references = jr.normal(jr.key(1), (5, 3))
    whole = engine(GENERAL, references, 10)
    chains = place_chains(KEY, references)
    found = {chain: [] for chain in range(5)}
    for num_ticks in range(1, 1000):
        chains, tape = advance(GENERAL, chains, jnp.int32(10), jnp.int32(1 + num_ticks % 3))
        for tick, chain in np.argwhere(np.asarray(tape.is_draw)):
            found[chain].append(np.asarray(tape.position[tick, chain]))
        if np.all(np.asarray(chains.iteration) == 10):
            break
    assert all(np.array_equal(np.stack(found[chain]), whole.position[chain]) for chain in range(5))


def test_each_chain_makes_its_own_number_of_draws_and_no_more():
    chains = place_chains(KEY, jr.normal(jr.key(1), (64, 3)))
    chains, draws = collect(GENERAL, chains, 25)
    assert np.all(np.asarray(chains.iteration) == 25)
    evaluations = np.asarray(chains.num_evaluations)
    assert np.array_equal(evaluations, 1 + draws.num_tries.sum(axis=1))  # one for its start
    assert evaluations.min() < evaluations.max()
    assert count_evaluations(chains) == evaluations.sum()


def test_no_chain_waits_for_another():
    """The loop runs as long as the slowest chain needs for itself, not as long as the slowest of every draw."""
    chains = place_chains(KEY, jr.normal(jr.key(1), (64, 3)))
    num_ticks = np.asarray(march(GENERAL, chains, 50).num_evaluations).max()
    almost, _ = advance(GENERAL, chains, jnp.int32(50), jnp.int32(num_ticks - 1))
    assert np.asarray(almost.iteration).min() == 49
    done, _ = advance(GENERAL, chains, jnp.int32(50), jnp.int32(num_ticks))
    assert np.asarray(done.iteration).min() == 50


def test_other_counts_compile_nothing_new():
    traces = []

    def log_density(x):
        traces.append(None)
        return -jnp.sum(x**2)

    kernel = TransportEllipticalSlice(log_density, Identity((2,)))
    references = jr.normal(jr.key(1), (4, 2))
    engine(kernel, references, 3)
    num_traces = len(traces)
    engine(kernel, references, 17)
    engine(kernel, references, 200)
    assert len(traces) == num_traces > 0


def test_chains_have_streams_of_their_own():
    draws = engine(ELEMENTWISE, jnp.zeros((6, 1)), 3)
    assert len(np.unique(draws.position[:, 0, 0])) == 6


def test_stuck_chains_stay_and_are_counted():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(x[0] == 1, 0.0, -jnp.inf), Identity((1,)), max_tries=5)
    draws = engine(kernel, jnp.ones((3, 1)), 4)
    assert np.all(draws.is_stuck)
    assert np.all(draws.num_tries == 5)
    assert np.all(draws.position == 1)
    assert np.all(draws.log_density == 0)


def test_stuck_chains_do_not_show_a_nan_they_tried():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(x[0] == 1, 0.0, jnp.nan), Identity((1,)), max_tries=5)
    draws = engine(kernel, jnp.ones((3, 1)), 4)
    assert np.all(draws.is_stuck)
    assert np.all(draws.position == 1)
    assert np.all(draws.log_density == 0)
    assert np.all(draws.num_nan == 5)


def test_nan_is_counted():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(x[0] > 0, -x[0], jnp.nan), Identity((1,)))
    draws = engine(kernel, jnp.ones((8, 1)), 50)
    assert np.all(draws.position > 0)
    assert np.all(np.isfinite(draws.log_density))
    assert draws.num_nan.sum() > 0


def test_plus_infinity_names_the_point():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(x[0] > 0, -x[0], jnp.inf), Identity((1,)))
    with pytest.raises(DensityError, match=r"\+inf at \[-\d+\.\d+\] \(chain \d\)"):
        engine(kernel, jnp.ones((4, 1)), 50)


def test_bad_starts_are_drawn_anew_and_good_ones_kept():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf), Identity((1,)))
    references = jnp.array([[1.0], [-1.0], [2.0], [jnp.nan]])
    chains = settle(kernel, place_chains(KEY, references), lambda count, _: jr.normal(jr.fold_in(KEY, count), (4, 1)))
    settled = np.asarray(chains.state.position)[:, 0]
    assert np.array_equal(chains.state.reference, chains.state.position)  # the map is the identity
    assert settled[0] == 1
    assert settled[2] == 2
    assert np.all(settled > 0)


def test_a_hopeless_start_names_chain_and_point():
    kernel = TransportEllipticalSlice(lambda x: jnp.where(x[0] > 5, 0.0, -jnp.inf), Identity((1,)))
    with pytest.raises(DensityError, match=r"chain 1 found no start: the log density is -inf at \[0\.5\]"):
        settle(kernel, place_chains(KEY, jnp.array([[6.0], [1.0]])), lambda *_: jnp.full((2, 1), 0.5))


def z_of_second_moment(draws):
    draws = draws.astype(float)
    return (draws**2 - 1).mean() * np.sqrt(draws.size / 2)


def test_stopping_at_each_chains_own_count_is_unbiased():
    """Chains begun in exact draws still are exact when they stop; stopping at a total count would not do."""
    kernel = TransportEllipticalSlice(lambda x: -jnp.sum(x**2) / 2, Affine(jnp.zeros(1), jnp.array([0.4])))
    exact = jr.normal(jr.key(9), (8192, 1))
    heard = []
    chains = place_chains(KEY, exact / 0.4)
    march(kernel, chains, 3, hear=lambda _, rows: heard.append(rows))
    positions = np.concatenate([rows.draws.position[:, 0] for rows in heard])
    iterations = np.concatenate([rows.iteration for rows in heard])
    assert abs(z_of_second_moment(positions[iterations == 2])) < 4
    first = positions[: len(exact)]  # as many draws as chains, in the order in which they came
    assert abs(z_of_second_moment(first)) > 8
