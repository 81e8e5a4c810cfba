"""What the draws of the warm-up table are compared with: means and spreads in the unconstrained space.

In closed form or by quadrature where that can be had, from posteriordb's published values for the 21-row series, and by
long runs of NumPyro's NUTS for the others: `python -m benchmarks.references NAME ...` draws them and stores them here.
NUTS starts at draws of tessmc, so that it finds the modes; that both agree is what the table then shows.
"""

import json
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import tessmc
from tessmc.models._oxygen import VARIANCE, oxygen_data

STORED = Path(__file__).with_name("references.json")
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 16, 1000, 2500


def reference(name: str, target: tessmc.Target) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every unconstrained coordinate."""
    if name == "oxygen":
        return _by_quadrature()
    if name == "lynx_21":
        return _published()
    if name.startswith("funnel"):
        # z = e^v ε with v ~ N(0, 1.5²): E z² = E e^2v.
        return np.zeros(target.dim), np.r_[1.5, np.full(target.dim - 1, np.exp(1.5**2))]
    closed = {
        "banana": (np.array([0.0, 2.0]), np.array([8**0.5, 3.0])),
        "gaussian_100": (np.zeros(100), None),
        "student_10": (np.zeros(10), np.full(10, 3**0.5)),
        "ring": (np.zeros(2), np.full(2, _ring_spread())),
        "modes": (np.full(5, -2.0), np.full(5, (1 + 0.3 * 0.7 * 100) ** 0.5)),
    }
    if name in closed:
        mean, sd = closed[name]
        return mean, np.sqrt(np.diag(np.linalg.inv(_precision(target)))) if sd is None else sd
    stored = json.loads(STORED.read_text())[name]
    return np.array(stored["mean"]), np.array(stored["sd"])


def _precision(target: tessmc.Target) -> np.ndarray:
    return -np.asarray(jax.hessian(target.log_density)(jnp.zeros(target.dim)), np.float64)


def _ring_spread() -> float:
    """The radius has the density r exp(-(r - 5)²/(2 · 0.3²))."""
    radius = np.linspace(0, 10, 100_001)
    weights = radius * np.exp(-(((radius - 5) / 0.3) ** 2) / 2)
    return float(np.sqrt(np.sum(weights * radius**2) / np.sum(weights) / 2))


def _by_quadrature(num: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """On a grid of the supports, where the density is narrow but bounded; in NumPy, with float64."""
    theta0, theta1 = ((np.arange(num) + 0.5) / num * width for width in (5.0, 1.0))
    times, demand = oxygen_data()
    misfit = np.zeros((num, num))
    for time, seen in zip(times, demand, strict=True):
        misfit += (seen + theta0[:, None] * np.expm1(-theta1 * time)[None, :]) ** 2
    weights = np.exp(-(misfit - misfit.min()) / (2 * VARIANCE))
    free = [np.log(part / (1 - part)) for part in (theta0 / 5, theta1)]
    shares = [weights.sum(axis=axis) / weights.sum() for axis in (1, 0)]
    means = np.array([share @ each for share, each in zip(shares, free, strict=True)])
    squares = np.array([share @ each**2 for share, each in zip(shares, free, strict=True)])
    return means, np.sqrt(squares - means**2)


def _published() -> tuple[np.ndarray, np.ndarray]:
    """posteriordb's, whose parameters are theta[1..4], z_init[1..2], sigma[1..2], put into our order, by name."""
    folder = Path(os.environ["TESSMC_DATA"]) / "posteriordb"
    found = json.loads((folder / "hudson_lynx_hare-lotka_volterra.json").read_text())["reference_unconstrained"]
    order = np.argsort(["alpha", "beta", "gamma", "delta", "p0", "q0", "sigma_p", "sigma_q"], kind="stable")
    return np.array(found["mean"])[order], np.array(found["sd"])[order]


def draw(name: str, target: tessmc.Target) -> dict:
    """A long run of NUTS."""
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS

    start = tessmc.sample(target, seed=99, num_samples=100, warmup=tessmc.Warmup.auto(), progress=False)
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
    print(name, "R-hat", found["r_hat"].max(), "least ESS", found["n_eff"].min(), flush=True)
    return {
        "mean": draws.mean(axis=(0, 1)).tolist(),
        "sd": draws.std(axis=(0, 1)).tolist(),
        "ess": float(found["n_eff"].min()),
        "r_hat": float(found["r_hat"].max()),
    }


def main() -> None:
    from benchmarks.warmup import TARGETS

    for name in sys.argv[1:]:
        stored = json.loads(STORED.read_text()) if STORED.exists() else {}
        STORED.write_text(json.dumps({**stored, name: draw(name, TARGETS[name]())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
