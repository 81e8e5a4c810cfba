"""Algorithm 3: the elliptical slice sampler of Murray, Adams and MacKay (2010)."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, ArrayLike, Float

from tessmc._types import Point, Scalar, Truth
from tessmc.kernels._arc import ChainState
from tessmc.kernels._kernel import MAX_TRIES, AbstractSliceKernel, Pushed, as_state
from tessmc.kernels._law import GAUSSIAN, AbstractLaw, log_normal


class EllipticalSlice(AbstractSliceKernel):
    """Algorithm 3: posteriors L(x) N(x; mean, covariance) with a Gaussian prior.

    The arc lives in the reference space u of x = mean + C u, where C Cᵀ is the covariance and the prior
    is N(0, I), "shift and scale x if non-standard" (Section 2.1).
    """

    log_likelihood: Callable[[Point], Scalar]
    mean: Point
    cholesky: Float[Array, "dim dim"]
    max_tries: int = eqx.field(static=True)
    law: AbstractLaw
    first_try: Truth | bool

    def __init__(
        self,
        log_likelihood: Callable[[Point], Scalar],
        mean: ArrayLike,
        covariance: ArrayLike,
        max_tries: int = MAX_TRIES,
    ):
        """Args: a log likelihood, the prior's mean (dim,) and its covariance (dim, dim)."""
        mean, covariance = jnp.asarray(mean, float), jnp.asarray(covariance, float)
        if mean.ndim != 1 or covariance.shape != 2 * mean.shape:
            raise ValueError(
                f"a prior mean of shape {mean.shape} and a covariance of shape {covariance.shape} do not fit; "
                "pass shapes (dim,) and (dim, dim)"
            )
        self.log_likelihood = log_likelihood
        self.mean = mean
        self.cholesky = jnp.linalg.cholesky(covariance)
        if not isinstance(self.cholesky, jax.core.Tracer) and not jnp.all(jnp.isfinite(self.cholesky)):
            raise ValueError("the prior covariance is not positive definite: it has no Cholesky factor")
        self.max_tries = max_tries
        self.law = GAUSSIAN
        self.first_try = False

    def push(self, reference: Point) -> Pushed:
        # The map is linear: its log-determinant is a constant, and left out.
        return Pushed(reference, self.mean + self.cholesky @ reference, jnp.zeros((), reference.dtype))

    def value(self, position: Point) -> Scalar:
        return self.log_likelihood(position)

    def weigh(self, pushed: Pushed, value: Scalar) -> ChainState:
        return as_state(pushed.reference, pushed.position, value + log_normal(pushed.reference), value)

    def pull(self, position: Point) -> Point:
        return solve_triangular(self.cholesky, position - self.mean, lower=True).astype(position.dtype)
