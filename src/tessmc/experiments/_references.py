"""What draws are compared with: means and spreads of every unconstrained coordinate.

In closed form or by quadrature where that can be had, posteriordb's published values for the 21-row series, and long
runs of NumPyro's NUTS for the others, which `python -m tessmc.experiments._references NAME ...` makes and stores.
NUTS starts at draws of TESS, so that it finds the modes; that both agree is what tables then show.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessmc import models
from tessmc.sampling import sample
from tessmc.targets import Target

STORED = Path(__file__).with_name("references.json")
# The variance of the measurements of oxygen.
NOISE = 2e-4
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 16, 1000, 2500


class Reference(NamedTuple):
    """Mean and standard deviation of every unconstrained coordinate; infinite or unknown ones are NaN."""

    mean: np.ndarray
    sd: np.ndarray


class Model(NamedTuple):
    """A target, and how its reference is found."""

    make: Callable[[], Target]
    refer: Callable[[Target], Reference]


def by_quadrature(target: Target, num: int = 4000) -> Reference:
    """Of `oxygen`: on a grid of the supports, where the density is narrow but bounded; in NumPy, with float64."""
    del target
    theta0, theta1 = ((np.arange(num) + 0.5) / num * width for width in (5.0, 1.0))
    times, demand = models.oxygen_data()
    misfit = np.zeros((num, num))
    for time, seen in zip(times, demand, strict=True):
        misfit += (seen + theta0[:, None] * np.expm1(-theta1 * time)[None, :]) ** 2
    weights = np.exp(-(misfit - misfit.min()) / (2 * NOISE))
    free = [np.log(part / (1 - part)) for part in (theta0 / 5, theta1)]
    shares = [weights.sum(axis=axis) / weights.sum() for axis in (1, 0)]
    means = np.array([share @ each for share, each in zip(shares, free, strict=True)])
    squares = np.array([share @ each**2 for share, each in zip(shares, free, strict=True)])
    return Reference(means, np.sqrt(squares - means**2))


def of_funnel(target: Target) -> Reference:
    """Of z = e^v ε with v ~ N(0, 1.5²), E z² is E e^2v; draws cannot tell the sd of z, of such fourth moments."""
    return Reference(np.zeros(target.dim), np.r_[1.5, np.full(target.dim - 1, np.exp(1.5**2))])


def of_gaussian(target: Target) -> Reference:
    precision = -np.asarray(jax.hessian(target.log_density)(jnp.zeros(target.dim)), np.float64)
    return Reference(np.zeros(target.dim), np.sqrt(np.diag(np.linalg.inv(precision))))


def of_ring(target: Target) -> Reference:
    """The radius has the density r exp(-(r - 5)²/(2 · 0.3²))."""
    radius = np.linspace(0, 10, 100_001)
    weights = radius * np.exp(-(((radius - 5) / 0.3) ** 2) / 2)
    sd = np.sqrt(np.sum(weights * radius**2) / np.sum(weights) / 2)
    return Reference(np.zeros(target.dim), np.full(target.dim, sd))


def known(mean: object, sd: object) -> Callable[[Target], Reference]:
    """Numbers in closed form."""
    return lambda target: Reference(*(np.broadcast_to(np.asarray(part, float), target.dim) for part in (mean, sd)))


def stored(name: str) -> Callable[[Target], Reference]:
    """Numbers of a long run."""

    def read(target: Target) -> Reference:
        found = json.loads(STORED.read_text())[name]
        assert len(found["mean"]) == target.dim, f"the reference of {name} is of another target"
        return Reference(np.array(found["mean"]), np.array(found["sd"]))

    return read


def two_modes() -> Target:
    """Ten standard deviations apart in each of 5 dimensions, with weights 0.3 and 0.7."""
    return models.mixture(np.outer([5, -5], np.ones(5)), [0.3, 0.7])


MODELS = {
    "banana": Model(models.banana, known([0, 2], [8**0.5, 3])),
    "oxygen": Model(models.oxygen, by_quadrature),
    "regime_switching": Model(models.regime_switching, stored("regime_switching")),
    "predator_prey": Model(models.predator_prey, stored("predator_prey")),
    "predator_prey_21": Model(lambda: models.predator_prey("1900_1920"), stored("predator_prey_21")),
    "funnel_10": Model(lambda: models.funnel(10), of_funnel),
    "funnel_100": Model(lambda: models.funnel(100), of_funnel),
    "sparse_logistic": Model(models.sparse_logistic, stored("sparse_logistic")),
    "gaussian_100": Model(models.gaussian, of_gaussian),
    "student_10": Model(models.student_t, known(0, 3**0.5)),
    "ring": Model(models.ring, of_ring),
    "two_modes": Model(two_modes, known(-2, (1 + 0.3 * 0.7 * 100) ** 0.5)),
}


def draw(target: Target) -> dict:
    """A long run of NUTS."""
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS

    start = sample(target, seed=99, progress=False)
    kernel = NUTS(potential_fn=lambda x: -target.log_density(x), dense_mass=target.dim < 20)
    mcmc = MCMC(
        kernel,
        num_warmup=NUM_WARMUP,
        num_samples=NUM_DRAWS,
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(1), init_params=jnp.asarray(start.unconstrained[:: 128 // NUM_CHAINS, -1]))
    draws = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)
    found = summary({"x": draws})["x"]
    return {
        "mean": draws.mean(axis=(0, 1)).tolist(),
        "sd": draws.std(axis=(0, 1)).tolist(),
        "ess": float(found["n_eff"].min()),
        "r_hat": float(found["r_hat"].max()),
    }


if __name__ == "__main__":
    for each in sys.argv[1:]:
        kept = json.loads(STORED.read_text())
        STORED.write_text(json.dumps({**kept, each: draw(MODELS[each].make())}, indent=1) + "\n")
