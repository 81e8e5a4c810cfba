"""Algorithm 2, line by line."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tessmc import Target, Warmup
from tessmc._clock import Clock
from tessmc.adaptation import Decay, WarmupTask, begin_fit, fit, kl_from_target
from tessmc.kernels import TransportEllipticalSlice
from tessmc.models import banana


def task(target, num_warmup, *, transport=None, start=None, num_chains=16):
    return WarmupTask(target, transport, start, jr.key(3), num_chains, num_warmup, Clock(), lambda *_: None)


def _from_target(transport, key, positions):
    del key
    return kl_from_target(transport, positions)


def test_epochs_are_those_of_algorithm_2():
    """Lines 2-8 again, in plain steps: u is handed on, r belongs to the newest map, m steps a epoch on x alone."""
    warmup = Warmup.paper(num_steps=2, num_initial_steps=0, learning_rate=0.03)
    start = task(banana(), 0)
    before = warmup.run(start)
    after = warmup.run(start._replace(num_warmup=3))

    key_fit = jr.split(start.key, 6)[4]
    state = begin_fit(before.kernel.transport)
    kernel, u = before.kernel, before.chains.state.reference
    keys = before.chains.key
    for epoch in range(3):
        moved, _ = jax.vmap(
            lambda key, u, kernel=kernel, epoch=epoch: kernel.step(jr.fold_in(key, epoch), kernel.evaluate(u))
        )(keys, u)
        u = moved.reference
        state = fit(_from_target, state, key_fit, moved.position, Decay(0.03, 0.1, 6), jnp.int32(2))
        kernel = TransportEllipticalSlice(banana().log_density, state.transport)
    assert jnp.allclose(after.chains.state.reference, u, atol=1e-4)
    assert jnp.allclose(after.chains.state.log_ratio, jax.vmap(kernel.evaluate)(u).log_ratio, atol=1e-3)
    for mine, theirs in zip(
        *(jax.tree.leaves(eqx.filter(k.transport, eqx.is_array)) for k in (after.kernel, kernel)), strict=True
    ):
        assert jnp.allclose(mine, theirs, atol=1e-4)


def test_the_map_of_the_paper_is_the_default():
    transport = Warmup.paper(num_initial_steps=0).run(task(banana(), 0)).kernel.transport
    assert [layer.moves_first for layer in transport.bijection] == [True, False]
    assert all(layer.network.layers[1].weight.shape == (2, 2, 2) for layer in transport.bijection)


def test_settings_reach_the_map():
    warmup = Warmup.paper(num_layers=3, width=7, depth=1, num_initial_steps=0)
    transport = warmup.run(task(banana(), 0)).kernel.transport
    assert [linear.weight.shape for linear in transport.bijection[0].network.layers] == [(3, 7, 1), (3, 2, 7)]


def test_the_first_fit_moves_the_map_towards_the_target():
    target = Target(lambda x: -jnp.sum((x - 3) ** 2) / 2, 2)
    warmed = Warmup.paper(num_steps=0).run(task(target, 1, num_chains=64))
    assert np.allclose(np.asarray(warmed.chains.state.position).mean(0), 3, atol=0.7)
    assert warmed.num_evaluations["fit"] == 400 * 1000


def test_without_warmup_the_map_stays_as_it_is():
    warmed = Warmup.paper().run(task(banana(), 0))
    assert jnp.array_equal(warmed.kernel.transport.transform(jnp.ones(2)), jnp.ones(2))
    assert warmed.history == []
    assert warmed.num_evaluations == {"fit": 0, "warmup": 16}


def test_evaluations_are_counted_as_they_are_paid():
    """Each epoch pays for its tries and, because the map has changed, for the point it stands at."""
    warmed = Warmup.paper(num_initial_steps=0).run(task(banana(), 5))
    counts = [entry["num_evaluations"] for entry in warmed.history]
    assert len(counts) == 5
    assert counts[0] >= 2 * 16  # the start and one try each
    assert all(b - a >= 2 * 16 for a, b in pairwise(counts))
    assert warmed.num_evaluations["warmup"] == counts[-1] + 16


def test_given_positions_are_where_the_chains_begin():
    start = 1 + jr.uniform(jr.key(0), (16, 2))
    warmed = Warmup.paper().run(task(banana(), 0, start=start))
    assert np.allclose(warmed.chains.state.position, start, atol=1e-5)


def test_skipped_steps_are_in_the_history():
    target = Target(lambda x: jnp.where(x[0] > 0, -jnp.sum(x**2), -jnp.inf), 2)  # (6) is infinite at the start
    warmed = Warmup.paper(num_initial_steps=3).run(task(target, 4))
    assert [entry["num_skipped"] for entry in warmed.history] == [3, 0, 0, 0, 0]
    assert np.all(np.isfinite(warmed.chains.state.log_ratio))


def test_a_density_that_cannot_be_differentiated_needs_no_first_fit():
    target = Target(lambda x: jax.lax.while_loop(lambda v: v > 0, lambda v: v - 1.0, jnp.sum(x**2)) - jnp.sum(x**2), 2)
    with pytest.raises(TypeError, match="leave that fit out"):
        Warmup.paper().run(task(target, 2))
    warmed = Warmup.paper(num_initial_steps=0).run(task(target, 2))
    assert len(warmed.history) == 2


def test_restarts_with_one_given_position_are_other_points():
    target = Target(lambda x: jnp.where(x[0] > 0.1, -x[0], -jnp.inf), 1)
    warmed = Warmup.paper().run(task(target, 0, start=jnp.zeros((3, 1)), num_chains=3))
    assert np.all(np.asarray(warmed.chains.state.position) > 0.1)


@pytest.mark.parametrize("setting", [{"learning_rate": 0.0}, {"learning_rate": float("nan")}, {"decay": 2.0}])
def test_learning_rates_that_make_no_sense_are_refused(setting):
    with pytest.raises(ValueError, match="learning_rate above 0"):
        Warmup.paper(**setting)


@pytest.mark.parametrize(
    "setting", [{"width": 0}, {"num_layers": 0}, {"num_steps": -1}, {"num_initial_draws": 0}, {"depth": -1}]
)
def test_settings_that_make_no_sense_are_refused(setting):
    with pytest.raises(ValueError, match=f"`{next(iter(setting))}` of Warmup.paper should be at least"):
        Warmup.paper(**setting)
