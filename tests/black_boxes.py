"""Log densities that are not JAX, where workers find them."""

import os
import signal
import time
from pathlib import Path

import numpy as np


def quartic(x):
    return -np.sum(x**4) / 4 - x[0] * x[1]


def quartics(x):
    return -np.sum(x**4, axis=1) / 4 - x[:, 0] * x[:, 1]


def line(p):
    """Of a pytree, with supports."""
    return -0.5 * p["slope"] ** 2 - 3 * p["sigma"] + np.log(p["sigma"])


class Counted:
    """Counts its calls in a file, a byte each: across processes, and whatever becomes of them."""

    def __init__(self, path, seconds=0.0):
        self.path, self.seconds = Path(path), seconds

    def __call__(self, x):
        with self.path.open("ab") as file:
            file.write(b".")
        time.sleep(self.seconds)
        return quartic(x)

    @property
    def num_calls(self):
        return self.path.stat().st_size if self.path.exists() else 0


class Fatal:
    """Ends the process that calls it: the first time it is called at all, or wherever x[0] is large."""

    def __init__(self, marker=None, above=np.inf):
        self.marker, self.above = marker and Path(marker), above

    def __call__(self, x):
        if self.marker is not None and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if x[0] > self.above:
            os.kill(os.getpid(), signal.SIGKILL)
        return quartic(x)


class Picky:
    """Raises, or takes long, where x[0] is large."""

    def __init__(self, above, seconds=None):
        self.above, self.seconds = above, seconds

    def __call__(self, x):
        if x[0] > self.above:
            if self.seconds is None:
                raise ArithmeticError(f"x[0] is {x[0]:.3f}, and may not be above {self.above}")
            time.sleep(self.seconds)
        return quartic(x)


class Travelling:
    """Writes down, a byte each, how often it arrives anywhere."""

    def __init__(self, path):
        self.path = Path(path)

    def __setstate__(self, state):
        self.__dict__.update(state)
        with self.path.open("ab") as file:
            file.write(b".")

    def __call__(self, x):
        return quartic(x)


class Slow:
    """So slow that somebody can be killed meanwhile."""

    def __call__(self, x):
        time.sleep(0.004)
        return quartic(x)
