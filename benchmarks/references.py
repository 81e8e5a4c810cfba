"""The long runs that draws are compared with: `python -m benchmarks.references MODEL [SAMPLER SAMPLER] [--minutes m]`.

Each of two samplers draws until every coordinate has an effective sample size of 20,000 and R-hat below 1.001, or until
its minutes are over; the second starts at draws of the first, so that it need not find the modes. What is stored are
the moments and quantiles of the first, and how far the second is from it. It is refused if the first falls short, or if
the means differ by more than their errors allow.
"""

import argparse
import json
import time

import jax.random as jr
import numpy as np

from tessmc._arrays import put
from tessmc.diagnostics import convergence, quantile_errors, standard_errors
from tessmc.experiments import MODELS, PROBS, SAMPLERS, STORED, Reference, Task

MIN_ESS, MAX_R_HAT = 20_000, 1.001
# Of the largest of a hundred differences, in their standard errors.
MAX_Z = 5.0
NUM_DRAWS = 500


def draw(model: str, sampler: str, seconds: float, init: np.ndarray | None = None) -> tuple[np.ndarray, dict]:
    """A long run, and what it was worth."""
    start = None if init is None else put(init, np.float32)
    task = Task(MODELS[model].make(), jr.key(2**16), num_warmup=1000, num_draws=NUM_DRAWS, init=start)
    began, batches = time.time(), []
    for batch in SAMPLERS[sampler](task):
        batches.append(batch.draws)
        is_over = time.time() - began > seconds
        if not is_over and len(batches) & (len(batches) - 1):
            continue
        draws = np.concatenate(batches, axis=1)
        found = convergence(draws)
        worth = {"sampler": sampler, "ess": float(found.ess_bulk.min()), "r_hat": float(found.r_hat.max())}
        print(f"{model}: {worth}, {draws.shape[1]} draws a chain, {time.time() - began:.0f} s", flush=True)
        if is_over or is_enough(worth):
            break
    return draws, worth


def is_enough(worth: dict) -> bool:
    return worth["ess"] >= MIN_ESS and worth["r_hat"] < MAX_R_HAT


def moments(draws: np.ndarray) -> Reference:
    found = draws.mean((0, 1), np.float64), draws.std((0, 1), np.float64), np.quantile(draws, PROBS, (0, 1))
    return Reference(*found, *standard_errors(draws), quantile_errors(draws, PROBS))


def make(model: str, samplers: list[str], seconds: float) -> dict:
    """What is stored of a model."""
    draws, worth = draw(model, samplers[0], seconds)
    others, beside = draw(model, samplers[1], seconds, draws[:, -1])
    first, second = moments(draws), moments(others)
    difference = np.abs(first.mean - second.mean)
    z = float((difference / np.hypot(first.mean_se, second.mean_se)).max())
    print(f"{model}: the means differ by {z:.1f} standard errors", flush=True)
    if z > MAX_Z or not is_enough(worth):
        raise SystemExit(f"{model}: {worth} and {beside} are not good enough")
    numbers = {part: np.vectorize(rounded)(value).tolist() for part, value in first._asdict().items()}
    return {**worth, "beside": {**beside, "z": z, "in_sd": float((difference / first.sd).max())}, **numbers}


def rounded(number: float) -> float:
    return float(f"{number:.7g}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("samplers", nargs="*", default=["tess", "numpyro"])
    parser.add_argument("--minutes", type=float, default=30)
    asked = parser.parse_args()
    found = make(asked.model, asked.samplers, 60 * asked.minutes)
    kept = json.loads(STORED.read_text())
    STORED.write_text(json.dumps({**kept, asked.model: found}, indent=1) + "\n")
