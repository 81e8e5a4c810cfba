"""From compiled ticks to arrays of draws: the host's side of the tick engine."""

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessmc._arrays import put
from tessmc._errors import DensityError
from tessmc._random import streams
from tessmc._types import Key, Points
from tessmc.engines._host import Chunk, advance_on_host, black_box_of, prepare_on_host
from tessmc.engines._journal import NO_JOURNAL, Journal
from tessmc.engines._ticks import Chain, Record, advance
from tessmc.kernels import AbstractSliceKernel, Arc, ChainState

logger = logging.getLogger(__name__)

# Long enough to hide the cost of a call, short enough for a progress bar and an interrupt.
CHUNK_SECONDS = 0.2
MAX_TICKS = 2**14
MAX_ROUNDS = 100

# A point in the user's own words.
Describe = Callable[[Any], str]


class Draws(NamedTuple):
    """Draws of all chains, axes (chain, draw, ...), in host memory."""

    position: np.ndarray
    log_density: np.ndarray
    log_ratio: np.ndarray
    num_tries: np.ndarray
    num_nan: np.ndarray
    is_stuck: np.ndarray


class Rows(NamedTuple):
    """Draws in the order in which they were made: whose, the how manieth of that chain, and the draw; one axis."""

    owner: np.ndarray
    iteration: np.ndarray
    draws: Draws


def rows_of(tape: Record) -> Rows:
    """The draws on a tape; other ticks are left out."""
    row, owner = np.nonzero(tape.is_draw)
    # One index into rows is several times as fast as two into an array of three axes.
    source = row * tape.is_draw.shape[1] + owner

    def taken(name: str) -> np.ndarray:
        field = np.asarray(getattr(tape, name))
        return field.reshape(-1, *field.shape[2:])[source]

    return Rows(owner.astype(np.int32), taken("iteration"), Draws(*map(taken, Draws._fields)))


def no_rows(chains: Chain) -> Rows:
    nobody, position = np.empty(0, np.int32), chains.state.position
    blank = blank_draws(1, 0, position.shape[1], position.dtype)
    return Rows(nobody, nobody, Draws(*(values[0] for values in blank)))


def place_chains(key: Key, references: Points) -> Chain:
    """Chains at their first reference points; chain i has its stream from the key folded with i."""
    num_chains, dim = references.shape
    keys = streams(key, num_chains)
    # Nothing here is read before the first tick: NumPy makes it without compiling anything.
    points, values = (put(np.zeros(shape), references.dtype) for shape in ((num_chains, dim), num_chains))
    counts, no = (put(np.zeros(num_chains), kind) for kind in (np.int32, bool))
    state = ChainState(references, points, values, values + put(np.nan, references.dtype))
    arc = Arc(keys, points, points, values, values, values, values, counts, counts, counts)
    return Chain(keys, state, arc, no, counts, counts)


def move_chains(chains: Chain, references: Points) -> Chain:
    """The same chains, put at other reference points; their densities there are asked for anew."""
    unknown = put(np.full(len(references), np.nan), references.dtype)
    return restart_chains(chains, chains.state._replace(reference=references, log_ratio=unknown))


def restart_chains(chains: Chain, state: ChainState) -> Chain:
    """The same chains in another state: each begins an arc there, and pays for its density if the log ratio is NaN.

    Whenever the map, the law or the first try changes: an arc is told by the kernel that began it. Only between
    marches: no try has been made yet on the arcs that are given up.
    """
    return chains._replace(state=state, is_placed=put(np.zeros(len(state.reference)), bool))


def count_evaluations(chains: Chain) -> int:
    """Density evaluations of all chains so far."""
    return int(np.asarray(chains.num_evaluations).sum(dtype=np.int64))


def finished(chains: Chain) -> int:
    """Transitions that every chain has made, -1 if some chain's own density is still unknown."""
    return int(np.asarray(chains.iteration).min()) if np.asarray(chains.is_placed).all() else -1


def march(
    kernel: AbstractSliceKernel,
    chains: Chain,
    until: int,
    describe: Describe = str,
    hear: Callable[[Chain, Rows], None] = lambda *_: None,
    journal: Journal = NO_JOURNAL,
) -> Chain:
    """Advance until every chain has made `until` transitions, in chunks of about `CHUNK_SECONDS`.

    Args:
        kernel: one transition.
        chains: where they are now.
        until: transitions since the chains were placed.
        describe: a position in the user's words, for errors.
        hear: gets the chains and the draws after every chunk.
        journal: remembers chunks of a run before this.

    Raises:
        DensityError: a log density was +inf.
        Stopped: by the journal, or by who hears.
    """
    fresh = [no_rows(chains)]
    while finished(chains) < until and (found := journal.recall((chains, fresh[0]))) is not None:
        chains, rows = found
        hear(chains, rows)
    # Of a density that takes long, one round at first.
    num_ticks = min(16, MAX_TICKS) if black_box_of(kernel) is None else 1
    while finished(chains) < until:
        journal.rest()
        began = time.perf_counter()
        chains, tape, stop = advance_by(kernel, chains, until, num_ticks, journal)
        journal.num_made = count_evaluations(chains)
        refuse_infinite(tape, describe)
        rows = rows_of(tape)
        if journal.keeps:
            fresh.append(rows)
            if finished(chains) >= until or journal.is_due():
                journal.note((chains, jax.tree.map(lambda *parts: np.concatenate(parts), *fresh)))
                del fresh[1:]
        hear(chains, rows)
        if stop is not None:
            raise stop
        seconds_a_tick = (time.perf_counter() - began) / num_ticks
        num_ticks = int(np.clip(CHUNK_SECONDS / seconds_a_tick, 1, min(4 * num_ticks, MAX_TICKS)))
    return chains


def advance_by(kernel: AbstractSliceKernel, chains: Chain, until: int, num_ticks: int, journal: Journal) -> Chunk:
    """A chunk of so many ticks at most, of compiled code or of rounds on the host, and of evaluations that are left."""
    box, journal.num_made = black_box_of(kernel), count_evaluations(chains)
    if box is not None:
        return advance_on_host(kernel, box, chains, until, num_ticks, journal.allowed(least=1))
    # Compiled chains are asked together: what is left over in the end is less than one tick.
    num_chains = len(chains.is_placed)
    left = journal.allowed(least=num_chains)
    num_ticks = num_ticks if left is None else min(num_ticks, left // num_chains)
    return Chunk(*_advance(kernel, chains, until, num_ticks, journal), None)


def _advance(
    kernel: AbstractSliceKernel, chains: Chain, until: int, num_ticks: int, journal: Journal
) -> tuple[Chain, Record]:
    """So many ticks, on one device or on several; the record is of NumPy."""
    if journal.layout is not None and len(chains.is_placed) == journal.layout.num_chains:
        return journal.layout.advance(kernel, chains, until, num_ticks)
    chains, tape = advance(kernel, chains, jnp.int32(until), jnp.int32(num_ticks))
    return chains, jax.device_get(tape)


def prepare(kernel: AbstractSliceKernel, chains: Chain, journal: Journal = NO_JOURNAL) -> None:
    """Compile what a march needs; nothing is asked."""
    box = black_box_of(kernel)
    if box is None:
        _advance(kernel, chains, 0, 0, journal)
    else:
        prepare_on_host(kernel, box, chains)


def place_all(
    kernel: AbstractSliceKernel,
    chains: Chain,
    describe: Describe = str,
    journal: Journal = NO_JOURNAL,
) -> Chain:
    """Pay for the points at which the chains stand, where that has not been done."""
    return march(kernel, chains, int(np.asarray(chains.iteration).min()), describe, journal=journal)


def collect(
    kernel: AbstractSliceKernel,
    chains: Chain,
    num_draws: int,
    watch: Callable[[int], None] = lambda _: None,
    describe: Describe = str,
    journal: Journal = NO_JOURNAL,
) -> tuple[Chain, Draws]:
    """Make `num_draws` draws with every chain; `watch` hears how many the slowest has made."""
    first = int(np.asarray(chains.iteration)[0])
    num_chains, dim = chains.state.position.shape
    draws = blank_draws(num_chains, num_draws, dim, chains.state.position.dtype)

    def store(chains: Chain, rows: Rows) -> None:
        put_rows(draws, rows, first)
        watch(finished(chains) - first)

    return march(kernel, chains, first + num_draws, describe, store, journal), draws


def blank_draws(num_chains: int, num_draws: int, dim: int, dtype: np.dtype) -> Draws:
    """Room for draws; what is never drawn is NaN, and not what the memory held before."""
    size, kinds = (num_chains, num_draws), (np.int32, np.int32, bool)
    numbers = (np.full(shape, np.nan, dtype) for shape in ((*size, dim), size, size))
    return Draws(*numbers, *(np.zeros(size, kind) for kind in kinds))


def put_rows(draws: Draws, rows: Rows, first: int) -> None:
    """Write rows where they belong, the draw of iteration `first` in the first place."""
    slots = rows.owner.astype(int) * draws.log_density.shape[1] + rows.iteration - first
    for stored, values in zip(draws, rows.draws, strict=True):
        stored.reshape(-1, *stored.shape[2:])[slots] = values


def every(draws: Draws, stride: int) -> Draws:
    """Every so many draws one, with what was paid and met since the one before."""
    num_chains, num_draws = draws.log_density.shape

    def grouped(values: np.ndarray) -> np.ndarray:
        return values.reshape(num_chains, num_draws // stride, stride, *values.shape[2:])

    last = Draws(*(grouped(values)[:, :, -1] for values in draws))
    return last._replace(
        num_tries=grouped(draws.num_tries).sum(axis=2),
        num_nan=grouped(draws.num_nan).sum(axis=2),
        is_stuck=grouped(draws.is_stuck).min(axis=2),
    )


def settle(
    kernel: AbstractSliceKernel,
    chains: Chain,
    refill: Callable[[int, Chain], Points],
    describe: Describe = str,
    journal: Journal = NO_JOURNAL,
) -> Chain:
    """Pay for the chains' points; those that lie outside the support are drawn anew, a bounded number of times.

    Args:
        kernel: one transition.
        chains: where they are to begin.
        refill: reference points for all chains, of which those of bad chains are taken; it gets the number
            of the round, and the chains.
        describe: a position in the user's words, for errors.
        journal: remembers chunks of a run before this.

    Raises:
        DensityError: some chain found no point of finite density.
    """
    for count in range(MAX_ROUNDS):
        chains = place_all(kernel, chains, describe, journal)
        is_bad = ~np.isfinite(np.asarray(chains.state.log_ratio))
        if not is_bad.any():
            return chains
        logger.info("%d of %d chains stand outside the support; drawing their points anew", is_bad.sum(), len(is_bad))
        if count + 1 < MAX_ROUNDS:
            references = np.where(is_bad[:, None], refill(count, chains), chains.state.reference)
            state = chains.state._replace(
                reference=jax.device_put(references),
                log_ratio=jax.device_put(np.where(is_bad, np.nan, chains.state.log_ratio).astype(references.dtype)),
            )
            chains = chains._replace(state=state, is_placed=put(~is_bad, bool))
    chain = int(np.argmax(is_bad))
    raise DensityError(
        f"chain {chain} found no start: the log density is {chains.state.log_density[chain]} at "
        f"{describe(chains.state.position[chain])}, the last of {MAX_ROUNDS} points tried. Pass `init` with points "
        "of finite density, or check the density and its support"
    )


def refuse_infinite(tape: Record, describe: Describe) -> None:
    """+inf is no log density: a chain would never leave such a point."""
    is_infinite = tape.is_try & (tape.log_density == np.inf)
    if is_infinite.any():
        tick, chain = np.argwhere(is_infinite)[0]
        raise DensityError(
            f"the log density is +inf at {describe(tape.position[tick, chain])} (chain {chain}); a density is "
            "finite: bound it, or return -inf where the position is impossible"
        )


def rounding_noise(
    kernel: AbstractSliceKernel, chains: Chain, describe: Describe = str, journal: Journal = NO_JOURNAL
) -> float:
    """How far the log ratio moves, in nats, where the reference point moves by its own rounding.

    A slice lies one unit of log density below its chain on average: noise of that size decides in its place
    which points are inside. The median over the chains; one density evaluation each.
    """
    spacing = float(jnp.finfo(chains.state.reference.dtype).eps)
    reference = np.asarray(chains.state.reference)
    signs = np.random.default_rng(0).choice([-4, 4], reference.shape)
    moved = move_chains(chains, put(reference * (1 + signs * spacing), reference.dtype))
    moved_state = place_all(kernel, moved, describe, journal).state
    change = np.abs(np.asarray(moved_state.log_ratio) - np.asarray(chains.state.log_ratio))
    resolution = spacing * np.abs(np.asarray(chains.state.log_density))
    return float(np.median(np.maximum(np.nan_to_num(change), resolution)))
