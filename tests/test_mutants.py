"""The planted bugs of `make verify`."""

from pathlib import Path

import pytest
from verify.mutants import MUTANTS

import tessmc

SOURCE = Path(tessmc.__file__).parent


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_planted_bug_has_its_place_in_the_source(mutant):
    assert (SOURCE / mutant.file).read_text().count(mutant.old) == 1
