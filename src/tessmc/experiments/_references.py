"""What draws are compared with: means, spreads and quantiles of every unconstrained coordinate.

In closed form or by quadrature where that can be had, posteriordb's draws for the 21-row series, and long runs of two
samplers that agree for the others: `python -m benchmarks.references` makes those and stores them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri
from scipy.stats import t as student

from tessmc import models
from tessmc.targets import Target

STORED = Path(__file__).with_name("references.json")
PROBS = np.array([0.05, 0.5, 0.95])
# The variance of the measurements of oxygen.
NOISE = 2e-4
# A thousand points of equal weight that stand for N(0, 1).
NORMAL = ndtri((np.arange(1000) + 0.5) / 1000)


class Reference(NamedTuple):
    """Of every unconstrained coordinate, with Monte Carlo standard errors, which are zero where numbers are exact.

    Attributes:
        quantiles: at `PROBS`, a row each.
    """

    mean: np.ndarray
    sd: np.ndarray
    quantiles: np.ndarray
    mean_se: np.ndarray
    sd_se: np.ndarray
    quantiles_se: np.ndarray


class Model(NamedTuple):
    """A target, and how its reference is found."""

    make: Callable[[], Target]
    refer: Callable[[Target], Reference]


def exact(mean: object, sd: object, quantiles: np.ndarray) -> Reference:
    """Means and sds may be numbers for all coordinates; `quantiles` has a column each."""
    full = (*(np.broadcast_to(np.asarray(part, float), quantiles.shape[1:]) for part in (mean, sd)), quantiles)
    return Reference(*full, *map(np.zeros_like, full))


def weighted_quantiles(points: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """At `PROBS`, of points of any shape."""
    flat = None if weights is None else np.broadcast_to(weights, points.shape).ravel()
    return np.quantile(points.ravel(), PROBS, weights=flat, method="inverted_cdf")


def of_banana(_: Target) -> Reference:
    """Of (√8 u, v + 2u²)."""
    quantiles = [8**0.5 * ndtri(PROBS), weighted_quantiles(NORMAL[:, None] + 2 * NORMAL**2)]
    return exact([0, 2], [8**0.5, 3], np.stack(quantiles, axis=1))


def of_oxygen(_: Target, num: int = 4000) -> Reference:
    """By quadrature on a grid of the supports, where the density is narrow but bounded; in NumPy, with float64."""
    theta0, theta1 = ((np.arange(num) + 0.5) / num * width for width in (5.0, 1.0))
    times, demand = models.oxygen_data()
    misfit = np.zeros((num, num))
    for time, seen in zip(times, demand, strict=True):
        misfit += (seen + theta0[:, None] * np.expm1(-theta1 * time)[None, :]) ** 2
    weights = np.exp(-(misfit - misfit.min()) / (2 * NOISE))
    free = np.stack([np.log(part / (1 - part)) for part in (theta0 / 5, theta1)])
    shares = np.stack([weights.sum(axis=axis) / weights.sum() for axis in (1, 0)])
    mean = np.sum(shares * free, axis=1)
    sd = np.sqrt(np.sum(shares * free**2, axis=1) - mean**2)
    return exact(mean, sd, np.stack([weighted_quantiles(*each) for each in zip(free, shares, strict=True)], axis=1))


def of_funnel(target: Target) -> Reference:
    """Of z = e^v ε with v ~ N(0, 1.5²), E z² is E e^2v; draws cannot tell the sd of z, of such fourth moments."""
    z = weighted_quantiles(np.exp(1.5 * NORMAL)[:, None] * NORMAL)
    quantiles = np.stack([1.5 * ndtri(PROBS)] + (target.dim - 1) * [z], axis=1)
    return exact(0, np.r_[1.5, np.full(target.dim - 1, np.exp(1.5**2))], quantiles)


def of_gaussian(target: Target) -> Reference:
    precision = -np.asarray(jax.hessian(target.log_density)(jnp.zeros(target.dim)), np.float64)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    return exact(0, sd, np.outer(ndtri(PROBS), sd))


def of_student(target: Target) -> Reference:
    return exact(0, 3**0.5, np.repeat(student(3).ppf(PROBS)[:, None], target.dim, axis=1))


def of_ring(target: Target, num: int = 1000) -> Reference:
    """The radius has the density r exp(-(r - 5)²/(2 · 0.3²)), the angle is uniform."""
    middle = (np.arange(num) + 0.5) / num
    radius = 10 * middle
    weights = radius * np.exp(-(((radius - 5) / 0.3) ** 2) / 2)
    sd = np.sqrt(np.sum(weights * radius**2) / np.sum(weights) / 2)
    x = weighted_quantiles(radius[:, None] * np.cos(2 * np.pi * middle), weights[:, None])
    return exact(0, sd, np.repeat(x[:, None], target.dim, axis=1))


def of_two_modes(target: Target) -> Reference:
    x = weighted_quantiles(np.array([[5.0], [-5.0]]) + NORMAL, np.array([[0.3], [0.7]]))
    return exact(-2, (1 + 0.3 * 0.7 * 100) ** 0.5, np.repeat(x[:, None], target.dim, axis=1))


def stored(name: str) -> Callable[[Target], Reference]:
    """Numbers of long runs."""

    def read(target: Target) -> Reference:
        found = json.loads(STORED.read_text())[name]
        assert len(found["mean"]) == target.dim, f"the reference of {name} is of another target"
        return Reference(*(np.array(found[part]) for part in Reference._fields))

    return read


def two_modes() -> Target:
    """Ten standard deviations apart in each of 5 dimensions, with weights 0.3 and 0.7."""
    return models.mixture(np.outer([5, -5], np.ones(5)), [0.3, 0.7])


MODELS = {
    "banana": Model(models.banana, of_banana),
    "oxygen": Model(models.oxygen, of_oxygen),
    "regime_switching": Model(models.regime_switching, stored("regime_switching")),
    "predator_prey": Model(models.predator_prey, stored("predator_prey")),
    "predator_prey_21": Model(lambda: models.predator_prey("1900_1920"), stored("predator_prey_21")),
    "funnel_10": Model(lambda: models.funnel(10), of_funnel),
    "funnel_100": Model(lambda: models.funnel(100), of_funnel),
    "sparse_logistic": Model(models.sparse_logistic, stored("sparse_logistic")),
    "gaussian_100": Model(models.gaussian, of_gaussian),
    "student_10": Model(models.student_t, of_student),
    "ring": Model(models.ring, of_ring),
    "two_modes": Model(two_modes, of_two_modes),
}
