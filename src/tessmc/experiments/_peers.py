"""The samplers that are compared, each as its authors recommend; all move the same unconstrained vector."""

import itertools
import time
import warnings
from collections.abc import Iterator

import jax
import jax.random as jr
import numpy as np

from tessmc._clock import Clock
from tessmc.adaptation import Warmup, WarmupTask
from tessmc.engines import collect, count_evaluations, every
from tessmc.experiments._blackjax import chees, laps, mams, mclmc, meads, neutra, nuts
from tessmc.experiments._protocol import Batch, Sampler, Task
from tessmc.targets import AbstractTarget, BlackBox

# What those who run a few chains for a while take by default.
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 1000, 1000


# --- ourselves -----------------------------------------------------------------------------------


def tess(task: Task, use_gradient: bool | None = None) -> Iterator[Batch]:
    """As `tessmc.sample` runs."""
    asked = WarmupTask(task.target, None, None, task.key, task.num_chains, task.num_warmup, Clock(), _say_nothing)
    warmed = Warmup.auto(use_gradient=use_gradient).run(asked)
    chains, num_gradients, paid = warmed.chains, warmed.num_evaluations["fit"], 0
    while True:
        chains, draws = collect(warmed.kernel, chains, task.num_draws * warmed.stride)
        before, paid = paid, count_evaluations(chains)
        yield Batch(every(draws, warmed.stride).position, paid - before, num_gradients)
        num_gradients = 0


def tess_free(task: Task) -> Iterator[Batch]:
    """Without gradients of the density, as a black box is sampled."""
    yield from tess(task, use_gradient=False)


def tess_box(task: Task) -> Iterator[Batch]:
    """As `tessmc.sample` runs a black box whose calls are dear: six chains a dimension, at least 32."""
    density, num_chains, paid = CountedDensity(task.target), max(task.num_chains, 6 * task.target.dim), 0
    box = BlackBox(density, task.target.dim, vectorized=True, batch_size=num_chains)
    asked = WarmupTask(box, None, None, task.key, num_chains, task.num_warmup, Clock(), _say_nothing)
    warmed = Warmup.auto().run(asked)
    chains = warmed.chains
    while True:
        chains, draws = collect(warmed.kernel, chains, task.num_draws * warmed.stride)
        before, paid = paid, density.num_evaluations
        yield Batch(every(draws, warmed.stride).position, paid - before, 0)


def _say_nothing(*_: object) -> None:
    pass


# --- a few chains, as a practitioner runs them ---------------------------------------------------


def numpyro(task: Task) -> Iterator[Batch]:
    """NumPyro's NUTS: four chains one beside the other, a diagonal mass matrix, a thousand transitions to adapt."""
    from numpyro.infer import MCMC, NUTS

    kernel = NUTS(potential_fn=lambda position: -task.target.log_density(position))
    mcmc = MCMC(
        kernel,
        num_warmup=NUM_WARMUP,
        num_samples=task.num_draws,
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    keys, starts = jr.split(task.key, NUM_CHAINS), task.starts(NUM_CHAINS)
    mcmc.warmup(keys, init_params=starts, extra_fields=("num_steps",), collect_warmup=True)
    num_gradients = int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
    while True:
        mcmc.run(keys if mcmc.last_state is None else mcmc.last_state.rng_key, extra_fields=("num_steps",))
        num_gradients += int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
        yield Batch(np.asarray(mcmc.get_samples(group_by_chain=True)), 0, num_gradients)
        num_gradients = 0
        mcmc.post_warmup_state = mcmc.last_state


def nutpie(task: Task) -> Iterator[Batch]:
    """Nutpie's NUTS: four chains on all cores, a mass matrix from draws and gradients."""
    import nutpie as package
    from nutpie.compiled_pyfunc import from_pyfunc

    dim, dtype, num_calls = task.target.dim, task.target.dtype, itertools.count()
    density = jax.jit(jax.value_and_grad(task.target.log_density))
    jax.block_until_ready(density(task.starts(1)[0]))

    def log_density(position: np.ndarray) -> tuple[float, np.ndarray]:
        next(num_calls)
        value, slope = density(position.astype(dtype))
        return float(value), np.asarray(slope, np.float64)

    starts = iter(np.asarray(task.starts(NUM_CHAINS), np.float64))
    model = from_pyfunc(
        dim,
        lambda: log_density,
        lambda *_: lambda position: {"x": position},
        [np.dtype("float64")],
        [(dim,)],
        ["x"],
        make_initial_point_fn=lambda _: next(starts),
    )
    # It goes on behind our back; what it has so far is asked for.
    sampler = package.sample(
        model,
        draws=10**6,
        chains=NUM_CHAINS,
        cores=NUM_CHAINS,
        seed=int(np.asarray(jr.key_data(task.key))[-1]),
        blocking=False,
        progress_bar=False,
        save_warmup=False,
    )
    done, paid = 0, 0
    try:
        while True:
            time.sleep(0.2)
            with warnings.catch_warnings():
                # ArviZ, of a trace that is still empty.
                warnings.simplefilter("ignore", UserWarning)
                found = sampler.inspect().posterior["x"].to_numpy()
            # Chains that have not come as far are filled up with NaN.
            ready = int(np.isfinite(found[..., 0]).sum(axis=1).min(initial=found.shape[1]))
            if ready < done + task.num_draws:
                continue
            before, paid = paid, next(num_calls)
            yield Batch(found[:, done:ready], 0, paid - before)
            done = ready
    finally:
        sampler.cancel()


# --- without gradients ---------------------------------------------------------------------------


def emcee(task: Task) -> Iterator[Batch]:
    """Stretch moves of an ensemble (Foreman-Mackey et al. 2013), all walkers' densities in one call."""
    from emcee import EnsembleSampler

    num_walkers = max(task.num_chains, 2 * task.target.dim + 2)
    density, paid = CountedDensity(task.target), 0
    ensemble = EnsembleSampler(num_walkers, task.target.dim, density, vectorize=True)
    ensemble.random_state = np.random.RandomState(np.asarray(jr.key_data(task.key))[-1]).get_state()
    state = ensemble.run_mcmc(np.asarray(task.starts(num_walkers), float), task.num_warmup)
    while True:
        ensemble.reset()
        state = ensemble.run_mcmc(state, task.num_draws)
        before, paid = paid, density.num_evaluations
        yield Batch(ensemble.get_chain().swapaxes(0, 1), paid - before, 0)


def zeus(task: Task) -> Iterator[Batch]:
    """Slice sampling along differences of an ensemble (Karamanis, Beutler and Peacock 2021)."""
    from zeus import EnsembleSampler

    num_walkers = max(task.num_chains, 2 * task.target.dim + 2)
    # It draws from NumPy's own stream.
    np.random.seed(np.asarray(jr.key_data(task.key))[-1])  # noqa: NPY002
    density, paid = CountedDensity(task.target), 0
    ensemble = EnsembleSampler(
        num_walkers, task.target.dim, density, vectorize=True, verbose=False, check_walkers=False
    )
    ensemble.run_mcmc(np.asarray(task.starts(num_walkers), float), task.num_warmup, progress=False)
    while True:
        ensemble.run_mcmc(None, task.num_draws, progress=False)
        before, paid = paid, density.num_evaluations
        yield Batch(ensemble.get_chain()[-task.num_draws :].swapaxes(0, 1), paid - before, 0)


def pocomc(task: Task) -> Iterator[Batch]:
    """Preconditioned Monte Carlo: particles tempered from N(0, I) to the target with a flow (Karamanis et al. 2022).

    They have weights and no chains: as many as they are worth are drawn by weight and dealt into four rows, so that
    its R-hat says nothing. A further batch is a run of its own.
    """
    import pocomc as package
    from scipy.stats import norm

    prior, density, paid = package.Prior(task.target.dim * [norm()]), CountedDensity(task.target), 0
    seeds = np.random.default_rng(np.asarray(jr.key_data(task.key)))
    while True:
        sampler = package.Sampler(
            prior,
            lambda points: density(points) - prior.logpdf(points),
            vectorize=True,
            random_state=int(seeds.integers(2**31)),
        )
        sampler.run(n_evidence=0, progress=False)
        points, weights, *_ = sampler.posterior()
        size = int(1 / np.sum(weights**2)) // NUM_CHAINS
        draws = seeds.choice(points, (NUM_CHAINS, size), p=weights)
        before, paid = paid, density.num_evaluations
        yield Batch(draws, paid - before, 0)


class CountedDensity:
    """The log density of many points at once, for samplers in NumPy; NaN is impossible, and points are counted."""

    def __init__(self, target: AbstractTarget):
        self.num_evaluations, self._dtype = 0, target.dtype
        self._density = jax.jit(jax.vmap(target.log_density))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        points = np.atleast_2d(points)
        self.num_evaluations += len(points)
        # Filled up to powers of two: every other size would be compiled.
        size = 1 << (len(points) - 1).bit_length()
        filled = np.concatenate([points, np.repeat(points[:1], size - len(points), axis=0)]).astype(self._dtype)
        values = np.asarray(self._density(filled), float)[: len(points)]
        return np.nan_to_num(values, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)


# Who asks for no gradient, ourselves first: those whose evaluations are counted.
GRADIENT_FREE = ("tess_box", "emcee", "zeus", "pocomc")
# What the paper's budget is for those who have a custom of their own: draws of each chain.
OWN_DRAWS = {"numpyro": NUM_DRAWS, "nutpie": NUM_DRAWS}
SAMPLERS: dict[str, Sampler] = {
    "tess": tess,
    "tess_free": tess_free,
    "tess_box": tess_box,
    "nuts": nuts,
    "meads": meads,
    "chees": chees,
    "neutra": neutra,
    "mclmc": mclmc,
    "mams": mams,
    "laps": laps,
    "numpyro": numpyro,
    "nutpie": nutpie,
    "emcee": emcee,
    "zeus": zeus,
    "pocomc": pocomc,
}
