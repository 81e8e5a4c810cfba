"""Transport Elliptical Slice Sampling: learn a map in which the target looks Gaussian, and move there."""

from tessmc import adaptation, diagnostics, engines, kernels, models, targets, transports
from tessmc._errors import DensityError
from tessmc.adaptation import Warmup
from tessmc.diagnostics import Verdict
from tessmc.sampling import Result, Summary, sample
from tessmc.targets import Target

__version__ = "0.1.0"

__all__ = [
    "DensityError",
    "Result",
    "Summary",
    "Target",
    "Verdict",
    "Warmup",
    "adaptation",
    "diagnostics",
    "engines",
    "kernels",
    "models",
    "sample",
    "targets",
    "transports",
]
