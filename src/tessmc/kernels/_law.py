"""The law of reference points: N(0, I), or a Student-t for targets with heavier tails."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.special import gammaln
from jaxtyping import Array, ArrayLike, Int

from tessmc._types import Count, Key, Point, Scalar, Truth

# Above this a Student-t is taken for a Gaussian.
MAX_DOF = 64


class AbstractLaw(eqx.Module):
    """φ: the law that a perfect map pulls the target back to, invariant under rotations."""

    @abstractmethod
    def log_density(self, reference: Point) -> Scalar:
        """Log φ(u) up to its constant."""

    @abstractmethod
    def log_constant(self, dim: int) -> Scalar:
        """What `log_density` lacks of the logarithm of a density that integrates to one."""

    @abstractmethod
    def draw(self, key: Key, reference: Point, is_fresh: Truth | bool) -> Point:
        """The momentum of an ellipse through `reference`, or, if that is asked for, a fresh point u ~ φ."""


class Gaussian(AbstractLaw):
    """φ = N(0, I), the law of the paper."""

    def log_density(self, reference: Point) -> Scalar:
        return log_normal(reference)

    def log_constant(self, dim: int) -> Scalar:
        return -dim / 2 * jnp.log(2 * jnp.pi)

    def draw(self, key: Key, reference: Point, is_fresh: Truth | bool) -> Point:  # noqa: ARG002
        # Momenta and fresh points have the same law.
        return jr.normal(key, reference.shape, reference.dtype)


GAUSSIAN = Gaussian()


class StudentT(AbstractLaw):
    """φ = t_ν, for generalised elliptical slice sampling (Nishihara, Murray & Adams 2014).

    t_ν is a Gaussian of random variance τ. Given u, that variance is (ν + |u|²)/χ² with ν + d degrees of freedom;
    with τ drawn, the ellipse is that of N(0, τI).

    Args:
        dof: ν, a whole number up to 64, or 0 for the Gaussian limit. It may be traced: one program serves all.
        scale: by which the law is wider than the standard one.
    """

    dof: Int[Array, ""]
    scale: Scalar

    def __init__(self, dof: ArrayLike, scale: ArrayLike = 1):
        self.dof = jnp.asarray(dof, jnp.int32)
        self.scale = jnp.asarray(scale, jnp.float32)

    def log_density(self, reference: Point) -> Scalar:
        standard = self._standard(reference)
        dof, dim = jnp.maximum(self.dof, 1).astype(standard.dtype), len(standard)
        student = -(dof + dim) / 2 * jnp.log1p(jnp.sum(standard**2) / dof)
        return jnp.where(self.dof > 0, student, log_normal(standard))

    def log_constant(self, dim: int) -> Scalar:
        dof = jnp.maximum(self.dof, 1).astype(self.scale.dtype)
        student = gammaln((dof + dim) / 2) - gammaln(dof / 2) - dim / 2 * jnp.log(dof * jnp.pi)
        return jnp.where(self.dof > 0, student, GAUSSIAN.log_constant(dim)) - dim * jnp.log(self.scale)

    def draw(self, key: Key, reference: Point, is_fresh: Truth | bool) -> Point:
        key_normal, key_variance = jr.split(key)
        normal = jr.normal(key_normal, reference.shape, reference.dtype)
        dim, dtype = len(reference), reference.dtype
        dof = self.dof + jnp.where(is_fresh, 0, dim)
        size = self.dof + jnp.where(is_fresh, 0, jnp.sum(self._standard(reference) ** 2))
        variance = size.astype(dtype) / chi_square(key_variance, dof, MAX_DOF + dim, dtype)
        return normal * self.scale.astype(dtype) * jnp.where(self.dof > 0, jnp.sqrt(variance), 1)

    def _standard(self, reference: Point) -> Point:
        return reference / self.scale.astype(reference.dtype)


def chi_square(key: Key, dof: Count, max_dof: int, dtype: jnp.dtype) -> Scalar:
    """A draw of χ² with a traced whole number of degrees of freedom, at least one.

    Two degrees are twice a standard exponential, an odd one is the square of a normal: unlike a general gamma
    sampler, this needs no rejection.
    """
    key_pairs, key_odd = jr.split(key)
    pairs = jr.exponential(key_pairs, (max_dof // 2,), dtype)
    odd = jr.normal(key_odd, (), dtype) ** 2
    return 2 * jnp.sum(jnp.where(jnp.arange(max_dof // 2) < dof // 2, pairs, 0)) + jnp.where(dof % 2 == 1, odd, 0)


def log_normal(reference: Point) -> Scalar:
    """Log of N(0, I) at a point, up to its constant."""
    return -jnp.sum(reference**2) / 2
