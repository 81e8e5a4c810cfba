"""Learning from draws of the map's own law."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine

import tessmc
from tessmc._clock import Clock
from tessmc.adaptation import Warmup, WarmupTask
from tessmc.adaptation import _path as path
from tessmc.adaptation._buffer import Drawn, in_a_row, log_ratios, mix, take
from tessmc.kernels import StudentT
from tessmc.models import banana, funnel
from tessmc.targets import Target
from tessmc.transports import Spread, spread_of_map, with_spread


def arrived(target, num_chains=32):
    task = WarmupTask(target, None, None, jr.key(3), num_chains, 100, Clock(), lambda *_: None)
    return task, Warmup.auto()._arrive(*jr.split(jr.key(1), 3), task)


def gaussian(dim, shift=0.0):
    return Target(lambda x: -jnp.sum((x - shift) ** 2) / 2, jnp.zeros(dim))


def test_points_are_widened_as_a_whole_or_in_one_coordinate():
    points = jnp.ones((6, 4))
    wider = path.widen(jr.key(0), points, jnp.float32(1))
    assert jnp.allclose(wider[::2], 1.5)
    assert jnp.array_equal(jnp.sort(wider[1::2], axis=1), jnp.tile(jnp.array([1.0, 1.0, 1.0, 2.0]), (3, 1)))
    assert jnp.array_equal(path.widen(jr.key(0), points, jnp.float32(0)), points)


def test_what_is_asked_is_the_density_at_the_pushed_points():
    task, camp = arrived(gaussian(2, shift=3.0), num_chains=4)
    camp = camp._replace(transport=with_spread(camp.transport, Spread(np.ones(2), np.full(2, 2.0), np.eye(2))))
    references = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
    states = path.ask_at(task, camp, references)
    assert np.allclose(states.position, 1 + 2 * references, atol=1e-6)
    assert np.allclose(states.log_density, -np.sum((states.position - 3) ** 2, axis=1) / 2, atol=1e-4)


def test_a_short_warm_up_takes_fewer_steps():
    task, _ = arrived(gaussian(2))
    assert path.count_steps(task) == path.NUM_STEPS
    assert path.count_steps(task._replace(num_warmup=10)) < path.NUM_STEPS / 5
    assert path.count_steps(task._replace(num_warmup=1)) > 0


def distance_gone(dim):
    """Of a shift whose every entry is asked to grow, in 20 steps."""
    task = WarmupTask(gaussian(dim), None, None, jr.key(3), 32, 100, Clock(), lambda *_: None)

    def objective(transport, key, data):  # noqa: ARG001
        return -jnp.mean(transport.loc)

    shift = Affine(jnp.zeros(dim), jnp.ones(dim))
    return float(path.train(task, shift, objective, lambda *_: None, jr.key(0), 20, 1e-2).loc.mean())


def test_steps_are_shorter_in_hundreds_of_dimensions():
    assert distance_gone(100) == pytest.approx(distance_gone(2), rel=1e-3)
    assert distance_gone(300) == pytest.approx(distance_gone(2) / 3, rel=1e-3)


@pytest.fixture(scope="module")
def few_steps():
    """A tenth of the steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path, "NUM_STEPS", 500)
        yield


@pytest.mark.usefixtures("few_steps")
def test_a_map_is_refined_where_draws_have_not_taught_it():
    task, camp = arrived(banana())
    camp, draws = camp.collect(task, 30)
    drawn = in_a_row([draws])
    held = mix(drawn, take(drawn, np.arange(0)), 2**11, camp.law)
    learned = path.refine(task, camp, held, jr.key(5), np.random.default_rng(0))
    assert learned.is_better
    assert learned.s < 0.3
    assert np.std(log_ratios(camp.transport, camp.law, drawn)) > 1


@pytest.mark.usefixtures("few_steps")
def test_a_map_that_draws_contradict_is_not_taken():
    """A density that is not that of the draws: refined, the map leaves them."""
    task, camp = arrived(gaussian(2))
    camp, draws = camp.collect(task, 10)
    drawn = in_a_row([draws])
    held = mix(drawn, take(drawn, np.arange(0)), 2**11, camp.law)
    elsewhere = task._replace(target=gaussian(2, shift=20.0))
    assert not path.refine(elsewhere, camp, held, jr.key(5), np.random.default_rng(0)).is_better


def modes(distance):
    """Two modes of equal weight in ten dimensions."""
    half = distance / 2 / np.sqrt(10)
    return Target(lambda x: jnp.logaddexp(-jnp.sum((x - half) ** 2) / 2, -jnp.sum((x + half) ** 2) / 2), jnp.zeros(10))


def standing(target, positions):
    task, camp = arrived(target, len(positions))
    state = camp.chains.state._replace(position=jnp.asarray(positions, jnp.float32))
    return task, camp._replace(chains=camp.chains._replace(state=state), law=StudentT(0))


def standing_for(camp, log_density):
    """The positions of the chains, as draws that were held out."""
    positions = np.asarray(camp.chains.state.position)
    drawn = Drawn(positions, np.array([float(log_density(position)) for position in positions]))
    return mix(drawn, take(drawn, np.arange(0)), 2**11, camp.law)


def test_chains_in_a_mode_that_the_map_does_not_know_stand_apart():
    rng = np.random.default_rng(1)
    half = 20 / np.sqrt(10)
    centers = np.where(np.arange(24) % 3 == 0, -half, half)[:, None]
    task, camp = standing(modes(40.0), centers + rng.normal(size=(24, 10)))
    one = Spread(np.full(10, half), np.ones(10), np.eye(10))
    camp = camp._replace(transport=with_spread(camp.transport, one))
    assert path.count_apart(task, camp, rng.normal(size=(24, 10)).astype(np.float32)) == 8


def test_chains_that_only_stand_badly_do_not():
    rng = np.random.default_rng(1)
    task, camp = standing(gaussian(10), 20 + rng.normal(size=(24, 10)))
    assert path.count_apart(task, camp, rng.normal(size=(24, 10)).astype(np.float32)) == 0


@pytest.mark.usefixtures("few_steps")
def test_chains_start_anew_from_a_map_learned_without_them():
    """From chains that stand in one corner of a funnel to all of it."""
    rng = np.random.default_rng(2)
    task, camp = standing(funnel(6), np.c_[2 + 0.3 * rng.normal(size=64), 5 * rng.normal(size=(64, 5))])
    learned = path.start_anew(task, camp, standing_for(camp, task.target.log_density), jr.key(5), rng)
    assert learned.is_better
    assert learned.s < 1
    log_scale = np.asarray(learned.camp.chains.state.position)[:, 0]
    assert abs(log_scale.mean()) < 0.8
    assert 1 < log_scale.std() < 2


@pytest.mark.usefixtures("few_steps")
def test_what_is_linear_is_left_to_the_affine_layer(monkeypatch):
    """Coordinates correlated by 0.9999: what couplings make of them in so few steps tells the affine layer enough."""
    monkeypatch.setattr(path, "FAR_FROM_GOOD", 0.2)
    rng = np.random.default_rng(2)
    cov = 0.9999 + 0.0001 * np.eye(6)
    precision = jnp.asarray(np.linalg.inv(cov), jnp.float32)
    target = Target(lambda x: -x @ precision @ x / 2, jnp.zeros(6))
    task, camp = standing(target, rng.normal(size=(64, 6)))
    learned = path.start_anew(task, camp, standing_for(camp, target.log_density), jr.key(5), rng)
    assert learned.is_better
    assert learned.s < 0.2
    found = spread_of_map(learned.camp.transport)
    # Most of the correlation is in the affine layer, which began without any.
    assert 2 * np.linalg.slogdet(found.factor)[1] < np.linalg.slogdet(cov)[1] / 2


@pytest.mark.usefixtures("few_steps")
def test_draws_beyond_a_wall_have_no_say_in_the_affine_layer(monkeypatch):
    monkeypatch.setattr(path, "FAR_FROM_GOOD", -1.0)
    rng = np.random.default_rng(2)
    target = Target(lambda x: jnp.where(x[0] > 0, -jnp.sum(x**2) / 2, -jnp.inf), jnp.zeros(3))
    task, camp = standing(target, np.abs(rng.normal(size=(64, 3))))
    learned = path.start_anew(task, camp, standing_for(camp, target.log_density), jr.key(5), rng)
    position = np.asarray(learned.camp.chains.state.position)
    assert np.isfinite(position).all()
    assert (position[:, 0] > 0).all()
    assert spread_of_map(learned.camp.transport).shift[0] > 0


def at_two_places(log_weight):
    """All chains in one of two modes far apart, a map on the other, and the log of its weight over that of theirs."""
    rng = np.random.default_rng(1)

    def log_density(x):
        chains, other = (-jnp.sum((x - centre) ** 2) / 2 for centre in (jnp.full(10, 30.0), jnp.zeros(10)))
        return jnp.logaddexp(chains, log_weight + other)

    task, camp = standing(Target(log_density, jnp.zeros(10)), 30 + rng.normal(size=(64, 10)))
    held = standing_for(camp, log_density)
    near = camp._replace(transport=with_spread(camp.transport, Spread(np.full(10, 30.0), np.ones(10), np.eye(10))))
    anywhere = Spread(np.zeros(10), np.ones(10), np.eye(10))
    references = rng.normal(size=(64, 10)).astype(np.float32)
    return path._learn_under(task, camp, anywhere, jr.key(5), references, rng), near, held


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(("log_weight", "is_negligible"), [(0.0, False), (10.0, False), (100.0, True)])
def test_a_place_that_the_chains_know_may_be_left_if_it_weighs_nothing(log_weight, is_negligible):
    found, near, held = at_two_places(log_weight)
    # Both know their mode well, and then both bounds are exact.
    assert abs(found.bound - log_weight - 5 * np.log(2 * np.pi)) < 0.3
    assert path.outweighs(found, near, held) == is_negligible


def test_many_dimensions_that_chains_cannot_teach_are_learned_from_the_target():
    settings = {"num_chains": 64, "num_warmup": 100, "num_samples": 100, "progress": False}
    result = tessmc.sample(funnel(25), **settings)
    assert result.num_evaluations_by_phase["fit"] > path.NUM_STEPS * path.BATCH
    assert result.convergence.r_hat.max() < 1.1
    assert abs(result.posterior["log_scale"].std() - 1.5) < 0.2
