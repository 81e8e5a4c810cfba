"""Transport Elliptical Slice Sampling: learn a map in which the target looks Gaussian, and move there."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessmc import adaptation, diagnostics, engines, experiments, kernels, models, report, targets, transports
    from tessmc._cache import enable_cache
    from tessmc._errors import BlackBoxError, CallbackError, DensityError, StorageError
    from tessmc.adaptation import Warmup
    from tessmc.diagnostics import Verdict
    from tessmc.sampling import Progress, Result, Summary, check, load, resume, sample
    from tessmc.targets import BlackBox, Check, Target, from_numpyro, from_pymc

__version__ = "0.1.0"

__all__ = [
    "BlackBox",
    "BlackBoxError",
    "CallbackError",
    "Check",
    "DensityError",
    "Progress",
    "Result",
    "StorageError",
    "Summary",
    "Target",
    "Verdict",
    "Warmup",
    "adaptation",
    "check",
    "diagnostics",
    "enable_cache",
    "engines",
    "experiments",
    "from_numpyro",
    "from_pymc",
    "kernels",
    "load",
    "models",
    "report",
    "resume",
    "sample",
    "targets",
    "transports",
]

# Who has a name that a user types; it is imported when that is first done, since JAX and its like are slow to import.
_HOMES = {
    "_cache": ("enable_cache",),
    "_errors": ("BlackBoxError", "CallbackError", "DensityError", "StorageError"),
    "adaptation": ("Warmup",),
    "diagnostics": ("Verdict",),
    "sampling": ("Progress", "Result", "Summary", "check", "load", "resume", "sample"),
    "targets": ("BlackBox", "Check", "Target", "from_numpyro", "from_pymc"),
}
_PARTS = ("adaptation", "blackjax", "diagnostics", "engines", "experiments", "kernels", "models", "numpyro", "report",
          "sampling", "storage", "targets", "transports")  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"tessmc.{name}")
    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(import_module(f"tessmc.{home}"), name)
            return found
    raise AttributeError(f"module 'tessmc' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
