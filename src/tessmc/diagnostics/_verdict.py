"""Whether draws may be used, in sentences."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from tessmc.diagnostics._convergence import Convergence

MAX_R_HAT = 1.01
MIN_ESS = 400
# Chains that differ so much stand apart, and do not only mix slowly.
APART = 1.1
# Medians of chains in two groups differ by so many times what the draws of a chain do.
MIN_GAP = 3.0


class Verdict(NamedTuple):
    """Whether the draws may be used; `reasons` says in words why not, or what speaks for it."""

    converged: bool
    reasons: list[str]

    def __str__(self) -> str:
        return ("Converged: " if self.converged else "Not converged: ") + "; ".join(self.reasons) + "."


def judge(
    names: list[str],
    found: Convergence,
    num_draws: int,
    notes: list[str],
    nested: Float[np.ndarray, " parameter"] | None = None,
) -> Verdict:
    """The verdict on a run: every parameter has to pass, and there must be nothing worse to report.

    Args:
        names: of the parameters.
        found: R-hat and ESS in the order of the names.
        num_draws: draws a chain.
        notes: what else went wrong, a sentence each; any note means the run has not converged.
        nested: R-hat of groups of chains; None for too few chains to form any.
    """
    reasons = list(notes)
    if not np.all(np.isfinite(found.r_hat)):
        stuck = names[int(np.argmin(np.isfinite(found.r_hat)))]
        reasons.append(f"R-hat of {stuck} cannot be computed: its draws are constant or too few ({num_draws} a chain)")
        return Verdict(False, reasons)
    reasons += _disagreements("R-hat", names, found.r_hat, num_draws)
    if nested is not None and not reasons:
        reasons += _disagreements("nested R-hat", names, nested, num_draws)
    for kind, ess in (("bulk", found.ess_bulk), ("tail", found.ess_tail)):
        least = int(np.argmin(ess))
        if not ess[least] >= MIN_ESS:
            reasons.append(f"the {kind} ESS of {names[least]} is {ess[least]:.0f}, and should be at least {MIN_ESS}")
    if reasons:
        return Verdict(False, reasons)
    groups = "" if nested is None else f" (of groups of chains {nested.max():.3f})"
    sizes = f"min bulk ESS {found.ess_bulk.min():.0f}, min tail ESS {found.ess_tail.min():.0f}"
    return Verdict(True, [f"max R-hat {found.r_hat.max():.3f}{groups}, {sizes}"])


def _disagreements(kind: str, names: list[str], r_hat: np.ndarray, num_draws: int) -> list[str]:
    worst = int(np.argmax(r_hat))
    if r_hat[worst] < MAX_R_HAT:
        return []
    return [
        f"{kind} of {names[worst]} is {r_hat[worst]:.3f}, and should be below {MAX_R_HAT}: "
        f"the chains do not agree yet, draw more than {num_draws} a chain"
    ]


def groups_apart(name: str, draws: Float[np.ndarray, "chain draw"]) -> str | None:
    """A sentence on chains that stand in two places and do not come from one to the other, if they do."""
    medians = np.sort(np.median(draws, axis=1))
    if len(medians) < 2:
        return None
    place = int(np.argmax(np.diff(medians)))
    # Of a chain that crosses over, the spread is as large as the gap.
    spread = np.median(draws.std(axis=1))
    if not medians[place + 1] - medians[place] > MIN_GAP * spread:
        return None
    low, high = medians[: place + 1], medians[place + 1 :]
    return (
        f"{name} has two groups of chains that do not mix: {len(low)} around {np.median(low):.4g} and {len(high)} "
        f"around {np.median(high):.4g}; how much weight each has is not known. Warm up longer, with more chains, or "
        "start them at points spread over all of the target"
    )
