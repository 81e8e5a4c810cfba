"""posteriordb's posteriors are written as they are stored; `python -m verify.posteriors` samples them."""

import pytest

from verify.posteriors import POSTERIORS, check, is_right

pytestmark = pytest.mark.usefixtures("ranks_promoted")


@pytest.mark.parametrize("name", POSTERIORS)
def test_the_log_density_is_the_stored_one(name):
    assert check(name) < 1e-4


@pytest.mark.parametrize("spoiled", [{}, {"is_met": False}, {"sd_error": 0.11}, {"converged": False}])
def test_a_run_that_misses_its_reference_is_noticed(spoiled):
    row = {"is_met": True, "sd_error": 0.05, "converged": True, **spoiled}
    assert is_right(row) == (not spoiled)
