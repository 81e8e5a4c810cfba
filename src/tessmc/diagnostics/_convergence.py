"""ArviZ's R-hat and effective sample sizes, and the verdict they give."""

import warnings
from types import ModuleType
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

MAX_R_HAT = 1.01
MIN_ESS = 400


class Verdict(NamedTuple):
    """Whether the draws may be used; `reasons` says in words why not, or what speaks for it."""

    converged: bool
    reasons: list[str]

    def __str__(self) -> str:
        return ("Converged: " if self.converged else "Not converged: ") + "; ".join(self.reasons) + "."


class Convergence(NamedTuple):
    """R-hat and effective sample sizes, one number a parameter."""

    r_hat: Float[np.ndarray, " parameter"]
    ess_bulk: Float[np.ndarray, " parameter"]
    ess_tail: Float[np.ndarray, " parameter"]


def import_arviz() -> ModuleType:
    """ArviZ, imported when first needed: it takes longer than the rest of us together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def convergence(draws: Float[np.ndarray, "chain draw parameter"]) -> Convergence:
    """Rank-normalised split R-hat, bulk and tail ESS (Vehtari et al. 2021), by ArviZ."""
    import xarray

    arviz = import_arviz()
    data = xarray.Dataset({"x": (("chain", "draw", "parameter"), draws.astype(float))})
    # A parameter that never moves divides by its variance of zero; its NaN is judged below.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = arviz.rhat(data), arviz.ess(data, method="bulk"), arviz.ess(data, method="tail")
    return Convergence(*(np.asarray(values["x"]) for values in found))


def judge(names: list[str], found: Convergence, num_draws: int, notes: list[str]) -> Verdict:
    """The verdict on a run: every parameter has to pass, and there must be nothing worse to report.

    Args:
        names: of the parameters.
        found: R-hat and ESS in the order of the names.
        num_draws: draws a chain.
        notes: what else went wrong, a sentence each; any note means the run has not converged.
    """
    reasons = list(notes)
    if not np.all(np.isfinite(found.r_hat)):
        stuck = names[int(np.argmin(np.isfinite(found.r_hat)))]
        reasons.append(f"R-hat of {stuck} cannot be computed: its draws are constant or too few ({num_draws} a chain)")
        return Verdict(False, reasons)
    worst = int(np.argmax(found.r_hat))
    if found.r_hat[worst] >= MAX_R_HAT:
        reasons.append(
            f"R-hat of {names[worst]} is {found.r_hat[worst]:.3f}, and should be below {MAX_R_HAT}: "
            f"the chains do not agree yet, draw more than {num_draws} a chain"
        )
    for kind, ess in (("bulk", found.ess_bulk), ("tail", found.ess_tail)):
        least = int(np.argmin(ess))
        if not ess[least] >= MIN_ESS:
            reasons.append(f"the {kind} ESS of {names[least]} is {ess[least]:.0f}, and should be at least {MIN_ESS}")
    if reasons:
        return Verdict(False, reasons)
    summary = f"max R-hat {found.r_hat[worst]:.3f}, min bulk ESS {found.ess_bulk.min():.0f}"
    return Verdict(True, [f"{summary}, min tail ESS {found.ess_tail.min():.0f}"])
