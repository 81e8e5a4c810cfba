"""The warm-up table: `Warmup.auto` in default settings on targets of many kinds, with and without gradients.

`python -m benchmarks.warmup [target ...] [--seeds n] [--face free|gradient]`. Every run is a process of its own, so its
seconds are cold. Two run at a time, on a core each, but for those that learn a map of many dimensions from gradients,
which use both. Five seeds of all targets take about an hour. The data sets are looked for in `TESSMC_DATA`.

A run passes the gate with R-hat below 1.01 and every mean within 0.1 standard deviations of the reference; it is wrong
if its verdict is "converged" and a mean is further off.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

import numpy as np

import tessmc
from tessmc.experiments import MODELS

SHAPE = {"num_chains": 128, "num_warmup": 400, "num_samples": 400}


COLUMNS = ("stride", "evaluations", "s", "bulk", "tail", "r_hat", "mean_error", "sd_error", "total", "seconds")
MAX_R_HAT, MAX_ERROR = 1.01, 0.1
FACES = ("free", "gradient")
# These keep two cores busy; all others run two at a time.
ALONE = {("sparse_logistic", "gradient"), ("funnel_100", "gradient")}
# Target, face, seed.
Job = tuple[str, str, int]
# Where fourth moments are infinite, or nearly, the spread of draws says nothing: of a funnel only log_scale's does.
NUM_KNOWN = {"funnel_10": 1, "funnel_100": 1, "student_10": 0}


def run(name: str, face: str, seed: int) -> dict:
    """One cold run, in this process."""
    warmup = tessmc.Warmup.auto(use_gradient=False if face == "free" else None)
    target = MODELS[name].make()
    result = tessmc.sample(target, seed=seed, warmup=warmup, progress=False, **SHAPE)
    mean, sd, *_ = MODELS[name].refer(target)
    evaluations, found = result.stats["num_evaluations"], result.convergence
    draws = result.unconstrained.astype(np.float64)
    return {
        "stride": result.stride,
        "evaluations": evaluations.mean(),
        "s": result.stats["log_ratio"].std(),
        "bulk": found.ess_bulk.min() / evaluations.sum(),
        "tail": found.ess_tail.min() / evaluations.sum(),
        "r_hat": found.r_hat.max(),
        "mean_error": np.abs((draws.mean(axis=(0, 1)) - mean) / sd).max(),
        "sd_error": np.abs(draws.std(axis=(0, 1)) / sd - 1)[: NUM_KNOWN.get(name)].max(initial=0),
        "total": result.num_evaluations,
        "is_converged": result.verdict.converged,
        "reasons": result.verdict.reasons,
    }


def cold(job: Job, core: int | None = None) -> dict:
    """One run in a process of its own, on one core or on all."""
    began = time.perf_counter()
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.warmup", "--one", *map(str, job)]
    done = subprocess.run([*pinned, *command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{job}: {done.stderr}")
    return {**json.loads(done.stdout.splitlines()[-1]), "seconds": time.perf_counter() - began}


def row(name: str, face: str, found: list[dict]) -> str:
    """Medians over seeds, and how many of them pass, are trusted by the verdict, and are trusted wrongly."""
    cells = "".join(f"{np.median([run[column] for run in found]):>12.4g}" for column in COLUMNS)
    is_near = [run["mean_error"] < MAX_ERROR for run in found]
    counts = (
        sum(near and run["r_hat"] < MAX_R_HAT for near, run in zip(is_near, found, strict=True)),
        sum(run["is_converged"] for run in found),
        sum(run["is_converged"] and not near for near, run in zip(is_near, found, strict=True)),
    )
    return f"{name:<18}{face:<10}{cells}" + "".join(f"{count:>8}/{len(found)}" for count in counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*MODELS, []])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--face", choices=["free", "gradient"])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, face, seed = options.one
        print(json.dumps(run(name, face, int(seed)), default=float))
        return
    print("Warmup.auto, 128 chains x (400 + 400), medians over seeds; bulk and tail are effective draws an evaluation")
    heads = "".join(f"{column:>12}" for column in COLUMNS) + "".join(
        f"{word:>10}" for word in ("gate", "trusted", "wrong")
    )
    print(f"{'target':<18}{'face':<10}{heads}", flush=True)
    rows = [(name, face) for name in options.targets or MODELS for face in ([options.face] if options.face else FACES)]
    seeds = range(options.seeds)
    few = [each for each in rows if each not in ALONE]
    found = two_at_a_time([(*each, seed) for each in few for seed in seeds])
    for each in few:
        print(row(*each, [next(found) for _ in seeds]), flush=True)
    for each in [each for each in rows if each in ALONE]:
        print(row(*each, [cold((*each, seed)) for seed in seeds]), flush=True)


def two_at_a_time(jobs: list[Job]) -> Iterator[dict]:
    """Cold runs, on a core each, in the order of the jobs."""
    cores: Queue = Queue()
    for core in sorted(os.sched_getaffinity(0))[:2]:
        cores.put(core)

    def pinned(job: Job) -> dict:
        core = cores.get()
        try:
            return cold(job, core)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(cores.qsize()) as pool:
        yield from pool.map(pinned, jobs)


if __name__ == "__main__":
    main()
