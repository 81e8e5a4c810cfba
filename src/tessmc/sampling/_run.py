"""Chains that draw after the warm-up, and where their draws go."""

from collections.abc import Callable, Iterable
from functools import partial

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from tessmc._errors import DamageError
from tessmc._types import Points
from tessmc.engines import Chain, Draws, Journal, Rows, blank_draws, every, finished, march, put_rows
from tessmc.kernels import AbstractSliceKernel
from tessmc.storage import Array as StoredArray
from tessmc.storage import DrawStore, Groups, Manifest, RunFolder, Stored
from tessmc.targets import AbstractTarget

# Points that are constrained at a time.
BLOCK = 4096
# Numbers of all chains' transitions that are in memory at a time, about.
ROOM = 2**21
# The fields of `Draws` after the position.
STATS = ("log_density", "log_ratio", "num_evaluations", "num_nan", "is_stuck")


# Chains, and their transitions of the draws to come.
State = tuple[Chain, Draws]


class Kept:
    """The draws of a run: those that are on the disk, and behind them those in memory."""

    def __init__(
        self,
        target: AbstractTarget,
        num_chains: int,
        folder: RunFolder | None = None,
        store: DrawStore | None = None,
        keep: Iterable[str] | None = None,
    ):
        self.target, self.num_chains, self.folder, self.store, self.keep = target, num_chains, folder, store, keep
        self.num_stored = 0
        self._blocks: list[Draws] = []

    @property
    def num_draws(self) -> int:
        return self.num_stored + sum(block.log_density.shape[1] for block in self._blocks)

    def put(self, draws: Draws) -> None:
        """Add draws behind the others."""
        num_draws = draws.log_density.shape[1]
        if num_draws == 0:
            return
        if self.folder is not None and self.store is not None and not self.folder.trouble:
            with self.folder.trying():
                self.store.write(self.num_stored, as_groups(self.target, draws, self.keep))
                self.num_stored += num_draws
                return
        self._blocks.append(draws)

    def blank(self, num_draws: int) -> Draws:
        """Room for so many."""
        return blank_draws(self.num_chains, num_draws, self.target.dim, self.target.dtype)

    def groups(self) -> Groups:
        """All draws; what is on the disk is read when it is asked for, an array at a time."""
        self._blocks = [together(self._blocks or [self.blank(0)])]
        in_memory = as_groups(self.target, self._blocks[0], self.keep)
        if self.store is None:
            return in_memory
        return {
            group: Stored(self.store, group, self.num_stored, in_memory[group])
            for group in dict.fromkeys(array.group for array in self.store.arrays)
        }


def arrays_of(about: Manifest, keep: Iterable[str] | None) -> list[StoredArray]:
    """What is stored of every draw of a target."""
    names, kind = about["parameters"], about["dtype"]
    found = [StoredArray("posterior", name, tuple(names[name][0]), names[name][1]) for name in keep or names]
    if keep is None:
        found.append(StoredArray("unconstrained_posterior", "x", (about["dim"],), kind))
    kinds = (kind, kind, "int32", "int32", "bool")
    return found + [StoredArray("sample_stats", name, (), each) for name, each in zip(STATS, kinds, strict=True)]


def as_groups(target: AbstractTarget, draws: Draws, keep: Iterable[str] | None) -> dict[str, dict[str, np.ndarray]]:
    """Draws by group and name, as users see them; if some parameters are named, of those alone."""
    found = {
        "posterior": constrain(target, draws.position, keep),
        "sample_stats": dict(zip(STATS, draws[1:], strict=True)),
    }
    return {**found, "unconstrained_posterior": {"x": draws.position}} if keep is None else found


def as_warmup(groups: Groups) -> Groups:
    """The same, under the names that ArviZ has for them; unconstrained ones are left out."""
    return {f"warmup_{name}": groups[name] for name in ("posterior", "sample_stats")}


def together(blocks: list[Draws]) -> Draws:
    """Draws of the same chains, one after the other."""
    return Draws(*map(partial(np.concatenate, axis=1), zip(*blocks, strict=True)))


@eqx.filter_jit
def _constrain_block(target: AbstractTarget, positions: Points) -> dict[str, Array]:
    return jax.vmap(target.constrain)(positions)


def constrain(
    target: AbstractTarget, positions: np.ndarray, names: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Draws in their supports, in blocks of one size, so that another number of draws compiles nothing new."""
    num_chains, num_draws, dim = positions.shape
    flat = positions.reshape(-1, dim)
    padded = np.zeros((max(1, -(-len(flat) // BLOCK)) * BLOCK, dim), flat.dtype)
    padded[: len(flat)] = flat
    blocks = [
        jax.device_get(_constrain_block(target, jax.device_put(block))) for block in padded.reshape(-1, BLOCK, dim)
    ]
    names = blocks[0].keys() if names is None else names
    whole = {name: np.concatenate([block[name] for block in blocks])[: len(flat)] for name in names}
    return {name: values.reshape(num_chains, num_draws, *values.shape[1:]) for name, values in whole.items()}


class Run:
    """Chains on their way after the warm-up.

    Attributes:
        first: transitions that the chains had made when sampling began.
        step: transitions for a draw that is kept.
        ahead: transitions, finished by some chains and not by all, of the draws to come.
    """

    def __init__(
        self, kernel: AbstractSliceKernel, chains: Chain, first: int, step: int, kept: Kept, ahead: Draws | None = None
    ):
        self.kernel, self.chains, self.first, self.step, self.kept = kernel, chains, first, step, kept
        self.ahead = kept.blank(0) if ahead is None else ahead
        self._room, self._num_made = kept.blank(0), 0

    def draw(self, num_draws: int, watch: Callable[[int], None], journal: Journal) -> None:
        """Draw until every chain has made so many.

        Args:
            num_draws: in all.
            watch: hears how many there are.
            journal: says where to end; nothing is lost then.
        """
        num_chains, dim = self.chains.state.position.shape
        length = max(1, ROOM // (num_chains * dim * self.step))
        while self.kept.num_draws < num_draws:
            # Chains wait for each other at the same draws, however the run is divided.
            end = min((self.kept.num_draws // length + 1) * length, num_draws)
            self._draw_piece(end, watch, journal)

    def _draw_piece(self, end: int, watch: Callable[[int], None], journal: Journal) -> None:
        done = self.kept.num_draws
        first, until = self.first + done * self.step, self.first + end * self.step
        room = self.kept.blank(max(until - first, self.ahead.log_density.shape[1]))
        for stored, known in zip(room, self.ahead, strict=True):
            stored[:, : known.shape[1]] = known
        self._room, self._num_made = room, 0

        def acknowledge() -> None:
            have = (self.kept.num_draws - done) * self.step
            made = max(have, (finished(self.chains) - first) // self.step * self.step)
            self.kept.put(every(_part(room, have, made), self.step))
            fastest = int(np.asarray(self.chains.iteration).max()) - first
            self.ahead = _part(room, made, max(made, fastest))

        def hear(chains: Chain, rows: Rows) -> None:
            put_rows(room, rows, first)
            self.chains = chains
            self._num_made = max(0, finished(chains) - first) // self.step
            watch(done + self._num_made)
            if self.kept.folder is not None and self.kept.folder.pace.is_due():
                with self.kept.folder.pace.writing():
                    acknowledge()
                    self.checkpoint()
            journal.rest()

        try:
            march(self.kernel, self.chains, until, self.kept.target.describe, hear, journal)
        finally:
            acknowledge()

    def recent(self) -> Draws:
        """The latest draws that are in memory, for a look."""
        return every(_part(self._room, 0, self._num_made * self.step), self.step)

    @property
    def state(self) -> State:
        """Where the chains are, after the draws that are kept."""
        return self.chains, self.ahead

    def checkpoint(self) -> None:
        """Keep where the chains are."""
        if self.kept.folder is not None:
            self.kept.folder.checkpoint({"num_draws": self.kept.num_stored}, self.state)

    def check(self) -> None:
        """Whether the chains are where the draws that are kept end.

        Raises:
            DamageError: they are elsewhere: what would be drawn now belongs to another place.
        """
        made = np.asarray(self.chains.iteration) - (self.first + self.kept.num_draws * self.step)
        room = self.kept.blank(max(0, int(made.max())))
        if made.min() < 0 or any(known.shape != blank.shape for known, blank in zip(self.ahead, room, strict=True)):
            raise DamageError(
                f"the chains of the last state have made {made.min()} to {made.max()} transitions after "
                f"{self.kept.num_draws} draws, and there are {self.ahead.log_density.shape[1]} of them"
            )


def _part(draws: Draws, start: int, end: int) -> Draws:
    return Draws(*(values[:, start:end] for values in draws))
