"""A hidden Markov model of two regimes in Google's stock, Section 4.3."""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array
from numpyro.distributions import constraints

from tessmc._types import Scalar
from tessmc.models._data import read_table
from tessmc.targets import Target


def regime_switching(alpha_scale: float = 0.1) -> Target:
    """Weekly returns in per cent: r_t ~ N(α₁, σ₁²) in one regime, N(α₂ + ρ r_{t-1}, σ₂²) in the other; d = 9.

    α₁, α₂ ~ N(0, `alpha_scale`²), ρ ~ N(1, 0.1²) above 0, σ ~ half-Cauchy(1), p₁₁ and p₂₂ ~ Beta(10, 2),
    r₀ ~ N(0, 1), ξ₁₀ ~ Beta(2, 2). The regimes are summed out by a filter in log space.

    Departs from the paper, whose text has α ~ N(0, 1): 0.1 and the factor 100 are those of its program.
    """
    like = {
        "alpha": jnp.zeros(2),
        "rho": jnp.ones(()),
        "sigma": jnp.ones(2),
        "stay": jnp.full(2, 0.8),
        "r0": jnp.zeros(()),
        "xi0": jnp.full((), 0.5),
    }
    support = {
        "alpha": constraints.real,
        "rho": constraints.positive,
        "sigma": constraints.positive,
        "stay": constraints.unit_interval,
        "r0": constraints.real,
        "xi0": constraints.unit_interval,
    }
    returns = jnp.asarray(100 * read_table("google_returns.csv")[:, 0], float)
    return Target(_log_density, like, support=support, data=(returns, jnp.asarray(alpha_scale, float)))


def _log_density(position: dict[str, Array], returns: Array, alpha_scale: Scalar) -> Scalar:
    before = jnp.concatenate([position["r0"][None], returns[:-1]])
    (alpha_1, alpha_2), (sigma_1, sigma_2) = position["alpha"], position["sigma"]
    log_normals = jnp.stack(
        [norm.logpdf(returns, alpha_1, sigma_1), norm.logpdf(returns, alpha_2 + position["rho"] * before, sigma_2)], 1
    )
    stay, xi = position["stay"], position["xi0"]
    # Row j: from regime j to either.
    log_moves = jnp.array([[jnp.log(stay[0]), jnp.log1p(-stay[0])], [jnp.log1p(-stay[1]), jnp.log(stay[1])]])

    def pass_week(log_regimes: Array, log_normal: Array) -> tuple[Array, Scalar]:
        joint = jnp.logaddexp(log_regimes[0] + log_moves[0], log_regimes[1] + log_moves[1]) + log_normal
        evidence = jnp.logaddexp(joint[0], joint[1])
        return joint - evidence, evidence

    start = jnp.array([jnp.log(xi), jnp.log1p(-xi)])
    log_likelihood = jnp.sum(jax.lax.scan(pass_week, start, log_normals)[1])
    log_prior = (
        jnp.sum(norm.logpdf(position["alpha"], 0, alpha_scale))
        + norm.logpdf(position["rho"], 1, 0.1)
        - jnp.sum(jnp.log1p(position["sigma"] ** 2))
        + jnp.sum(9 * jnp.log(stay) + jnp.log1p(-stay))
        + norm.logpdf(position["r0"])
        + jnp.log(xi)
        + jnp.log1p(-xi)
    )
    return log_likelihood + log_prior
