"""Transport Elliptical Slice Sampling: learn a map in which the target looks Gaussian, and move there."""

from tessmc import adaptation, diagnostics, engines, kernels, models, targets, transports
from tessmc._errors import BlackBoxError, DensityError, StorageError
from tessmc.adaptation import Warmup
from tessmc.diagnostics import Verdict
from tessmc.sampling import Result, Summary, load, resume, sample
from tessmc.targets import BlackBox, Target

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
    "kernels",
    "load",
    "models",
    "resume",
    "sample",
    "targets",
    "transports",
]
