"""Exact draws, what they are compared with, and one budget for false alarms.

The target of every test is a product of Gumbel laws: skewed, with exact draws, and with a distribution function that
turns draws into uniforms, whose moments are known. A chain begun in an exact draw is exact after any number of
transitions if the kernel leaves the target invariant, so the law of every statistic below is known.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy import stats

# The chance that any test of the suite fails although nothing is wrong, shared out over at most so many tests.
FALSE_ALARM = 1e-4
MAX_TESTS = 200

# A shift by 1 % of an sd is seen at 7 standard errors.
NUM_CHAINS = 2**19


def gumbel(x):
    """The log density of independent standard Gumbel coordinates."""
    return -jnp.sum(x + jnp.exp(-x))


def exact_draws(seed: int, num_chains: int, dim: int, dtype) -> jax.Array:
    return jr.gumbel(jr.key(seed), (num_chains, dim), dtype)


def p_of_moments(positions) -> np.ndarray:
    """p-values of moments of every coordinate and of its distribution function, and of products of neighbours."""
    positions = np.asarray(positions, np.float64)
    uniforms = np.exp(-np.exp(-positions))
    neighbours = uniforms * np.roll(uniforms, 1, axis=1)
    found = [p_of_mean(uniforms**power, 1 / (power + 1)) for power in (1, 2, 3)]
    found.append(p_of_mean((positions - np.euler_gamma) ** 2, np.pi**2 / 6))
    if uniforms.shape[1] > 1:
        found.append(p_of_mean(neighbours, 1 / 4))
    return np.concatenate(found)


def p_of_mean(values: np.ndarray, expected: float) -> np.ndarray:
    """Two-sided p-values of the columns' means; rows are independent."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return 2 * stats.norm.sf(np.abs(values.mean(axis=0) - expected) / error)


def p_of_ranks(ranks: np.ndarray, num_ranks: int) -> np.ndarray:
    """The p-values of uniform ranks in every column, by Pearson's χ²."""
    return np.array([stats.chisquare(np.bincount(column, minlength=num_ranks)).pvalue for column in ranks.T])


def assert_exact(p_values: np.ndarray) -> None:
    """No p-value below this test's share of the budget, which its statistics share in turn."""
    least = FALSE_ALARM / MAX_TESTS / len(p_values)
    assert np.all(p_values > least), (
        f"p = {p_values.min():.1e}, with {least:.1e} allowed, for {len(p_values)} statistics"
    )
