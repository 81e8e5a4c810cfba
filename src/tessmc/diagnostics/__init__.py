"""Arrays in, numbers out; knows no sampler."""

from tessmc.diagnostics._convergence import (
    Convergence,
    Verdict,
    convergence,
    import_arviz,
    judge,
    nested_r_hat,
    quantile_errors,
    r_hat,
    standard_errors,
)
from tessmc.diagnostics._paper import PaperMetric, autocorrelation_times, paper_metric
from tessmc.diagnostics._stein import Stein, stein_discrepancy

__all__ = [
    "Convergence",
    "PaperMetric",
    "Stein",
    "Verdict",
    "autocorrelation_times",
    "convergence",
    "import_arviz",
    "judge",
    "nested_r_hat",
    "paper_metric",
    "quantile_errors",
    "r_hat",
    "standard_errors",
    "stein_discrepancy",
]
