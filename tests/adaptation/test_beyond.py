"""Walks from the outermost draws: they find that the target goes on, and nothing where it does not."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tessmc import Target
from tessmc._clock import Clock
from tessmc.adaptation._beyond import NUM_STEPS, look_beyond, num_forgotten
from tessmc.adaptation._buffer import Drawn
from tessmc.adaptation._camp import Camp, no_bridge
from tessmc.adaptation._task import WarmupTask
from tessmc.engines import count_evaluations, place_chains
from tessmc.kernels import StudentT
from tessmc.transports import ladder_map

NUM_CHAINS = 64


def camp_at_home():
    """Chains under a map that is the identity."""
    dtype = np.dtype(np.float32)
    chains = place_chains(jr.key(1), jnp.zeros((NUM_CHAINS, 2), dtype))
    return Camp(ladder_map(jr.key(0), 2, dtype), chains, StudentT(0), no_bridge(2, dtype))


def num_beyond(log_density, positions):
    task = WarmupTask(Target(log_density, 2), None, None, jr.key(3), NUM_CHAINS, 100, Clock(), lambda *_: None)
    camp = camp_at_home()
    drawn = Drawn(positions.astype(np.float32), np.array([log_density(position) for position in positions]))
    found, num_beyond = look_beyond(task, camp, drawn, np.random.default_rng(4))
    assert count_evaluations(found.chains) == NUM_STEPS * NUM_CHAINS
    # The chains have paid, and stand where they stood.
    assert np.array_equal(found.chains.state.reference, camp.chains.state.reference)
    return num_beyond


@pytest.fixture
def normal():
    return np.random.default_rng(7).standard_normal((3000, 2))


def ridge(x):
    """Without an end in its first coordinate."""
    return -0.5 * x[1] ** 2


def gaussian(x):
    return -0.5 * (x[0] ** 2 + x[1] ** 2)


def test_nothing_is_beyond_draws_that_stand_for_the_target(normal):
    # The map is lighter the further out they are: there is a beyond.
    assert num_beyond(lambda x: gaussian(x / 1.3), 1.3 * normal) <= 1


def test_a_target_that_goes_on_is_found(normal):
    assert num_beyond(ridge, normal) > 10


def test_draws_that_were_cut_off_are_found(normal):
    assert num_beyond(lambda x: gaussian(x / 4), normal[np.abs(normal).max(axis=1) < 1.5]) > 10


def test_few_draws_are_enough_to_start_from(normal):
    assert num_beyond(ridge, normal[:20]) > 5


def test_starts_that_no_draw_came_back_to_are_counted(normal):
    camp, drawn = camp_at_home(), Drawn(normal.astype(np.float32), -0.5 * (normal**2).sum(axis=1))
    places = np.array([[0.0, 0], [5, 0], [20, 0], [30, 0]], np.float32)
    # Typical; likelier than the map expects, but not by much; in a spike of its own; far out, and unlikely.
    starts = Drawn(places, np.array([0.0, -5.0, 3.0, -200.0]))
    assert num_forgotten(camp, starts, drawn) == 1
    assert num_forgotten(camp, drawn, drawn) == 0
