"""The numbers are ArviZ's; the verdict never says more than they do."""

import re
from types import ModuleType

import numpy as np
import pytest

from tessmc.diagnostics import (
    _convergence,
    convergence,
    groups_apart,
    judge,
    nested_r_hat,
    quantile_errors,
    standard_errors,
)

RNG = np.random.default_rng(0)
NAMES = ["a", "b"]


def verdict(draws, notes=()):
    return judge(NAMES, convergence(draws), draws.shape[1], list(notes))


def test_independent_draws_have_converged():
    found = verdict(RNG.normal(size=(16, 500, 2)))
    assert found.converged
    assert str(found).startswith("Converged: max R-hat 1.00")


def test_numbers_agree_with_the_definition():
    """Split R-hat of ranks and 1/ESS of the mean, checked where both are known: independent draws."""
    found = convergence(RNG.normal(size=(64, 400, 2)))
    assert np.all(np.abs(found.r_hat - 1) < 0.01)
    assert np.all(np.abs(found.ess_bulk / (64 * 400) - 1) < 0.1)
    assert np.all(np.abs(found.ess_tail / (64 * 400) - 1) < 0.1)


def test_chains_that_disagree_have_not():
    draws = RNG.normal(size=(16, 500, 2))
    draws[:8, :, 1] += 1
    found = verdict(draws)
    assert not found.converged
    assert "R-hat of b is 1." in found.reasons[0]


def test_too_few_draws_have_not():
    found = verdict(RNG.normal(size=(4, 20, 2)))
    assert not found.converged
    assert any("ESS" in reason for reason in found.reasons)


def test_a_random_walk_has_not():
    assert not verdict(RNG.normal(size=(128, 100, 2)).cumsum(axis=1)).converged


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_constant_draws_have_not():
    draws = RNG.normal(size=(8, 100, 2))
    draws[:, :, 1] = 3.0
    found = verdict(draws)
    assert not found.converged


def test_a_note_alone_is_enough():
    found = verdict(RNG.normal(size=(16, 500, 2)), ["something is wrong"])
    assert not found.converged
    assert found.reasons == ["something is wrong"]


def test_groups_of_chains_that_disagree_have_not():
    draws = RNG.normal(size=(16, 500, 2))
    found = judge(NAMES, convergence(draws), 500, [], np.array([1.001, 1.03]))
    assert found.reasons[0].startswith("nested R-hat of b is 1.030")
    assert "of groups of chains 1.002" in str(judge(NAMES, convergence(draws), 500, [], np.array([1.001, 1.002])))


def test_chains_in_two_places_are_named():
    draws = RNG.normal(size=(16, 200))
    draws[:5] += 40
    sentence = groups_apart("b", draws)
    assert "b has two groups of chains that do not mix: 11 around" in sentence
    assert re.search(r"and 5 around (39\.9|40)", sentence)
    # Chains that cross over are not apart, however far the modes are.
    crossing = RNG.normal(size=(16, 200)) + 40 * RNG.integers(2, size=(16, 200))
    assert groups_apart("b", crossing) is None
    assert groups_apart("b", RNG.normal(size=(16, 200))) is None
    assert groups_apart("b", RNG.normal(size=(1, 200))) is None


# --- many short chains ---------------------------------------------------------------------------


def by_definition(draws, num_superchains):
    """Margossian et al. (2024), equations of the nested R-hat, term by term, without ranks."""
    groups = draws.reshape(num_superchains, -1, draws.shape[1])
    between = np.var([group.mean() for group in groups], ddof=1)
    within = [
        np.var([chain.mean() for chain in group], ddof=1) + np.mean([np.var(chain, ddof=1) for chain in group])
        for group in groups
    ]
    return np.sqrt(1 + between / np.mean(within))


def test_nested_r_hat_is_what_it_says():
    draws = np.random.default_rng(1).normal(size=(12, 5, 1))
    scores = _convergence.normal_scores(draws)
    found = _convergence._nested(scores.reshape(3, 4, 5, 1))
    assert np.isclose(found[0], by_definition(scores[..., 0], 3))


def test_short_chains_that_mix_pass_only_together():
    """Two draws a chain: R-hat needs four; superchains of 32 know their means well enough."""
    draws = np.random.default_rng(2).normal(size=(128, 2, 3))
    assert np.all(nested_r_hat(draws, 4) < 1.02)
    draws[:32, :, 1] += 1
    assert np.flatnonzero(nested_r_hat(draws, 4) > 1.05).tolist() == [1]
    # A superchain that is wider, but not elsewhere.
    draws[:32, :, 2] *= 3
    assert np.flatnonzero(nested_r_hat(draws, 4) > 1.05).tolist() == [1, 2]


def test_superchains_of_one_size_are_asked_for():
    with pytest.raises(ValueError, match="10 chains cannot be divided into 4 superchains"):
        nested_r_hat(np.ones((10, 5, 1)), 4)


def test_standard_errors_of_independent_draws():
    mean, sd = standard_errors(np.random.default_rng(3).normal(size=(50, 400, 2)))
    size = 50 * 400
    assert np.all(np.abs(mean * np.sqrt(size) - 1) < 0.1)
    assert np.all(np.abs(sd * np.sqrt(2 * size) - 1) < 0.1)


def test_errors_of_quantiles_of_independent_draws():
    """√(p (1 - p) / n) over the density there: 0.3989 at the median, 0.1031 at 0.05."""
    found = quantile_errors(np.random.default_rng(4).normal(size=(50, 400, 2)), [0.05, 0.5])
    assert found.shape == (2, 2)
    expected = np.sqrt([0.05 * 0.95, 0.25]) / [0.1031, 0.3989] / np.sqrt(50 * 400)
    assert np.all(np.abs(found / expected[:, None] - 1) < 0.2)


def test_arviz_is_as_before_and_does_without_numba():
    class Compiled:
        """Stands in for ArviZ's own switch."""

        numba_flag = True

        @classmethod
        def disable_numba(cls):
            cls.numba_flag = False

        @classmethod
        def enable_numba(cls):
            cls.numba_flag = True

    seen = []
    arviz = ModuleType("arviz")
    arviz.Numba = Compiled
    with _convergence._without_numba(arviz):
        seen.append(Compiled.numba_flag)
    assert [*seen, Compiled.numba_flag] == [False, True]
    with _convergence._without_numba(ModuleType("arviz")):
        pass
