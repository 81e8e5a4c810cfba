"""Transport Elliptical Slice Sampling: learn a map in which the target looks Gaussian, and move there."""

from importlib import import_module
from typing import Any

from tessmc import adaptation, diagnostics, engines, kernels, models, targets, transports
from tessmc._errors import BlackBoxError, DensityError, StorageError
from tessmc.adaptation import Warmup
from tessmc.diagnostics import Verdict
from tessmc.sampling import Result, Summary, load, resume, sample
from tessmc.targets import BlackBox, Target, from_numpyro, from_pymc

__version__ = "0.1.0"

__all__ = [
    "BlackBox",
    "BlackBoxError",
    "DensityError",
    "Result",
    "StorageError",
    "Summary",
    "Target",
    "Verdict",
    "Warmup",
    "adaptation",
    "diagnostics",
    "engines",
    "from_numpyro",
    "from_pymc",
    "kernels",
    "load",
    "models",
    "resume",
    "sample",
    "targets",
    "transports",
]


def __getattr__(name: str) -> Any:
    # These need other packages, or are slow to import.
    if name in ("blackjax", "numpyro"):
        return import_module(f"tessmc.{name}")
    raise AttributeError(f"module 'tessmc' has no attribute '{name}'")
