"""Draws from a law wider than the target."""

import jax.numpy as jnp
import numpy as np
from scipy import stats

from tessmc.adaptation._buffer import divide, thin
from tessmc.adaptation._rescue import DOF
from tessmc.adaptation._wide import Drawn, WideLaw, in_a_row, together, widened
from tessmc.engines import Draws
from tessmc.transports import Spread

RNG = np.random.default_rng(0)


def wide(power):
    """Draws from π_b for π = N(0, 1), by weighing draws of a grid."""
    law = WideLaw(power, Spread(np.zeros(1), np.full(1, 4.0), np.eye(1)))
    grid = np.linspace(-30, 30, 60_001)
    log_wide = power * stats.norm.logpdf(grid) + (1 - power) * stats.t(DOF, scale=4).logpdf(grid)
    chosen = RNG.choice(grid, 40_000, p=np.exp(log_wide) / np.exp(log_wide).sum())[:, None]
    return law, Drawn(chosen, stats.norm.logpdf(chosen[:, 0]))


def test_weights_lead_back_to_the_target():
    law, drawn = wide(0.4)
    assert drawn.positions.std() > 1.3
    weights = law.weights(drawn)
    assert np.isclose(weights.sum(), 1)
    assert abs(weights @ drawn.positions[:, 0] ** 2 - 1) < 0.05


def test_as_many_are_taken_as_they_are_worth():
    law, drawn = wide(0.4)
    taken = law.resampled(RNG, drawn, 100_000)
    assert 10_000 < len(taken.positions) < 39_000
    assert abs(taken.positions.std() - 1) < 0.03
    assert np.allclose(taken.log_densities, stats.norm.logpdf(taken.positions[:, 0]))
    assert len(law.resampled(RNG, drawn, 50).positions) == 50


def test_no_single_draw_decides():
    law = WideLaw(0.5, Spread(np.zeros(1), np.ones(1), np.eye(1)))
    drawn = Drawn(np.zeros((10_000, 1)), np.r_[20.0, np.zeros(9_999)])
    assert law.weights(drawn).max() < 0.05


def test_the_bridge_is_that_law():
    law, _ = wide(0.4)
    bridge = law.bridge(np.dtype("float32"))
    points = np.array([[0.3], [-5.0]])
    log_densities = stats.norm.logpdf(points[:, 0])
    found = [
        bridge(jnp.asarray(v, jnp.float32), jnp.asarray(x, jnp.float32))
        for v, x in zip(log_densities, points, strict=True)
    ]
    exact = 0.4 * log_densities + 0.6 * law.spread.log_density(points, DOF)
    assert np.isclose(found[1] - found[0], exact[1] - exact[0], atol=1e-4)


def test_half_of_the_draws_count_for_a_wider_law():
    positions = RNG.normal(size=(4000, 6))
    drawn = Drawn(positions, -np.sum(positions**2, axis=1) / 2)
    law = widened(drawn)
    assert np.all(np.abs(law.spread.scale - 4) < 0.5)
    log_weight = (1 - law.power) * (law.spread.log_density(positions, DOF) - drawn.log_densities)
    weights = np.exp(log_weight - log_weight.max())
    assert 0.1 < law.power < 1
    assert abs(weights.sum() ** 2 / np.sum(weights**2) / 4000 - 0.5) < 0.02


def draws(num_chains, num_draws, start=0.0):
    values = np.arange(num_chains)[:, None] + np.arange(num_draws)[None, :] / 100 + start
    nothing = np.zeros((num_chains, num_draws))
    return Draws(values[..., None], values, nothing, nothing, nothing, nothing)


def test_every_eighth_chain_is_held_out_in_turn():
    train, held = divide([draws(16, 3), draws(16, 2, 0.5)], 2)
    assert set(np.floor(held.log_densities)) == {2, 10}
    assert len(held.positions) == 10
    assert len(train.positions) == 70
    assert np.array_equal(held.positions[:, 0], held.log_densities)
    few_train, few_held = divide([draws(2, 16)], 2)
    assert len(few_held.positions) == 4
    assert len(few_train.positions) == 28


def test_impossible_draws_are_left_out():
    given = draws(8, 2)
    given.log_density[0, 0], given.log_density[3, 1] = -np.inf, np.nan
    assert len(in_a_row([given]).positions) == 14
    train, held = divide([given], 3)
    assert len(train.positions) == 13
    assert len(held.positions) == 1


def test_thinning_and_joining():
    drawn = in_a_row([draws(10, 10)])
    assert len(thin(drawn, 7).positions) == 7
    assert len(thin(drawn, 1000).positions) == 100
    assert len(together(drawn, thin(drawn, 5)).log_densities) == 105
