"""The automatic warm-up."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import tessmc
from tessmc._clock import Clock
from tessmc.adaptation import Warmup, WarmupTask
from tessmc.adaptation._auto import as_ladder
from tessmc.adaptation._buffer import Drawn, winsorised
from tessmc.adaptation._stride import MAX_LONG_STRIDE, MAX_STRIDE, stride_by_r_hat, stride_for
from tessmc.adaptation._windows import Windows
from tessmc.models import BananaMap, banana
from tessmc.transports import ladder_map

FREE = Warmup.auto(use_gradient=False)


def test_s_forgives_low_ratios_and_not_high_ones():
    ratios = np.zeros(10_000)
    ratios[:50] = -100
    assert winsorised(ratios) == 0
    ratios[50:100] = 100
    assert winsorised(ratios) > 5
    assert winsorised(np.full(10, np.nan)) == np.inf


@pytest.fixture(scope="module")
def learned():
    settings = {"num_samples": 200, "seed": 1, "progress": False}
    return tessmc.sample(banana(), warmup=Warmup.auto(), **settings)


def test_it_learns_the_banana(learned):
    x = learned.posterior["x"]
    assert learned.convergence.r_hat.max() < 1.01
    assert np.all(np.abs(x.mean(axis=(0, 1)) - [0, 2]) < 0.1 * np.array([8**0.5, 3]))
    assert np.all(np.abs(x.std(axis=(0, 1)) / [8**0.5, 3] - 1) < 0.1)
    assert learned.stats["num_evaluations"].mean() < 1.5


def test_the_history_tells_the_story(learned):
    history = learned.warmup_history
    assert [entry["stage"] for entry in history[:4]] == ["temper", "gather", "temper", "window"]
    assert history[0]["power"] == history[2]["power"] == 1
    # Of a banana half as wide as its cloud some points die out, and some are left.
    assert all(0.02 < entry["acceptance"] < 0.9 for entry in (history[0], history[2]))
    windows = [entry for entry in history if entry["stage"] == "window"]
    assert {entry["rung"] for entry in windows} == {"affine", "couplings"}
    assert windows[-1]["s"] < windows[0]["s"]
    assert windows[-1]["evaluations"] < windows[0]["evaluations"]
    assert history[-1]["iteration"] <= 400
    assert 0 <= history[-1]["share_unseen"] < 0.01
    assert history[-1]["num_beyond"] <= 1
    assert history[-1]["num_forgotten"] == 0


def test_a_learned_map_starts_another_run_warm(learned):
    settings = {"num_chains": 64, "num_warmup": 60, "num_samples": 20, "seed": 2, "progress": False}
    again = tessmc.sample(banana(), transport=learned.transport, warmup=FREE, **settings)
    first = again.warmup_history[0]
    assert first["stage"] == "window"
    assert first["evaluations"] < 1.5


def test_a_run_with_a_given_map_sends_scouts_too():
    ladder = ladder_map(jr.key(3), 2, np.dtype("float32"))
    given = WarmupTask(banana(), ladder, None, jr.key(0), 16, 24, Clock(), lambda *_: None)
    windows = Windows(given, Drawn(np.zeros((1, 2)), np.zeros(1)), False, False, jr.key(2), [])
    windows.run(FREE._arrive(*jr.split(jr.key(1), 3), given), 24)
    assert windows.scouts is not None
    assert len(windows.scouts.trips) > 0


def test_values_alone_find_a_narrow_gaussian_of_many_dimensions():
    rotation = np.linalg.qr(np.random.default_rng(4).normal(size=(30, 30)))[0]
    precision = jnp.asarray((rotation / np.logspace(-4, 0, 30)) @ rotation.T, jnp.float32)
    settings = {"num_chains": 64, "num_warmup": 160, "num_samples": 50, "progress": False}
    result = tessmc.sample(lambda x: -x @ precision @ x / 2, like=30, warmup=FREE, **settings)
    assert result.stats["num_evaluations"].mean() < 1.1
    variances = ((result.unconstrained @ rotation) ** 2).mean(axis=(0, 1)) / np.logspace(-4, 0, 30)
    assert np.all(np.abs(variances - 1) < 0.2)


def test_few_chains_far_from_a_gaussian_in_many_dimensions():
    """Scores tell the whole of it, where all chains together still stand on one side."""
    scale = jnp.linspace(0.5, 2, 120)
    settings = {"num_chains": 32, "num_warmup": 24, "num_samples": 50, "progress": False}
    result = tessmc.sample(lambda x: -0.5 * jnp.sum(((x - 3) / scale) ** 2), like=120, **settings)
    assert result.stats["num_evaluations"].mean() < 1.05
    assert np.abs(result.unconstrained.mean((0, 1)) - 3).max() < 5 * 2 / np.sqrt(1600)


def test_a_flat_density_with_hard_walls_is_not_taken_for_a_wide_one():
    def log_density(x):
        return jnp.where(jnp.all((x > 0) & (x < 1)), 0.0, -jnp.inf)

    settings = {"num_chains": 64, "num_warmup": 160, "num_samples": 50, "progress": False}
    result = tessmc.sample(log_density, like=2, **settings)
    assert result.stats["num_evaluations"].mean() < 3
    assert np.allclose(result.unconstrained.mean(axis=(0, 1)), 0.5, atol=0.03)


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


def camp_of(num_chains=8):
    task = WarmupTask(banana(), None, None, jr.key(3), num_chains, 100, Clock(), lambda *_: None)
    return task, FREE._arrive(*jr.split(jr.key(1), 3), task)


def test_chains_under_another_map_stay_where_they_are():
    task, camp = camp_of()
    camp = camp.march(task, 3)
    moved = camp._replace(transport=as_ladder(BananaMap(), 2, np.dtype("float32"))).recalled()
    assert jnp.array_equal(moved.chains.state.position, camp.chains.state.position)
    paid = jax.vmap(moved.kernel(task).evaluate)(moved.chains.state.reference)
    assert jnp.allclose(paid.log_ratio, moved.chains.state.log_ratio, atol=1e-3)
    # What is known is not paid for again: so many transitions, so many tries.
    after, draws = moved.collect(task, 2)
    assert jnp.array_equal(after.chains.num_evaluations - camp.chains.num_evaluations, draws.num_tries.sum(axis=1))


def remembering(memory):
    """An autoregression: a draw is worth (1 - memory)/(1 + memory) independent ones."""
    noise = np.random.default_rng(0).normal(size=(64, 120, 2))
    draws = noise.copy()
    for step in range(1, 120):
        draws[:, step, 1] = memory * draws[:, step - 1, 1] + np.sqrt(1 - memory**2) * noise[:, step, 1]
    return draws


# 1, 0.43, 0.21, 0.05, 0.005 of an independent draw.
@pytest.mark.parametrize(("memory", "stride"), [(0.0, 1), (0.4, 1), (0.65, 2), (0.9, MAX_STRIDE), (0.99, 1)])
def test_slow_chains_make_several_transitions_for_a_draw(memory, stride):
    draws = remembering(memory)
    assert stride_for(draws) == stride
    assert stride_for(draws[:, :10]) == 1


# R-hat is 1 + (τ - 1)/n, with τ = (1 + memory)/(1 - memory), so 4 (τ - 1) are asked for: 0, 2, 5, hundreds.
@pytest.mark.parametrize(("memory", "low", "high"), [(0.0, 1, 1), (0.2, 1, 4), (0.4, 3, 8), (0.99, 1, 1)])
def test_chains_that_agree_slowly_make_as_many_transitions_as_r_hat_asks_for(memory, low, high):
    draws = remembering(memory)
    assert low <= stride_by_r_hat(draws) <= high
    assert stride_by_r_hat(draws[:, :10]) == 1


def test_the_transitions_for_a_draw_have_a_bound():
    assert stride_by_r_hat(remembering(0.85)) == MAX_LONG_STRIDE


def test_every_so_many_transitions_are_a_draw(monkeypatch):
    settings = {"num_chains": 16, "num_warmup": 20, "progress": False, "warmup": FREE}
    whole = tessmc.sample(banana(), num_samples=12, **settings)
    monkeypatch.setattr(Windows, "stride", lambda _: 3)
    thinned = tessmc.sample(banana(), num_samples=4, **settings)
    assert (whole.stride, thinned.stride) == (1, 3)
    assert np.array_equal(thinned.posterior["x"], whole.posterior["x"][:, 2::3])
    assert np.array_equal(thinned.stats["log_ratio"], whole.stats["log_ratio"][:, 2::3])
    paid = whole.stats["num_evaluations"].reshape(16, 4, 3).sum(axis=2)
    assert np.array_equal(thinned.stats["num_evaluations"], paid)
    assert thinned.num_evaluations == whole.num_evaluations
    assert "4 draws of 3 transitions" in str(thinned.summary())
