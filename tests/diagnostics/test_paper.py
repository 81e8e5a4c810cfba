"""The appendix's autocorrelation times: by their definition, and what they hide."""

import numpy as np
import pytest

from tessmc.diagnostics import autocorrelation_times, paper_metric


def autoregression(memory, shape, seed=0):
    noise = np.random.default_rng(seed).normal(size=shape)
    for step in range(1, shape[1]):
        noise[:, step] = memory * noise[:, step - 1] + np.sqrt(1 - memory**2) * noise[:, step]
    return noise


def by_definition(chain):
    """The appendix, term by term."""
    size, away = len(chain), chain - chain.mean()
    sums = [sum(away[i] * away[i + lag] for i in range(size - lag)) for lag in range(size)]
    return 0.5 + 2 * sum((1 - lag / size) * sums[lag] / (2 * sums[0]) for lag in range(1, size))


def test_it_is_the_sum_of_the_appendix():
    draws = autoregression(0.7, (3, 25, 2))
    expected = [[by_definition(draws[chain, :, dim]) for dim in range(2)] for chain in range(3)]
    assert np.allclose(autocorrelation_times(draws), expected)


def test_the_table_takes_medians_over_chains_and_the_worst_coordinate():
    draws = np.concatenate([autoregression(0.0, (5, 50, 1)), autoregression(0.9, (5, 50, 1))], axis=2)
    tau = autocorrelation_times(draws)
    found = paper_metric(draws)
    assert np.isclose(found.tau_max, np.median(tau[:, 1]))
    assert np.isclose(found.sigma_tau, np.std(tau[:, 1]))
    assert np.isclose(found.ess_per_chain, np.median(50 / (2 * tau[:, 1])))
    assert np.isclose(found.ess, 5 * found.ess_per_chain)


@pytest.mark.parametrize(("draws", "low", "high"), [("independent", 350, 480), ("random walk", 8, 12)])
def test_it_cannot_tell_mixing_from_standing_still(draws, low, high):
    """What it gives for 100 draws a chain that are worth 100, and for walks that never mix."""
    noise = np.random.default_rng(1).normal(size=(2000, 100, 1))
    chains = noise if draws == "independent" else np.cumsum(noise, axis=1)
    assert low < paper_metric(chains).ess_per_chain < high


def test_chains_that_never_move_are_worth_nothing():
    found = paper_metric(np.ones((4, 10, 2)))
    assert found.ess == 0
    assert found.tau_max == found.sigma_tau == np.inf
