"""R-hat and effective sample size while a run goes on: fast, and without the import of ArviZ."""

import numpy as np
from jaxtyping import Float
from numpyro.diagnostics import effective_sample_size, gelman_rubin

from tessmc.diagnostics._convergence import normal_scores


def running(draws: Float[np.ndarray, "chain draw parameter"]) -> tuple[float, float]:
    """The largest split R-hat and the least bulk ESS of all parameters, of normal scores by NumPyro; NaN if unknown.

    Vehtari et al. (2021) have the larger of two for R-hat, of ranks and of folded ranks; here is the first alone.
    """
    num_chains, half = draws.shape[0], draws.shape[1] // 2
    halves = normal_scores(draws[:, : 2 * half]).reshape(2 * num_chains, half, -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(gelman_rubin(halves))), float(np.min(effective_sample_size(halves)))
