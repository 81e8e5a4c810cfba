"""Every peer draws from the target, says what it paid, and goes on where it was."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tessmc.experiments import SAMPLERS, Task
from tessmc.targets import Target

MEAN, SD = np.array([1.0, -2.0, 0.5]), np.array([1.0, 0.5, 2.0])


def log_density(x):
    return -jnp.sum(((x - MEAN) / SD) ** 2) / 2


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_peer_draws_from_the_target(name):
    task = Task(Target(log_density, jnp.zeros(3)), jr.key(0), num_chains=32, num_warmup=100, num_draws=100)
    # Peers promote ranks, as they may.
    with jax.numpy_rank_promotion("allow"):
        first, second = itertools.islice(SAMPLERS[name](task), 2)
    draws = np.concatenate([first.draws, second.draws], axis=1).astype(float)
    assert draws.shape[1:] == (200, 3)
    # Walkers of 100 steps may be far from independent: the bounds are loose for all.
    assert np.all(np.abs(draws.mean(axis=(0, 1)) - MEAN) < 0.2 * SD)
    assert np.all(np.abs(draws.std(axis=(0, 1)) / SD - 1) < 0.15)
    assert not np.array_equal(first.draws, second.draws)
    num_moves = 100 * len(draws)
    assert second.num_evaluations + second.num_gradients >= num_moves
    assert first.num_evaluations + first.num_gradients > second.num_evaluations + second.num_gradients
