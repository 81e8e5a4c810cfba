"""The automatic warm-up and its parts."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import tessmc
from tessmc._clock import Clock
from tessmc.adaptation import Warmup, WarmupTask
from tessmc.adaptation._auto import AutoWarmup, as_ladder
from tessmc.adaptation._rescue import distance, gather, merge, next_power, resample, temper, weights_of
from tessmc.adaptation._windows import winsorised
from tessmc.kernels import TransportEllipticalSlice
from tessmc.models import BananaMap, banana
from tessmc.targets import Target
from tessmc.transports import Spread

FREE = Warmup.auto(use_gradient=False)


def task(target, *, num_chains=64, num_warmup=100, transport=None, start=None):
    return WarmupTask(target, transport, start, jr.key(3), num_chains, num_warmup, Clock(), lambda *_: None)


def arrived(given):
    keys = jr.split(jr.key(1), 3)
    return AutoWarmup(False)._arrive(*keys, given)


# --- rescue --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_the_cloud_takes_the_scale_of_the_target(scale):
    given = task(Target(lambda x: -jnp.sum((x / scale) ** 2) / 2, jnp.zeros(2)))
    camp = gather(given, arrived(given), 80)
    spread = np.asarray(camp.chains.state.position).std(axis=0)
    assert np.all((spread > scale / 3) & (spread < 3 * scale))


def test_the_cloud_moves_to_a_target_far_away():
    given = task(Target(lambda x: -jnp.sum((x - 1000) ** 2) / 2, jnp.zeros(3)))
    camp, power = temper(given, gather(given, arrived(given), 80), np.random.default_rng(0), 100)
    assert power == 1
    assert np.abs(np.asarray(camp.chains.state.position).mean(axis=0) - 1000).max() < 1


def test_tempering_gives_separate_modes_their_weights():
    def log_density(x):
        near, far = -jnp.sum((x - 6) ** 2) / 2, -jnp.sum((x + 6) ** 2) / 2
        return jnp.logaddexp(jnp.log(0.8) + near, jnp.log(0.2) + far)

    given = task(Target(log_density, jnp.zeros(2)), num_chains=512)
    camp, power = temper(given, gather(given, arrived(given), 40), np.random.default_rng(0), 100)
    share = (np.asarray(camp.chains.state.position)[:, 0] > 0).mean()
    assert power == 1
    assert 0.65 < share < 0.95


def test_tempering_that_runs_out_of_budget_says_how_far_it_came():
    given = task(Target(lambda x: -jnp.sum((x / 1e-4) ** 2) / 2, jnp.zeros(5)))
    _, power = temper(given, arrived(given), np.random.default_rng(0), 3)
    assert 0 < power < 1


def test_merging_keeps_what_tempering_lost_but_not_the_hopeless():
    given = task(Target(lambda x: -jnp.sum(x**2) / 2, jnp.zeros(1)), num_chains=8)
    camp = arrived(given)

    def stand(positions):
        points = jnp.asarray(positions, jnp.float32)[:, None]
        state = camp.chains.state._replace(position=points, log_density=-(points[:, 0] ** 2) / 2)
        return camp._replace(chains=camp.chains._replace(state=state))

    gathered, tempered = stand([3, 1, 1, 1, 50, 1, 1, 1]), stand([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    merged = merge(gathered, tempered).chains.state.position[:, 0]
    assert np.allclose(merged, [3, 0.1, 1, 0.3, 0.4, 0.5, 1, 0.7])


def test_the_next_power_leaves_half_of_the_chains():
    log_weight = np.random.default_rng(0).normal(scale=50, size=1000)
    power = next_power(0.0, log_weight)
    weights = weights_of(log_weight, power)
    assert 0 < power < 1
    assert abs(1 / np.sum(weights**2) - 500) < 5
    assert next_power(0.5, np.zeros(10)) == 1
    assert next_power(0.0, np.array([-np.inf, 0.0, 0.0, np.nan])) == 1


def test_weights_of_impossible_places_are_zero():
    assert np.array_equal(weights_of(np.array([0.0, -np.inf, np.nan, 0.0]), 0.5), [0.5, 0, 0, 0.5])
    assert np.allclose(weights_of(np.full(4, -np.inf), 0.5), 0.25)


def test_resampling_keeps_the_shares():
    chosen = resample(np.random.default_rng(1), np.array([0.5, 0.0, 0.25, 0.25]))
    assert sorted(chosen.tolist()) == [0, 0, 2, 3]


def test_distance_is_in_scales():
    one = Spread(np.zeros(2), np.ones(2), np.eye(2))
    assert distance(one, one) == 0
    assert np.isclose(distance(one, one._replace(scale=np.array([1, np.e]))), 1)
    assert np.isclose(distance(one, one._replace(shift=np.array([0, -3.0]))), 3)


# --- windows -------------------------------------------------------------------------------------


def test_s_forgives_low_ratios_and_not_high_ones():
    ratios = np.zeros(10_000)
    ratios[:50] = -100
    assert winsorised(ratios) == 0
    ratios[50:100] = 100
    assert winsorised(ratios) > 5
    assert winsorised(np.full(10, np.nan)) == np.inf


@pytest.fixture(scope="module")
def learned():
    settings = {"num_chains": 64, "num_warmup": 200, "num_samples": 200, "seed": 1, "progress": False}
    return tessmc.sample(banana(), warmup=Warmup.auto(), **settings)


def test_it_learns_the_banana(learned):
    x = learned.posterior["x"]
    assert learned.convergence.r_hat.max() < 1.01
    # Spreads are not tested here: of a tail that the warm-up has not seen the draws may have too little.
    assert np.all(np.abs(x.mean(axis=(0, 1)) - [0, 2]) < 0.1 * np.array([8**0.5, 3]))
    assert learned.stats["num_evaluations"].mean() < 1.5


def test_the_history_tells_the_story(learned):
    history = learned.warmup_history
    assert [entry["stage"] for entry in history[:3]] == ["gather", "temper", "window"]
    assert history[1]["power"] == 1
    windows = [entry for entry in history if entry["stage"] == "window"]
    assert {entry["rung"] for entry in windows} == {"affine", "couplings"}
    assert windows[-1]["s"] < windows[0]["s"]
    assert windows[-1]["evaluations"] < windows[0]["evaluations"]
    assert history[-1]["iteration"] <= 200


def test_a_learned_map_starts_another_run_warm(learned):
    settings = {"num_chains": 64, "num_warmup": 60, "num_samples": 20, "seed": 2, "progress": False}
    again = tessmc.sample(banana(), transport=learned.transport, warmup=FREE, **settings)
    first = again.warmup_history[0]
    assert first["stage"] == "window"
    assert first["evaluations"] < 1.5


def test_a_ladder_stays_as_it_is_and_any_map_may_be_its_foot():
    ladder = as_ladder(BananaMap(), 2, np.dtype("float32"))
    assert as_ladder(ladder, 2, np.dtype("float32")) is ladder
    point = jnp.array([0.3, -1.0])
    assert jnp.allclose(ladder.transform(point), BananaMap().transform(point), atol=1e-6)


def looped(x):
    """A density that JAX cannot differentiate backwards."""
    return jax.lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1] - jnp.sum(x**2) / 2), (0, jnp.zeros(())))[1]


def test_a_density_without_a_gradient_is_sampled_by_its_values():
    settings = {"like": 2, "num_chains": 32, "num_warmup": 60, "num_samples": 50, "progress": False}
    result = tessmc.sample(looped, warmup=Warmup.auto(), **settings)
    assert abs(result.posterior["x"].std() - 1) < 0.1
    with pytest.raises(TypeError, match="leave use_gradient out"):
        tessmc.sample(looped, like=2, num_warmup=8, warmup=Warmup.auto(use_gradient=True), progress=False)


@pytest.mark.parametrize(("num_chains", "num_warmup"), [(1, 3), (3, 20), (9, 1)])
def test_few_chains_and_short_warm_ups_end_well(num_chains, num_warmup):
    settings = {"num_chains": num_chains, "num_warmup": num_warmup, "num_samples": 20, "progress": False}
    result = tessmc.sample(lambda x: -jnp.sum(x**2), like=2, warmup=FREE, **settings)
    assert np.isfinite(result.unconstrained).all()
    assert result.unconstrained.shape == (num_chains, 20, 2)


def test_chains_under_another_map_stay_where_they_are():
    from tessmc.engines import collect, place_chains, recall_chains

    before = TransportEllipticalSlice(banana().log_density, BananaMap())
    chains, _ = collect(before, place_chains(jr.key(0), jr.normal(jr.key(1), (8, 2))), 3)
    after = TransportEllipticalSlice(banana().log_density, as_ladder(BananaMap(), 2, np.dtype("float32")))
    moved = recall_chains(after, chains)
    assert jnp.array_equal(moved.state.position, chains.state.position)
    paid = jax.vmap(after.evaluate)(moved.state.reference)
    assert jnp.allclose(paid.log_ratio, moved.state.log_ratio, atol=1e-3)
    assert jnp.array_equal(moved.num_evaluations, chains.num_evaluations)
