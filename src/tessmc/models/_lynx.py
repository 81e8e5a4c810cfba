"""Predator and prey, Section 4.4."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array
from numpyro.distributions import constraints

from tessmc._types import Scalar
from tessmc.models._data import read_table
from tessmc.targets import Target

# Hare and lynx from 1900 to 1920, in thousands of pelts (Hewitt 1921, by way of the case study of Carpenter 2018).
HARE = (30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1,
        40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7)  # fmt: skip
LYNX = (4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4,
        8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6)  # fmt: skip
# e²⁰ thousand pelts: no population comes near, and no step overflows.
MAX_LOG = 20.0


def predator_prey(years: str = "1845_1935", steps_a_year: int = 10) -> Target:
    """The Lotka-Volterra system p' = αp - βpq, q' = -γq + δpq, seen with noise on the log scale; d = 8.

    Priors: α, γ ~ N(1, 0.5²) and β, δ ~ N(0.05, 0.05²), above 0; log σ ~ N(-1, 1); log p(0), log q(0) ~ N(log 10, 1).
    The system is solved in log p and log q by the classical Runge-Kutta method.

    Args:
        years: "1845_1935", the paper's 91 rows, or "1900_1920", the 21 rows of the well-known case study.
        steps_a_year: of the Runge-Kutta method.
    """
    if years not in ("1845_1935", "1900_1920"):
        raise ValueError(f"`years` should be '1845_1935' or '1900_1920', but is {years!r}")
    pelts = read_table("lynx_hare_1845_1935.csv")[:, 1:] if years == "1845_1935" else np.column_stack([HARE, LYNX])
    names = ("alpha", "beta", "gamma", "delta", "p0", "q0", "sigma_p", "sigma_q")
    typical = (1.0, 0.05, 1.0, 0.05, 10.0, 10.0, 0.4, 0.4)
    like = {name: jnp.full((), value) for name, value in zip(names, typical, strict=True)}
    support = dict.fromkeys(names, constraints.positive)
    observed = jnp.log(jnp.asarray(pelts, float))

    def log_density(position: dict[str, Array], observed: Array) -> Scalar:
        noise = jnp.stack([position["sigma_p"], position["sigma_q"]])[None, :]
        populations = solve(position, len(observed), steps_a_year)
        return jnp.sum(norm.logpdf(observed, populations, noise)) + log_prior(position)

    return Target(log_density, like, support=support, data=(observed,))


def solve(position: dict[str, Array], num_years: int, steps_a_year: int) -> Array:
    """(log p, log q) at the years 0, 1, ..., one row each."""
    birth = jnp.stack([position["alpha"], -position["gamma"]])
    meeting = jnp.stack([-position["beta"], position["delta"]])
    size = 1 / steps_a_year

    def slope(state: Array) -> Array:
        return birth + meeting * jnp.exp(jnp.minimum(state[::-1], MAX_LOG))

    def step(state: Array, _: None) -> tuple[Array, None]:
        first = slope(state)
        second = slope(state + size / 2 * first)
        third = slope(state + size / 2 * second)
        fourth = slope(state + size * third)
        state = state + size / 6 * (first + 2 * second + 2 * third + fourth)
        return jnp.clip(state, -1e6, MAX_LOG), None

    def pass_year(state: Array, _: None) -> tuple[Array, Array]:
        return jax.lax.scan(step, state, None, steps_a_year)[0], state

    start = jnp.log(jnp.stack([position["p0"], position["q0"]]))
    return jax.lax.scan(pass_year, start, None, num_years)[1]


def log_prior(position: dict[str, Array]) -> Scalar:
    """The densities above, in the variables themselves; truncation's constants are left out."""

    def log_lognormal(value: Array, mean: float) -> Array:
        return norm.logpdf(jnp.log(value), mean, 1) - jnp.log(value)

    return (
        norm.logpdf(position["alpha"], 1, 0.5)
        + norm.logpdf(position["gamma"], 1, 0.5)
        + norm.logpdf(position["beta"], 0.05, 0.05)
        + norm.logpdf(position["delta"], 0.05, 0.05)
        + log_lognormal(position["p0"], math.log(10))
        + log_lognormal(position["q0"], math.log(10))
        + log_lognormal(position["sigma_p"], -1.0)
        + log_lognormal(position["sigma_q"], -1.0)
    )
