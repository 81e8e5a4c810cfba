"""Seven posteriors of posteriordb as NumPyro models, sampled beside their reference.

python -m verify.posteriors NAME tessmc|nuts      one cold run, a line of JSON
python -m verify.posteriors                       all of them, as a table; 1 if TESS misses one
"""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.infer.util import log_density

import tessmc
from tessmc.models._lynx import solve


class Posterior(NamedTuple):
    """A model of its data, and its sites in the order in which they are reported."""

    file: str
    model: Callable[..., None]
    sites: tuple[str, ...]


def flat(name, support, shape=()):
    """An improper prior: 1 on the support."""
    return numpyro.sample(name, dist.ImproperUniform(support, (), shape))


def drive(u, v, alpha, tau, rho, **_):
    theta1 = numpyro.sample("theta1", dist.Dirichlet(alpha[0]))
    theta2 = numpyro.sample("theta2", dist.Dirichlet(alpha[1]))
    phi, lam = flat("phi", constraints.ordered_vector, (2,)), flat("lambda", constraints.ordered_vector, (2,))
    centres = jnp.array([0.0, 3.0])
    numpyro.factor("prior", dist.Normal(centres, 1).log_prob(phi).sum() + dist.Normal(centres, 1).log_prob(lam).sum())
    emissions = dist.Normal(phi, tau).log_prob(u[:, None]) + dist.Normal(lam, rho).log_prob(v[:, None])
    transition = jnp.log(jnp.stack([theta1, theta2]))

    def step(before, emission):
        return emission + jax.nn.logsumexp(before[:, None] + transition, axis=0), None

    last, _ = jax.lax.scan(step, emissions[0], emissions[1:])
    numpyro.factor("likelihood", jax.nn.logsumexp(last))


def garch(y, sigma1, **_):
    mu, alpha0 = flat("mu", constraints.real), flat("alpha0", constraints.positive)
    alpha1 = numpyro.sample("alpha1", dist.Uniform(0, 1))
    beta1 = numpyro.sample("beta1", dist.Uniform(0, 1 - alpha1))
    # Flat on the triangle.
    numpyro.factor("triangle", jnp.log1p(-alpha1))

    def step(variance, before):
        variance = alpha0 + alpha1 * (before - mu) ** 2 + beta1 * variance
        return variance, variance

    _, later = jax.lax.scan(step, sigma1**2 * jnp.ones_like(mu), y[:-1])
    variances = jnp.concatenate([sigma1**2 * jnp.ones(1), later])
    numpyro.sample("y", dist.Normal(mu, jnp.sqrt(variances)), obs=y)


def process(x, y, **_):
    rho = numpyro.sample("rho", dist.Gamma(25, 4))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    cov = alpha**2 * jnp.exp(-((x[:, None] - x[None]) ** 2) / (2 * rho**2)) + sigma * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), cov), obs=y)


def lynx(y_init, y, **_):
    rates = dist.TruncatedNormal(jnp.array([1, 0.05, 1, 0.05]), jnp.array([0.5, 0.05, 0.5, 0.05]), low=0)
    theta = numpyro.sample("theta", rates.to_event(1))
    z_init = numpyro.sample("z_init", dist.LogNormal(jnp.log(10) * jnp.ones(2), 1).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(-jnp.ones(2), 1).to_event(1))
    names = ("alpha", "beta", "gamma", "delta", "p0", "q0")
    position = dict(zip(names, map(jnp.asarray, [*theta, *z_init]), strict=True))
    populations = solve(position, len(y) + 1, 20)
    observed = jnp.concatenate([jnp.asarray(y_init)[None], y])
    numpyro.sample("y", dist.LogNormal(populations, sigma).to_event(2), obs=observed)


def scores(kid_score, mom_hs, mom_iq, **_):
    beta = flat("beta", constraints.real_vector, (4,))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    mean = beta[0] + beta[1] * mom_hs + beta[2] * mom_iq + beta[3] * mom_hs * mom_iq
    numpyro.sample("y", dist.Normal(mean, sigma), obs=kid_score)


def mixture(y, **_):
    mu = flat("mu", constraints.ordered_vector, (2,))
    numpyro.factor("prior", dist.Normal(0, 2).log_prob(mu).sum())
    sigma = numpyro.sample("sigma", dist.HalfNormal(2).expand([2]).to_event(1))
    theta = numpyro.sample("theta", dist.Beta(5, 5))
    weights = jnp.log(jnp.stack([theta, 1 - theta]))
    terms = weights + dist.Normal(mu, sigma).log_prob(y[:, None])
    numpyro.factor("likelihood", jax.nn.logsumexp(terms, axis=1).sum())


def curve(x, L, n_basis, intercept, which):  # noqa: N803
    """A Gaussian process by its basis functions."""
    level = numpyro.sample(f"Intercept{which}", dist.StudentT(3, *intercept))
    sd = numpyro.sample(f"sdgp{which}_1", dist.FoldedDistribution(dist.StudentT(3, 0, 36)))
    scale = numpyro.sample(f"lscale{which}_1", dist.InverseGamma(1.124909, 0.0177))
    z = numpyro.sample(f"zgp{which}_1", dist.Normal(0, 1).expand([n_basis]).to_event(1))
    frequency = jnp.arange(1, n_basis + 1) * jnp.pi / (2 * L)
    basis = jnp.sin(frequency * (x[:, None] + L)) / jnp.sqrt(L)
    weights = sd * jnp.sqrt(jnp.sqrt(2 * jnp.pi) * scale) * jnp.exp(-(scale**2) * frequency**2 / 4)
    return level + basis @ (weights * z)


def motorcycle(x, Y, L, n_basis_mean, n_basis_logsd, **_):  # noqa: N803
    mean = curve(x, L, n_basis_mean, (-13, 36), "")
    log_sd = curve(x, L, n_basis_logsd, (0, 10), "_sigma")
    numpyro.sample("Y", dist.Normal(mean, jnp.exp(log_sd)), obs=Y)


GP_SITES = [(f"Intercept{w}", f"sdgp{w}_1", f"lscale{w}_1", f"zgp{w}_1") for w in ("", "_sigma")]
POSTERIORS = {
    "drive": Posterior("bball_drive_event_1-hmm_drive_1", drive, ("theta1", "theta2", "phi", "lambda")),
    "garch": Posterior("garch-garch11", garch, ("mu", "alpha0", "alpha1", "beta1")),
    "process": Posterior("gp_pois_regr-gp_regr", process, ("rho", "alpha", "sigma")),
    "lynx": Posterior("hudson_lynx_hare-lotka_volterra", lynx, ("theta", "z_init", "sigma")),
    "scores": Posterior("kidiq-kidscore_interaction", scores, ("beta", "sigma")),
    "mixture": Posterior("low_dim_gauss_mix-low_dim_gauss_mix", mixture, ("mu", "sigma", "theta")),
    "motorcycle": Posterior("mcycle_gp-accel_gp", motorcycle, (*GP_SITES[0], *GP_SITES[1])),
}


def read(name: str) -> dict[str, Any]:
    folder = os.environ.get("TESSMC_DATA")
    if not folder:
        raise FileNotFoundError("the posteriors are not here; set TESSMC_DATA to the folder that holds posteriordb/")
    return json.loads((Path(folder) / "posteriordb" / f"{POSTERIORS[name].file}.json").read_text())


def data_of(name: str) -> dict[str, Any]:
    return {
        key: np.array(value, float) if isinstance(value, list) else value for key, value in read(name)["data"].items()
    }


def check(name: str) -> float:
    """By how much the log density differs from the stored one, but for a constant, over the check points."""
    stored, (_, model, sites) = read(name), POSTERIORS[name]
    with jax.enable_x64(True):
        target = tessmc.from_numpyro(model, **data_of(name))
        shapes = {site: value.shape for site, value in target.constrain(jnp.zeros(target.dim)).items()}
        differences = []
        for point in stored["check_points"]["points"]:
            sizes = [int(np.prod(shapes[site])) for site in sites]
            parts = np.split(np.array(point["x"]), np.cumsum(sizes)[:-1])
            values = {site: part.reshape(shapes[site]) for site, part in zip(sites, parts, strict=True)}
            differences.append(float(log_density(model, (), data_of(name), values)[0]) - point["log_joint"])
    return float(np.ptp(differences))


def sample(name: str, sampler: str) -> dict[str, Any]:
    """One run in default settings: draws of what is reported, and what they cost."""
    data = data_of(name)
    if sampler == "tessmc":
        result = tessmc.sample(tessmc.from_numpyro(POSTERIORS[name].model, **data), progress=False)
        draws, converged = dict(result.posterior), result.verdict.converged
        cost = {"num_evaluations": result.num_evaluations, "s": float(np.std(result.stats["log_ratio"]))}
    else:
        from numpyro.infer import MCMC, NUTS

        kernel = NUTS(POSTERIORS[name].model)
        mcmc = MCMC(
            kernel, num_warmup=1000, num_samples=1000, num_chains=4, chain_method="vectorized", progress_bar=False
        )
        mcmc.run(jr.key(0), extra_fields=("num_steps",), **data)
        draws, converged = mcmc.get_samples(group_by_chain=True), None
        # Of the draws alone: NumPyro does not tell those of its warm-up.
        cost = {"num_evaluations": int(np.sum(mcmc.get_extra_fields()["num_steps"]))}
    columns = [np.asarray(draws[site], float) for site in POSTERIORS[name].sites]
    return {
        "x": np.concatenate([part.reshape(*part.shape[:2], -1) for part in columns], axis=2),
        "converged": converged,
        **cost,
    }


def measure(name: str, sampler: str, began: float) -> dict[str, Any]:
    """A run beside its reference."""
    from tessmc.diagnostics import convergence, standard_errors

    found, reference = sample(name, sampler), read(name)["reference"]
    seconds = time.perf_counter() - began
    draws = found.pop("x")
    # A row that sums to one has an entry too many, but none that never moves.
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    off = np.abs(draws.mean((0, 1)) - mean)
    errors = np.hypot(standard_errors(draws)[0], np.array(reference["mcse_mean"]))
    judged = convergence(draws)
    return {
        **found,
        "seconds": seconds,
        "mean_error": float(np.max(off / sd)),
        "is_met": bool(np.all((off < 0.1 * sd) | (off < 4 * errors))),
        "sd_error": float(np.max(np.abs(draws.std((0, 1), ddof=1) / sd - 1))),
        "r_hat": float(np.max(judged.r_hat)),
        "ess": float(min(judged.ess_bulk.min(), judged.ess_tail.min())),
    }


def in_a_cold_process(name: str, sampler: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "verify.posteriors", name, sampler]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


HEAD = (
    f"{'posterior':12} {'sampler':8} {'evaluations':>12} {'cold s':>7} {'mean error':>10} {'sd error':>9} "
    f"{'R-hat':>6} {'ESS':>7} {'verdict':>8}"
)


def line(name: str, sampler: str, row: dict[str, Any]) -> str:
    verdict = {True: "conv.", False: "not", None: ""}[row["converged"]]
    return (
        f"{name:12} {sampler:8} {row['num_evaluations']:12,d} {row['seconds']:7.1f} {row['mean_error']:10.3f} "
        f"{row['sd_error']:9.3f} {row['r_hat']:6.3f} {row['ess']:7.0f} {verdict:>8}"
    )


def is_right(row: dict[str, Any]) -> bool:
    """Every mean within 0.1 sd of the reference or four errors, every sd within a tenth, and the verdict says so."""
    return row["is_met"] and row["sd_error"] < 0.1 and row["converged"] is True


def main() -> int:
    print(HEAD)
    missed = []
    for name in POSTERIORS:
        for sampler in ("tessmc", "nuts"):
            row = in_a_cold_process(name, sampler)
            print(line(name, sampler, row), flush=True)
            if sampler == "tessmc" and not is_right(row):
                missed.append(name)
    print(
        f"missed: {', '.join(missed)}" if missed else "all references are met, in default settings, by converged runs"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    began = time.perf_counter()
    if len(sys.argv) == 1:
        sys.exit(main())
    else:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(*sys.argv[1:], began)))
