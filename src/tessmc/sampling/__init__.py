"""`sample` and what it returns."""

from tessmc.sampling._result import Result, Summary
from tessmc.sampling._sample import sample

__all__ = ["Result", "Summary", "sample"]
