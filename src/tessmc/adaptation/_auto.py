"""The automatic warm-up: bring all chains into the typical set, then learn the map in windows."""

import logging
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection, Chain

from tessmc._random import split
from tessmc._types import Key, Points
from tessmc.adaptation._buffer import Drawn
from tessmc.adaptation._camp import Camp, no_bridge
from tessmc.adaptation._paper import PaperWarmup
from tessmc.adaptation._rescue import rescue
from tessmc.adaptation._task import AbstractWarmup, History, WarmupResult, WarmupTask, normal_by_numpy
from tessmc.adaptation._windows import Windows
from tessmc.engines import Chain as Chains
from tessmc.engines import count_evaluations, place_chains, prepare, settle
from tessmc.kernels import StudentT, TransportEllipticalSlice
from tessmc.targets import BlackBox
from tessmc.transports import FixedAffine, Tails, ladder_map

logger = logging.getLogger(__name__)


class AutoWarmup(AbstractWarmup):
    """Temper, gather, learn; see `Warmup.auto`."""

    use_gradient: bool | None
    frugal: bool | None = None

    def run(self, task: WarmupTask) -> WarmupResult:
        if task.num_warmup == 0:
            # A map that is used as it is: Algorithm 1 to the letter.
            return PaperWarmup().run(task)
        key_map, key_start, key_chains, key_host, key_fit = split(task.key, 5)
        rng = np.random.default_rng(np.asarray(jr.key_data(key_host)))
        camp = self._arrive(key_map, key_start, key_chains, task)
        starts = Drawn(np.asarray(camp.chains.state.position), np.asarray(camp.chains.state.log_density))
        budget = task.num_warmup
        history: History = []
        if task.transport is None:
            with task.clock.time("warmup"):
                camp = rescue(task, camp, rng, history)
            budget -= int(np.asarray(camp.chains.iteration).min())
        is_frugal = isinstance(task.target, BlackBox) if self.frugal is None else self.frugal
        windows = Windows(task, starts, self._may_use_gradient(task), is_frugal, key_fit, history)
        camp = windows.run(camp, budget)
        num_evaluations = {"fit": windows.num_evaluations, "warmup": count_evaluations(camp.chains)}
        return WarmupResult(
            camp.kernel(task), camp.chains, history, num_evaluations, windows.all_draws, windows.stride()
        )

    def _may_use_gradient(self, task: WarmupTask) -> bool:
        """Whether there is one, and it is wanted."""
        if self.use_gradient is False:
            return False
        if isinstance(task.target, BlackBox):
            if self.use_gradient:
                raise TypeError("Warmup.auto(use_gradient=True) needs a gradient, which a black box does not have")
            return False
        try:
            jax.eval_shape(jax.grad(task.target.log_density), jnp.zeros(task.target.dim, task.target.dtype))
        except ValueError as error:
            if "Reverse-mode differentiation" not in str(error):
                raise
            if self.use_gradient:
                raise TypeError(
                    "Warmup.auto(use_gradient=True) needs the gradient of the log density, which JAX cannot take here; "
                    "leave use_gradient out"
                ) from error
            logger.info("JAX cannot take the gradient of the log density: fits use values alone")
            return False
        return True

    def outline(self, task: WarmupTask) -> tuple[TransportEllipticalSlice, Chains]:
        if task.num_warmup == 0:
            return PaperWarmup().outline(task)
        key_map, key_start, key_chains, *_ = split(task.key, 5)
        camp = _pitch(key_map, key_start, key_chains, task)
        return camp.kernel(task), camp.chains

    def _arrive(self, key_map: Key, key_start: Key, key_chains: Key, task: WarmupTask) -> Camp:
        """Chains at points of finite density, under the map's first state."""
        like = np.zeros((task.num_chains, task.target.dim), task.target.dtype)
        with task.clock.time("compile"):
            camp = _pitch(key_map, key_start, key_chains, task)
            kernel = camp.kernel(task)
            if task.start is not None:
                references = jax.jit(jax.vmap(kernel.pull))(task.start)
                camp = camp._replace(chains=place_chains(key_chains, references))
            prepare(kernel, camp.chains, task.journal)

        def refill(count: int, chains: Any) -> Points:
            # Wider and narrower in turn: 2, 1/2, 4, 1/4, ...
            scale = 2.0 ** ((count // 2 + 1) * (-1) ** count)
            if count < 20 or not np.isfinite(np.asarray(chains.state.log_ratio)).any():
                return normal_by_numpy(key_start, count + 1, like) * scale
            good = np.flatnonzero(np.isfinite(np.asarray(chains.state.log_ratio)))
            return chains.state.reference[good[np.arange(task.num_chains) % len(good)]]

        with task.clock.time("warmup"):
            return camp._replace(chains=settle(kernel, camp.chains, refill, task.target.describe, task.journal))


def _pitch(key_map: Key, key_start: Key, key_chains: Key, task: WarmupTask) -> Camp:
    """Chains at N(0, I), under the map's first state."""
    dim, dtype = task.target.dim, task.target.dtype
    transport = as_ladder(task.transport, dim, dtype) if task.transport else ladder_map(key_map, dim, dtype)
    references = normal_by_numpy(key_start, 0, np.zeros((task.num_chains, dim), dtype))
    return Camp(transport, place_chains(key_chains, references), StudentT(0), no_bridge(dim, dtype))


def as_ladder(transport: AbstractBijection, dim: int, dtype: np.dtype) -> Chain:
    """A given map as the lowest part of a ladder; one that is a ladder already stays as it is."""
    if isinstance(transport, Chain) and len(transport) == 3 and isinstance(transport[-1], FixedAffine):
        return transport
    return Chain([transport, Tails(dim, dtype), FixedAffine(np.zeros(dim), np.ones(dim), np.eye(dim), dtype)])
