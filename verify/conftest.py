"""The fixtures of the tests serve here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from conftest import dtype, pytest_configure, ranks_promoted

__all__ = ["dtype", "pytest_configure", "ranks_promoted"]
