"""Shift and scale in closed form, from draws."""

import math
from typing import NamedTuple

import equinox as eqx
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, Float

from tessmc._arrays import put
from tessmc._types import Point, Scalar

NUM_ROUNDS = 30


class FixedAffine(AbstractBijection):
    """x = shift + scale · (factor @ u), estimated and not trained; its inverse is kept, not solved for."""

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: None = eqx.field(static=True)
    shift: Point
    scale: Point
    factor: Float[Array, "dim dim"]
    inverse_factor: Float[Array, "dim dim"]
    log_det: Scalar

    def __init__(self, shift: np.ndarray, scale: np.ndarray, factor: np.ndarray, dtype: np.dtype):
        """Args: the shift and the scales (dim,), and a lower triangular matrix with a positive diagonal."""
        self.shape, self.cond_shape = shift.shape, None
        log_det = np.sum(np.log(scale)) + np.sum(np.log(np.diag(factor)))
        values = (shift, scale, factor, np.linalg.inv(factor), log_det)
        self.shift, self.scale, self.factor, self.inverse_factor, self.log_det = (put(value, dtype) for value in values)

    def transform_and_log_det(self, x: Point, condition: None = None) -> tuple[Point, Array]:
        return self.shift + self.scale * (self.factor @ x), self.log_det

    def inverse_and_log_det(self, y: Point, condition: None = None) -> tuple[Point, Array]:
        return self.inverse_factor @ ((y - self.shift) / self.scale), -self.log_det


class Spread(NamedTuple):
    """Location, scales and correlation of a cloud of points; `factor` is the Cholesky factor of the correlation."""

    shift: np.ndarray
    scale: np.ndarray
    factor: np.ndarray

    def pull(self, points: np.ndarray) -> np.ndarray:
        """The points, shifted and scaled to a standard cloud."""
        return (points - self.shift) / self.scale @ np.linalg.inv(self.factor).T

    def push(self, points: np.ndarray) -> np.ndarray:
        """A standard cloud, brought to this spread."""
        return self.shift + self.scale * (points @ self.factor.T)

    def log_density(self, points: np.ndarray, dof: int) -> np.ndarray:
        """Log of the t_ν (or, with ν = 0, the Gaussian) of this spread, at points (n, dim); with its constant."""
        dim = len(self.shift)
        square = np.sum(self.pull(points) ** 2, axis=1)
        size = np.sum(np.log(self.scale)) + np.sum(np.log(np.diag(self.factor)))
        if dof == 0:
            return -square / 2 - size - dim / 2 * np.log(2 * np.pi)
        constant = math.lgamma((dof + dim) / 2) - math.lgamma(dof / 2) - dim / 2 * np.log(dof * np.pi)
        return constant - size - (dof + dim) / 2 * np.log1p(square / dof)


def spread_of(points: np.ndarray, dof: int = 0, shrinkage: float | None = None) -> Spread:
    """The best fitting t_ν (Gaussian with ν = 0) of points (n, dim), by expectation and maximisation.

    A finite ν weighs points down that lie far outside. `shrinkage` of the correlation to the identity; by default
    as much as so few points in so many dimensions need.
    """
    # A few thousand tell weights apart as well as all.
    points = np.asarray(points[:: max(1, len(points) // 2**11)] if dof else points, np.float64)
    num_points, dim = points.shape
    center = np.median(points, axis=0)
    # Scales of their own first: coordinates may differ by many orders of magnitude.
    unit = _positive_scale(points, center)
    standard = (points - center) / unit
    weights = np.ones(num_points)
    for _ in range(NUM_ROUNDS if dof else 1):
        before = weights
        mean = weights @ standard / weights.sum()
        away = standard - mean
        covariance = (away * weights[:, None]).T @ away / num_points
        scale = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
        correlation = covariance / np.outer(scale, scale)
        amount = _shrinkage(correlation, weights.sum() ** 2 / np.sum(weights**2)) if shrinkage is None else shrinkage
        factor = np.linalg.cholesky((1 - amount) * correlation + (amount + 1e-9) * np.eye(dim))
        if dof:
            square = np.sum((away / scale @ np.linalg.inv(factor).T) ** 2, axis=1)
            weights = (dof + dim) / (dof + square)
            if np.abs(weights - before).max() < 0.01:
                break
    return Spread(center + unit * mean, unit * scale, factor)


def spread_of_scores(points: np.ndarray, scores: np.ndarray) -> Spread:
    """The Gaussian with the least Fisher divergence: its covariance is the geometric mean of C(x) and C(∇log π)⁻¹.

    For a Gaussian target that is its covariance exactly, wherever the points are, once they span all dimensions.
    """
    points, scores = np.asarray(points, np.float64), np.asarray(scores, np.float64)
    num_points, dim = points.shape
    center, slope = points.mean(axis=0), scores.mean(axis=0)
    unit = np.sqrt(_positive_scale(points, center) / _positive_scale(scores, slope))
    away, slopes = (points - center) / unit, (scores - slope) * unit
    root_x, root_g = (_root(part.T @ part / num_points + 1e-6 * np.eye(dim)) for part in (away, slopes))
    # Singular values of roots, since eigenvalues of the product itself would span twice as many digits.
    _, values, vectors = np.linalg.svd(root_g.T @ root_x)
    root = root_x @ vectors.T / np.sqrt(np.maximum(values, 1e-12 * values[0]))
    covariance = root @ root.T
    scale = np.sqrt(np.diag(covariance))
    factor = np.linalg.cholesky(covariance / np.outer(scale, scale) + 1e-9 * np.eye(dim))
    # The mode of that Gaussian is E x + Σ E ∇log π.
    return Spread(center + unit * (covariance @ (slope * unit)), unit * scale, factor)


def spread_of_values(points: np.ndarray, log_densities: np.ndarray, start: Spread) -> Spread:
    """The Gaussian whose log density is nearest to log π at the points, wherever they come from.

    What `start` leaves of log π is fitted by a quadratic. For a Gaussian target the result is exact, once there are
    more points than `quadratic_terms`.
    """
    points, dim = start.pull(np.asarray(points, np.float64)), len(start.shift)
    rest = np.asarray(log_densities, np.float64) + np.sum(points**2, axis=1) / 2
    rest = rest - np.median(rest)
    rows, columns = np.triu_indices(dim)
    terms = np.concatenate([np.ones((len(points), 1)), points, points[:, rows] * points[:, columns]], axis=1)
    # Columns of length one, so that a little more on the diagonal is little for each of them.
    lengths = np.linalg.norm(terms, axis=0)
    terms = terms / lengths
    # Slow to import, and seldom needed.
    from scipy.linalg import cho_factor, cho_solve

    gram = cho_factor(terms.T @ terms + 1e-10 * np.eye(len(lengths)), overwrite_a=True)
    found = cho_solve(gram, terms.T @ rest) / lengths
    slope, bend = found[1 : dim + 1], np.zeros((dim, dim))
    bend[rows, columns] = found[dim + 1 :]
    values, vectors = np.linalg.eigh(np.eye(dim) - bend - bend.T)
    # A direction in which log π hardly bends, or bends upwards, is widened as far as one step can be trusted.
    covariance = (vectors / np.maximum(values, 1 / 400)) @ vectors.T
    covariance, shift = start.factor @ covariance @ start.factor.T, start.factor @ covariance @ slope
    scale = np.sqrt(np.diag(covariance))
    factor = np.linalg.cholesky(covariance / np.outer(scale, scale) + 1e-9 * np.eye(dim))
    return Spread(start.shift + start.scale * shift, start.scale * scale, factor)


def quadratic_terms(dim: int) -> int:
    """Coefficients of a quadratic."""
    return (dim + 1) * (dim + 2) // 2


def _root(matrix: np.ndarray) -> np.ndarray:
    """R with R Rᵀ = `matrix`, even where rounding has left that no longer positive."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 1e-12))


def _positive_scale(points: np.ndarray, center: np.ndarray) -> np.ndarray:
    """A scale that is robust against points far outside, and positive even where all points agree."""
    away = np.abs(points - center)
    scale = 1.5 * np.median(away, axis=0)
    scale = np.where(scale > 0, scale, away.mean(axis=0))
    return np.where(scale > 0, scale, np.maximum(np.abs(center), 1) * 1e-6)


def _shrinkage(correlation: np.ndarray, num_points: float) -> float:
    """How far to draw correlations towards none: the part of their squares that chance alone would bring."""
    dim = len(correlation)
    off = np.sum(correlation**2) - dim
    if dim == 1 or off <= 0:
        return 0.0
    # What n independent draws of uncorrelated coordinates would show.
    by_chance = dim * (dim - 1) / max(num_points, 2)
    return float(np.clip(by_chance / off, 0, 1))
