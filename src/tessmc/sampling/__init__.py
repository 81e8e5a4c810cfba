"""`sample`, what it returns, and runs that are taken up again."""

from tessmc.sampling._check import check
from tessmc.sampling._load import load, resume
from tessmc.sampling._progress import Progress
from tessmc.sampling._result import Result, Summary
from tessmc.sampling._sample import sample

__all__ = ["Progress", "Result", "Summary", "check", "load", "resume", "sample"]
