"""The map is learned in windows: draws, a fit on them, and a look at draws that were held out."""

import logging
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection
from flowjax.bijections import Chain as Ladder
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from tessmc._types import Count, Key, Points, Scalar
from tessmc.adaptation._fit import Decay, begin_fit, fit, trainable
from tessmc.adaptation._objectives import fisher, kl_by_path, log_pushed, log_variance
from tessmc.adaptation._rescue import Camp, resample, weights_of
from tessmc.adaptation._task import History, WarmupTask, normal_by_numpy
from tessmc.engines import Draws, collect, count_evaluations, recall_chains
from tessmc.kernels import AbstractLaw, StudentT
from tessmc.targets import AbstractTarget
from tessmc.transports import (
    RUNGS,
    Spread,
    rung_mask,
    spread_of,
    spread_of_map,
    spread_of_scores,
    with_spread,
)

logger = logging.getLogger(__name__)

BATCH = 512
BUFFER = 2**13
HELD_OUT = 2**11
DOFS = (0, 30, 10, 5, 3)
# Every so many gradient steps the map is looked at on draws that it was not trained on.
STRIDE = 100
MAX_STRIDES = 8
PATH_STEPS = 3000
PATH_BATCH = 256


class Buffer(NamedTuple):
    """Draws to train on, in arrays of fixed size: only the first `size` are draws."""

    positions: Points
    log_densities: Float[Array, " draw"]
    scores: Points
    size: Count
    law: AbstractLaw


def from_values(transport: AbstractBijection, key: Key, buffer: Buffer) -> Scalar:
    """KL(π‖φ̂) and the log-variance: densities that have been paid for, no gradient of π."""
    positions, log_densities, _ = _batch(key, buffer)
    log_pushes = log_pushed(transport, buffer.law, positions)
    return -jnp.mean(log_pushes) + log_variance(log_densities - log_pushes)


def from_scores(transport: AbstractBijection, key: Key, buffer: Buffer) -> Scalar:
    """KL(π‖φ̂) and the Fisher divergence, by scores of π at the draws."""
    positions, _, scores = _batch(key, buffer)
    log_pushes = log_pushed(transport, buffer.law, positions)
    return -jnp.mean(log_pushes) + fisher(transport, buffer.law, positions, scores)


def from_reference(transport: AbstractBijection, key: Key, data: tuple[Any, AbstractLaw, Points]) -> Scalar:
    """KL(φ̂‖π) by path gradients and antithetic draws: the whole of π is asked, whatever the chains have seen."""
    target, law, like = data
    half = jr.normal(key, like.shape, like.dtype)
    return kl_by_path(transport, law, target.log_density, jnp.concatenate([half, -half]))


def _batch(key: Key, buffer: Buffer) -> tuple[Points, Array, Points]:
    chosen = jr.randint(key, (BATCH,), 0, buffer.size)
    return buffer.positions[chosen], buffer.log_densities[chosen], buffer.scores[chosen]


@eqx.filter_jit
def log_ratios(transport: AbstractBijection, buffer: Buffer) -> Float[Array, " draw"]:
    """R at the draws of a buffer."""
    return buffer.log_densities - log_pushed(transport, buffer.law, buffer.positions)


def spread_of_ratios(transport: AbstractBijection, buffer: Buffer) -> float:
    """s, the standard deviation of r; see `winsorised`."""
    return winsorised(np.asarray(log_ratios(transport, buffer), np.float64)[: int(buffer.size)])


def held_out_loss(transport: AbstractBijection, held: Buffer) -> float:
    """KL(π‖φ̂) and the log-variance of draws that were not trained on: single draws far out count in full."""
    found = log_ratios(transport, held)[: int(held.size)]
    loss = jnp.mean(found) + log_variance(found)
    return float(loss) if jnp.isfinite(loss) else float("inf")


def winsorised(found: np.ndarray) -> float:
    """The standard deviation, with the lowest hundredth and the highest thousandth drawn in.

    Where r is low the map only wastes tries; where it is high, chains stay long: those draws should count.
    """
    found = np.where(np.isnan(found), np.inf, found)
    low, high = np.quantile(found, [0.01, 0.999], method="nearest")
    return float(np.std(np.clip(found, low, high))) if np.isfinite([low, high]).all() else float("inf")


class Windows:
    """The windows of a warm-up: draws, a fit on them, and a look at draws that were held out."""

    def __init__(self, task: WarmupTask, use_gradient: bool, key: Key, history: History):
        self.task, self.use_gradient, self.key, self.history = task, use_gradient, key, history
        self.with_scores = False
        self.rung = "affine" if task.transport is None else "couplings"
        self.is_first = True
        self.rng = np.random.default_rng(np.asarray(jr.key_data(key)))
        self.num_evaluations = 0
        self.draws: list[Draws] = []
        self.keepsake: list[Draws] = []
        self.plain: Camp | None = None
        self.evaluations = np.inf

    def run(self, camp: Camp, budget: int) -> Camp:
        """Alternate draws and fits until the budget is spent or nothing is left to gain."""
        left = budget
        while left > 0:
            length = min(left, max(1, budget // (16 if self.rung == "affine" else 8)))
            left -= length
            camp = self._draw(camp, length)
            with self.task.clock.time("fit"):
                camp, found = self._learn(camp)
            self.history.append({**entry("window", camp), **found, "evaluations": self.evaluations})
            self.task.watch("learning", budget, budget - left)
            if self._is_done():
                break
        kernel = camp.kernel(self.task)
        return camp._replace(chains=recall_chains(kernel, camp.chains))

    def _draw(self, camp: Camp, length: int) -> Camp:
        """Draws of a window; a quarter of them under the affine layer alone.

        Where a learned map is too light its own chains do not come, and nothing they do would show it. The affine
        layer and its tails lead there.
        """
        num_plain = 0 if self.plain is None else -(-length // 4)
        if self.plain is not None:
            plain = self._collect(self.plain._replace(chains=camp.chains), num_plain)
            camp = camp._replace(chains=plain.chains)
        return self._collect(camp, length - num_plain) if length > num_plain else camp

    def _collect(self, camp: Camp, length: int) -> Camp:
        with self.task.clock.time("warmup"):
            kernel = camp.kernel(self.task)
            chains = recall_chains(kernel, camp.chains)
            chains, draws = collect(kernel, chains, length, describe=self.task.target.describe)
        self.draws.append(draws)
        self.evaluations = float(draws.num_tries.mean())
        return camp._replace(chains=chains)

    def _is_done(self) -> bool:
        """Nothing is left to gain: the last window's draws, made with a map that had not seen them, say so."""
        recent = [entry for entry in self.history if entry["stage"] == "window"][-3:]
        now, then = recent[-1], recent[0]
        if len(recent) < 3 or (now["rung"] == "affine" and now["s_before"] > 0.1):
            return False
        is_flat = now["evaluations"] > 0.97 * then["evaluations"] and now["s_before"] > 0.9 * then["s_before"]
        return now["evaluations"] < 1.06 or (then["rung"] == "couplings" and is_flat and now["evaluations"] < 1.5)

    def _learn(self, camp: Camp) -> tuple[Camp, dict[str, Any]]:
        window = len(self.history)
        train, held = self._split(camp.law, window)
        before = s = spread_of_ratios(camp.transport, held)
        rung = self.rung
        if rung == "affine":
            camp, gain = self._shift_and_scale(camp, train, held)
            s = spread_of_ratios(camp.transport, held._replace(law=camp.law))
            is_spent = len(self.draws) * self.draws[0].log_density.shape[1] > self.task.num_warmup / 2
            if gain < 0.1 * np.sqrt(self.task.target.dim) or is_spent:
                # What an affine layer can do has been done.
                self.rung, self.is_first = "couplings", True
                self.keepsake, self.draws = self.draws[-1:], []
                self.plain = camp
        else:
            if self.is_first and s > 3 and self.use_gradient:
                camp, s, is_new = self._fit_from_reference(camp, s, held)
                if is_new:
                    self.draws, self.keepsake = [], []
                    self.is_first = False
                    self.with_scores = True
                    return camp._replace(first_try=s < 1.5), {"rung": rung, "s_before": before, "s": s}
            for part in RUNGS[1:] if self.is_first else RUNGS[2:]:
                transport, s = self._climb(
                    camp.transport, part, train, held, jr.fold_in(self.key, 10 * window + RUNGS.index(part))
                )
                camp = camp._replace(transport=transport)
            self.is_first = False
            if s < 1 or self.task.target.dim <= 20:
                camp = camp._replace(law=choose_law(camp.transport, held))
            self.with_scores = self.with_scores or (s > 0.3 and self.use_gradient)
        logger.info("window %d: %s, %d degrees of freedom, s %.2f -> %.2f", window, rung, camp.law.dof, before, s)
        return camp._replace(first_try=s < 1.5), {"rung": rung, "s_before": before, "s": s}

    def _shift_and_scale(self, camp: Camp, train: Buffer, held: Buffer) -> tuple[Camp, float]:
        """The affine layer and the tails under which held-out draws are likeliest, and what they gain over the old."""
        positions, others = (np.asarray(part.positions)[: int(part.size)] for part in (train, held))
        found = [(spread_of(positions, dof, shrinkage), dof) for dof in DOFS for shrinkage in (None, 1.0)]
        scores = [np.mean(spread.log_density(others, dof)) for spread, dof in found]
        spread, dof = found[int(np.argmax(scores))]
        gain = np.max(scores) - np.mean(spread_of_map(camp.transport).log_density(others, int(camp.law.dof)))
        likeliest = camp._replace(transport=with_spread(camp.transport, spread), law=StudentT(dof))
        s = spread_of_ratios(likeliest.transport, held._replace(law=likeliest.law))
        if not self.use_gradient or s < 1:
            return likeliest, float(gain)
        few = positions[np.linspace(0, len(positions) - 1, min(len(positions), HELD_OUT)).astype(int)]
        slopes = np.asarray(self._scores(jnp.asarray(_padded(few, HELD_OUT))))[: len(few)]
        if not np.isfinite(slopes).all():
            return likeliest, float(gain)
        flattest = camp._replace(transport=with_spread(camp.transport, spread_of_scores(few, slopes)), law=StudentT(0))
        other = spread_of_ratios(flattest.transport, held._replace(law=flattest.law))
        logger.info("the affine layer from draws leaves s = %.2f, from scores %.2f", s, other)
        return (flattest, float(s - other)) if other < s else (likeliest, float(gain))

    def _fit_from_reference(self, camp: Camp, s: float, held: Buffer) -> tuple[Camp, float, bool]:
        """Where the chains have not seen enough of π to learn from: learn from π itself."""
        camp = camp._replace(law=StudentT(0))
        held = held._replace(law=camp.law)
        like = jnp.zeros((PATH_BATCH // 2, self.task.target.dim), self.task.target.dtype)
        data = (self.task.target, camp.law, like)
        schedule = Decay(3e-3, 0.1, PATH_STEPS)
        state: Any = begin_fit(camp.transport)
        for _ in range(PATH_STEPS // STRIDE):
            state = fit(from_reference, state, self.key, data, schedule, jnp.int32(STRIDE), max_norm=jnp.float32(10))
        fresh = camp._replace(transport=state.transport)
        references = normal_by_numpy(self.key, len(self.draws), jnp.zeros((HELD_OUT, like.shape[1]), like.dtype))
        states = jax.device_get(_evaluate(fresh.kernel(self.task), references))
        self.num_evaluations += PATH_STEPS * PATH_BATCH + HELD_OUT
        found = winsorised(states.log_ratio)
        logger.info("by KL from the reference, s %.2f -> %.2f, loss %.2f", s, found, state.loss)
        if not found < s:
            return camp, s, False
        # The chains stand where a bad map left them; draws of the new one, weighed, stand better.
        chosen = resample(self.rng, weights_of(np.minimum(states.log_ratio, np.quantile(states.log_ratio, 0.99)), 1.0))
        chosen = chosen[:: len(chosen) // self.task.num_chains][: self.task.num_chains]
        moved = jax.tree.map(lambda leaf: jnp.asarray(leaf[chosen]), states)
        return fresh._replace(chains=camp.chains._replace(state=moved)), found, True

    def _climb(self, transport: Ladder, rung: str, train: Buffer, held: Buffer, key: Key) -> tuple[Ladder, float]:
        objective = from_scores if self.with_scores else from_values
        mask = ravel_pytree(trainable(rung_mask(transport, rung))[0])[0]
        schedule = Decay(5e-3 if self.is_first else 3e-3, 0.1, MAX_STRIDES * STRIDE)
        state: Any = begin_fit(transport)
        best, idle = (held_out_loss(transport, held), transport), 0
        for _ in range(MAX_STRIDES if rung == "couplings" else 2):
            state = fit(objective, state, key, train, schedule, jnp.int32(STRIDE), mask=mask, max_norm=jnp.float32(10))
            found = held_out_loss(state.transport, held)
            idle = 0 if found < best[0] else idle + 1
            best = min(best, (found, state.transport), key=lambda pair: pair[0])
            if idle == 3:
                break
        return best[1], spread_of_ratios(best[1], held)

    def _split(self, law: AbstractLaw, window: int) -> tuple[Buffer, Buffer]:
        """Recent draws to train on, and of every eighth chain, to look at: the last window's for an affine layer."""
        # What a light-tailed map no longer visits should not be forgotten: draws of the affine layer stay.
        recent = self.draws[-1:] if self.rung == "affine" else self.draws[len(self.draws) // 2 :]
        kept = [*self.keepsake, *recent]
        positions = np.concatenate([draws.position for draws in kept], axis=1)
        log_densities = np.concatenate([draws.log_density for draws in kept], axis=1)
        num_chains, num_draws = log_densities.shape
        chains, draws = np.arange(num_chains)[:, None], np.arange(num_draws)[None, :]
        fold = chains % 8 if num_chains >= 8 else draws * 8 // num_draws
        is_held = np.broadcast_to(fold == window % 8, log_densities.shape) & np.isfinite(log_densities)
        is_train = ~is_held & np.isfinite(log_densities)
        if not (is_train.any() and is_held.any()):
            is_train = is_held = np.isfinite(log_densities)
        return (
            self._buffer(positions[is_train], log_densities[is_train], BUFFER, law, self.with_scores),
            self._buffer(positions[is_held], log_densities[is_held], HELD_OUT, law, False),
        )

    def _scores(self, positions: Points) -> Points:
        self.num_evaluations += len(positions)
        return scores_of(self.task.target, positions)

    def _buffer(
        self, positions: np.ndarray, log_densities: np.ndarray, size: int, law: AbstractLaw, with_scores: bool
    ) -> Buffer:
        chosen = np.linspace(0, len(positions) - 1, min(size, len(positions))).astype(int)
        log_densities = _padded(log_densities[chosen], size)
        points = jnp.asarray(_padded(positions[chosen], size))
        scores = self._scores(points) if with_scores else jnp.zeros_like(points)
        return Buffer(points, jnp.asarray(log_densities), scores, jnp.int32(len(chosen)), law)


@eqx.filter_jit
def _evaluate(kernel: Any, references: Points) -> Any:
    return jax.lax.map(kernel.evaluate, references, batch_size=BATCH)


def _padded(rows: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([rows, np.repeat(rows[:1], size - len(rows), axis=0)])


@eqx.filter_jit
def scores_of(target: AbstractTarget, positions: Points) -> Points:
    """∇ log π at every position."""
    return jax.lax.map(jax.grad(target.log_density), positions, batch_size=BATCH)


def choose_law(transport: AbstractBijection, held: Buffer) -> StudentT:
    """The tails under which the pulled back draws are likeliest."""
    references = np.asarray(_pull_all(transport, held.positions), np.float64)[: int(held.size)]
    references = references[np.isfinite(references).all(axis=1)]
    dim = references.shape[1]
    standard = Spread(np.zeros(dim), np.ones(dim), np.eye(dim))
    return StudentT(max(DOFS, key=lambda dof: np.mean(standard.log_density(references, dof))))


@eqx.filter_jit
def _pull_all(transport: AbstractBijection, positions: Points) -> Points:
    return jax.vmap(transport.inverse)(positions)


def entry(stage: str, camp: Camp) -> dict[str, Any]:
    """What the history says of every stage."""
    return {
        "stage": stage,
        "iteration": int(np.asarray(camp.chains.iteration).min()),
        "num_evaluations": count_evaluations(camp.chains),
        "dof": int(camp.law.dof),
    }
