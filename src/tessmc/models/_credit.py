"""Sparse logistic regression of the German credit data, Section 4.2."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro.distributions import constraints

from tessmc._types import Scalar
from tessmc.models._data import read_table
from tessmc.targets import Target


def sparse_logistic() -> Target:
    """Y ~ Bernoulli(σ(X (τ λ ⊙ β))), β ~ N(0, I), λⱼ and τ ~ Gamma(1/2, rate 1/2); d = 51.

    Non-centred. Features are scaled linearly to [-1, 1] after a column of ones, y = 1 is good. λ and τ are sampled
    on the log scale.
    """
    table = read_table("german_credit_numeric.csv")
    features, labels = table[:, :-1], table[:, -1] == 1
    low, high = features.min(axis=0), features.max(axis=0)
    design = np.column_stack([np.ones(len(features)), 2 * (features - low) / (high - low) - 1])
    size = design.shape[1]
    like = {"beta": jnp.zeros(size), "lambda": jnp.ones(size), "tau": jnp.ones(())}
    support = {"beta": constraints.real, "lambda": constraints.positive, "tau": constraints.positive}
    # Each row with the sign of its label: the log likelihood is then one softplus.
    signed = jnp.asarray(np.where(labels, 1, -1)[:, None] * design, float)
    return Target(_log_density, like, support=support, data=(signed,))


def _log_density(position: dict[str, Array], signed: Array) -> Scalar:
    beta, scales, scale = position["beta"], position["lambda"], position["tau"]
    log_likelihood = -jnp.sum(jax.nn.softplus(-(signed @ (scale * scales * beta))))
    return log_likelihood - jnp.sum(beta**2) / 2 + jnp.sum(_log_gamma(scales)) + _log_gamma(scale)


def _log_gamma(value: Array) -> Array:
    """Log Gamma(value; 1/2, rate 1/2), less its constant."""
    return -(jnp.log(value) + value) / 2
