"""How many transitions a draw takes, where the map leaves chains slow."""

import numpy as np

from tessmc.diagnostics import convergence

# Draws of a chain from which to say how much one is worth.
MIN_DRAWS, MAX_R_HAT = 16, 1.2
MAX_STRIDE = 4
# Where a map for many dimensions has been learned as well as can be.
MAX_LONG_STRIDE = 16


def stride_for(positions: np.ndarray) -> int:
    """Transitions after which a draw counts for a third of an independent one, at most four; axes (chain, draw, dim).

    R-hat of n draws a chain is about 1 + 1/(2n) times the draws that make an independent one. Chains that do not agree
    at all are not helped by four, and make one.
    """
    num_chains, num_draws, _ = positions.shape
    if num_draws < MIN_DRAWS:
        return 1
    found = convergence(positions)
    if not found.r_hat.max() < MAX_R_HAT:
        return 1
    return int(min(np.ceil(num_chains * num_draws / 3 / found.ess_bulk.min()), MAX_STRIDE))


def stride_by_r_hat(positions: np.ndarray) -> int:
    """Transitions after which chains of a hundred draws agree to a quarter of what is allowed of R-hat.

    R-hat of n draws a chain is about 1 + τ/n, since it is halves of chains that are compared. What there is of slow
    tails in the draws of a warm-up is little, so this is generous.
    """
    num_draws = positions.shape[1]
    if num_draws < MIN_DRAWS:
        return 1
    found = convergence(positions).r_hat.max()
    if not found < MAX_R_HAT:
        return 1
    return int(np.clip(np.ceil(2 * (found**2 - 1) * num_draws), 1, MAX_LONG_STRIDE))
