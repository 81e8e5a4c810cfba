"""The map is learned in windows: draws, a fit on them, and a look at draws that were held out."""

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection
from flowjax.bijections import Chain as Ladder

from tessmc._random import split
from tessmc._types import Key
from tessmc.adaptation._beyond import look_beyond, num_forgotten
from tessmc.adaptation._buffer import (
    Buffer,
    Drawn,
    divide,
    from_values,
    held_out_loss,
    in_a_row,
    log_ratios,
    mix,
    pull_all,
    scores_of,
    spread_of_ratios,
    take,
    thin,
    together,
    winsorised,
)
from tessmc.adaptation._camp import Camp, bridge_from_pushed, padded
from tessmc.adaptation._fit import NADAM, Decay, FitState, begin_fit, fit, trainable
from tessmc.adaptation._path import ask_at, refine, start_anew
from tessmc.adaptation._rescue import entry, resample
from tessmc.adaptation._seek import MAX_FINDS, RATE, Seekers, learn_at, num_asked, seek, share_of_finds
from tessmc.adaptation._stride import stride_by_r_hat, stride_for
from tessmc.adaptation._task import History, WarmupTask
from tessmc.adaptation._wide import Scouts, Trip, wide, widened
from tessmc.engines import Draws
from tessmc.kernels import AbstractLaw, StudentT
from tessmc.transports import (
    RUNGS,
    Spread,
    quadratic_terms,
    rung_mask,
    spread_of,
    spread_of_map,
    spread_of_scores,
    spread_of_values,
    with_spread,
)

logger = logging.getLogger(__name__)

BUFFER = 2**13
HELD_OUT = 2**11
DOFS = (0, 30, 10, 5, 3)
# So many nats above the rest a place is visited fifty times too seldom.
RARE = 4
MAX_UNSEEN_TO_END = 1e-3
# With such an s a draw costs about 1.1 evaluations.
GOOD = 0.07
# And so many, with such an s, where nothing is spent on a better map.
CHEAP, FAIR = 1.4, 0.4
# Nats of likelihood a dimension: about so many factors of e in width.
MAX_STEP = 1.5
# Dimensions in which a law three halves as wide has nothing in common with the target any more.
MANY = 20
# Every so many gradient steps the map is looked at on draws that it was not trained on.
STRIDE = 100
NUM_STRIDES = 8
# With more evaluations a draw, chains are slow.
SLOW = 1.3
# Nats by which held-out draws may be less likely for what is learned of places that they do not know.
MAX_LOSS = 0.5


class Climb(NamedTuple):
    """A rung being fitted, and the map under which held-out draws have been likeliest so far."""

    state: FitState
    loss: float
    best: Any


class Windows:
    """The windows of a warm-up: draws, a fit on them, and a look at draws that were held out."""

    def __init__(
        self, task: WarmupTask, starts: Drawn, use_gradient: bool, is_frugal: bool, key: Key, history: History
    ):
        self.task, self.starts, self.use_gradient, self.history = task, starts, use_gradient, history
        self.is_frugal = is_frugal
        self.key_climb, self.key_path, key_host = split(key, 3)
        self.has_asked, self.is_settled, self.has_found_all = False, False, False
        self.rung = "affine" if task.transport is None else "couplings"
        self.num_fits = 0
        self.rng = np.random.default_rng(np.asarray(jr.key_data(key_host)))
        self.num_evaluations = 0
        self.draws: list[Draws] = []
        self.all_draws: list[Draws] = []
        self.scouts: Scouts | None = None
        self.seekers: Seekers | None = None
        self.share_spent = 0.0
        self.evaluations = np.inf
        self.loss: float | None = None

    def run(self, camp: Camp, budget: int) -> Camp:
        """Alternate draws and fits until the budget is spent or nothing is left to gain."""
        left = budget
        while left > 0:
            length = min(left, max(1, budget // (16 if self.rung == "affine" else 8)))
            left -= length
            self.share_spent = 1 - left / budget
            camp = self._draw(camp, length)
            with self.task.clock.time("fit"):
                camp, found = self._learn(camp)
            self.history.append({**entry("window", self.task, camp), **found, "evaluations": self.evaluations})
            self.task.watch("learning", budget, budget - left, self.history[-1])
            if self._is_done():
                break
        camp = camp.recalled()
        if not self.all_draws:
            return camp
        recent = in_a_row(self.all_draws[-2:])
        with self.task.clock.time("warmup"):
            camp, num_beyond = look_beyond(self.task, camp, recent, self.rng)
        self.history[-1] |= {"num_beyond": num_beyond, "num_forgotten": num_forgotten(camp, self.starts, recent)}
        return camp

    def stride(self) -> int:
        """Transitions to make for a draw, by the draws made under the map as it is, or nearly is."""
        recent = self.draws if self.is_settled else self.draws[-2:]
        if not recent or self.evaluations < SLOW:
            return 1
        positions = np.concatenate([draws.position for draws in recent], axis=1)
        return stride_for(positions) if self.seekers is None else stride_by_r_hat(positions)

    def _draw(self, camp: Camp, length: int) -> Camp:
        """Draws of a window, half of them from the wider law."""
        num_wide = 0 if self.scouts is None else length // 2
        if self.scouts is not None and num_wide > 0:
            camp, self.scouts = self._draw_widely(camp, self.scouts, num_wide)
        camp, draws = self._collect(camp, length - num_wide)
        self.draws.append(draws)
        self.all_draws.append(draws)
        self.evaluations = float(draws.num_tries.mean())
        return camp

    def _draw_widely(self, camp: Camp, scouts: Scouts, length: int) -> tuple[Camp, Scouts]:
        """Scouts move under the wider law; then every other chain goes on from one of their draws."""
        law, target = scouts.law, self.task.target
        bridge = bridge_from_pushed(law.power, target.dim, target.dtype)
        away = Camp(law.transport, camp.chains._replace(state=scouts.state), wide(), bridge)
        away, draws = self._collect(away, length)
        scouts = scouts._replace(state=away.chains.state, trips=(*scouts.trips, Trip(law, draws)))
        drawn = in_a_row([draws])
        drawn = take(drawn, resample(self.rng, law.weights(drawn), self.task.num_chains))
        is_new = np.arange(self.task.num_chains) % 2 == len(scouts.trips) % 2
        state = camp.chains.state
        state = state._replace(
            position=jnp.where(is_new[:, None], drawn.positions, state.position),
            log_density=jnp.where(is_new, drawn.log_densities.astype(state.log_density.dtype), state.log_density),
        )
        return camp._replace(chains=away.chains._replace(state=state)), scouts

    def _collect(self, camp: Camp, length: int) -> tuple[Camp, Draws]:
        with self.task.clock.time("warmup"):
            return camp.collect(self.task, length)

    def _is_done(self) -> bool:
        """Nothing is left to gain: the last window's draws, made with a map that had not seen them, say so."""
        recent = [entry for entry in self.history if entry["stage"] == "window"][-3:]
        now, then = recent[-1], recent[0]
        is_cheap = now["evaluations"] < CHEAP and now["s_before"] < FAIR and now["share_unseen"] < MAX_UNSEEN_TO_END
        if self.is_frugal and now["rung"] == "couplings" and is_cheap:
            return True
        if self.is_settled and self._is_worth_seeking():
            return False
        if len(recent) < 3 or (now["rung"] == "affine" and now["s_before"] > 0.1):
            return False
        is_flat = now["evaluations"] > 0.97 * then["evaluations"] and now["s_before"] > 0.9 * then["s_before"]
        is_good = now["evaluations"] < 1.06 or (
            then["rung"] == "couplings" and is_flat and (now["evaluations"] < 1.5 or self.is_settled)
        )
        # Draws that the map had not seen, and did not expect: the chains have come somewhere new.
        is_news = now["s_before"] > 1.2 * then["s_before"] + 0.02 or now["share_unseen"] > MAX_UNSEEN_TO_END
        return is_good and not is_news

    def _learn(self, camp: Camp) -> tuple[Camp, dict[str, Any]]:
        window, rung, self.loss = len(self.history), self.rung, None
        train, held = self._split(camp.law, window)
        before = spread_of_ratios(camp.transport, held)
        if rung == "affine":
            camp, s = self._learn_spread(camp, train, held)
        else:
            camp, s = self._learn_couplings(camp, before, train, held)
        logger.info("window %d: %s, %d degrees of freedom, s %.2f -> %.2f", window, rung, camp.law.dof, before, s)
        if self.rung == "couplings" and self.draws and self.task.target.dim <= MANY:
            self._send_scouts(camp, in_a_row(self.draws[-1:]))
        found = {"rung": rung, "s_before": before, "s": s, "share_unseen": self._share_unseen(camp, held)}
        held_after = held._replace(law=camp.law)
        if self.seekers is not None:
            found["num_seekers"] = self.task.num_chains
        losses = {"loss": self.loss, "held_out_loss": held_out_loss(camp.transport, held_after)}
        return camp._replace(first_try=s < 1.5), {**found, **losses}

    def _send_scouts(self, camp: Camp, drawn: Drawn) -> None:
        """Half of the next window's draws come from a law wider than these, along the map as it is now."""
        law = widened(camp.transport, drawn)
        logger.info("half of the draws come from a wider law, with b = %.2f", law.power)
        self.scouts = Scouts(law, camp.chains.state) if self.scouts is None else self.scouts._replace(law=law)

    def _share_unseen(self, camp: Camp, held: Buffer) -> float:
        """The share of π, by draws of the wider law, that the map makes so rare that chains hardly come there."""
        if self.scouts is None or not self.scouts.trips:
            return 0.0
        law, draws = self.scouts.trips[-1]
        drawn = thin(in_a_row([draws]), BUFFER)
        found, usual = (log_ratios(camp.transport, camp.law, part) for part in (drawn, held.drawn))
        is_rare = ~(found - np.median(usual[: int(held.num_exact)]) < RARE)
        return float(np.sum(law.weights(drawn)[is_rare]))

    def _learn_spread(self, camp: Camp, train: Buffer, held: Buffer) -> tuple[Camp, float]:
        """The lowest rung; when it gains no more, the next window climbs."""
        camp, s, gain = self._shift_and_scale(camp, train, held)
        terms = quadratic_terms(self.task.target.dim)
        is_waiting = not self.use_gradient and s > 0.5 and 1.2 * terms < BUFFER
        is_waiting = is_waiting and len(self._seen().positions) < min(3 * terms, BUFFER)
        is_spent = len(self.draws) * self.draws[0].log_density.shape[1] > self.task.num_warmup / 2
        if is_spent or (gain < 0.1 * np.sqrt(self.task.target.dim) and not is_waiting):
            self.rung = "couplings"
            self.draws = self.draws[-1:]
        return camp, s

    def _seen(self) -> Drawn:
        """The draws of all windows so far, but for those held out in this."""
        return thin(divide(self.draws, len(self.history))[0], BUFFER)

    def _learn_couplings(self, camp: Camp, s: float, train: Buffer, held: Buffer) -> tuple[Camp, float]:
        """The higher rungs, and the tails that fit what is left."""
        is_first = self.num_fits == 0
        self.num_fits += 1
        if self.is_settled and self._is_worth_seeking():
            return self._seek(camp, s, train, held)
        if s < GOOD or self.is_settled:
            return camp, s
        if self._should_ask(s):
            learned = self._ask(camp, s, held)
            if learned is not None:
                return learned
        for part in RUNGS[1:] if is_first else RUNGS[2:]:
            key = jr.fold_in(self.key_climb, 10 * len(self.history) + RUNGS.index(part))
            transport, s = self._climb(camp.transport, part, train, held, key, 5e-3 if is_first else 3e-3)
            camp = camp._replace(transport=transport)
        if s < 1 or self.task.target.dim <= MANY:
            camp = camp._replace(law=choose_law(camp.transport, held))
        return camp, s

    def _should_ask(self, s: float) -> bool:
        """Whether to learn from π itself: of few dimensions only what draws could not teach, and once."""
        is_due = self.num_fits > 2 if self.task.target.dim <= MANY else self.num_fits > 0
        return self.use_gradient and not self.has_asked and is_due and s > 0.3

    def _is_worth_seeking(self) -> bool:
        """In few dimensions a wider law does it, and a map that is good already becomes no better."""
        return self.task.target.dim > MANY and self.evaluations > SLOW and not self.has_found_all

    def _seek(self, camp: Camp, s: float, train: Buffer, held: Buffer) -> tuple[Camp, float]:
        """The map learns from chains, and from seekers that set out from them and then, in turn, go on."""
        seekers = self.seekers or Seekers(camp.chains.state)
        if len(self.history) % 2 == 0:
            seekers = seekers._replace(state=camp.chains.state)
        with self.task.clock.time("warmup"):
            camp, self.seekers = seek(self.task, camp, seekers, self.draws[-1].log_density.shape[1])
        exact = take(train.drawn, np.arange(int(train.num_exact)))
        share = share_of_finds(camp, exact, self.seekers)
        logger.info("of the seekers' draws %.0f %% are where chains would stay long", 100 * share)
        if share < MAX_FINDS:
            self.has_found_all = True
            return camp, s
        key = jr.fold_in(self.key_path, len(self.history))
        # The better the map, the shorter the steps: long ones would spoil it before they mend anything.
        rate = RATE * min(1.0, s) * 0.1**self.share_spent
        learned = learn_at(self.task, camp, exact, self.seekers, key, rate)
        self._pay(num_asked(self.task))
        before, after = (held_out_loss(each.transport, held) for each in (camp, learned))
        logger.info("at the seekers' draws the held-out loss goes from %.2f to %.2f", before, after)
        if not after < before + MAX_LOSS:
            return camp, s
        return learned, spread_of_ratios(learned.transport, held)

    def _pay(self, num_evaluations: int) -> None:
        """For what is asked of π in fits."""
        self.num_evaluations += num_evaluations
        self.task.journal.spent += num_evaluations

    def _ask(self, camp: Camp, s: float, held: Buffer) -> tuple[Camp, float] | None:
        self.has_asked = True
        # Of many dimensions, chains that have not mixed teach nothing.
        is_lost = s > 1 and self.task.target.dim > MANY and self.task.transport is None
        if is_lost:
            learned = start_anew(self.task, camp, held, self.key_path, self.rng)
        else:
            learned = refine(self.task, camp, held, self.key_path, self.rng)
        self._pay(learned.num_evaluations)
        if not learned.is_better:
            return None
        # Draws of other windows were made where another map left the chains.
        self.draws, self.is_settled = [], True
        return learned.camp, learned.s

    def _shift_and_scale(self, camp: Camp, train: Buffer, held: Buffer) -> tuple[Camp, float, float]:
        """The affine layer and tails under which held-out draws are likeliest; what s they leave, and what they gain.

        Where they leave much of log π to explain, an affine layer that leaves less is taken in their place.
        """
        positions, others = (np.asarray(part.positions)[: int(part.size)] for part in (train, held))
        found = [(spread_of(positions, dof, shrinkage), dof) for dof in DOFS for shrinkage in (0.0, None, 1.0)]
        scores = [np.mean(spread.log_density(others, dof)) for spread, dof in found]
        gain = np.max(scores) - np.mean(spread_of_map(camp.transport).log_density(others, int(camp.law.dof)))

        def put(spread: Spread, dof: int) -> tuple[Camp, float]:
            changed = camp._replace(transport=with_spread(camp.transport, spread), law=StudentT(dof))
            return changed, spread_of_ratios(changed.transport, held._replace(law=changed.law))

        def put_by_shape(spread: Spread) -> tuple[Camp, float]:
            changed, s = put(spread, 0)
            is_near = np.mean(spread.log_density(others, 0)) > np.max(scores) - MAX_STEP * self.task.target.dim
            # Where log π is flat up to a wall, the flattest map would reach far beyond. One that leaves the draws far
            # behind has to fit where it leads, too.
            return changed, s if is_near else max(s, self._spread_of_own(changed))

        likeliest, s = put(*found[int(np.argmax(scores))])
        if s < 0.3:
            return likeliest, s, float(gain)
        found_by_shape = (put_by_shape(spread) for spread in self._by_shape(positions))
        flattest, least = min(found_by_shape, key=lambda pair: pair[1], default=(likeliest, s))
        logger.info("the affine layer from draws leaves s = %.2f, from the shape of log π %.2f", s, least)
        # Of a Gaussian the covariance of k chains leaves about s = d/√k. What is far above comes from π being none, and
        # then the draws say more than the shape of log π, unless that explains nearly all.
        is_by_chance = s < 3 * self.task.target.dim / np.sqrt(self.task.num_chains)
        if least >= (s if is_by_chance else s / 5):
            return likeliest, s, float(gain)
        return flattest, least, spread_of_ratios(camp.transport, held) - least

    def _spread_of_own(self, camp: Camp) -> float:
        """The map's own draws have this s: it is infinite if it reaches where π has no density."""
        references = self.rng.standard_normal((self.task.num_chains, self.task.target.dim))
        self._pay(self.task.num_chains)
        return winsorised(ask_at(self.task, camp, references.astype(self.task.target.dtype)).log_ratio)

    def _by_shape(self, positions: np.ndarray) -> Iterator[Spread]:
        """Spreads that do not depend on how the draws are spread: from scores of π, or from values of log π."""
        if self.use_gradient:
            few = positions[np.linspace(0, len(positions) - 1, min(len(positions), HELD_OUT)).astype(int)]
            self._pay(HELD_OUT)
            points, target = padded(few, HELD_OUT), self.task.target
            slopes = self.task.journal.once(points, lambda: np.asarray(scores_of(target, jax.device_put(points))))
            slopes = slopes[: len(few)]
            if np.isfinite(slopes).all():
                yield spread_of_scores(few, slopes)
                return
        seen = self._seen()
        if len(seen.positions) > 1.2 * quadratic_terms(self.task.target.dim):
            yield spread_of_values(seen.positions, seen.log_densities, spread_of(seen.positions, shrinkage=0.0))

    def _climb(
        self, transport: Ladder, rung: str, train: Buffer, held: Buffer, key: Key, rate: float
    ) -> tuple[Ladder, float]:
        mask = np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(trainable(rung_mask(transport, rung))[0])])
        num_strides = NUM_STRIDES if rung == "couplings" else 2
        schedule = Decay(rate, 0.01, num_strides * STRIDE)

        def go_on(climb: Climb) -> Climb:
            state = fit(
                from_values,
                climb.state,
                key,
                train,
                schedule,
                jnp.int32(STRIDE),
                mask=mask,
                max_norm=jnp.float32(10),
                optimiser=NADAM,
            )
            loss = held_out_loss(state.transport, held)
            return Climb(state, loss, state.transport) if loss < climb.loss else climb._replace(state=state)

        # To the end even if it gains nothing at first: what the first, long steps spoil, the last, short ones mend.
        begun = Climb(begin_fit(transport), held_out_loss(transport, held), transport)
        num_steps = num_strides * STRIDE
        climb = self.task.journal.repeat(begun, lambda climb: int(climb.state.num_steps) >= num_steps, go_on)
        self.loss = float(climb.state.loss)
        return climb.best, spread_of_ratios(climb.best, held)

    def _split(self, law: AbstractLaw, window: int) -> tuple[Buffer, Buffer]:
        """Recent draws to train on, and of every eighth chain, to look at: the last window's for an affine layer."""
        recent = self.draws[-1:] if self.rung == "affine" else self.draws[len(self.draws) // 2 :]
        parts = [(exact, take(exact, np.arange(0))) for exact in divide(recent, window)]
        for trip in () if self.scouts is None else self.scouts.recent:
            # Draws of a wider law stand for π by their weights, and for themselves.
            parts = [
                (together(exact, trip.law.resampled(self.rng, drawn)), together(others, drawn))
                for (exact, others), drawn in zip(parts, divide([trip.draws], window), strict=True)
            ]
        return mix(*parts[0], BUFFER, law), mix(*parts[1], HELD_OUT, law)


def choose_law(transport: AbstractBijection, held: Buffer) -> StudentT:
    """The tails under which the pulled back draws are likeliest."""
    references, _ = pull_all(transport, held.law, np.asarray(held.positions)[: int(held.num_exact)])
    references = references[np.isfinite(references).all(axis=1)]
    dim = references.shape[1]
    standard = Spread(np.zeros(dim), np.ones(dim), np.eye(dim))
    return StudentT(max(DOFS, key=lambda dof: np.mean(standard.log_density(references, dof))))
