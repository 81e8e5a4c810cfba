"""What is minimised: (5) and (6)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flowjax.bijections import AbstractBijection

from tessmc._types import Point, Points, Scalar
from tessmc.kernels import log_normal


def kl_from_target(transport: AbstractBijection, positions: Points) -> Scalar:
    """KL(π‖φ̂) averaged over draws from π (5), less what ψ cannot move: the entropy of π, constants."""
    references, log_dets = jax.vmap(transport.inverse_and_log_det)(positions)
    return -jnp.mean(jax.vmap(log_normal)(references) + log_dets)


def kl_from_reference(
    transport: AbstractBijection, log_density: Callable[[Point], Scalar], references: Points
) -> Scalar:
    """KL(φ‖π̂) averaged over draws from φ (6), less what ψ cannot move: the entropy of φ, constants."""
    positions, log_dets = jax.vmap(transport.transform_and_log_det)(references)
    return -jnp.mean(jax.vmap(log_density)(positions) + log_dets)
