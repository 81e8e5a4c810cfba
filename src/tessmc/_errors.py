"""What goes wrong in a run, as types a user can catch."""

from typing import Any


class Stopped(Exception):  # noqa: N818
    """Not an error: somebody or something wants the run to end here; the reason is a sentence."""


class DensityError(ValueError):
    """The log density has a value at a named point with which no sampler can go on.

    Attributes:
        result: the draws that were made before, an incomplete `Result`; None if there are none.
    """

    result: Any = None


class BlackBoxError(RuntimeError):
    """A call of a black box gave no value; the message says where and why, and what to do.

    The error that the function raised is its cause.

    Attributes:
        position: at which it was called.
        result: the draws that were made before, an incomplete `Result`; None if there are none.
    """

    def __init__(self, message: str, position: Any = None):
        super().__init__(message)
        self.position = position
        self.result: Any = None


class CallbackError(RuntimeError):
    """The `callback` of a run raised an error, which is the cause; the run has ended where nothing is lost.

    Attributes:
        result: the draws that were made before, an incomplete `Result`.
    """

    result: Any = None


class StorageError(RuntimeError):
    """A run folder cannot be used: it is damaged, of another run, or in use; the message says which and what to do."""


class DamageError(StorageError):
    """A file of a run folder is not what was written."""
