"""posteriordb's posteriors as NumPyro models, in default settings: the reference is met, and the verdict says so."""

import sys

import pytest

from verify.posteriors import HEAD, POSTERIORS, check, in_a_cold_process, line

pytestmark = pytest.mark.usefixtures("ranks_promoted")


@pytest.mark.parametrize("name", POSTERIORS)
def test_the_log_density_is_the_stored_one(name):
    assert check(name) < 1e-4


@pytest.mark.parametrize("name", POSTERIORS)
def test_the_reference_is_met(name):
    row = in_a_cold_process(name, "tessmc")
    nuts = in_a_cold_process(name, "nuts")
    sys.stdout.write("\n".join([HEAD, line(name, "tessmc", row), line(name, "nuts", nuts)]))
    assert row["is_met"]
    assert row["sd_error"] < 0.1
    assert row["converged"]
