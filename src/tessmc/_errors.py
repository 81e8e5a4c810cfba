"""What goes wrong in a run, as types a user can catch."""


class DensityError(ValueError):
    """The log density has a value at a named point with which no sampler can go on."""
