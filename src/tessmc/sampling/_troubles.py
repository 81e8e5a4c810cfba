"""What forbids to trust draws although their chains agree, a sentence each."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

# Nats of noise in the log density: a slice lies one below its chain, on average.
MAX_NOISE = 0.5
MAX_STUCK = 0.01
MIN_VISITS = 50
# The share of its draws in which a chain stands still.
MAX_SAME = 0.5
# A share of all draws: at four standard deviations it moves a mean by 0.004 of one.
MAX_ERROR_OF_TAIL = 1e-3
MAX_UNSEEN = 0.005
# Walkers that end further out than any draw; of draws that stand for π it is one at most, as a rule.
MAX_BEYOND = 2


def troubles_of(stats: Mapping[str, np.ndarray], noise: float, history: list[dict[str, Any]], dtype: Any) -> list[str]:
    """Everything; what a user should hear of at once is said aloud, too."""
    is_stuck, num_nan = stats["is_stuck"], stats["num_nan"]
    loud = coarse(noise, dtype) + stuck(is_stuck) + standing(is_stuck)
    messages = list(loud)
    if num_nan.any():
        messages.append(
            f"the log density was NaN at {num_nan.sum()} of {stats['num_evaluations'].sum()} points tried; they count "
            "as impossible. Return -inf there if that is meant"
        )
    for message in messages:
        warnings.warn(message, stacklevel=6)
    return loud + light_tails(stats["log_ratio"]) + unseen(history)


def coarse(noise: float, dtype: Any) -> list[str]:
    if noise <= MAX_NOISE:
        return []
    return [
        f"in {dtype} the log density is only known to about {noise:.1f} nats, as much as a slice is high: set "
        "jax.config.update('jax_enable_x64', True), or subtract a constant from the log density. If it is a simulation "
        "that answers differently each time, fix its random numbers"
    ]


def stuck(is_stuck: np.ndarray) -> list[str]:
    if is_stuck.size == 0 or is_stuck.mean() <= MAX_STUCK:
        return []
    return [
        f"{is_stuck.sum()} of {is_stuck.size} draws repeat the one before, because no point inside the slice was found "
        "within the bound on tries; the density may be discontinuous, or the map far off"
    ]


def standing(is_stuck: np.ndarray) -> list[str]:
    """Chains most of whose draws are the one before: a few among many are a small share of all draws."""
    num_standing = int((is_stuck.mean(axis=1) > MAX_SAME).sum()) if is_stuck.size else 0
    if num_standing == 0:
        return []
    return [
        f"{num_standing} of {len(is_stuck)} chains hardly move: most of their draws repeat the one before; they may "
        "stand where the density is discontinuous or far too narrow"
    ]


def light_tails(log_ratio: np.ndarray) -> list[str]:
    """Where r is high the map makes the target too rare: chains come seldom and stay for about e^(r - median) draws.

    If that is as long as the run, a handful of visits decides on the weight of that tail, and no comparison of chains
    shows it. The weight of n visits is known up to a factor of about 1 ± 1/√n.
    """
    if log_ratio.size == 0:
        return []
    away = log_ratio - np.median(log_ratio)
    is_long = away > np.log(max(4.0, log_ratio.shape[1] / 4))
    num_visits = int(is_long[:, 0].sum() + (is_long[:, 1:] & ~is_long[:, :-1]).sum())
    if not 0 < num_visits < MIN_VISITS or is_long.mean() / np.sqrt(num_visits) < MAX_ERROR_OF_TAIL:
        return []
    stay = f"{np.exp(away.max()):,.0f}" if away.max() < np.log(1e6) else "millions of"
    num_chains = int(is_long.any(axis=1).sum())
    return [
        f"{num_chains} {'chain' if num_chains == 1 else 'chains'} came into a tail where the map is too light, to stay "
        f"there for up to {stay} draws: its weight is not known well; draw more, or warm up longer"
    ]


def unseen(history: list[dict[str, Any]]) -> list[str]:
    """What the warm-up found, by draws from a wider law and by walks, where draws under the map would not come."""
    last = history[-1] if history else {}
    messages = []
    if (share := last.get("share_unseen", 0.0)) >= MAX_UNSEEN:
        messages.append(
            f"about {share:.1%} of the target lie where the map is too light for chains to come; warm up longer"
        )
    if (num_beyond := last.get("num_beyond", 0)) > MAX_BEYOND:
        messages.append(
            f"{num_beyond} random walks from the outermost draws went on to where no chain comes: the tails are longer "
            "than the map knows, or endless; warm up longer, and look whether the density can be normalised"
        )
    if num_forgotten := last.get("num_forgotten", 0):
        messages.append(
            f"{num_forgotten} of the starts lie where the density is as high as at the draws, and no chain has come "
            "back there: how much weight that place has is not known"
        )
    return messages
