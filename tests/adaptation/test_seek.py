"""Chains that seek what the map makes too rare, and what is learned from them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tessmc._clock import Clock
from tessmc.adaptation import Warmup, WarmupTask
from tessmc.adaptation import _path as path
from tessmc.adaptation import _seek as seeking
from tessmc.adaptation._buffer import Drawn, in_a_row, log_ratios
from tessmc.adaptation._seek import Seekers, Shown, from_draws, learn_at, seek, share_of_finds
from tessmc.kernels import StudentT
from tessmc.targets import Target
from tessmc.transports import Spread, with_spread


def camp_under(scale, target, num_chains=256):
    """Chains at draws of N(0, I), under a map of one scale."""
    task = WarmupTask(target, None, None, jr.key(3), num_chains, 100, Clock(), lambda *_: None)
    camp = Warmup.auto()._arrive(*jr.split(jr.key(1), 3), task)
    dim = target.dim
    transport = with_spread(camp.transport, Spread(np.zeros(dim), np.full(dim, scale), np.eye(dim)))
    return task, camp._replace(transport=transport, law=StudentT(0)).recalled()


NORMAL = Target(lambda x: -jnp.sum(x**2) / 2, jnp.zeros(2))


def spread_of_seekers():
    """Under a map whose φ̂ is N(0, 0.9²): the standard deviation of seekers' draws and its standard error."""
    task, camp = camp_under(0.9, NORMAL)
    _, seekers = seek(task, camp, Seekers(camp.chains.state), 20)
    # The second moment of each chain: chains are independent of each other.
    squares = seekers.trips[0].position[:, 10:].var(axis=1).mean(axis=1)
    return np.sqrt(squares.mean()), squares.std() / np.sqrt(len(squares)) / 2


def test_seekers_draw_from_a_power_of_what_the_map_makes_too_rare(monkeypatch):
    """π³/φ̂² of N(0, 1) and N(0, 0.9²) has the precision 3 - 2/0.81; with the power 1 it is π."""
    wide, error = spread_of_seekers()
    assert abs(wide - (3 - 2 / 0.81) ** -0.5) < 4 * error + 0.03
    monkeypatch.setattr(seeking, "POWER", 1.0)
    assert abs(spread_of_seekers()[0] - 1) < 0.05


def test_the_share_of_finds_is_that_of_what_seekers_draw_from(monkeypatch):
    """With N(0, I) under a map of scale 0.9, r is |x|² (1/0.81 - 1)/2 but for a constant, and |x|² exponential."""
    monkeypatch.setattr(seeking, "LONG", 1.0)
    task, camp = camp_under(0.9, NORMAL)
    camp, seekers = seek(task, camp, Seekers(camp.chains.state), 40)
    exact = np.random.default_rng(1).normal(size=(8192, 2)).astype(np.float32)
    drawn = Drawn(exact, -np.sum(exact**2, axis=1) / 2)
    # Of π the median of |x|² is 2 log 2; seekers draw from a Gaussian of precision 3 - 2/0.81.
    bound = 2 * np.log(2) + 1.0 / ((1 / 0.81 - 1) / 2)
    expected = np.exp(-bound * (3 - 2 / 0.81) / 2)
    share = share_of_finds(camp, drawn, seekers)
    assert abs(share - expected) < 4 * np.sqrt(expected / 1000)


def test_chains_stay_while_seekers_travel():
    task, camp = camp_under(0.9, NORMAL, num_chains=16)
    back, seekers = seek(task, camp, Seekers(camp.chains.state), 5)
    assert np.array_equal(back.chains.state.position, camp.chains.state.position)
    assert np.allclose(back.chains.state.log_ratio, camp.chains.state.log_ratio, atol=1e-5)
    (trip,) = seekers.trips
    assert trip.log_density.shape == (16, 20)
    assert np.array_equal(back.chains.num_evaluations - camp.chains.num_evaluations, trip.num_tries.sum(axis=1))
    # No number is drawn twice.
    assert int(back.chains.iteration.min()) == int(camp.chains.iteration.min()) + 20
    for _ in range(6):
        back, seekers = seek(task, back, seekers, 1)
    assert len(seekers.trips) == seeking.MEMORY


def test_at_a_perfect_map_nothing_is_learned_from_any_draw():
    task, camp = camp_under(1.0, NORMAL, num_chains=16)
    anywhere = 5 * jr.normal(jr.key(4), (64, 2))
    shown = Shown(task.target, camp.law, anywhere, jnp.int32(64), jnp.float32(0.5))

    def loss(shift):
        moved = eqx.tree_at(lambda chain: chain.bijections[1].shift, camp.transport, shift)
        return from_draws(moved, jr.key(0), shown)

    assert jnp.allclose(jax.grad(loss)(jnp.zeros(2)), 0, atol=1e-4)
    assert not jnp.allclose(jax.grad(loss)(jnp.full(2, 0.3)), 0, atol=1e-2)


def test_a_place_that_the_map_never_draws_is_learned(monkeypatch):
    """A twentieth of π lies where φ̂ has e^-18 of itself: r there comes down to what it is elsewhere."""
    monkeypatch.setattr(path, "NUM_STEPS", 900)
    rng = np.random.default_rng(0)

    def log_density(x):
        near, far = (-jnp.sum((x - jnp.array([centre, 0.0])) ** 2) / 2 for centre in (0.0, 6.0))
        return jnp.logaddexp(jnp.log(0.95) + near, jnp.log(0.05) + far)

    task, camp = camp_under(1.0, Target(log_density, jnp.zeros(2)))
    is_far = np.arange(4000) % 20 == 0
    points = (rng.normal(size=(4000, 2)) + np.c_[6.0 * is_far, np.zeros(4000)]).astype(np.float32)
    drawn = Drawn(points, np.asarray(jax.vmap(task.target.log_density)(points), float))
    camp, seekers = seek(task, camp, Seekers(camp.chains.state), 1)

    def height(camp):
        found = log_ratios(camp.transport, camp.law, drawn)
        return np.median(found[is_far]) - np.median(found[~is_far])

    learned = learn_at(task, camp, drawn, seekers, jr.key(7), 5e-3)
    assert height(camp) > 10
    assert height(learned) < 3
    assert np.isfinite(in_a_row(seekers.trips).log_densities).all()
