"""Learning T from draws."""

from tessmc.adaptation._auto import AutoWarmup
from tessmc.adaptation._fit import Decay, FitState, begin_fit, fit
from tessmc.adaptation._objectives import kl_from_reference, kl_from_target
from tessmc.adaptation._paper import PaperWarmup
from tessmc.adaptation._task import AbstractWarmup, WarmupResult, WarmupTask
from tessmc.adaptation._warmup import Warmup

__all__ = [
    "AbstractWarmup",
    "AutoWarmup",
    "Decay",
    "FitState",
    "PaperWarmup",
    "Warmup",
    "WarmupResult",
    "WarmupTask",
    "begin_fit",
    "fit",
    "kl_from_reference",
    "kl_from_target",
]
