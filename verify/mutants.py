"""Plant a bug in the source, one at a time, and see that the tests catch it.

Each mutant is a replacement of text that occurs once in a file of `src`. It is applied to a copy, and the tests named
beside it are run on the copy. They have to fail; a source that does not import or does not end is not caught.

    python -m verify.mutants [WORD ...]      only mutants whose name has one of the words
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
NUM_WORKERS = 2
TIMEOUT = 300

KERNELS, LAWS, TICKS, FIT, WARMUP = (
    "tests/kernels/test_kernels.py",
    "tests/kernels/test_law.py",
    "tests/engines/test_ticks.py",
    "tests/adaptation/test_fit.py",
    "tests/adaptation/test_warmup.py",
)
TARGETS, TRANSPORTS, SAMPLE, RANDOM, VERDICT = (
    "tests/targets/test_function.py",
    "tests/transports/test_transports.py",
    "tests/sampling/test_sample.py",
    "tests/test_random.py",
    "tests/diagnostics/test_convergence.py",
)
BEYOND = "tests/adaptation/test_beyond.py"
RESCUES, WIDES, LOSSES, PATHS, AFFINES = (
    "tests/adaptation/test_rescue.py",
    "tests/adaptation/test_wide.py",
    "tests/adaptation/test_objectives.py",
    "tests/adaptation/test_path.py",
    "tests/transports/test_affine.py",
)
SEEKERS = "tests/adaptation/test_seek.py"
AUTO = "tests/adaptation/test_auto.py::test_values_alone_find_a_narrow_gaussian_of_many_dimensions"
DATA, TABLES = "tests/models/test_data.py", "tests/experiments/test_tables.py"
DURABLE = "tests/sampling/test_durable.py"
HOSTS, BOXES, LEDGERS = "tests/engines/test_host.py", "tests/targets/test_black_box.py", "tests/storage/test_ledger.py"
BOXED = "tests/sampling/test_black_box.py -k "
STRIDES = "tests/adaptation/test_auto.py -k transitions"
INVARIANCE = "verify/test_invariance.py::test_algorithm_1_by_step[float32-sinh]"


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: str


ARC, KERNEL, LAW, TRANSPORT, ELLIPTICAL = (
    f"kernels/_{name}.py" for name in ("arc", "kernel", "law", "transport", "elliptical")
)
TICK, MARCH, HOST = "engines/_ticks.py", "engines/_march.py", "engines/_host.py"
DESK, CREW, CALLS, LEDGER = *(f"targets/_{name}.py" for name in ("desk", "crew", "calls")), "storage/_ledger.py"
RESCUE, WIDE, BUFFERS, WINDOWS, CAMP, PATH, SEEK, STRIDE = (
    f"adaptation/_{name}.py" for name in ("rescue", "wide", "buffer", "windows", "camp", "path", "seek", "stride")
)
AFFINE, MARGINAL, LADDER = "transports/_affine.py", "transports/_marginal.py", "transports/_ladder.py"
COUPLING, OBJECTIVES, ADAM, PAPER = (
    "transports/_coupling.py",
    "adaptation/_objectives.py",
    "adaptation/_fit.py",
    "adaptation/_paper.py",
)
FUNCTION, FORM, VERDICTS = (
    "targets/_function.py",
    "targets/_form.py",
    "diagnostics/_verdict.py",
)
TROUBLES, NOTE, DRAWS, FOLDER = (
    "sampling/_troubles.py",
    *(f"storage/_{name}.py" for name in ("note", "draws", "folder")),
)
JOURNAL, RUN, SESSION, ASKED = "engines/_journal.py", *(f"sampling/_{name}.py" for name in ("run", "session", "asked"))

MUTANTS = [
    # Keys
    Mutant("key shared by height and first angle", ARC, "jr.exponential(key_height,", "jr.exponential(key_angle,", KERNELS),
    Mutant("key shared by momentum and height", ARC, "jr.exponential(key_height,", "jr.exponential(key_vector,", KERNELS),
    Mutant("every shrink with the same key", ARC, "jr.fold_in(arc.key, num_tries)", "jr.fold_in(arc.key, 1)", KERNELS),
    Mutant("momentum reused in every iteration", TICK, "jr.fold_in(chain.key, chain.iteration)", "chain.key", TICKS),
    Mutant("all chains on one stream", "_random.py", "low = np.arange(num, dtype=np.uint32)", "low = np.zeros(num, np.uint32)", TICKS),
    Mutant("a round too few in Threefry", "_random.py", "range(5)", "range(4)", RANDOM),
    Mutant("layers in the wrong order", COUPLING, "np.stack(leaves)", "np.stack(leaves[::-1])", TRANSPORTS),
    Mutant("a given map keeps its precision", "sampling/_arguments.py", "leaf.astype(target.dtype) if", "leaf if", SAMPLE),
    # The ellipse and the slice
    Mutant("first angle from a normal", ARC, "jr.uniform(key_angle, dtype=dtype, maxval=2 * jnp.pi)", "jr.normal(key_angle, dtype=dtype) % (2 * jnp.pi)", KERNELS),
    Mutant("half an ellipse", ARC, "dtype=dtype, maxval=2 * jnp.pi)", "dtype=dtype, maxval=jnp.pi)", KERNELS),
    Mutant("bracket of half an ellipse", ARC, "angle, angle - 2 * jnp.pi, angle,", "angle, angle - jnp.pi, angle,", KERNELS),
    Mutant("bracket shrunk on the wrong side", ARC, "jnp.where(arc.angle < 0, arc.angle, arc.lower)", "jnp.where(arc.angle > 0, arc.angle, arc.lower)", KERNELS),
    Mutant("bracket not shrunk", ARC, "        upper=upper,\n", "        upper=arc.upper,\n", KERNELS),
    Mutant("height above the chain", ARC, "log_ratio - jr.exponential", "log_ratio + jr.exponential", KERNELS),
    Mutant("height at the chain", ARC, "log_ratio - jr.exponential", "log_ratio - 0 * jr.exponential", KERNELS),
    Mutant("height on the natural scale", ARC, "log_ratio - jr.exponential(key_height, dtype=", "log_ratio * jr.uniform(key_height, dtype=", KERNELS),
    Mutant("NaN accepted", ARC, "(log_ratio > arc.log_height) & (log_ratio < jnp.inf)", "~(log_ratio <= arc.log_height)", KERNELS),
    Mutant("+inf accepted", ARC, " & (log_ratio < jnp.inf)", "", KERNELS),
    Mutant("a chain at NaN is never released", ARC, "jnp.where(jnp.isnan(state.log_ratio), -jnp.inf, state.log_ratio)", "state.log_ratio", KERNELS),
    Mutant("NaN not counted", ARC, "arc.num_nan + jnp.isnan(log_ratio)", "arc.num_nan", KERNELS),
    Mutant("the ellipse does not close", ARC, "arc.reference * jnp.cos(arc.angle)", "arc.reference * jnp.cos(arc.angle / 2)", KERNELS),
    Mutant("momentum of the wrong spread", ARC, "vector = law.draw(key_vector, state.reference, is_fresh)", "vector = 1.1 * law.draw(key_vector, state.reference, is_fresh)", INVARIANCE),
    # Kernels
    Mutant("log-determinant dropped", TRANSPORT, "self.law.log_density(reference) - log_det", "self.law.log_density(reference)", KERNELS),
    Mutant("log-determinant of the wrong sign", TRANSPORT, "self.law.log_density(reference) - log_det", "self.law.log_density(reference) + log_det", INVARIANCE),
    Mutant("reference density forgotten", TRANSPORT, "self.law.log_density(reference) - log_det", "-log_det", KERNELS),
    Mutant("reference density of the wrong scale", LAW, "-jnp.sum(reference**2) / 2", "-jnp.sum(reference**2)", KERNELS),
    Mutant("rejected point kept at the bound", KERNEL, "choose(is_inside, tried, state), info", "choose(is_inside, tried, tried), info", KERNELS),
    Mutant("tries without a bound of their own", KERNEL, "(arc.num_tries < self.max_tries)", "(arc.num_tries < 2 * self.max_tries)", KERNELS),
    Mutant("prior covariance for its root", ELLIPTICAL, "self.cholesky = jnp.linalg.cholesky(covariance)", "self.cholesky = covariance", KERNELS),
    Mutant("prior mean forgotten", ELLIPTICAL, "self.mean + self.cholesky @ reference", "self.cholesky @ reference", KERNELS),
    Mutant("prior counted twice", ELLIPTICAL, "value + log_normal(pushed.reference), value)", "value, value + log_normal(pushed.reference))", KERNELS),
    # Fresh points and the Student-t reference
    Mutant("a new height after a fresh point outside", ARC, "        log_height=before.log_height,\n", "", LAWS),
    Mutant("fresh points drawn for ever", TICK, "kernel.law, is_done & kernel.first_try)", "kernel.law, kernel.first_try)", LAWS),
    Mutant("the ellipse goes through the fresh point", TICK, "chain.arc.key), chain.state, kernel.law", "chain.arc.key), chain.state._replace(reference=jnp.where(is_done, chain.state.reference, chain.arc.reference)), kernel.law", LAWS),
    Mutant("fresh tries are not counted", ARC, "        num_tries=before.num_tries,\n", "        num_tries=before.num_tries * 0 + 2,\n", LAWS),
    Mutant("the fresh point as momentum", KERNEL, "go_on(begin(arc.key, state, self.law), arc)", "arc._replace(reference=state.reference, upper=arc.upper + 6)", LAWS),
    Mutant("t: variance without the dimension", LAW, "dof = self.dof + jnp.where(is_fresh, 0, dim)", "dof = self.dof", LAWS),
    Mutant("t: variance without the point", LAW, "jnp.where(is_fresh, 0, jnp.sum(self._standard(reference) ** 2))", "0", LAWS),
    Mutant("t: exponent without the dimension", LAW, "-(dof + dim) / 2", "-dof / 2", LAWS),
    Mutant("t: momentum without the scale", LAW, "normal * self.scale.astype(dtype) *", "normal *", LAWS),
    Mutant("t: variance of a point that is not scaled", LAW, "jnp.sum(self._standard(reference) ** 2))", "jnp.sum(reference**2))", LAWS),
    Mutant("t: odd degrees of freedom lost", LAW, "jnp.where(dof % 2 == 1, odd, 0)", "0", LAWS),
    # The engine
    Mutant("stopping at the total count", TICK, "partial(try_once, kernel, until))(ticks.chains)", "partial(try_once, kernel, until + 1000 * (jnp.mean(ticks.chains.iteration) < until)))(ticks.chains)", TICKS),
    Mutant("stale log ratio after a move", TICK, "state=choose(busy & (is_inside | ~chain.is_placed) & ~is_known, tried, chain.state)", "state=choose(busy & (is_inside | ~chain.is_placed) & ~is_known, tried, chain.state)._replace(log_ratio=jnp.where(chain.is_placed, chain.state.log_ratio, tried.log_ratio))", TICKS),
    Mutant("stuck chains move", TICK, "state=choose(busy & (is_inside | ~chain.is_placed)", "state=choose(busy & (is_inside | is_stuck | ~chain.is_placed)", TICKS),
    Mutant("stuck draws show the point tried", TICK, "choose(is_stuck & (tried.log_density != jnp.inf), chain.state, tried)", "tried", TICKS),
    Mutant("finished chains go on", TICK, "return ~chain.is_placed | (chain.iteration < until)", "return ~chain.is_placed | (chain.iteration <= until)", TICKS),
    Mutant("arcs begun anew in every call", TICK, "    length = tape_length(", "    chains = chains._replace(arc=jax.vmap(partial(renew, kernel))(chains, chains.is_placed, chains.is_placed))\n    length = tape_length(", TICKS),
    Mutant("evaluations of idle chains counted", TICK, "chain.num_evaluations + (busy & ~is_known)", "chain.num_evaluations + ~is_known", TICKS),
    Mutant("+inf not reported", MARCH, "(tape.log_density == np.inf)", "(tape.log_density == np.nan)", TICKS),
    Mutant("bad starts kept", MARCH, "        if not is_bad.any():", "        if True:", TICKS),
    Mutant("good starts redrawn too", MARCH, "np.where(is_bad[:, None], refill(count, chains), chains.state.reference)", "np.asarray(refill(count, chains))", TICKS),
    Mutant("chains wait for each other", TICK, "partial(try_once, kernel, until))(ticks.chains)", "partial(try_once, kernel, jnp.minimum(until, jnp.min(ticks.chains.iteration) + 1)))(ticks.chains)", TICKS),
    Mutant("what is known is asked for again", HOST, "is_busy(chains, until) & ~knows_its_own(chains))", "is_busy(chains, until))", HOSTS),
    Mutant("chains that were told nothing move", HOST, "return jax.vmap(choose)(is_told, moved, chains), record", "return moved, record", HOSTS),
    Mutant("a support's log-determinant dropped on the host", HOST, "answers.values + log_dets[allowed]", "answers.values", HOSTS),
    Mutant("the first part of a round again and again", HOST, "log_densities[allowed] =", "log_densities[: len(allowed)] =", HOSTS),
    Mutant("a limit is passed by a round", HOST, "waiting[:most]", "waiting", HOSTS),
    Mutant("a limit counts the last round only", MARCH, "box, journal.num_made = black_box_of(kernel), count_evaluations(chains)", "box = black_box_of(kernel)", HOSTS),
    Mutant("what is paid for is asked for again", DESK, "np.flatnonzero(~is_known)", "np.arange(len(is_known))", BOXED + "killed_run"),
    Mutant("rejected calls are likely", DESK, "return -np.inf", "return 0.0", BOXES),
    Mutant("misuse is rejected in silence", DESK, 'if self.on_error == "reject" and fault.kind != "misuse":', 'if self.on_error == "reject":', BOXES),
    Mutant("the function gets an array that is another's", DESK, "leaf[row].copy()", "leaf[0]", BOXES),
    Mutant("values in the order of completion", CREW, "yield batch, found", "yield batches[0], found", BOXED + "threads"),
    Mutant("a dead worker's batch is forgotten", CREW, "waiting = [batch for batch, _ in fallen]", "waiting = []", BOXED + "replaced"),
    Mutant("workers are sent the function always", CALLS, "if payload is not None and job.token not in _known:", "if payload is not None:", BOXED + "travels_once"),
    Mutant("forks are taken", CREW, 'context.get_start_method() == "fork"', 'context.get_start_method() == "spork"', BOXED + "forks"),
    Mutant("a call is never ended", CALLS, "signal.setitimer(signal.ITIMER_REAL, seconds)", "signal.setitimer(signal.ITIMER_REAL, 60 + seconds)", BOXES + " -k too_long"),
    Mutant("a damaged record is believed", LEDGER, "if checksum != zlib.crc32(_CHECKED.pack(digest, value)):", "if False:", LEDGERS),
    Mutant("values before the last state are forgotten", LEDGER, "self._before, self._now = self._now, {}", "self._before, self._now = {}, {}", LEDGERS),
    Mutant("values that are used again are not kept", LEDGER, "            self._add(digest, found)", "            pass", LEDGERS),
    Mutant("the last chains are put back in another order", TICK, "all_.at[last].set(part)", "all_.at[last[::-1]].set(part)", TICKS),
    Mutant("the last chains write in another's column", TICK, "ticks.chains)), last, 0)", "ticks.chains)), last[::-1], 0)", TICKS),
    # Maps and fits
    Mutant("coupling forgets its log-determinant", COUPLING, "given), jnp.sum(log_scale)", "given), 0 * jnp.sum(log_scale)", TRANSPORTS),
    Mutant("coupling inverts its scale wrongly", COUPLING, "jnp.exp(-log_scale)", "jnp.exp(log_scale)", TRANSPORTS),
    Mutant("coupling without a bound", COUPLING, "self.max_log_scale * jnp.tanh(log_scale / self.max_log_scale)", "log_scale", TRANSPORTS),
    Mutant("coupling moves the wrong half", COUPLING, "(first, second) if self.moves_first else (second, first)", "(first, second)", TRANSPORTS),
    Mutant("map starts away from the identity", COUPLING, "0 if layer == depth else", "", TRANSPORTS),
    Mutant("(5) without its log-determinant", OBJECTIVES, "jax.vmap(log_normal)(references) + log_dets", "jax.vmap(log_normal)(references)", FIT),
    Mutant("(6) of the wrong sign", OBJECTIVES, "jax.vmap(log_density)(positions) + log_dets", "jax.vmap(log_density)(positions) - log_dets", FIT),
    Mutant("steps that are not finite are taken", ADAM, "choose(is_finite, (moved,", "choose(is_finite | True, (moved,", FIT),
    Mutant("only the loss is looked at", ADAM, " & jnp.all(jnp.isfinite(gradient))", "", FIT),
    Mutant("the learning rate never decays", ADAM, "self.factor ** (step / self.horizon)", "self.factor ** (0 * step / self.horizon)", FIT),
    Mutant("stale log ratio after the map changed", PAPER, "chains = move_chains(chains, chains.state.reference)", "pass", WARMUP),
    Mutant("the map of the epoch before", PAPER, "kernel = TransportEllipticalSlice(task.target.log_density, state.transport)", "pass", WARMUP),
    Mutant("m taken for one", PAPER, "schedule, jnp.int32(self.num_steps)", "schedule, jnp.int32(1)", WARMUP),
    # The automatic warm-up
    Mutant("impossible places have a weight", RESCUE, "np.where(np.isfinite(log_weight), step * log_weight, -np.inf)", "np.nan_to_num(step * log_weight, neginf=0)", RESCUES),
    Mutant("powers rise too fast", RESCUE, "np.isfinite(log_weight).sum() / 2)", "np.isfinite(log_weight).sum() / 8)", RESCUES),
    Mutant("resampling by rank", RESCUE, "np.searchsorted(np.cumsum(weights), places)", "np.searchsorted(np.cumsum(np.sort(weights)), places)", RESCUES),
    Mutant("shifts are not seen", RESCUE, "np.maximum(growth, shift).max()", "growth.max()", RESCUES),
    Mutant("weights of the wrong power", WIDE, "drawn), 1 - self.power)", "drawn), self.power)", WIDES),
    Mutant("single draws decide", WIDE, "np.minimum(weights, 1 / np.sqrt(len(weights)))", "weights", WIDES),
    Mutant("resampled draws lose their weights", WIDE, "resample(rng, weights, int(", "resample(rng, np.full(len(weights), 1 / len(weights)), int(", WIDES),
    Mutant("a bridge from the wrong law", CAMP, "jnp.where(self.is_from_pushed, log_pushed,", "jnp.where(~self.is_from_pushed, log_pushed,", WIDES),
    Mutant("couplings see raw tails", COUPLING, "self.network(jnp.arcsinh(given)) + self.skip @ (3 * jnp.arcsinh(given / 3))", "self.network(given) + self.skip @ given", "tests/transports/test_ladder.py"),
    Mutant("the same halves in every pair", LADDER, "np.arange(dim) % 2", "0", "tests/transports/test_ladder.py"),
    Mutant("a pair takes the order of the next", LADDER, "permute(np.argsort(now)[then])", "permute(then)", "tests/transports/test_ladder.py"),
    Mutant("ancestors are not followed", RESCUE, "ancestors[chosen]", "ancestors", RESCUES),
    Mutant("gather before tempering", RESCUE, "    first = temper(task, camp, rng, budget)\n", "    first = Tempered(gather(task, camp, budget), 0.0, 0.0)\n", RESCUES),
    Mutant("a quadratic bends half as much", AFFINE, "np.eye(dim) - bend - bend.T", "np.eye(dim) - bend", AFFINES),
    Mutant("a quadratic without a slope", AFFINE, "start.factor @ covariance @ slope", "0 * slope", AFFINES),
    Mutant("values are not asked for the affine layer", WINDOWS, "if len(seen.positions) > 1.2", "if len(seen.positions) > 1e9", AUTO),
    Mutant("no scouts from a given map", WINDOWS, "if self.rung == \"couplings\" and self.draws and", "if self.task.transport is None and self.rung == \"couplings\" and self.draws and", AUTO.split("::")[0] + "::test_a_run_with_a_given_map_sends_scouts_too"),
    Mutant("held-out draws are trained on", BUFFERS, "take(drawn, ~is_held), take(drawn, is_held)", "drawn, take(drawn, is_held)", WIDES),
    Mutant("the path gradient keeps its noise", OBJECTIVES, "jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf", "leaf", LOSSES),
    Mutant("the log-variance is squared throughout", OBJECTIVES, "abs(away).clip(max=2)", "abs(away)", LOSSES),
    Mutant("weights of the wrong divergence", OBJECTIVES, "(1 - share + share * weights)", "(share + (1 - share) * weights)", LOSSES),
    Mutant("a single draw decides", OBJECTIVES, "jnp.minimum(weights / jnp.mean(weights), MAX_WEIGHT)", "weights / jnp.mean(weights)", LOSSES),
    Mutant("one of two fits is forgotten", "adaptation/_fit.py", "sum(leaves) / len(leaves)", "leaves[0]", FIT),
    Mutant("threads forget the precision", "adaptation/_fit.py", "with jax.enable_x64(has_x64), ", "with ", FIT),
    Mutant("the first of several transitions is the draw", MARCH, "grouped(values)[:, :, -1]", "grouped(values)[:, :, 0]", STRIDES),
    Mutant("tries between draws are not counted", MARCH, "grouped(draws.num_tries).sum(axis=2)", "grouped(draws.num_tries)[:, :, -1]", STRIDES),
    Mutant("slow chains draw as often as fast ones", STRIDE, "num_chains * num_draws / 3 /", "num_chains * num_draws / 300 /", STRIDES),
    Mutant("hopeless chains make four transitions a draw", STRIDE, "if not found.r_hat.max() < MAX_R_HAT:", "if False:", STRIDES),
    Mutant("chains that do not agree make sixteen", STRIDE, "if not found < MAX_R_HAT:", "if False:", STRIDES),
    Mutant("R-hat asks for a tenth", STRIDE, "2 * (found**2 - 1)", "0.2 * (found**2 - 1)", STRIDES),
    Mutant("a checksum is not checked", "models/_data.py", "!= source.sha256:", "== '':", DATA),
    Mutant("the cache is not looked into", "models/_data.py", "for folder in (given, cache):", "for folder in (given,):", DATA),
    Mutant("Stein's U has the diagonal", "diagnostics/_stein.py", "(total - alone)", "total", "tests/diagnostics/test_stein.py"),
    Mutant("half of Stein's pairs", "diagnostics/_stein.py", "(1 if first == second else 2)", "1", "tests/diagnostics/test_stein.py"),
    Mutant("chains meet their beginning", "diagnostics/_paper.py", "np.fft.rfft(away, 2 * num_draws, axis=1)", "np.fft.rfft(away, axis=1)", "tests/diagnostics/test_paper.py"),
    Mutant("superchains are not wide", "diagnostics/_convergence.py", "np.maximum(*(_nested", "np.minimum(*(_nested", VERDICT),
    Mutant("a wrong mean passes the gate", "experiments/_measure.py", 'row["mean_error"] < MAX_ERROR', "True", TABLES),
    Mutant("a gate without R-hat", "experiments/_measure.py", 'max(row["r_hat"], row["nested_r_hat"]) < MAX_R_HAT', "True", TABLES),
    Mutant("a sampler's own draws forgotten", "experiments/_measure.py", "OWN_DRAWS.get(job.sampler, job.num_draws)", "job.num_draws", TABLES),
    Mutant("ourselves among the peers", "experiments/_tables.py", "if peer not in OURS", 'if peer != "tess"', TABLES),
    Mutant("quantiles without weights", "experiments/_references.py", "weights=flat,", "weights=None,", TABLES),
    Mutant("a speed without a gate", "experiments/_measure.py", 'row["ess_bulk"] if row["passes"] else 0.0', 'row["ess_bulk"]', TABLES),
    Mutant("points are not widened", PATH, "references * (1 + width *", "references * (1 + 0 * width *", PATHS),
    Mutant("a map that draws contradict is taken", PATH, "Learned(after < before,", "Learned(True,", PATHS),
    Mutant("a mode that only chains know is forgotten", PATH, "np.sum(depth > _margin(starts.shape[1]))", "np.sum(depth > 1e9)", PATHS),
    Mutant("whatever the map knows has more weight", PATH, "found.bound > above + _margin(dim)", "found.bound > above - 1e3", PATHS),
    Mutant("what the chains know always counts", PATH, "found.bound > above + _margin(dim)", "False", PATHS),
    Mutant("log Z without the constant of the law", PATH, " - fresh.law.log_constant(references.shape[1])", "", PATHS),
    Mutant("no second look at the affine layer", PATH, "if found.s > FAR_FROM_GOOD and", "if False and", PATHS),
    # Seekers
    Mutant("seekers draw from the target itself", SEEK, "bridge_from_pushed(POWER,", "bridge_from_pushed(1.0,", SEEKERS),
    Mutant("chains are where seekers went", SEEK, "away.chains._replace(state=camp.chains.state)", "away.chains", SEEKERS),
    Mutant("chains seek, too", SEEK, "bridge=no_bridge(task.target.dim, task.target.dtype)", "bridge=bridge", SEEKERS),
    Mutant("whatever seekers find is too little", SEEK, "in_a_row(seekers.trips[-1:]), drawn)", "drawn, drawn)", SEEKERS + " -k finds"),
    Mutant("the mean of covariances is not geometric", AFFINE, "np.sqrt(np.maximum(values, 1e-12 * values[0]))", "np.maximum(values, 1e-12 * values[0])", AFFINES),
    Mutant("what seekers found is not learned", SEEK, "divergences_by_path(own, shown.share) + kl_from_target_by_path(others, usual)", "divergences_by_path(own, shown.share)", SEEKERS),
    Mutant("draws move with the map", OBJECTIVES, "jax.vmap(_fixed(transport).inverse)(positions)", "jax.vmap(transport.inverse)(positions)", LOSSES),
    Mutant("what is far above counts in full", OBJECTIVES, " / jnp.maximum(1, away / FAR)", "", LOSSES),
    Mutant("chains stay where a bad map left them", PATH, "fresh._replace(chains=restart_chains(camp.chains, moved))", "fresh", PATHS),
    Mutant("the correlations of lost chains are kept", PATH, "spread_of(positions, shrinkage=1.0)", "spread_of(positions[:3], shrinkage=0.0)", PATHS),
    Mutant("what is known is paid for again", TICK, "chain.num_evaluations + (busy & ~is_known)", "chain.num_evaluations + busy", AUTO.split("::")[0] + "::test_chains_under_another_map_stay_where_they_are"),
    Mutant("shrinkage forgotten", AFFINE, "np.clip(by_chance / off, 0, 1)", "np.clip(by_chance / off, 0, 0)", AFFINES),
    Mutant("draws far out count in full", AFFINE, "weights = (dof + dim) / (dof + square)", "weights = np.ones(num_points)", AFFINES),
    Mutant("scores without the mode", AFFINE, "center + unit * (covariance @ (slope * unit))", "center", AFFINES),
    Mutant("tails with one side's power", MARGINAL, "jnp.where(point < 0, self.log_left, self.log_right)", "jnp.where(point < 0, self.log_left, self.log_left)", "tests/transports/test_marginal.py"),
    Mutant("tails forget their log-determinant", MARGINAL, "return y, jnp.sum(self.log_scale + _log_cosh(bent) - jnp.log1p(x**2) / 2)", "return y, jnp.sum(self.log_scale)", TRANSPORTS),
    # Targets, verdict, sample
    Mutant("every visit of a tail is reported", TROUBLES, "< MAX_ERROR_OF_TAIL", "< 0", SAMPLE + "::test_a_tail_seen_by_a_few_long_visits_is_reported"),
    Mutant("walls are not minded", WINDOWS, "np.max(scores) - MAX_STEP * self.task.target.dim", "-1e9", AUTO.split("::")[0] + "::test_a_flat_density_with_hard_walls_is_not_taken_for_a_wide_one"),
    Mutant("what only wide draws found is kept quiet", TROUBLES, ">= MAX_UNSEEN:", ">= 1e9:", SAMPLE),
    Mutant("support's log-determinant dropped", FUNCTION, "*self.data) + log_det).astype", "*self.data) + 0 * log_det).astype", TARGETS),
    Mutant("support's log-determinant not summed", FORM, "jnp.sum(self.transform.log_abs_det_jacobian(free, value))", "jnp.mean(self.transform.log_abs_det_jacobian(free, value))", TARGETS),
    Mutant("R-hat not judged", VERDICTS, "if r_hat[worst] < MAX_R_HAT:", "if r_hat[worst] < 10 * MAX_R_HAT:", VERDICT),
    Mutant("ESS not judged", VERDICTS, "not ess[least] >= MIN_ESS", "ess[least] < 0", VERDICT),
    Mutant("constant draws pass", VERDICTS, "        return Verdict(False, reasons)\n    reasons", "        return Verdict(True, reasons)\n    reasons", VERDICT),
    Mutant("rounding not looked at", TROUBLES, "if noise <= MAX_NOISE:", "if noise >= 0:", SAMPLE),
    Mutant("groups of chains not judged", VERDICTS, "if nested is not None and not reasons:", "if False:", VERDICT),
    Mutant("chains that cross over stand apart", VERDICTS, "> MIN_GAP * spread", "> 0.01 * spread", VERDICT),
    Mutant("chains that stand still are not counted", TROUBLES, "> MAX_SAME", "> 2", SAMPLE + "::test_chains_that_hardly_move_are_counted"),
    # Runs that are never lost
    Mutant("a note's checksum is not checked", NOTE, "if magic != MAGIC or", "if magic != MAGIC and", "tests/storage/test_note.py"),
    Mutant("a note may have more than it announces", NOTE, "if sum(sizes) != len(blob):", "if sum(sizes) > len(blob):", "tests/storage/test_note.py"),
    Mutant("a note of another shape fits", NOTE, "array.shape != np.shape(data)", "False", "tests/storage/test_note.py"),
    Mutant("lost chunks are zeros", DRAWS, "if not path.is_file() or", "if path.is_file() and", "tests/storage/test_draws.py"),
    Mutant("another array is read as ours", DRAWS, "if found.metadata.to_dict() != expected.metadata.to_dict():", "if False:", "tests/storage/test_draws.py"),
    Mutant("the wrong draws are thinned out", DRAWS, "part[:, -start % step :: step]", "part[:, ::step][:, : -(-end // step) + (-start // step)]", "tests/storage/test_draws.py"),
    Mutant("a journal is written and not read", "storage/_journal.py", "        while not self._entries and self._files:\n", "        while False:\n", DURABLE + " -k stopped_again"),
    Mutant("a loop begins anew", JOURNAL, "            state = found\n", "            pass\n", "tests/engines/test_journal.py"),
    Mutant("chunks in a journal are not heard", MARCH, "        chains, rows = found\n        hear(chains, rows)\n", "        chains, rows = found\n", "tests/engines/test_journal.py"),
    Mutant("draws of fast chains are lost", RUN, "stored[:, : known.shape[1]] = known", "pass", DURABLE + " -k stopped_again"),
    Mutant("a folder of another run is taken", SESSION, "        refuse_another(asked, found, self.folder.path)\n", "", DURABLE + " -k refused"),
    Mutant("another density is not noticed", ASKED, ".all():\n            place", ".any():\n            place", DURABLE + " -k refused"),
    Mutant("a folder in use is taken", FOLDER, "if not _take(self._lock):", "if False:", DURABLE + " -k in_use"),
    Mutant("a full disk ends the run", FOLDER, "except (OSError, StorageError) as error:\n            self.trouble", "except StorageError as error:\n            self.trouble", DURABLE + " -k full_disk"),
    Mutant("damaged draws are gone on with", SESSION, "store.verify(run.kept.num_stored)", "pass", DURABLE + " -k mended"),
    Mutant("a state of another place fits", RUN, "if made.min() < 0 or any(", "if made.min() < 0 and any(", DURABLE + " -k does_not_fit"),
    Mutant("a result is saved with the newest state", SESSION, 'folder.checkpoint({"num_draws": result.num_draws}, state)', 'folder.checkpoint({"num_draws": result.num_draws}, self.run.state)', DURABLE + " -k went_on"),
    Mutant("half a folder is saved in silence", SESSION, "        if folder.trouble:\n            raise", "        if False:\n            raise", DURABLE + " -k halves"),
    Mutant("states are sorted as words", FOLDER, "sorted(found, key=_number)", "sorted(found)", DURABLE + " -k highest_number"),
    Mutant("large seeds are cut", "_random.py", "if not 0 <= seed < 2**32:", "if not 0 <= seed:", SAMPLE),
    # In the clothes of others, and over devices
    Mutant("the first term of a NumPyro density twice", "targets/_numpyro.py", "return -potential_energy(", "return -2 * potential_energy(", "tests/targets/test_numpyro.py -k jacobian"),
    Mutant("deterministic sites are left out", "targets/_numpyro.py", "self.sites(position), return_deterministic=True)", "self.sites(position))", "tests/targets/test_numpyro.py -k named"),
    Mutant("XLA's flags stay as PyMC sets them", "targets/_pymc.py", 'os.environ.pop("XLA_FLAGS", None)', "pass", "tests/targets/test_pymc.py -k global"),
    Mutant("JAX stays set to doubles", "targets/_pymc.py", 'jax.config.update("jax_enable_x64", is_double)', "pass", "tests/targets/test_pymc.py -k global"),
    Mutant("indices of Stan from 1", "targets/_bridgestan.py", "int(part) - 1 for part", "int(part) for part", "tests/targets/test_bridgestan.py -k entries"),
    Mutant("a Student-t without its constant", LAW, "student = gammaln((dof + dim) / 2) - gammaln(dof / 2)", "student = gammaln((dof + dim) / 2)", "tests/sampling/test_flows.py -k laws"),
    Mutant("chains that fill up go on", "engines/_devices.py", "np.iinfo(np.int32).max", "0", "tests/engines/test_devices.py -k fill"),
    Mutant("batches in another order", "engines/_devices.py", "jnp.moveaxis(rows, 0, 1), 1)", "jnp.moveaxis(rows[::-1], 0, 1), 1)", "tests/engines/test_devices.py -k batches"),
    Mutant("processes end alone", "engines/_devices.py", "np.any(found) else", "False else", "tests/engines/test_devices.py -k processes"),
    Mutant("processes may differ", "engines/_devices.py", "axis=0)) > 1:", "axis=0)) > 2:", "tests/engines/test_devices.py -k processes"),
    Mutant("a step of BlackJAX that forgets the reference", "blackjax.py", "chain = ChainState(state.reference, flat,", "chain = ChainState(0 * state.reference, flat,", "tests/test_blackjax.py -k invariant"),
    Mutant("NumPyro's draws of one key", "numpyro.py", "num_evaluations=num_evaluations, rng_key=key))", "num_evaluations=num_evaluations))", "tests/test_numpyro.py -k posterior"),
    Mutant("walkers go anywhere", "adaptation/_beyond.py", "np.asarray(walkers.state.log_density) - now.log_density", "0 * now.log_density", BEYOND),
    Mutant("walkers never go", "adaptation/_beyond.py", "part[is_taken] = np.asarray(tried)[is_taken]", "pass", BEYOND),
    Mutant("a walk is free", "adaptation/_beyond.py", "num_evaluations=walkers.num_evaluations", "num_evaluations=camp.chains.num_evaluations", BEYOND),
    Mutant("any start is missed", "adaptation/_beyond.py", "is_high & ~", "~", BEYOND),
    # The face
    Mutant("a name is a piece of the page", "report/_page.py", "autoescape=True", "autoescape=False", "tests/report/test_page.py -k hostile"),
    Mutant("every run exits with 0", "cli/_outcome.py", "return CONVERGED if result.verdict.converged and not is_short else NOT_CONVERGED", "return CONVERGED", "tests/cli/test_sample.py -k json"),
    Mutant("an ESS that is not reached counts as converged", "cli/_outcome.py", "target_ess is not None and not result.is_complete", "False", "tests/cli/test_sample.py -k has_converged"),
    Mutant("a user's mistake is a bug", "cli/_app.py", "    if where and not isinstance(error, known):\n", "    if False:\n", "tests/cli/test_mistakes.py -k sentence"),
]  # fmt: skip


class Outcome(NamedTuple):
    mutant: Mutant
    is_caught: bool
    by: str
    seconds: float


def apply(mutant: Mutant, folder: Path) -> None:
    """A copy of the project in `folder` with the bug in it."""
    for name in ("src", "tests", "verify"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    path = folder / "src/tessmc" / mutant.file
    text = path.read_text()
    count = text.count(mutant.old)
    if count != 1:
        raise ValueError(f"{mutant.name}: its text occurs {count} times in {mutant.file}, not once")
    path.write_text(text.replace(mutant.old, mutant.new))


def try_out(mutant: Mutant) -> Outcome:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apply(mutant, folder)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *mutant.tests.split()]
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return Outcome(mutant, False, "no end within the time limit", time.monotonic() - began)
    failed = re.search(r"^FAILED (.+?)(?: - |$)", done.stdout, flags=re.MULTILINE)
    is_caught = done.returncode == 1 and failed is not None
    return Outcome(mutant, is_caught, failed[1] if failed else "nothing", time.monotonic() - began)


def main() -> int:
    words = sys.argv[1:]
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    outcomes = []
    with ThreadPoolExecutor(NUM_WORKERS) as pool:
        for outcome in pool.map(try_out, chosen):
            outcomes.append(outcome)
            mark = "caught  " if outcome.is_caught else "SURVIVED"
            print(f"{mark} {outcome.mutant.name:<45} {outcome.by} ({outcome.seconds:.0f} s)", flush=True)
    num_caught = sum(outcome.is_caught for outcome in outcomes)
    print(f"{num_caught} of {len(outcomes)} mutants caught")
    return 0 if outcomes and num_caught == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
