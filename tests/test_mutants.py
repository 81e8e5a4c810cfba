"""The planted bugs of `verify.mutants` still have their places in the source."""

from verify.mutants import MUTANTS, ROOT


def test_the_text_of_every_mutant_occurs_once():
    counts = {mutant.name: (ROOT / "src/tessmc" / mutant.file).read_text().count(mutant.old) for mutant in MUTANTS}
    assert len(counts) == len(MUTANTS)
    assert {name: count for name, count in counts.items() if count != 1} == {}
