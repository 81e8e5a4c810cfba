"""Draws from a law wider than the target."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy import stats

from tessmc.adaptation._buffer import Drawn, divide, in_a_row, thin, together
from tessmc.adaptation._camp import Bridge, bridge_from_pushed
from tessmc.adaptation._wide import WideLaw, wide, widened
from tessmc.engines import Draws
from tessmc.kernels import StudentT
from tessmc.transports import FixedAffine, Spread, ladder_map, with_spread

RNG = np.random.default_rng(0)
FLOAT = np.dtype("float32")


def doubled(dim):
    """The map x = 2u."""
    return with_spread(ladder_map(jr.key(0), dim, FLOAT), Spread(np.zeros(dim), np.full(dim, 2.0), np.eye(dim)))


def wide_draws(power):
    """Draws from π_b for π = N(0, 1), by weighing draws of a grid."""
    grid = np.linspace(-30, 30, 60_001)
    log_wide = power * stats.norm.logpdf(grid) + (1 - power) * stats.t(3, scale=3).logpdf(grid)
    chosen = RNG.choice(grid, 40_000, p=np.exp(log_wide) / np.exp(log_wide).sum())[:, None]
    return WideLaw(power, doubled(1)), Drawn(chosen.astype(FLOAT), stats.norm.logpdf(chosen[:, 0]))


def test_weights_lead_back_to_the_target():
    law, drawn = wide_draws(0.4)
    assert drawn.positions.std() > 1.3
    weights = law.weights(drawn)
    assert np.isclose(weights.sum(), 1)
    assert abs(weights @ drawn.positions[:, 0] ** 2 - 1) < 0.05


def test_as_many_are_taken_as_they_are_worth():
    law, drawn = wide_draws(0.4)
    taken = law.resampled(RNG, drawn)
    assert 10_000 < len(taken.positions) < 39_000
    assert abs(taken.positions.std() - 1) < 0.03
    assert np.allclose(taken.log_densities, stats.norm.logpdf(taken.positions[:, 0]), atol=1e-4)


def test_no_single_draw_decides():
    drawn = Drawn(np.zeros((10_000, 1), FLOAT), np.r_[20.0, np.zeros(9_999)])
    assert WideLaw(0.5, doubled(1)).weights(drawn).max() < 0.05


def bridged(bridge, log_pushed):
    """Log π_b at a point x = 6 of log density -5, with log φ̂ as given."""
    return float(bridge(jnp.float32(-5), jnp.full(1, 6.0), jnp.float32(log_pushed)))


def test_a_bridge_begins_at_its_cloud_or_at_the_pushed_law():
    assert np.isclose(bridged(bridge_from_pushed(0.4, 1, FLOAT), -1), 0.4 * -5 + 0.6 * -1)
    cloud = FixedAffine(np.zeros(1), np.full(1, 2.0), np.eye(1), FLOAT)
    bridge = Bridge(jnp.float32(0.4), cloud, StudentT(5), jnp.bool(False))
    start = stats.t(5).logpdf(3) - stats.t(5).logpdf(0)
    assert np.isclose(bridged(bridge, -1), 0.4 * -5 + 0.6 * start, atol=1e-5)


def test_half_of_the_draws_count_for_a_wider_law():
    positions = RNG.normal(size=(5000, 6)).astype(FLOAT)
    drawn = Drawn(positions, -np.sum(positions**2, axis=1, dtype=float) / 2)
    law = widened(doubled(6), drawn)
    assert 0.1 < law.power < 1
    radii = np.linalg.norm(positions, axis=1)
    log_weight = (1 - law.power) * (-(3 + 6) / 2 * np.log1p((radii / 3) ** 2 / 3) - drawn.log_densities)
    weights = np.exp(log_weight - log_weight.max())
    assert abs(weights.sum() ** 2 / np.sum(weights**2) / 5000 - 0.5) < 0.02


def test_the_wide_law_is_wide():
    assert wide().log_density(jnp.full(3, 6.0)) > StudentT(3).log_density(jnp.full(3, 6.0)) + 1


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
