"""Arrays in, numbers out; knows no sampler."""

from tessmc.diagnostics._convergence import (
    Convergence,
    convergence,
    import_arviz,
    nested_r_hat,
    quantile_errors,
    r_hat,
    standard_errors,
)
from tessmc.diagnostics._paper import PaperMetric, autocorrelation_times, paper_metric
from tessmc.diagnostics._running import running
from tessmc.diagnostics._stein import Stein, stein_discrepancy
from tessmc.diagnostics._verdict import APART, MAX_R_HAT, MIN_ESS, Verdict, groups_apart, judge

__all__ = [
    "APART",
    "MAX_R_HAT",
    "MIN_ESS",
    "Convergence",
    "PaperMetric",
    "Stein",
    "Verdict",
    "autocorrelation_times",
    "convergence",
    "groups_apart",
    "import_arviz",
    "judge",
    "nested_r_hat",
    "paper_metric",
    "quantile_errors",
    "r_hat",
    "running",
    "standard_errors",
    "stein_discrepancy",
]
