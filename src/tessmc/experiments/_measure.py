"""One cold run of one sampler on one model, and all that is to be said of it."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np

from tessmc.diagnostics import convergence, nested_r_hat, paper_metric, r_hat, stein_discrepancy
from tessmc.experiments._peers import OWN_DRAWS, SAMPLERS
from tessmc.experiments._protocol import Task
from tessmc.experiments._references import MODELS, PROBS, Reference
from tessmc.targets import AbstractTarget

MAX_R_HAT, MAX_ERROR = 1.01, 0.1
# Groups of chains that are judged as one by nested R-hat.
NUM_SUPERCHAINS = 8
# Numbers that are kept, of draws taken evenly, for R-hat and ESS: of twice as many every other draw goes. Of more,
# looking takes minutes, and who needs so many to pass has not as many effective draws.
MAX_KEPT = 2**22
# Pairs of more draws than this would take minutes.
MAX_STEIN = 12_800
# And "both": to the gate, and what there is on the way after the paper's.
BUDGETS = ("paper", "gate", "evaluations")
# A look at the gate waits until the run has grown by this factor: nobody stops after a moment of drawing.
GROWTH = 1.25
# Where evaluations are counted, and not seconds, one may look sooner: after few draws of few chains, each time.
FINE_GROWTH, FEW_DRAWS, FEW_CHAINS = 1.05, 20, 32
# What a run may draw beyond its limit before it counts as hanging, and how its process then ends.
GRACE, HUNG = 15.0, 75

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
    """Draw until the budget is spent, and judge the draws; what judging takes is not counted.

    With both budgets the row of the paper's is in the other, as `"paper"`.
    """
    model = MODELS[job.model]
    target = model.make()
    is_counting = job.budget == "evaluations"
    task = Task(target, jr.key(job.seed), num_draws=job.num_draws)
    if is_counting:
        task = task._replace(num_draws=FEW_DRAWS, num_chains=FEW_CHAINS)
    batches = SAMPLERS[job.sampler](task)
    kept, paid, judging, next_look, reference = Kept(), np.zeros(2, int), 0.0, None, None
    watch, early = _watch(job.limit + GRACE - (time.time() - began)), {}
    for batch in batches:
        kept.add(batch.draws)
        paid += (batch.num_evaluations, batch.num_gradients)
        elapsed = time.time() - began
        seconds = elapsed - judging
        if next_look is None and job.budget == "both":
            watch.cancel()
            reference = model.refer(target)
            early = {"paper": whole_row(target, kept, reference, seconds, paid)}
            judging = time.time() - began - seconds
            watch = _watch(job.limit + GRACE - seconds)
        amount, growth = (float(paid.sum()), FINE_GROWTH) if is_counting else (seconds, GROWTH)
        next_look = next_look or (amount if is_counting else growth * amount)
        if job.budget == "paper":
            is_last = kept.num_draws >= OWN_DRAWS.get(job.sampler, job.num_draws)
        else:
            is_last = seconds > job.limit or elapsed > 2 * job.limit
        if not is_last and (job.budget == "paper" or amount < next_look):
            continue
        watch.cancel()
        reference = reference or model.refer(target)
        if is_last or passes(kept, reference):
            break
        judging, next_look = time.time() - began - seconds, growth * amount
        watch = _watch(job.limit + GRACE - seconds)
    return {**whole_row(target, kept, reference or model.refer(target), seconds, paid), **early}


def whole_row(
    target: AbstractTarget, kept: "Kept", reference: Reference, seconds: float, paid: Sequence[int] | np.ndarray
) -> Row:
    """All that is said of draws that took so long and cost so much."""
    row = {**judge(kept, reference), "seconds": seconds}
    row |= {"num_evaluations": int(paid[0]), "num_gradients": int(paid[1])}
    row |= gated(row)
    row |= paper_columns(target, kept.draws, seconds)
    return {**row, "status": "passes" if row["passes"] else "does not pass"}


def _watch(seconds: float) -> threading.Timer:
    """End the process after so long, whatever it does then; unless it is cancelled."""
    timer = threading.Timer(max(seconds, 0.0), os._exit, (HUNG,))
    timer.daemon = True
    timer.start()
    return timer


class Kept:
    """Draws as they come, the older of them thinned so that memory does not fill; moments are those of all."""

    def __init__(self) -> None:
        self.num_draws, self._stride, self._sums = 0, 1, np.zeros(())
        self._parts: list[np.ndarray] = []

    def add(self, draws: np.ndarray) -> None:
        self._parts.append(draws[:, -self.num_draws % self._stride :: self._stride])
        self.num_draws += draws.shape[1]
        self._sums = self._sums + np.stack([(draws.astype(float) ** power).sum((0, 1)) for power in (1, 2)])
        if sum(part.size for part in self._parts) > 2 * MAX_KEPT:
            self._parts, self._stride = [self.draws[:, ::2]], 2 * self._stride

    @property
    def draws(self) -> np.ndarray:
        self._parts = [np.concatenate(self._parts, axis=1)]
        return self._parts[0]

    @property
    def mean(self) -> np.ndarray:
        return self._sums[0] / (self.num_draws * len(self._parts[0]))

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(self._sums[1] / (self.num_draws * len(self._parts[0])) - self.mean**2)

    def mean_error(self, reference: Reference) -> float:
        """In standard deviations."""
        return float(np.nan_to_num(np.abs(self.mean - reference.mean) / reference.sd, nan=np.inf).max())


def judge_draws(draws: np.ndarray, reference: Reference) -> Row:
    """R-hat, effective draws, errors against the reference, and whether the gate is passed."""
    kept = Kept()
    kept.add(draws)
    return judge(kept, reference)


def passes(kept: Kept, reference: Reference) -> bool:
    """Whether the gate is passed; what is cheap to know is asked first."""
    if not kept.mean_error(reference) < MAX_ERROR:
        return False
    return bool(max(_nested(kept.draws).max(), r_hat(kept.draws).max()) < MAX_R_HAT)


def judge(kept: Kept, reference: Reference) -> Row:
    found, nested = convergence(kept.draws), _nested(kept.draws)
    # Of a coordinate that never moves R-hat is not a number.
    moves = np.isfinite(found.r_hat)
    quantiles = np.quantile(kept.draws, PROBS, (0, 1))
    row = {
        "num_chains": len(kept.draws),
        "num_draws": kept.num_draws,
        "r_hat": float(np.where(moves, found.r_hat, np.inf).max()),
        "nested_r_hat": float(np.where(moves, nested, np.inf).max()),
        "ess_bulk": float(np.where(moves, found.ess_bulk, 0).min()),
        "ess_tail": float(np.where(moves, found.ess_tail, 0).min()),
        "mean_error": kept.mean_error(reference),
        "sd_error": float(np.abs(kept.sd / reference.sd - 1).max()),
        "quantile_error": float(np.abs((quantiles - reference.quantiles) / reference.sd).max()),
    }
    agree = max(row["r_hat"], row["nested_r_hat"]) < MAX_R_HAT
    return {**row, "passes": agree and row["mean_error"] < MAX_ERROR}


def _nested(draws: np.ndarray) -> np.ndarray:
    num_chains = len(draws)
    size = max(1, num_chains // NUM_SUPERCHAINS)
    return nested_r_hat(draws[: num_chains // size * size], num_chains // size)


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
