"""Algorithm 1: the transport elliptical slice sampler."""

from collections.abc import Callable

import equinox as eqx
from flowjax.bijections import AbstractBijection

from tessmc._types import Point, Scalar, Truth
from tessmc.kernels._arc import ChainState
from tessmc.kernels._kernel import MAX_TRIES, AbstractSliceKernel, Pushed, as_state
from tessmc.kernels._law import GAUSSIAN, AbstractLaw


class TransportEllipticalSlice(AbstractSliceKernel):
    """Algorithm 1: any density π, moved in the reference space of a transport map T.

    Args:
        log_density: log π up to a constant, of a vector (dim,).
        transport: T, a FlowJAX bijection of shape (dim,) that pushes u to x.
        max_tries: the bound on density evaluations in one transition.
        law: φ, the law of the reference space. Departs from the paper if it is not Gaussian.
        bridge: makes of log π(x), x and log φ̂(x) the log density that is sampled, such as a tempered one; None for π
            itself.
        first_try: try a fresh point before each ellipse. Departs from the paper; see `begin`.
    """

    log_density: Callable[[Point], Scalar]
    transport: AbstractBijection
    max_tries: int = eqx.field(static=True)
    law: AbstractLaw
    first_try: Truth | bool
    bridge: Callable[[Scalar, Point, Scalar], Scalar] | None

    def __init__(
        self,
        log_density: Callable[[Point], Scalar],
        transport: AbstractBijection,
        max_tries: int = MAX_TRIES,
        law: AbstractLaw = GAUSSIAN,
        first_try: Truth | bool = False,
        bridge: Callable[[Scalar, Point, Scalar], Scalar] | None = None,
    ):
        self.log_density = log_density
        self.transport = transport
        self.max_tries = max_tries
        self.law = law
        self.first_try = first_try
        self.bridge = bridge

    def push(self, reference: Point) -> Pushed:
        return Pushed(reference, *self.transport.transform_and_log_det(reference))

    def value(self, position: Point) -> Scalar:
        return self.log_density(position)

    def weigh(self, pushed: Pushed, value: Scalar) -> ChainState:
        """Log π̂(u) = log π(T(u)) + log |det ∇T(u)| (2), and r(u) = log π̂(u) - log φ(u)."""
        reference, position, log_det = pushed
        log_pushed = self.law.log_density(reference) - log_det
        sampled = value if self.bridge is None else self.bridge(value, position, log_pushed)
        return as_state(reference, position, value, sampled - log_pushed)

    def recall(self, position: Point, log_density: Scalar) -> ChainState:
        """The state of a chain at a position whose log density is known: nothing is paid for."""
        reference, log_det = self.transport.inverse_and_log_det(position)
        return self.weigh(Pushed(reference.astype(position.dtype), position, -log_det), log_density)

    def pull(self, position: Point) -> Point:
        return self.transport.inverse(position)
