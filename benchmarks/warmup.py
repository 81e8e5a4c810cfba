"""The warm-up table: `Warmup.auto` in default settings on targets of many kinds, with and without gradients.

Every run is a process of its own, so its seconds are cold. `python -m benchmarks.warmup [target ...] [--seeds n]`; all
targets and five seeds take hours. The data sets are looked for in `TESSMC_DATA`.
"""

import argparse
import json
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np

import tessmc
from tessmc import models

SHAPE = {"num_chains": 128, "num_warmup": 400, "num_samples": 400}


def gaussian():
    """100 dimensions, condition number 1e4."""
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(100, 100)))[0]
    precision = jnp.asarray((rotation / np.logspace(-2, 2, 100)) @ rotation.T, float)
    return tessmc.Target(lambda x: -x @ precision @ x / 2, jnp.zeros(100))


def student():
    """10 dimensions, 3 degrees of freedom."""
    return tessmc.Target(lambda x: -13 / 2 * jnp.log1p(jnp.sum(x**2) / 3), jnp.zeros(10))


def ring():
    """A ring of radius 5 and width 0.3."""
    return tessmc.Target(lambda x: -(((jnp.sqrt(jnp.sum(x**2)) - 5) / 0.3) ** 2) / 2, jnp.zeros(2))


def modes():
    """Two modes ten standard deviations apart in each of 5 dimensions, with weights 0.3 and 0.7."""

    def log_density(x):
        return jnp.logaddexp(jnp.log(0.3) - jnp.sum((x - 5) ** 2) / 2, jnp.log(0.7) - jnp.sum((x + 5) ** 2) / 2)

    return tessmc.Target(log_density, jnp.zeros(5))


TARGETS = {
    "banana": models.banana,
    "oxygen": models.oxygen,
    "regimes": models.regime_switching,
    "lynx_91": models.predator_prey,
    "lynx_21": lambda: models.predator_prey("1900_1920"),
    "funnel_10": lambda: models.funnel(10),
    "funnel_100": lambda: models.funnel(100),
    "credit": models.sparse_logistic,
    "gaussian_100": gaussian,
    "student_10": student,
    "ring": ring,
    "modes": modes,
}
COLUMNS = ("evaluations", "s", "r_hat", "ess_bulk", "ess_tail", "per_evaluation", "total", "seconds")


def run(name: str, face: str, seed: int) -> dict:
    """One cold run, in this process."""
    warmup = tessmc.Warmup.auto(use_gradient=False if face == "free" else None)
    result = tessmc.sample(TARGETS[name](), seed=seed, warmup=warmup, progress=False, **SHAPE)
    evaluations, found = result.stats["num_evaluations"], result.convergence
    return {
        "evaluations": evaluations.mean(),
        "s": result.stats["log_ratio"].std(),
        "r_hat": found.r_hat.max(),
        "ess_bulk": found.ess_bulk.min(),
        "ess_tail": found.ess_tail.min(),
        "per_evaluation": found.ess_bulk.min() / evaluations.sum(),
        "total": result.num_evaluations,
        "mean": result.unconstrained.mean(axis=(0, 1)).tolist(),
        "sd": result.unconstrained.std(axis=(0, 1)).tolist(),
        "is_converged": result.verdict.converged,
        "reasons": result.verdict.reasons,
    }


def cold(name: str, face: str, seed: int) -> dict:
    """One run in a process of its own."""
    began = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.warmup", "--one", name, face, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, face, seed = options.one
        print(json.dumps(run(name, face, int(seed)), default=float))
        return
    print("Warmup.auto, 128 chains x (400 + 400); medians over seeds, and how many of them the verdict trusts")
    print(f"{'target':<14}{'face':<10}" + "".join(f"{column:>15}" for column in COLUMNS) + f"{'converged':>11}")
    for name in options.targets or TARGETS:
        for face in ("free", "gradient"):
            found = [cold(name, face, seed) for seed in range(options.seeds)]
            medians = (np.median([row[column] for row in found]) for column in COLUMNS)
            trusted = sum(row["is_converged"] for row in found)
            cells = "".join(f"{value:>15.4g}" for value in medians)
            print(f"{name:<14}{face:<10}{cells}{trusted:>7} of {len(found)}", flush=True)


if __name__ == "__main__":
    main()
