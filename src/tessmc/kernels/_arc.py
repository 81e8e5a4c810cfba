"""The shrinking ellipse that Algorithms 1 and 3 share: `begin`, `ask`, `tell`.

A rotation keeps |u|² + |v|², so line 8 of Algorithm 1, log π̂(u') + log φ(v') > log s, is the same as
r(u') > r(u) + log w with the log ratio r(u) = log π̂(u) + |u|²/2. That is Algorithm 3 with r in place
of the log likelihood: one arc serves both, and only r depends on what is sampled.
"""

from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr

from tessmc._types import Count, Key, Point, Scalar, Truth
from tessmc.kernels._law import GAUSSIAN, AbstractLaw


class ChainState(NamedTuple):
    """Where a chain stands: a point in both spaces and the values that were paid for there."""

    reference: Point
    position: Point
    log_density: Scalar
    log_ratio: Scalar


class Arc(NamedTuple):
    """The stretch of an ellipse still to be searched, and what the search met so far.

    Attributes:
        is_fresh: the try is not of an ellipse but of `reference` itself, an independent point (see `begin`).
    """

    key: Key
    reference: Point
    momentum: Point
    log_height: Scalar
    angle: Scalar
    lower: Scalar
    upper: Scalar
    is_fresh: Truth
    num_tries: Count
    num_nan: Count
    num_infinite: Count


def begin(key: Key, state: ChainState, law: AbstractLaw = GAUSSIAN, first_try: Truth | bool = False) -> Arc:
    """Draw the slice, the ellipse and the first angle (Algorithm 1, lines 1-5).

    Departs from the paper with `first_try`: the first point tried is then a fresh u ~ φ, and only if it lies outside
    the slice an ellipse is searched, at the same height. Given the height, a fresh point succeeds with a chance that
    does not depend on where the chain is: the move is a fixed mixture of an exact draw from the slice and Algorithm 1.
    """
    key_aim, log_height = draw_slice(key, state)
    return aim(key_aim, state, log_height, law, first_try)


def draw_slice(key: Key, state: ChainState) -> tuple[Key, Scalar]:
    """A height below the chain's log ratio (line 3), and the key of what follows."""
    key_height, key_aim = jr.split(key)
    # A chain that stands at a NaN takes whatever is finite.
    log_ratio = jnp.where(jnp.isnan(state.log_ratio), -jnp.inf, state.log_ratio)
    # The log of a uniform is minus a standard exponential.
    return key_aim, log_ratio - jr.exponential(key_height, dtype=state.reference.dtype)


def aim(key: Key, state: ChainState, log_height: Scalar, law: AbstractLaw, is_fresh: Truth | bool) -> Arc:
    """What is to be searched at a height: an ellipse through the chain (lines 2, 4 and 5), or one fresh point."""
    key_vector, key_angle, key_rest = jr.split(key, 3)
    vector = law.draw(key_vector, state.reference, is_fresh)
    angle = jr.uniform(key_angle, dtype=state.reference.dtype, maxval=2 * jnp.pi)
    # At the angle 0 an ellipse is at its reference point.
    reference = jnp.where(is_fresh, vector, state.reference)
    angle = jnp.where(is_fresh, 0, angle)
    counts = (jnp.int32(0), jnp.int32(0), jnp.int32(0))
    return Arc(
        key_rest, reference, vector, log_height, angle, angle - 2 * jnp.pi, angle, jnp.asarray(is_fresh), *counts
    )


def keep_counts(arc: Arc, before: Arc) -> Arc:
    """An arc that goes on with the search of another: what was met there still counts."""
    return arc._replace(num_tries=before.num_tries, num_nan=before.num_nan, num_infinite=before.num_infinite)


def ask(arc: Arc) -> Point:
    """The reference point at which the target is needed next (line 6)."""
    return arc.reference * jnp.cos(arc.angle) + arc.momentum * jnp.sin(arc.angle)


def tell(arc: Arc, log_ratio: Scalar) -> tuple[Truth, Arc]:
    """Inside the slice? And the arc left to search if not (lines 8 and 12-18)."""
    # With `>` a NaN is outside the slice. So is +inf: a chain would never leave it again.
    is_inside = (log_ratio > arc.log_height) & (log_ratio < jnp.inf)
    lower = jnp.where(arc.angle < 0, arc.angle, arc.lower)
    upper = jnp.where(arc.angle < 0, arc.upper, arc.angle)
    num_tries = arc.num_tries + 1
    key = jr.fold_in(arc.key, num_tries)
    return is_inside, arc._replace(
        angle=jr.uniform(key, dtype=lower.dtype, minval=lower, maxval=upper),
        lower=lower,
        upper=upper,
        num_tries=num_tries,
        num_nan=arc.num_nan + jnp.isnan(log_ratio),
        num_infinite=arc.num_infinite + (log_ratio == jnp.inf),
    )
