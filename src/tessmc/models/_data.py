"""Data sets: read where they lie, never shipped."""

import os
from pathlib import Path

import numpy as np

FOLDER = "TESSMC_DATA"


def read_table(name: str) -> np.ndarray:
    """The rows of a comma-separated file with one header line, from the folder that `TESSMC_DATA` names.

    Raises:
        FileNotFoundError: with what to put where.
    """
    folder = os.environ.get(FOLDER)
    path = Path(folder or ".") / name
    if folder is None or not path.is_file():
        raise FileNotFoundError(
            f"the data file {name} is not there: put it into a folder and name that folder in the environment variable "
            f"{FOLDER}, which is {'not set' if folder is None else repr(folder)}"
        )
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
