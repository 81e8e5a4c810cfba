"""Biochemical oxygen demand, Section 4.1."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpyro.distributions import constraints

from tessmc._types import Scalar
from tessmc.targets import Target

VARIANCE = 2e-4


def oxygen_data() -> tuple[np.ndarray, np.ndarray]:
    """20 times, evenly spaced in [0, 5), and the demand 1 - exp(-t/10) there with noise N(0, 2e-4)."""
    times = np.arange(20) / 4
    noise = np.random.default_rng(0).standard_normal(20)
    return times, 1 - np.exp(-times / 10) + np.sqrt(VARIANCE) * noise


def oxygen() -> Target:
    """y(t) ~ N(θ₀(1 - exp(-θ₁t)), 2e-4), with θ₀ uniform on (0, 5) and θ₁ on (0, 1).

    Departs from the paper, whose flat prior on the plane makes the posterior improper: see `oxygen_flat`.
    """
    support = {"theta0": constraints.interval(0.0, 5.0), "theta1": constraints.unit_interval}
    return Target(_log_density, {"theta0": jnp.ones(()), "theta1": jnp.full((), 0.1)}, support=support, data=_data())


def oxygen_flat() -> Target:
    """Section 4.1 as printed: the same likelihood with a flat prior on the plane.

    As θ₀ → ∞ with θ₀θ₁ fixed the likelihood tends to that of a straight line: the posterior cannot be normalised.
    """
    return Target(_log_density, {"theta0": jnp.ones(()), "theta1": jnp.full((), 0.1)}, data=_data())


def _data() -> tuple[Array, Array]:
    times, demand = oxygen_data()
    return jnp.asarray(times, float), jnp.asarray(demand, float)


def _log_density(position: dict[str, Array], times: Array, demand: Array) -> Scalar:
    expected = -position["theta0"] * jnp.expm1(-position["theta1"] * times)
    return -jnp.sum((demand - expected) ** 2) / (2 * VARIANCE)
