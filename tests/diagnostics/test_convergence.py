"""The numbers are ArviZ's; the verdict never says more than they do."""

import numpy as np
import pytest

from tessmc.diagnostics import convergence, judge

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
