"""The shrinking ellipse that Algorithms 1 and 3 share: `begin`, `ask`, `tell`.

A rotation keeps |u|² + |v|², so line 8 of Algorithm 1, log π̂(u') + log φ(v') > log s, is the same as
r(u') > r(u) + log w with the log ratio r(u) = log π̂(u) + |u|²/2. That is Algorithm 3 with r in place
of the log likelihood: one arc serves both, and only r depends on what is sampled.
"""

from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Int

from tessmc._types import Count, Key, Point, Scalar, Truth
from tessmc.kernels._law import GAUSSIAN, AbstractLaw


class ChainState(NamedTuple):
    """Where a chain stands: a point in both spaces and the values that were paid for there."""

    reference: Point
    position: Point
    log_density: Scalar
    log_ratio: Scalar


class Arc(NamedTuple):
    """The stretch of an ellipse still to be searched, and what the search met so far."""

    key: Key
    reference: Point
    momentum: Point
    log_height: Scalar
    angle: Scalar
    lower: Scalar
    upper: Scalar
    num_tries: Count
    num_nan: Count
    num_infinite: Count


def begin(key: Key, state: ChainState, law: AbstractLaw = GAUSSIAN, is_fresh: Truth | bool = False) -> Arc:
    """Draw the ellipse, the slice and the first angle (Algorithm 1, lines 1-5).

    Departs from the paper with `is_fresh`: the first point tried is then a fresh u ~ φ, and only if it lies outside
    the slice an ellipse is searched, at the same height. Given the height, a fresh point succeeds with a chance that
    does not depend on where the chain is: the move is a fixed mixture of an exact draw from the slice and Algorithm 1.
    """
    key_vector, key_height, key_angle, key_rest = jr.split(key, 4)
    dtype = state.reference.dtype
    vector = law.draw(key_vector, state.reference, is_fresh)
    # A chain that stands at a NaN takes whatever is finite.
    log_ratio = jnp.where(jnp.isnan(state.log_ratio), -jnp.inf, state.log_ratio)
    # The log of a uniform is minus a standard exponential.
    log_height = log_ratio - jr.exponential(key_height, dtype=dtype)
    # At the angle 0 an ellipse is at its reference point.
    reference = jnp.where(is_fresh, vector, state.reference)
    angle = jnp.where(is_fresh, 0, jr.uniform(key_angle, dtype=dtype, maxval=2 * jnp.pi))
    counts = (jnp.int32(0), jnp.int32(0), jnp.int32(0))
    return Arc(key_rest, reference, vector, log_height, angle, angle - 2 * jnp.pi, angle, *counts)


def has_missed(num_tries: Int[Array, "..."], first_try: Truth | bool) -> Bool[Array, "..."]:
    """Whether the try that `tell` has just heard of, if it lay outside, was a fresh point: the first of a search."""
    return first_try & (num_tries == 1)


def go_on(arc: Arc, before: Arc) -> Arc:
    """The search of another arc, carried on along this one: at the same height, and what was met there counts."""
    return arc._replace(
        log_height=before.log_height,
        num_tries=before.num_tries,
        num_nan=before.num_nan,
        num_infinite=before.num_infinite,
    )


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
