"""Algorithm 2: learning T from the draws of many chains."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection

from tessmc._arrays import put
from tessmc._random import split
from tessmc._types import Key, Points, Scalar
from tessmc.adaptation._fit import Decay, FitState, begin_fit, fit
from tessmc.adaptation._objectives import kl_from_reference, kl_from_target
from tessmc.adaptation._task import AbstractWarmup, History, WarmupResult, WarmupTask, normal_by_numpy
from tessmc.engines import (
    Chain,
    Draws,
    collect,
    count_evaluations,
    finished,
    move_chains,
    place_chains,
    prepare,
    settle,
)
from tessmc.kernels import TransportEllipticalSlice
from tessmc.targets import BlackBox
from tessmc.transports import paper_coupling

logger = logging.getLogger(__name__)

NO_GRADIENT = (
    "the first fit of Algorithm 2 (6) needs the gradient of the log density, which JAX cannot take here; leave that "
    "fit out with warmup=tessmc.Warmup.paper(num_initial_steps=0)"
)


class PaperWarmup(AbstractWarmup):
    """Algorithm 2; see `Warmup.paper`."""

    learning_rate: float = 1e-2
    decay: float = 0.1
    num_steps: int = 1
    num_layers: int = 2
    width: int | None = None
    depth: int = 2
    num_initial_steps: int = 400
    num_initial_draws: int = 1000

    def outline(self, task: WarmupTask) -> tuple[TransportEllipticalSlice, Chain]:
        key_map, _, key_start, key_chains, *_ = split(task.key, 6)
        transport = self._new_map(key_map, task) if task.transport is None else task.transport
        references = normal_by_numpy(key_start, 0, np.zeros((task.num_chains, task.target.dim), task.target.dtype))
        return TransportEllipticalSlice(task.target.log_density, transport), place_chains(key_chains, references)

    def run(self, task: WarmupTask) -> WarmupResult:
        key_map, key_initial, key_start, key_chains, key_fit, key_restart = split(task.key, 6)
        transport = self._new_map(key_map, task) if task.transport is None else task.transport
        history: History = []
        draws: list[Draws] = []
        if task.num_warmup > 0 and self.num_initial_steps > 0:
            transport = self._fit_to_reference(key_initial, transport, task, history)
        kernel = TransportEllipticalSlice(task.target.log_density, transport)
        starts = Starts(key_start, kernel, task)
        chains = place_chains(key_chains, starts.first)
        with task.clock.time("compile"):
            prepare(kernel, chains, task.journal)
        with task.clock.time("warmup"):
            chains = settle(kernel, chains, starts.again, task.target.describe, task.journal)
        if task.num_warmup > 0:
            kernel, chains = self._alternate(key_fit, kernel, chains, task, history, draws)
            with task.clock.time("warmup"):
                like = chains.state.reference
                chains = settle(
                    kernel,
                    chains,
                    lambda count, _: normal_by_numpy(key_restart, count, like),
                    task.target.describe,
                    task.journal,
                )
        num_fitted = self.num_initial_steps * self.num_initial_draws if task.num_warmup > 0 else 0
        return WarmupResult(kernel, chains, history, {"fit": num_fitted, "warmup": count_evaluations(chains)}, draws)

    def _new_map(self, key: Key, task: WarmupTask) -> AbstractBijection:
        with task.clock.time("compile"):
            return paper_coupling(
                key,
                task.target.dim,
                self.num_layers,
                width=self.width,
                depth=self.depth,
                dtype=task.target.dtype,
            )

    def _fit_to_reference(
        self, key: Key, transport: AbstractBijection, task: WarmupTask, history: History
    ) -> AbstractBijection:
        """The first parameters: gradient descent on (6), fresh draws u ~ φ at every step."""
        if isinstance(task.target, BlackBox):
            raise TypeError(NO_GRADIENT)
        schedule = Decay(self.learning_rate, self.decay, self.num_initial_steps)
        like = put(np.zeros((self.num_initial_draws, task.target.dim)), task.target.dtype)
        data = (task.target.log_density, like)
        state = begin_fit(transport)
        with task.clock.time("compile"), _explained():
            jax.block_until_ready(fit(_from_reference, state, key, data, schedule, jnp.int32(0)))
        task.journal.spent += self.num_initial_steps * self.num_initial_draws
        with task.clock.time("fit"):
            # In parts, which together are one fit, for the sake of whoever waits for it.
            def go_on(state: FitState) -> FitState:
                done = int(state.num_steps)
                task.watch("first fit", self.num_initial_steps, done)
                num_steps = jnp.int32(min(20, self.num_initial_steps - done))
                return fit(_from_reference, state, key, data, schedule, num_steps)

            state = task.journal.repeat(state, lambda state: int(state.num_steps) >= self.num_initial_steps, go_on)
        history.append({"iteration": 0, "loss": float(state.loss), "num_skipped": int(state.num_skipped)})
        if 2 * history[0]["num_skipped"] > self.num_initial_steps:
            logger.warning(
                "%d of %d steps of the first fit were skipped: the log density or its gradient is not finite where the "
                "map puts its draws", history[0]["num_skipped"], self.num_initial_steps
            )  # fmt: skip
        return state.transport

    def _alternate(
        self,
        key: Key,
        kernel: TransportEllipticalSlice,
        chains: Chain,
        task: WarmupTask,
        history: History,
        draws: list[Draws],
    ) -> tuple[TransportEllipticalSlice, Chain]:
        """Lines 2-7: in turn, one transition of every chain and m gradient steps on (5)."""
        state = begin_fit(kernel.transport)
        schedule = Decay(self.learning_rate, self.decay, max(1, task.num_warmup * self.num_steps))
        with task.clock.time("compile"):
            jax.block_until_ready(fit(_from_target, state, key, chains.state.position, schedule, jnp.int32(0)))
        for epoch in range(task.num_warmup):
            with task.clock.time("warmup"):
                chains, made = collect(kernel, chains, 1, describe=task.target.describe, journal=task.journal)
                draws.append(made)
            with task.clock.time("fit"):
                given = state, key, chains.state.position, schedule, jnp.int32(self.num_steps)
                state = task.journal.once(state, partial(fit, _from_target, *given))
                history.append(_entry(chains, jax.block_until_ready(state)))
            # Line 4 of the next epoch starts from u: the map changes under it, and x and r with the map.
            kernel = TransportEllipticalSlice(task.target.log_density, state.transport)
            chains = move_chains(chains, chains.state.reference)
            task.watch("warm-up", task.num_warmup, epoch + 1, history[-1])
        return kernel, chains


class Starts:
    """Reference points at which chains begin, and points to begin again where the density is not finite."""

    def __init__(self, key: Key, kernel: TransportEllipticalSlice, task: WarmupTask):
        self._key = key
        self._like = np.zeros((task.num_chains, task.target.dim), task.target.dtype)
        self._positions = task.start
        self._pull = jax.jit(jax.vmap(lambda position: kernel.pull(position).astype(task.target.dtype)))
        self.first = normal_by_numpy(key, 0, self._like) if task.start is None else self._pull(task.start)

    def again(self, count: int, _: Chain) -> Points:
        """Points N(0, I), or, if the user gave positions, of their mean and spread."""
        normal = normal_by_numpy(self._key, count + 1, self._like)
        if self._positions is None:
            return normal
        positions = np.asarray(self._positions)
        spread = positions.std(axis=0, keepdims=True)
        return self._pull(positions.mean(axis=0, keepdims=True) + np.where(spread > 0, spread, 1) * normal)


@contextmanager
def _explained() -> Iterator[None]:
    """A density that JAX can run but not differentiate backwards, such as one with a `while_loop`."""
    try:
        yield
    except ValueError as error:
        if "Reverse-mode differentiation" not in str(error):
            raise
        raise TypeError(NO_GRADIENT) from error


def _from_reference(transport: AbstractBijection, key: Key, data: tuple[Any, Points]) -> Scalar:
    log_density, like = data
    return kl_from_reference(transport, log_density, jr.normal(key, like.shape, like.dtype))


def _from_target(transport: AbstractBijection, _: Key, positions: Points) -> Scalar:
    return kl_from_target(transport, positions)


def _entry(chains: Chain, state: FitState) -> dict[str, float | int]:
    log_ratio = np.asarray(chains.state.log_ratio)
    inside = log_ratio[np.isfinite(log_ratio)]
    return {
        "iteration": finished(chains),
        "loss": float(state.loss),
        "s": float(np.std(inside)) if inside.size else float("inf"),
        "num_evaluations": count_evaluations(chains),
        "num_skipped": int(state.num_skipped),
    }
