"""One transition of one chain, for every kernel whose moves are arcs."""

from abc import abstractmethod
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from tessmc._types import Count, Key, Point, Scalar, Truth
from tessmc.kernels._arc import Arc, ChainState, ask, begin, go_on, has_missed, tell
from tessmc.kernels._law import AbstractLaw

T = TypeVar("T")

# A try shrinks the bracket by a third and more on average: a hundred reach below the spacing of floats.
MAX_TRIES = 100


class StepInfo(NamedTuple):
    """What one transition cost and met.

    Attributes:
        num_tries: density evaluations, the accepted one included.
        num_nan: tries at which the log ratio was NaN; they are outside the slice.
        num_infinite: tries at which it was +inf, which no density is; they are outside too.
        is_stuck: the bound on tries was reached and the chain stayed where it was.
    """

    num_tries: Count
    num_nan: Count
    num_infinite: Count
    is_stuck: Truth


class Pushed(NamedTuple):
    """A point in both spaces, and log |det ∇T| there."""

    reference: Point
    position: Point
    log_det: Scalar


class AbstractSliceKernel(eqx.Module):
    """A kernel that moves along arcs in a reference space.

    Attributes:
        law: φ, the law of that space.
        first_try: whether a fresh point is tried before each ellipse; False, or a truth value that may be traced.
    """

    max_tries: eqx.AbstractVar[int]
    law: eqx.AbstractVar[AbstractLaw]
    first_try: eqx.AbstractVar[Truth | bool]

    @abstractmethod
    def push(self, reference: Point) -> Pushed:
        """The position of a reference point: where the target is needed."""

    @abstractmethod
    def value(self, position: Point) -> Scalar:
        """What is paid for: one density evaluation."""

    @abstractmethod
    def weigh(self, pushed: Pushed, value: Scalar) -> ChainState:
        """The state of a chain at a point whose value is known."""

    def evaluate(self, reference: Point) -> ChainState:
        """Push a reference point and pay for the target there."""
        pushed = self.push(reference)
        return self.weigh(pushed, self.value(pushed.position))

    @abstractmethod
    def pull(self, position: Point) -> Point:
        """The reference point of a position."""

    def __hash__(self) -> int:
        # Arrays have no hash, but `jax.jit(kernel.step)` asks for one: a kernel is known by its identity.
        return id(self)

    def init(self, position: Point) -> ChainState:
        """The state of a chain that starts at `position`: one density evaluation."""
        return self.evaluate(self.pull(position))

    def step(self, key: Key, state: ChainState) -> tuple[ChainState, StepInfo]:
        """Move a chain once: Algorithm 1, or Algorithm 3, from its first line to its last."""

        def is_searching(carry: tuple[Truth, Arc, ChainState]) -> Truth:
            is_inside, arc, _ = carry
            return ~is_inside & (arc.num_tries < self.max_tries)

        def search(carry: tuple[Truth, Arc, ChainState]) -> tuple[Truth, Arc, ChainState]:
            _, arc, _ = carry
            tried = self.evaluate(ask(arc))
            is_inside, arc = tell(arc, tried.log_ratio)
            if self.first_try is not False:
                ellipse = go_on(begin(arc.key, state, self.law), arc)
                arc = choose(has_missed(arc.num_tries, self.first_try), ellipse, arc)
            return is_inside, arc, tried

        start = (jnp.bool(False), begin(key, state, self.law, self.first_try), state)
        is_inside, arc, tried = lax.while_loop(is_searching, search, start)
        info = StepInfo(arc.num_tries, arc.num_nan, arc.num_infinite, ~is_inside)
        # Staying at the bound is reversible: a move and its reverse take the same number of tries.
        return choose(is_inside, tried, state), info


def as_state(reference: Point, position: Array, log_density: Array, log_ratio: Array) -> ChainState:
    """A state in the precision of its reference point, whatever that of the map or the density."""
    values = (value.astype(reference.dtype) for value in (position, log_density, log_ratio))
    return ChainState(reference, *values)


def choose(condition: Truth, if_true: T, if_false: T) -> T:
    """`jnp.where` over all leaves of two like trees."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), if_true, if_false)
