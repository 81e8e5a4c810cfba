"""One cold run of one sampler on one model, and all that is to be said of it."""

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np

from tessmc.diagnostics import convergence, nested_r_hat, paper_metric, stein_discrepancy
from tessmc.experiments._peers import OWN_DRAWS, SAMPLERS
from tessmc.experiments._protocol import Task
from tessmc.experiments._references import MODELS, PROBS, Reference
from tessmc.targets import AbstractTarget

MAX_R_HAT, MAX_ERROR = 1.01, 0.1
# Groups of chains that are judged as one by nested R-hat.
NUM_SUPERCHAINS = 8
# Draws of all chains that R-hat and ESS are taken from, evenly: of more, what takes minutes is the looking. No sampler
# that needs so many to pass has as many effective ones.
MAX_LOOK = 2**20
# Pairs of more draws than this would take minutes.
MAX_STEIN = 12_800
BUDGETS = ("paper", "gate")
# A look at the gate waits until the run has grown by this factor: nobody stops after a moment of drawing.
GROWTH = 1.25
# What a run may draw beyond its limit before it counts as hanging, and how its process then ends.
GRACE, HUNG = 30.0, 75

Row = dict[str, Any]


class Job(NamedTuple):
    """A run to be measured: `limit` in seconds, `num_draws` of each chain between two looks at the gate."""

    model: str
    sampler: str
    seed: int
    budget: str = "gate"
    limit: float = 300.0
    num_draws: int = 100


def measure(job: Job) -> Row:
    """The row of a run in a new process; one that crashes or hangs is a row, too."""
    command = [sys.executable, "-W", "ignore", "-m", "tessmc.experiments", json.dumps([*job, time.time()])]
    named, hung = job._asdict(), f"no answer within {job.limit + GRACE:.0f} s"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=4 * job.limit + GRACE)
    except subprocess.TimeoutExpired:
        return {**named, "status": hung}
    if done.returncode == HUNG:
        return {**named, "status": hung}
    if done.returncode:
        return {**named, "status": "crashed: " + (done.stderr.strip().splitlines() or ["without a word"])[-1][:200]}
    return {**named, **json.loads(done.stdout.splitlines()[-1])}


def run(job: Job, began: float) -> Row:
    """Draw until the budget is spent, and judge the draws; what judging takes is not counted."""
    model = MODELS[job.model]
    target = model.make()
    batches = SAMPLERS[job.sampler](Task(target, jr.key(job.seed), num_draws=job.num_draws))
    draws, paid, judging, next_look, reference = [], np.zeros(2, int), 0.0, None, None
    watch = _watch(job.limit + GRACE - (time.time() - began))
    for batch in batches:
        draws.append(batch.draws)
        paid += (batch.num_evaluations, batch.num_gradients)
        elapsed = time.time() - began
        seconds = elapsed - judging
        next_look = next_look or GROWTH * seconds
        if job.budget == "paper":
            is_last = sum(each.shape[1] for each in draws) >= OWN_DRAWS.get(job.sampler, job.num_draws)
        else:
            is_last = seconds > job.limit or elapsed > 2 * job.limit
        if not is_last and (job.budget == "paper" or seconds < next_look):
            continue
        watch.cancel()
        reference = reference or model.refer(target)
        found = judge_draws(np.concatenate(draws, axis=1), reference)
        if is_last or found["passes"]:
            break
        judging, next_look = time.time() - began - seconds, GROWTH * seconds
        watch = _watch(job.limit + GRACE - seconds)
    row = {**found, "seconds": seconds, "num_evaluations": int(paid[0]), "num_gradients": int(paid[1])}
    row |= gated(row)
    row |= paper_columns(target, np.concatenate(draws, axis=1), seconds)
    return {**row, "status": "passes" if found["passes"] else "does not pass"}


def _watch(seconds: float) -> threading.Timer:
    """End the process after so long, whatever it does then; unless it is cancelled."""
    timer = threading.Timer(max(seconds, 0.0), os._exit, (HUNG,))
    timer.daemon = True
    timer.start()
    return timer


def judge_draws(draws: np.ndarray, reference: Reference) -> Row:
    """R-hat, effective draws, errors against the reference, and whether the gate is passed."""
    num_chains, num_draws, _ = draws.shape
    few = draws[:, :: -(-num_chains * num_draws // MAX_LOOK)]
    found, size = convergence(few), max(1, num_chains // NUM_SUPERCHAINS)
    nested = nested_r_hat(few[: num_chains // size * size], num_chains // size)
    # Of a coordinate that never moves R-hat is not a number.
    moves = np.isfinite(found.r_hat)
    errors = np.abs(draws.mean((0, 1), np.float64) - reference.mean) / reference.sd
    row = {
        "num_chains": num_chains,
        "num_draws": num_draws,
        "r_hat": float(np.where(moves, found.r_hat, np.inf).max()),
        "nested_r_hat": float(np.where(moves, nested, np.inf).max()),
        "ess_bulk": float(np.where(moves, found.ess_bulk, 0).min()),
        "ess_tail": float(np.where(moves, found.ess_tail, 0).min()),
        "mean_error": float(np.nan_to_num(errors, nan=np.inf).max()),
        "sd_error": float(np.abs(draws.std((0, 1), np.float64) / reference.sd - 1).max()),
        "quantile_error": float(np.abs((np.quantile(few, PROBS, (0, 1)) - reference.quantiles) / reference.sd).max()),
    }
    agree = max(row["r_hat"], row["nested_r_hat"]) < MAX_R_HAT
    return {**row, "passes": agree and row["mean_error"] < MAX_ERROR}


def gated(row: Row) -> Row:
    """Effective draws a cold second and an evaluation: nothing where the gate is not passed."""
    ess = row["ess_bulk"] if row["passes"] else 0.0
    return {
        "ess_per_second": ess / row["seconds"],
        "ess_per_evaluation": ess / (row["num_evaluations"] + row["num_gradients"]),
    }


def paper_columns(target: AbstractTarget, draws: np.ndarray, seconds: float) -> Row:
    """The columns of the paper's tables; see `PaperMetric` for what they hide."""
    found = paper_metric(draws)
    flat = draws.reshape(-1, draws.shape[2])
    flat = flat[np.linspace(0, len(flat) - 1, min(len(flat), MAX_STEIN)).astype(int)].astype(target.dtype)
    scores = jax.jit(lambda points: jax.lax.map(jax.grad(target.log_density), points, batch_size=256))(flat)
    stein = stein_discrepancy(flat, np.asarray(scores))
    return {
        **found._asdict(),
        "paper_ess_per_second": found.ess / seconds,
        "stein_u": stein.u,
        "stein_v": stein.v,
    }
