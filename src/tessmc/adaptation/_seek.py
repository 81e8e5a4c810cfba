"""Where a map makes π too rare its chains hardly come, and stay long: such places are sought out and learned."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection

from tessmc._arrays import put
from tessmc._types import Count, Key, Points, Scalar
from tessmc.adaptation._buffer import BATCH, Drawn, in_a_row, log_ratios, thin
from tessmc.adaptation._camp import Camp, bridge_from_pushed, no_bridge, padded
from tessmc.adaptation._objectives import (
    divergences_by_path,
    kl_from_target_by_path,
    ratios_along_path,
    references_of,
)
from tessmc.adaptation._path import NUM_FITS, count_steps, train
from tessmc.adaptation._task import WarmupTask
from tessmc.engines import Draws
from tessmc.kernels import AbstractLaw, ChainState
from tessmc.targets import AbstractTarget

# Seekers draw from π^b φ̂^(1-b): with b = 3 they are e^2r times as often as π where r is high.
POWER = 3.0
# For one transition of a chain.
NUM_TRANSITIONS = 4
# Trips whose draws are learned from.
MEMORY = 4
# Draws to learn from, half of them of seekers.
BUFFER = 2**13
RATE = 5e-3
# Nats above the usual r at which a chain stays for some 400 transitions. Seekers come there e^12 times as often: where
# fewer than one in twenty of their draws are so high, a run hardly comes.
LONG, MAX_FINDS = 6.0, 0.05


class Seekers(NamedTuple):
    """Chains that prefer places which the map makes too rare: where they stand, and their last trips."""

    state: ChainState
    trips: tuple[Draws, ...] = ()


def seek(task: WarmupTask, camp: Camp, seekers: Seekers, length: int) -> tuple[Camp, Seekers]:
    """A trip; the camp's chains stay where they stand, and only what they have paid goes on."""
    bridge = bridge_from_pushed(POWER, task.target.dim, task.target.dtype)
    away = camp._replace(chains=camp.chains._replace(state=seekers.state), bridge=bridge)
    away, draws = away.collect(task, NUM_TRANSITIONS * length)
    stayed = away.chains._replace(state=camp.chains.state)
    back = camp._replace(chains=stayed, bridge=no_bridge(task.target.dim, task.target.dtype)).recalled()
    return back, Seekers(away.chains.state, (*seekers.trips, draws)[-MEMORY:])


def share_of_finds(camp: Camp, drawn: Drawn, seekers: Seekers) -> float:
    """The share of the last trip's draws where the map makes π so rare that a chain would stay long."""
    sought, usual = (
        log_ratios(camp.transport, camp.law, thin(each, BUFFER // 2)) for each in (in_a_row(seekers.trips[-1:]), drawn)
    )
    return float(np.mean(~(sought - np.median(usual) < LONG)))


class Shown(NamedTuple):
    """What the objective is given: the first `size` positions are draws, of chains and of seekers."""

    target: AbstractTarget
    law: AbstractLaw
    positions: Points
    size: Count
    share: Scalar


def from_draws(transport: AbstractBijection, key: Key, shown: Shown) -> Scalar:
    """Both divergences by path gradients, half at draws of φ̂ and half at draws that chains and seekers made."""
    key_normal, key_choice = jr.split(key)
    num_points = BATCH // NUM_FITS // 2
    half = jr.normal(key_normal, (num_points // 2, shown.target.dim), shown.positions.dtype)
    chosen = shown.positions[jr.randint(key_choice, (num_points,), 0, shown.size)]
    references = jnp.concatenate([half, -half, references_of(transport, chosen)])
    found = ratios_along_path(transport, shown.law, shown.target.log_density, references)
    own, others = found[:num_points], found[num_points:]
    usual = jax.lax.stop_gradient(jnp.nanmedian(jnp.where(jnp.isfinite(own), own, jnp.nan)))
    return divergences_by_path(own, shown.share) + kl_from_target_by_path(others, usual)


def learn_at(task: WarmupTask, camp: Camp, drawn: Drawn, seekers: Seekers, key: Key, rate: float) -> Camp:
    """The map after steps by path gradients at its own draws, those of chains and those of seekers."""
    parts = (thin(each, BUFFER // 2).positions for each in (drawn, in_a_row(seekers.trips)))
    positions = np.concatenate([*parts])
    dtype = task.target.dtype
    shown = Shown(
        task.target,
        camp.law,
        jax.device_put(padded(positions.astype(dtype), BUFFER)),
        jnp.int32(len(positions)),
        put(0.5, dtype),
    )
    num_steps = count_steps(task) // 3
    return camp._replace(transport=train(task, camp.transport, from_draws, lambda *_: shown, key, num_steps, rate))


def num_asked(task: WarmupTask) -> int:
    """Densities that `learn_at` asks for."""
    return count_steps(task) // 3 * BATCH
