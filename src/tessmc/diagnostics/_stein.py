"""The kernelised Stein discrepancy between draws and a density of known score."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

# Rows of a block: four matrices of its size stay in the cache.
BLOCK = 512


class Stein(NamedTuple):
    """The statistics of the paper's appendix: U is unbiased and may be negative, V is neither."""

    u: float
    v: float


def stein_discrepancy(draws: Float[np.ndarray, "draw dim"], scores: np.ndarray) -> Stein:
    """U and V of the Stein kernel made from k(x, y) = (1 + |x - y|²)^(-1/2), over all pairs of draws.

    The printed U leaves out pairs of the same chain, too, and divides as if it did not; here it is over all pairs of
    different draws (Liu, Lee and Jordan 2016).

    Args:
        draws: x, those of all chains in a row.
        scores: ∇ log π at each of them.
    """
    if draws.shape != scores.shape or len(draws) < 2:
        raise ValueError(
            f"`draws` and `scores` should have one shape (draw, dim), with two draws or more, but have {draws.shape} "
            f"and {scores.shape}"
        )
    points, slopes = draws.astype(np.float64), scores.astype(np.float64)
    # Distances lose fewer digits so.
    points = points - points.mean(axis=0)
    num_draws, dim = points.shape
    starts = range(0, num_draws, BLOCK)
    # The kernel is symmetric: blocks below the diagonal are those above.
    total = sum(
        (1 if first == second else 2)
        * _block(points, slopes, slice(first, first + BLOCK), slice(second, second + BLOCK))
        for first in starts
        for second in range(first, num_draws, BLOCK)
    )
    alone = num_draws * dim + np.sum(slopes**2)
    return Stein(float((total - alone) / (num_draws * (num_draws - 1))), float(total / num_draws**2))


def _block(points: np.ndarray, slopes: np.ndarray, rows: slice, columns: slice) -> float:
    """The sum of the Stein kernel over pairs of these rows and columns."""
    x, y, at_x, at_y = points[rows], points[columns], slopes[rows], slopes[columns]
    square = np.maximum(np.sum(x**2, axis=1)[:, None] + np.sum(y**2, axis=1)[None, :] - 2 * x @ y.T, 0)
    # (x - y)·(s(x) - s(y))
    along = np.sum(x * at_x, axis=1)[:, None] + np.sum(y * at_y, axis=1)[None, :] - at_x @ y.T - x @ at_y.T
    inverse = 1 / (1 + square)
    kernel = np.sqrt(inverse)
    # With q = 1 + |x - y|²: ∇x·∇y k is d q^(-3/2) - 3 |x - y|² q^(-5/2), and ∇x k is -(x - y) q^(-3/2).
    total = kernel * (at_x @ at_y.T + inverse * (points.shape[1] + along - 3 * square * inverse))
    return float(np.sum(total))
