"""Models written twice, in NumPyro and in PyMC, and what they have in common."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
GROUP = np.repeat(np.arange(6), 5)
AGE = np.tile(np.linspace(-1, 1, 5), 6)
HEIGHT = 1.5 + 0.7 * AGE + np.array([0.5, -0.6, 0.1, 0.9, -0.3, -0.4])[GROUP] + 0.3 * np.sin(7.0 * np.arange(30))
CLOUD = np.random.default_rng(3).multivariate_normal(np.zeros(3), [[1.0, 0.6, 0], [0.6, 2, -0.4], [0, -0.4, 0.5]], 25)
COUNTS = np.array([3, 12, 7, 20])


class Twins(NamedTuple):
    """A model in both languages.

    `chart` gives, of named values, as many coordinates as there are free ones, the same in both languages; `translate`
    makes the values of PyMC's free variables from those of NumPyro's sites.
    """

    numpyro: Callable[[], None]
    pymc: Callable[[], Any]
    chart: Callable[[dict[str, Any]], Any]
    translate: Callable[[dict[str, Any]], dict[str, Any]] = dict


def centred():
    # JAX remembers what it made of an array of NumPy, in whichever precision that was: these are met in both.
    y, scale = map(jnp.array, SCHOOLS)
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    # A smooth prior away from 0, so that the centred form, too, can be sampled well by those it is compared with.
    tau = numpyro.sample("tau", dist.LogNormal(1, 0.5))
    with numpyro.plate("school", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, scale), obs=y)


def centred_in_pymc():
    import pymc as pm

    y, scale = SCHOOLS
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.LogNormal("tau", 1, 0.5)
        theta = pm.Normal("theta", mu, tau, dims="school")
        pm.Normal("y", theta, scale, observed=y, dims="school")
    return model


def non_centred():
    y, scale = map(jnp.array, SCHOOLS)
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        z = numpyro.sample("z", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("y", dist.Normal(theta, scale), obs=y)


def non_centred_in_pymc():
    import pymc as pm

    y, scale = SCHOOLS
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, scale, observed=y, dims="school")
    return model


def regression():
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    mean = numpyro.sample("mean", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    noise = numpyro.sample("noise", dist.Exponential(1))
    with numpyro.plate("group", 6):
        level = numpyro.sample("level", dist.Normal(mean, spread))
    numpyro.sample("height", dist.Normal(level[GROUP] + slope * jnp.array(AGE), noise), obs=jnp.array(HEIGHT))


def regression_in_pymc():
    import pymc as pm

    with pm.Model(coords={"group": range(6)}) as model:
        slope = pm.Normal("slope", 0, 1)
        mean = pm.Normal("mean", 0, 2)
        spread = pm.HalfNormal("spread", 1)
        noise = pm.Exponential("noise", 1)
        level = pm.Normal("level", mean, spread, dims="group")
        pm.Normal("height", level[GROUP] + slope * AGE, noise, observed=HEIGHT)
    return model


def covariance():
    sd = numpyro.sample("sd", dist.Exponential(1).expand([3]).to_event(1))
    corr = numpyro.sample("corr", dist.LKJCholesky(3, 2.0))
    numpyro.deterministic("covariance", (sd[:, None] * corr) @ (sd[:, None] * corr).T)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(3), scale_tril=sd[:, None] * corr), obs=jnp.array(CLOUD))


def covariance_in_pymc():
    import pymc as pm

    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", eta=2.0, n=3, sd_dist=pm.Exponential.dist(1, shape=3))
        pm.Deterministic("covariance", chol @ chol.T)
        pm.MvNormal("y", np.zeros(3), chol=chol, observed=CLOUD)
    return model


def shares():
    p = numpyro.sample("p", dist.Dirichlet(jnp.array([1.0, 2, 1, 0.5])))
    numpyro.sample("counts", dist.Multinomial(int(COUNTS.sum()), p), obs=COUNTS)


def shares_in_pymc():
    import pymc as pm

    with pm.Model() as model:
        p = pm.Dirichlet("p", np.array([1.0, 2, 1, 0.5]))
        pm.Multinomial("counts", COUNTS.sum(), p, observed=COUNTS)
    return model


def packed(values):
    return {"chol": (values["sd"][:, None] * values["corr"])[np.tril_indices(3)]}


def of(*names):
    return lambda values: jnp.concatenate([jnp.ravel(values[name]) for name in names])


TWINS = {
    "eight schools, centred": Twins(centred, centred_in_pymc, of("mu", "tau", "theta")),
    "eight schools, non-centred": Twins(non_centred, non_centred_in_pymc, of("mu", "tau", "z")),
    "hierarchical regression": Twins(regression, regression_in_pymc, of("slope", "mean", "spread", "noise", "level")),
    "LKJ covariance": Twins(
        covariance, covariance_in_pymc, lambda values: values["covariance"][np.tril_indices(3)], packed
    ),
    "simplex": Twins(shares, shares_in_pymc, lambda values: values["p"][:-1]),
}
