"""Data sets: read where they lie or fetched once, never shipped."""

import csv
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

FOLDER = "TESSMC_DATA"


class Source(NamedTuple):
    """Where a table is published, and what makes it ours.

    Attributes:
        url: of a text that stays as it is.
        rows: from the words of its lines to those of the table's, the names of the columns first.
        sha256: of the table as we write it.
    """

    url: str
    rows: Callable[[list[list[str]]], list[Sequence[str]]]
    sha256: str


def _credit(lines: list[list[str]]) -> list[Sequence[str]]:
    return [[*(f"x{column:02}" for column in range(1, 25)), "label"], *lines]


def _returns(lines: list[list[str]]) -> list[Sequence[str]]:
    return [["return"], *(line[-1:] for line in lines[1:])]


def _pelts(lines: list[list[str]]) -> list[Sequence[str]]:
    return [
        ["year", "hare", "lynx"],
        *([year, *(f"{float(each):.2f}" for each in pelts)] for year, *pelts in lines[1:]),
    ]


GITHUB = "https://raw.githubusercontent.com"
SOURCES = {
    "german_credit_numeric.csv": Source(
        "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/german/german.data-numeric",
        _credit,
        "8c331dad908bd889707190acbafbd602a1382cda9c86bb0d6172f53ca7380f30",
    ),
    "google_returns.csv": Source(
        f"{GITHUB}/blackjax-devs/blackjax/0af657a75e7f4207dae272701b1e986bc30db73b/docs/examples/data/google.csv",
        _returns,
        "358de3fb26bb0b00ef6607cd45cc3289594935431966d14d3c88bfa589960f1a",
    ),
    "lynx_hare_1845_1935.csv": Source(
        f"{GITHUB}/tidyverts/tsibbledata/9ec282a04f7fc3d1cfa3a3113c75bea78efca731/data-raw/pelt/lynxhare.csv",
        _pelts,
        "8ec6e37f75edda93334f36d3cde2e230bde5b13cc679d933655c34ec80dda5b9",
    ),
}


def read_table(name: str) -> np.ndarray:
    """The rows of a data set: from the folder that `TESSMC_DATA` names, else from the cache, else from its source.

    Raises:
        FileNotFoundError: it cannot be had; with what to put where.
    """
    return np.loadtxt(find(name), delimiter=",", skiprows=1, ndmin=2)


def find(name: str) -> Path:
    """The file of a data set, fetched if need be."""
    import pooch

    given, cache = os.environ.get(FOLDER), Path(pooch.os_cache("tessmc"))
    for folder in (given, cache):
        if folder and (Path(folder) / name).is_file():
            return Path(folder) / name
    try:
        return _fetch(name, cache)
    except OSError as error:
        # What `requests` raises is an OSError, too, and has the address in it again.
        why = str(error) if type(error) is OSError else type(error).__name__
        raise FileNotFoundError(
            f"the data file {name} is neither in {FOLDER} ({given or 'not set'}) nor in {cache}, and cannot be fetched "
            f"from {SOURCES[name].url} ({why}); put it into a folder and name that folder in {FOLDER}"
        ) from error


def _fetch(name: str, cache: Path) -> Path:
    import pooch

    source = SOURCES[name]
    # Checked below, after the columns we want have been taken.
    raw = Path(pooch.retrieve(source.url, known_hash=None, fname=f"source-of-{name}", path=cache))
    text = as_table(name, raw.read_text())
    raw.unlink()
    path = cache / name
    path.with_suffix(".part").write_text(text, newline="\n")
    return path.with_suffix(".part").replace(path)


def as_table(name: str, text: str) -> str:
    """The table that is made from the text of its source.

    Raises:
        OSError: it is not the one we know.
    """
    source = SOURCES[name]
    lines = [line.split() for line in text.splitlines()] if "," not in text else list(csv.reader(text.splitlines()))
    found = "".join(",".join(row) + "\n" for row in source.rows([line for line in lines if line]))
    if hashlib.sha256(found.encode()).hexdigest() != source.sha256:
        raise OSError("what came is not the file that was expected: its checksum differs")
    return found
