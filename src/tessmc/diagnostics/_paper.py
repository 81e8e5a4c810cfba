"""The paper's own measure of efficiency, from its appendix."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class PaperMetric(NamedTuple):
    """The columns of the paper's tables.

    It cannot tell mixing from standing still: all N - 1 lags of a chain are summed, without a window. Of 100 draws a
    chain, independent ones score an ESS/chain of about 400, and a random walk that never mixes about 10.

    Attributes:
        tau_max: the integrated autocorrelation time, median over chains, of the worst coordinate.
        sigma_tau: its standard deviation over chains, in that coordinate.
        ess: effective draws of all chains.
        ess_per_chain: of one.
    """

    tau_max: float
    sigma_tau: float
    ess: float
    ess_per_chain: float


def paper_metric(draws: Float[np.ndarray, "chain draw dim"]) -> PaperMetric:
    """τ_max, σ_τ and ESS as the appendix defines them."""
    num_chains, num_draws, _ = draws.shape
    tau = autocorrelation_times(draws)
    worst = int(np.argmax(np.median(tau, axis=0)))
    ess_per_chain = float(np.min(np.median(num_draws / (2 * tau), axis=0)))
    sigma_tau = float(np.std(tau[:, worst])) if np.isfinite(tau[:, worst]).all() else float("inf")
    return PaperMetric(float(np.median(tau[:, worst])), sigma_tau, num_chains * ess_per_chain, ess_per_chain)


def autocorrelation_times(draws: Float[np.ndarray, "chain draw dim"]) -> Float[np.ndarray, "chain dim"]:
    """τ of the appendix: 1/2 + Σ (1 - t/N) C(t)/C(0) over all lags t, for every chain and coordinate.

    Infinite for a chain that never moves, of which the appendix says nothing. C(t) are plain sums over i ≤ N - t, one
    term more than printed: else C(0) would leave out the last draw.
    """
    num_draws = draws.shape[1]
    away = draws.astype(np.float64) - draws.mean(axis=1, keepdims=True, dtype=np.float64)
    # Filled up with as many zeros, so that the end of a chain does not meet its beginning.
    power = np.abs(np.fft.rfft(away, 2 * num_draws, axis=1)) ** 2
    sums = np.fft.irfft(power, axis=1)[:, :num_draws]
    taper = 1 - np.arange(num_draws) / num_draws
    moves = np.ptp(draws, axis=1) > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        # The lag 0 counts for 1, and should for a half.
        tau = np.einsum("t,ctj->cj", taper, sums) / sums[:, 0] - 0.5
    return np.where(moves, tau, np.inf)
