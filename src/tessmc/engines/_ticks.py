"""The tick engine: all chains in one compiled loop, one density evaluation a chain and tick.

A chain that accepts begins its next ellipse at once instead of waiting for the slowest; each chain
stops at its own number of draws, because stopping at a total count would favour what is found fast.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax import lax
from jaxtyping import Array, Bool

from tessmc._types import Count, Key, Point, Scalar, Truth
from tessmc.kernels import AbstractSliceKernel, Arc, ChainState, ask, begin, choose, go_on, has_missed, tell


class Chain(NamedTuple):
    """A chain on its way: the last draw, the arc it searches now, and where in its life it is.

    Attributes:
        is_placed: False until the chain has begun an arc where it stands. The density there is paid for first, unless
            it is known: then the state's log ratio is not NaN.
        iteration: transitions finished, over warm-up and sampling; it names the random stream.
    """

    key: Key
    state: ChainState
    arc: Arc
    is_placed: Truth
    iteration: Count
    num_evaluations: Count


class Record(NamedTuple):
    """What a chain did in one tick: the point it tried, or, at a draw, the point it now stands at."""

    position: Point
    log_density: Scalar
    log_ratio: Scalar
    iteration: Count
    num_tries: Count
    num_nan: Count
    is_try: Truth
    is_draw: Truth
    is_stuck: Truth


class Ticks(NamedTuple):
    """What the compiled loop carries: counts, all chains, and the tape on which they write."""

    num_ticks: Count
    num_rows: Count
    chains: Chain
    tape: Record


def wanted(chain: Chain) -> Point:
    """The reference point at which a chain needs the target next: on its arc, or where it stands."""
    return jnp.where(chain.is_placed, ask(chain.arc), chain.state.reference)


def attempt(kernel: AbstractSliceKernel, until: Count, chain: Chain, tried: ChainState) -> tuple[Chain, Record]:
    """Take what was found at the wanted point: one angle tried, or the chain's own point paid for."""
    busy, is_known = is_busy(chain, until), knows_its_own(chain)
    is_inside, arc = tell(chain.arc, tried.log_ratio)
    is_stuck = chain.is_placed & ~is_inside & (arc.num_tries >= kernel.max_tries)
    is_draw = busy & chain.is_placed & (is_inside | is_stuck)
    # At a draw the record is of the point where the chain now stands, at another try of the point tried.
    shown = choose(is_stuck & (tried.log_density != jnp.inf), chain.state, tried)
    record = Record(
        position=shown.position,
        log_density=shown.log_density,
        log_ratio=shown.log_ratio,
        iteration=chain.iteration,
        num_tries=arc.num_tries,
        num_nan=arc.num_nan,
        is_try=busy & ~is_known,
        is_draw=is_draw,
        is_stuck=is_draw & is_stuck,
    )
    moved = chain._replace(
        state=choose(busy & (is_inside | ~chain.is_placed) & ~is_known, tried, chain.state),
        arc=choose(busy, arc, chain.arc),
        iteration=chain.iteration + is_draw,
        num_evaluations=chain.num_evaluations + (busy & ~is_known),
    )
    return moved, record


def is_busy(chain: Chain, until: Count) -> Bool[Array, "..."]:
    """Whether a chain, or each of many, still has a value to ask for."""
    return ~chain.is_placed | (chain.iteration < until)


def knows_its_own(chain: Chain) -> Bool[Array, "..."]:
    """Whether a chain that has not begun an arc knows the density where it stands: there is nothing to pay for."""
    return ~chain.is_placed & ~jnp.isnan(chain.state.log_ratio)


def renew(kernel: AbstractSliceKernel, chain: Chain, is_done: Truth, is_missed: Truth) -> Arc:
    """The next slice of a chain whose arc has ended, the ellipse after a fresh point outside, or the arc it is on."""
    key = jr.fold_in(chain.key, chain.iteration)
    if kernel.first_try is False:
        return choose(is_done, begin(key, chain.state, kernel.law), chain.arc)
    # Whichever it is, one vector is drawn.
    arc = begin(jnp.where(is_done, key, chain.arc.key), chain.state, kernel.law, is_done & kernel.first_try)
    arc = choose(is_done, arc, go_on(arc, chain.arc))
    return choose(is_done | is_missed, arc, chain.arc)


def ended(kernel: AbstractSliceKernel, before: Chain, after: Chain, record: Record) -> tuple[Array, Array]:
    """Which chains begin another slice now, and which an ellipse because a fresh point lay outside."""
    is_done = record.is_draw | ~before.is_placed
    return is_done, record.is_try & ~is_done & has_missed(after.arc.num_tries, kernel.first_try)


def try_once(kernel: AbstractSliceKernel, until: Count, chain: Chain) -> tuple[Chain, Record]:
    """One density evaluation, and what comes of it."""
    return attempt(kernel, until, chain, kernel.evaluate(wanted(chain)))


def tick(kernel: AbstractSliceKernel, until: Count, columns: Any, ticks: Ticks) -> Ticks:
    """One density evaluation for every chain that still has a value to ask for; they write in their columns."""
    moved, record = jax.vmap(partial(try_once, kernel, until))(ticks.chains)
    is_done, is_missed = ended(kernel, ticks.chains, moved, record)

    def note(num_rows: Count, tape: Record) -> tuple[Count, Record, Arc]:
        def write(rows: Array, row: Array) -> Array:
            return rows.at[num_rows, columns].set(row, mode="promise_in_bounds")

        tape = jax.tree.map(write, tape, record)
        return num_rows + 1, tape, jax.vmap(partial(renew, kernel))(moved, is_done, is_missed)

    def skip(num_rows: Count, tape: Record) -> tuple[Count, Record, Arc]:
        return num_rows, tape, moved.arc

    # With few chains most ticks end no arc: there is nothing to write down, and no momentum to draw.
    is_event = is_done | is_missed | (record.is_try & (record.log_density == jnp.inf))
    num_rows, tape, arc = lax.cond(jnp.any(is_event), note, skip, ticks.num_rows, ticks.tape)
    chains = moved._replace(arc=arc, is_placed=moved.is_placed | is_done)
    return Ticks(ticks.num_ticks + 1, num_rows, chains, tape)


@eqx.filter_jit
def advance(
    kernel: AbstractSliceKernel, chains: Chain, until: Count, num_ticks: Count, length: int | None = None
) -> tuple[Chain, Record]:
    """Run until every chain has made `until` transitions, or `num_ticks` ticks, or until the tape is full.

    The numbers of draws and ticks are arguments of the program, not part of it, and a chain's arc is
    carried from call to call: neither what is compiled nor what is drawn depends on the chunks. The length of the tape
    is part of the program; by default it follows from the number of chains.

    Returns:
        The chains, and the tape: records with leading axes (row, chain), a row for every tick in which some
        chain was placed, made a draw or met +inf; zeros in the rows left over.
    """
    num_chains, dim = chains.state.reference.shape
    length = tape_length(num_chains, dim) if length is None else length
    row = jax.eval_shape(jax.vmap(partial(try_once, kernel, until)), chains)[1]
    tape = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), row)

    def work(ticks: Ticks, columns: Any, while_more_than: int) -> Ticks:
        def has_work(ticks: Ticks) -> Truth:
            has_room = (ticks.num_ticks < num_ticks) & (ticks.num_rows < length)
            return has_room & (jnp.sum(is_busy(ticks.chains, until)) > while_more_than)

        return lax.while_loop(has_work, partial(tick, kernel, until, columns), ticks)

    num_last = num_stragglers(num_chains)
    ticks = work(Ticks(jnp.int32(0), jnp.int32(0), chains, tape), ..., num_last)
    if num_last == 0:
        return ticks.chains, ticks.tape
    # The last on their way go on in a batch of their own: the others need not be evaluated with them.
    last = jnp.argsort(~is_busy(ticks.chains, until))[:num_last]
    after = work(ticks._replace(chains=jax.tree.map(lambda leaf: leaf[last], ticks.chains)), last, 0)
    together = jax.tree.map(lambda all_, part: all_.at[last].set(part), ticks.chains, after.chains)
    return together, after.tape


def num_stragglers(num_chains: int) -> int:
    """How many chains end their run in a smaller batch; for few it is not worth compiling a second loop."""
    return num_chains // 8 if num_chains >= 512 else 0


def tape_length(num_chains: int, dim: int) -> int:
    """Rows of the tape: many where they are small, few where they would fill memory."""
    size = num_chains * dim
    return max(16, min(max(256, 2**17 // size), 2**22 // size))
