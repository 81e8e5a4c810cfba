"""What is minimised: (5), (6), and their relatives of lower variance."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, Float

from tessmc._types import Point, Points, Scalar
from tessmc.kernels import AbstractLaw, log_normal

MAX_WEIGHT = 16.0
# Nats.
FAR = 4.0


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


def ratios_along_path(
    transport: AbstractBijection, law: AbstractLaw, log_density: Callable[[Point], Scalar], references: Points
) -> Float[Array, " draw"]:
    """R = log π - log φ̂ at x = T(u), to be differentiated along that path alone, with log φ̂ as a function of x fixed.

    What is left out of the gradient of KL(φ̂‖π), E ∇ψ log φ̂(x) at fixed x, is zero; its noise would not be. So the
    gradient vanishes at every single point where the map is perfect (Roeder, Wu and Duvenaud 2017).
    """
    positions = jax.vmap(transport.transform)(references)
    return jax.vmap(log_density)(positions) - log_pushed(_fixed(transport), law, positions)


def divergences_by_path(log_ratios: Float[Array, " draw"], share: Scalar) -> Scalar:
    """(1 - share) KL(φ̂‖π) + share KL(π‖φ̂), of `ratios_along_path` at draws of φ.

    The gradient of the second is that of the first with draws weighed by π/φ̂ (Tucker et al. 2019); no draw counts more
    than `MAX_WEIGHT` times.
    """
    # Beyond a wall there is no gradient to follow.
    is_inside = jnp.isfinite(log_ratios)
    known = jax.lax.stop_gradient(jnp.where(is_inside, log_ratios, -jnp.inf))
    weights = jnp.exp(known - jnp.max(known))
    weights = jnp.minimum(weights / jnp.mean(weights), MAX_WEIGHT)
    return -jnp.mean((1 - share + share * weights) * jnp.where(is_inside, log_ratios, 0))


def kl_from_target_by_path(log_ratios: Float[Array, " draw"], usual: Scalar) -> Scalar:
    """KL(π‖φ̂), of `ratios_along_path` at the u of draws from π (Vaitl et al. 2022).

    Draws of another law do as well, since a perfect map is perfect at each of them. Where r is more than `FAR` nats
    above what is usual, its slope counts for less, as much as if r went on in proportion.
    """
    is_inside = jnp.isfinite(log_ratios)
    away = jax.lax.stop_gradient(jnp.where(is_inside, log_ratios, 0) - usual)
    return -jnp.mean(jnp.where(is_inside, log_ratios, 0) / jnp.maximum(1, away / FAR))


def references_of(transport: AbstractBijection, positions: Points) -> Points:
    """The u of every position, as points that do not move with the map."""
    return jax.vmap(_fixed(transport).inverse)(positions)


def _fixed(transport: AbstractBijection) -> AbstractBijection:
    return jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, transport)


def log_pushed(transport: AbstractBijection, law: AbstractLaw, positions: Points) -> Float[Array, " draw"]:
    """Log φ̂(x), the reference pushed through the map, at every position; up to the constant of φ."""
    return pulled(transport, law, positions)[1]


def pulled(transport: AbstractBijection, law: AbstractLaw, positions: Points) -> tuple[Points, Float[Array, " draw"]]:
    """Every position's u, and log φ̂(x) there."""
    references, log_dets = jax.vmap(transport.inverse_and_log_det)(positions)
    return references, jax.vmap(law.log_density)(references) + log_dets


def log_variance(log_ratios: Float[Array, " draw"]) -> Scalar:
    """How far the log ratio is from constant: the mean of Huber's function of r - median r.

    Zero for a perfect map whatever the draws, and so are its gradients: no noise is left where the map is good.
    """
    return jnp.mean(huber(log_ratios - jax.lax.stop_gradient(jnp.median(log_ratios))))


def huber(away: Any) -> Any:
    """Half the square up to 2, and a straight line from there; of an array of JAX or of NumPy."""
    near = abs(away).clip(max=2)
    return near**2 / 2 + 2 * (abs(away) - near)
