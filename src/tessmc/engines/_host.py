"""The host engine: black boxes, of which only the chains that wait for a value are asked.

Rounds take the place of ticks. The map, the ellipses and the brackets of all chains are compiled, in two programs of a
fixed shape; between them the host collects the values. A chain whose value has not come stays as it is.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from tessmc._arrays import put
from tessmc._types import Count, Point, Scalar
from tessmc.engines._ticks import Chain, Record, attempt, ended, is_busy, knows_its_own, renew, wanted
from tessmc.kernels import AbstractSliceKernel, Pushed, TransportEllipticalSlice, choose
from tessmc.targets import BlackBox, Form


class Round(NamedTuple):
    """What all chains would ask for next: where, as the user has it, and who of them does ask."""

    pushed: Pushed
    values: PyTree[Array]
    log_dets: Float[Array, " chain"]
    is_waiting: Bool[Array, " chain"]


class Chunk(NamedTuple):
    """Some rounds: the chains, what they did as records with axes (round, chain), and why it ended early, if it did."""

    chains: Chain
    tape: Record
    stop: Exception | None


def black_box_of(kernel: AbstractSliceKernel) -> BlackBox | None:
    """The black box that a kernel asks, if it asks one."""
    if not isinstance(kernel, TransportEllipticalSlice):
        return None
    owner = getattr(kernel.log_density, "__self__", None)
    return owner if isinstance(owner, BlackBox) else None


@eqx.filter_jit
def ask_all(kernel: AbstractSliceKernel, form: Form, chains: Chain, until: Count) -> Round:
    """Where the chains need the density next."""
    pushed = jax.vmap(lambda chain: kernel.push(wanted(chain)))(chains)
    values, log_dets = jax.vmap(form.constrain)(pushed.position.astype(form.dtype))
    return Round(pushed, values, log_dets, is_busy(chains, until) & ~knows_its_own(chains))


@eqx.filter_jit
def tell_all(
    kernel: AbstractSliceKernel,
    chains: Chain,
    until: Count,
    pushed: Pushed,
    log_densities: Float[Array, " chain"],
    is_told: Bool[Array, " chain"],
) -> tuple[Chain, Record]:
    """What the chains make of the values that came."""
    tried = jax.vmap(kernel.weigh)(pushed, log_densities)
    moved, record = jax.vmap(partial(attempt, kernel, until))(chains, tried)
    is_told = is_told | knows_its_own(chains)
    is_done, is_missed = (is_told & each for each in ended(kernel, chains, moved, record))
    arc = jax.vmap(partial(renew, kernel))(moved, is_done, is_missed)
    moved = moved._replace(arc=arc, is_placed=moved.is_placed | is_done)
    record = record._replace(
        is_try=record.is_try & is_told, is_draw=record.is_draw & is_told, is_stuck=record.is_stuck & is_told
    )
    return jax.vmap(choose)(is_told, moved, chains), record


def advance_on_host(
    kernel: AbstractSliceKernel, box: BlackBox, chains: Chain, until: int, num_rounds: int, most: int | None = None
) -> Chunk:
    """Run until every chain has made `until` transitions, or for so many rounds, with at most so many evaluations."""
    kernel, goal, records = unasked(kernel), jnp.int32(until), []
    for _ in range(num_rounds):
        asked = ask_all(kernel, box.form, chains, goal)
        positions, values, log_dets, is_waiting, is_placed = jax.device_get(
            (asked.pushed.position, asked.values, asked.log_dets, asked.is_waiting, chains.is_placed)
        )
        waiting = np.flatnonzero(is_waiting)
        if len(waiting) == 0 and is_placed.all():
            break
        allowed = waiting if most is None else waiting[:most]
        answers = box.ask(positions, values, allowed)
        log_densities, is_told = np.full(len(positions), np.nan), np.zeros(len(positions), bool)
        log_densities[allowed] = answers.values + log_dets[allowed]
        is_told[allowed] = answers.is_known
        given = asked.pushed, jax.device_put(log_densities.astype(box.dtype)), jax.device_put(is_told)
        chains, record = tell_all(kernel, chains, goal, *given)
        records.append(jax.device_get(record))
        if answers.stop is not None or len(allowed) < len(waiting):
            return Chunk(chains, _stacked(records), answers.stop)
        most = None if most is None else most - len(allowed)
    return Chunk(chains, _stacked(records), None)


def prepare_on_host(kernel: AbstractSliceKernel, box: BlackBox, chains: Chain) -> None:
    """Compile both programs."""
    kernel, goal = unasked(kernel), jnp.int32(0)
    asked = ask_all(kernel, box.form, chains, goal)
    jax.block_until_ready(
        tell_all(kernel, chains, goal, asked.pushed, chains.state.log_density, put(asked.is_waiting, bool))
    )


def unasked(kernel: AbstractSliceKernel) -> TransportEllipticalSlice:
    """The kernel without its density: what is compiled depends on the map alone, not on who is asked."""
    assert isinstance(kernel, TransportEllipticalSlice)
    return TransportEllipticalSlice(
        _unasked, kernel.transport, kernel.max_tries, kernel.law, kernel.first_try, kernel.bridge
    )


def _unasked(position: Point) -> Scalar:
    raise AssertionError(f"a black box is asked by the host, not at {position}")


def _stacked(records: list[Record]) -> Record:
    return jax.tree.map(lambda *rows: np.stack(rows), *records)
