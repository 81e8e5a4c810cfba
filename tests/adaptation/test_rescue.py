"""Chains that start far away: gather, temper, merge."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tessmc._clock import Clock
from tessmc.adaptation import WarmupTask
from tessmc.adaptation._auto import AutoWarmup
from tessmc.adaptation._rescue import distance, gather, merge, next_power, resample, rescue, temper, weights_of
from tessmc.targets import Target
from tessmc.transports import Spread


def task(target, num_chains=64):
    return WarmupTask(target, None, None, jr.key(3), num_chains, 100, Clock(), lambda *_: None)


def arrived(given, seed=1):
    return AutoWarmup(False)._arrive(*jr.split(jr.key(seed), 3), given)


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
    chosen = resample(np.random.default_rng(1), np.array([0.5, 0.0, 0.25, 0.25]), 4)
    assert sorted(chosen.tolist()) == [0, 0, 2, 3]
    assert len(resample(np.random.default_rng(1), np.array([0.5, 0.5]), 9)) == 9


def test_distance_is_in_scales():
    one = Spread(np.zeros(2), np.ones(2), np.eye(2))
    assert distance(one, one) == 0
    assert np.isclose(distance(one, one._replace(scale=np.array([1, np.e]))), 1)
    assert np.isclose(distance(one, one._replace(shift=np.array([0, -3.0]))), 3)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_the_cloud_takes_the_scale_of_the_target(scale):
    given = task(Target(lambda x: -jnp.sum((x / scale) ** 2) / 2, jnp.zeros(2)))
    camp = gather(given, arrived(given), 80)
    spread = np.asarray(camp.chains.state.position).std(axis=0)
    assert np.all((spread > scale / 3) & (spread < 3 * scale))


def test_the_cloud_moves_to_a_target_far_away():
    given = task(Target(lambda x: -jnp.sum((x - 1000) ** 2) / 2, jnp.zeros(3)))
    camp, power, _ = temper(given, gather(given, arrived(given), 80), np.random.default_rng(0), 100)
    assert power == 1
    assert np.abs(np.asarray(camp.chains.state.position).mean(axis=0) - 1000).max() < 1


def test_tempering_gives_separate_modes_their_weights():
    def log_density(x):
        near, far = -jnp.sum((x - 6) ** 2) / 2, -jnp.sum((x + 6) ** 2) / 2
        return jnp.logaddexp(jnp.log(0.8) + near, jnp.log(0.2) + far)

    given = task(Target(log_density, jnp.zeros(2)), num_chains=512)
    camp, power, _ = temper(given, gather(given, arrived(given), 40), np.random.default_rng(0), 100)
    share = (np.asarray(camp.chains.state.position)[:, 0] > 0).mean()
    assert power == 1
    assert 0.65 < share < 0.95


def test_modes_far_from_the_start_are_both_found():
    def log_density(x):
        return jnp.logaddexp(jnp.log(0.3) - jnp.sum((x - 5) ** 2) / 2, jnp.log(0.7) - jnp.sum((x + 5) ** 2) / 2)

    given = task(Target(log_density, jnp.zeros(5)), num_chains=256)
    shares = []
    for seed in range(4):
        history = []
        camp = rescue(given, arrived(given, seed), np.random.default_rng(seed), history)
        shares.append((np.asarray(camp.chains.state.position).mean(axis=1) > 0).mean())
        assert [entry["stage"] for entry in history] == ["temper", "gather", "temper"]
    assert np.all((np.array(shares) > 0.1) & (np.array(shares) < 0.6))


def test_tempering_that_runs_out_of_budget_says_how_far_it_came():
    given = task(Target(lambda x: -jnp.sum((x / 1e-4) ** 2) / 2, jnp.zeros(5)))
    _, power, acceptance = temper(given, arrived(given), np.random.default_rng(0), 3)
    assert 0 < power < 1
    # One step of b after which half of the points would still count.
    assert 0.3 < acceptance < 0.8


def test_chains_stay_if_nothing_of_a_wider_cloud_has_a_density():
    given = task(Target(lambda x: -jnp.sum(x**2) / 2, jnp.zeros(2)))
    camp = arrived(given)
    nowhere = given._replace(target=Target(lambda x: -jnp.inf * jnp.sum(x**2), jnp.zeros(2)))
    after, power, acceptance = temper(nowhere, camp, np.random.default_rng(0), 30)
    assert power == acceptance == 0
    assert jnp.array_equal(after.chains.state.position, camp.chains.state.position)


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
