"""Algorithm 2: learning T from the draws of many chains."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection

from tessmc._clock import Clock
from tessmc._types import Key, Points, Scalar
from tessmc.adaptation._fit import Decay, FitState, begin_fit, fit
from tessmc.adaptation._objectives import kl_from_reference, kl_from_target
from tessmc.engines import Chain, advance, count_evaluations, finished, march, move_chains, place_chains, settle
from tessmc.kernels import TransportEllipticalSlice
from tessmc.targets import AbstractTarget
from tessmc.transports import paper_coupling


class WarmupResult(NamedTuple):
    """A map, chains that stand in its reference space, and how they came there.

    Attributes:
        history: one entry an epoch or window, what was measured in it by name.
        num_evaluations: of the density, by chains (`"warmup"`) and by fits (`"fit"`).

    """

    kernel: TransportEllipticalSlice
    chains: Chain
    history: list[dict[str, float | int]]
    num_evaluations: dict[str, int]


class WarmupTask(NamedTuple):
    """What a warm-up is given.

    Attributes:
        start: unconstrained positions of the chains; None to begin from N(0, I) in reference space.
        watch: hears how many iterations are done.

    """

    target: AbstractTarget
    transport: AbstractBijection | None
    start: Points | None
    key: Key
    num_chains: int
    num_warmup: int
    clock: Clock
    watch: Callable[[int], None]


class Warmup(eqx.Module):
    """How the map is learned before the draws that count. Made by `Warmup.paper`."""

    @abstractmethod
    def run(self, task: WarmupTask) -> WarmupResult:
        """Learn a map and bring the chains into its reference space."""

    @staticmethod
    def paper(
        *,
        learning_rate: float = 1e-2,
        decay: float = 0.1,
        num_steps: int = 1,
        num_layers: int = 2,
        width: int | None = None,
        depth: int = 2,
        num_initial_steps: int = 400,
        num_initial_draws: int = 1000,
    ) -> "Warmup":
        """Algorithm 2 to the letter, with the settings of Section 4.

        h, the number of epochs, and k, the number of chains, are `num_warmup` and `num_chains` of `sample`.

        Args:
            learning_rate: of Adam at the start; the paper has 1e-2, 2.5e-3 or 1e-3, by experiment.
            decay: the factor by which the learning rate falls over the warm-up, exponentially.
            num_steps: m, the gradient steps on (5) in an epoch.
            num_layers: n, the number of pairs of couplings in the map.
            width: of the hidden layers; the dimension if not given.
            depth: the number of hidden layers.
            num_initial_steps: gradient steps on (6) before the first epoch.
            num_initial_draws: M, the reference draws of one such step.

        """
        for name, count, least in (
            ("num_steps", num_steps, 0),
            ("num_layers", num_layers, 1),
            ("depth", depth, 0),
            ("num_initial_steps", num_initial_steps, 0),
            ("num_initial_draws", num_initial_draws, 1),
        ):
            if count < least:
                raise ValueError(f"`{name}` of Warmup.paper should be at least {least}, but is {count}")
        return PaperWarmup(
            learning_rate, decay, num_steps, num_layers, width, depth, num_initial_steps, num_initial_draws
        )


class PaperWarmup(Warmup):
    """Algorithm 2; see `Warmup.paper`."""

    learning_rate: float
    decay: float
    num_steps: int
    num_layers: int
    width: int | None
    depth: int
    num_initial_steps: int
    num_initial_draws: int

    def run(self, task: WarmupTask) -> WarmupResult:
        key_map, key_initial, key_start, key_chains, key_fit = jr.split(task.key, 5)
        num_evaluations = {"fit": 0, "warmup": 0}
        transport = task.transport or self._new_map(key_map, task)
        if task.num_warmup > 0:
            transport = self._fit_to_reference(key_initial, transport, task)
            num_evaluations["fit"] = self.num_initial_steps * self.num_initial_draws
        kernel = TransportEllipticalSlice(task.target.log_density, transport)
        starts = Starts(key_start, kernel, task)
        chains = place_chains(key_chains, starts.first)
        with task.clock.time("compile"):
            jax.block_until_ready(advance(kernel, chains, jnp.int32(0), jnp.int32(0)))
        with task.clock.time("warmup"):
            chains = settle(kernel, chains, starts.again, task.target.describe)
        history: list[dict[str, float | int]] = []
        if task.num_warmup > 0:
            kernel, chains, history = self._alternate(key_fit, kernel, chains, task)
            with task.clock.time("warmup"):
                chains = settle(kernel, chains, starts.again, task.target.describe)
        num_evaluations["warmup"] = count_evaluations(chains)
        return WarmupResult(kernel, chains, history, num_evaluations)

    def _new_map(self, key: Key, task: WarmupTask) -> AbstractBijection:
        with task.clock.time("compile"):
            return paper_coupling(key, task.target.dim, self.num_layers, width=self.width, depth=self.depth)

    def _fit_to_reference(self, key: Key, transport: AbstractBijection, task: WarmupTask) -> AbstractBijection:
        """The first parameters: gradient descent on (6), fresh draws u ~ φ at every step."""
        schedule = Decay(self.learning_rate, self.decay, max(1, self.num_initial_steps))
        sizes = jnp.zeros((self.num_initial_draws, task.target.dim), task.target.dtype)
        data = (task.target.log_density, sizes)
        state = begin_fit(transport)
        with task.clock.time("compile"):
            jax.block_until_ready(fit(_from_reference, state, key, data, schedule, jnp.int32(0)))
        with task.clock.time("fit"):
            num_steps = jnp.int32(self.num_initial_steps)
            return jax.block_until_ready(fit(_from_reference, state, key, data, schedule, num_steps)).transport

    def _alternate(
        self, key: Key, kernel: TransportEllipticalSlice, chains: Chain, task: WarmupTask
    ) -> tuple[TransportEllipticalSlice, Chain, list[dict[str, float | int]]]:
        """Lines 2-7: in turn, one transition of every chain and m gradient steps on (5)."""
        state, history = begin_fit(kernel.transport), []
        schedule = Decay(self.learning_rate, self.decay, max(1, task.num_warmup * self.num_steps))
        with task.clock.time("compile"):
            jax.block_until_ready(fit(_from_target, state, key, chains.state.position, schedule, jnp.int32(0)))
        for epoch in range(task.num_warmup):
            with task.clock.time("warmup"):
                chains = march(kernel, chains, epoch + 1, task.target.describe)
            with task.clock.time("fit"):
                num_steps = jnp.int32(self.num_steps)
                state = fit(_from_target, state, key, chains.state.position, schedule, num_steps)
                history.append(_entry(chains, jax.block_until_ready(state)))
            # Line 4 of the next epoch starts from u: the map changes under it, and x and r with the map.
            kernel = TransportEllipticalSlice(task.target.log_density, state.transport)
            chains = move_chains(chains, chains.state.reference)
            task.watch(epoch + 1)
        return kernel, chains, history


class Starts:
    """Reference points at which chains begin, and points to begin again where the density is not finite."""

    def __init__(self, key: Key, kernel: TransportEllipticalSlice, task: WarmupTask):
        self._key = key
        self._shape = (task.num_chains, task.target.dim)
        self._dtype = task.target.dtype
        self._kernel = kernel
        self._positions = task.start
        self.first = self._normal(0) if task.start is None else self._pull(task.start)

    def again(self, count: int) -> Points:
        """Points N(0, I), or, if the user gave positions, of their mean and spread."""
        normal = self._normal(count + 1)
        if self._positions is None:
            return normal
        return self._pull(self._positions.mean(0) + self._positions.std(0) * normal)

    def _normal(self, count: int) -> Points:
        return jr.normal(jr.fold_in(self._key, count), self._shape, self._dtype)

    def _pull(self, positions: Points) -> Points:
        return jax.jit(jax.vmap(self._kernel.pull))(positions)


def _from_reference(transport: AbstractBijection, key: Key, data: tuple[Any, Points]) -> Scalar:
    log_density, like = data
    return kl_from_reference(transport, log_density, jr.normal(key, like.shape, like.dtype))


def _from_target(transport: AbstractBijection, _: Key, positions: Points) -> Scalar:
    return kl_from_target(transport, positions)


def _entry(chains: Chain, state: FitState) -> dict[str, float | int]:
    return {
        "iteration": finished(chains),
        "loss": float(state.loss),
        "s": float(np.std(np.asarray(chains.state.log_ratio))),
        "num_evaluations": count_evaluations(chains),
        "num_skipped": int(state.num_skipped),
    }
