"""What goes wrong in a run, as types a user can catch."""


class DensityError(ValueError):
    """The log density has a value at a named point with which no sampler can go on."""


class StorageError(RuntimeError):
    """A run folder cannot be used: it is damaged, of another run, or in use; the message says which and what to do."""


class DamageError(StorageError):
    """A file of a run folder is not what was written."""
