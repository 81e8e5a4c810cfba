"""Arrays in, numbers out; knows no sampler."""

from tessmc.diagnostics._convergence import Convergence, Verdict, convergence, import_arviz, judge

__all__ = ["Convergence", "Verdict", "convergence", "import_arviz", "judge"]
