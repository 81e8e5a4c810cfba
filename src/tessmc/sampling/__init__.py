"""`sample`, what it returns, and runs that are taken up again."""

from tessmc.sampling._load import load, resume
from tessmc.sampling._result import Result, Summary
from tessmc.sampling._sample import sample

__all__ = ["Result", "Summary", "load", "resume", "sample"]
