"""The verdict: never "converged" where the truth is missed, nearly always where the target is easy."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine

import tessmc

SEEDS = range(20)
MAX_ERROR = 0.1


class Case(NamedTuple):
    """A target, its mean and standard deviation in every coordinate (None if there are none), and how it is run."""

    log_density: Callable[[Any], Any]
    dim: int
    mean: Any
    sd: Any
    options: dict[str, Any] | None = None
    init: Callable[[int], Any] | None = None


def modes(weights, centres, scale=1.0):
    weights, centres = jnp.log(jnp.asarray(weights)), jnp.asarray(centres, float)

    def log_density(x):
        return jax.nn.logsumexp(weights - 0.5 * jnp.sum((x[None] - centres) ** 2, axis=1) / scale**2)

    return log_density


def funnel(x):
    return -(x[0] ** 2) / 18 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 0.5 * (len(x) - 1) * x[0]


def ridge(x):
    total, difference = x[0] + x[1], (x[0] - x[1]) / 1e-3
    return -0.5 * (total**2 + difference**2) / 2


def spike(x):
    wide = -0.5 * jnp.sum(x**2)
    narrow = -0.5 * jnp.sum(((x - 1) / 1e-3) ** 2) - len(x) * jnp.log(1e-3)
    return jnp.logaddexp(wide, narrow)


def student(dof):
    return lambda x: jnp.sum(-0.5 * (dof + 1) * jnp.log1p(x**2 / dof))


def as_it_is(dim):
    return {"transport": Affine(jnp.zeros(dim), jnp.ones(dim)), "num_warmup": 0}


def in_a_trap(num_chains):
    """Two chains at a mode that has next to no weight."""
    return np.concatenate([jr.normal(jr.key(0), (num_chains - 2, 2)), np.full((2, 2), 60.0)])


def in_the_spike(num_chains):
    """Every eighth chain."""
    starts = np.array(jr.normal(jr.key(2), (num_chains, 5)))
    starts[::8] = 1 + 1e-3 * starts[::8]
    return starts


def spread(centre, scale, dim):
    """Starts from which all modes are reached: of one that no chain ever comes near, no run can know."""
    return lambda num_chains: np.asarray(centre + scale * jr.normal(jr.key(1), (num_chains, dim)))


SHORT = {"num_warmup": 16}
HARD = {
    "two modes, 0.7 and 0.3": Case(
        modes([0.7, 0.3], [[0.0], [100.0]]), 1, 30.0, np.sqrt(1 + 2100), as_it_is(1), spread(50.0, 60.0, 1)
    ),
    "two modes, warmed up": Case(
        modes([0.7, 0.3], [[0.0, 0], [40, 0]]), 2, [12.0, 0], [np.sqrt(1 + 336), 1], SHORT, spread(10.0, 30.0, 2)
    ),
    "four modes in five dimensions": Case(
        modes([0.4, 0.3, 0.2, 0.1], 30 * np.eye(4, 5)), 5, [12.0, 9, 6, 3, 0],
        np.sqrt(1 + 900 * np.array([0.24, 0.21, 0.16, 0.09, 0])), SHORT, spread(0.0, 20.0, 5),
    ),
    "a heavy tail": Case(student(2.2), 2, 0.0, np.sqrt(11.0), as_it_is(2)),
    "improper, of a model": Case(tessmc.models.oxygen_flat().log_density, 2, None, None),
    "improper": Case(lambda x: -0.5 * x[0] ** 2 - 0.5 * jnp.exp(-x[1]), 2, None, None, SHORT),
    "a funnel under a map that does not fit": Case(funnel, 10, 0.0, [3.0, *9 * [np.exp(2.25)]], as_it_is(10)),
    "a funnel after a short warm-up": Case(funnel, 10, 0.0, [3.0, *9 * [np.exp(2.25)]], SHORT),
    "chains in a trap": Case(
        modes([1.0, 1e-30], [[0.0, 0], [60, 60]]), 2, 0.0, 1.0, {"num_warmup": 0, **as_it_is(2)}, in_a_trap
    ),
    "a narrow ridge": Case(ridge, 2, 0.0, np.sqrt(0.5), as_it_is(2)),
    "a spike of half the weight": Case(spike, 5, 0.5, np.sqrt(0.5 + 0.25), SHORT, in_the_spike),
    "far from the start": Case(lambda x: -0.5 * jnp.sum((x - 1000) ** 2), 3, 1000.0, 1.0, as_it_is(3)),
    "too coarse for float32": Case(lambda x: 1e8 - 0.5 * jnp.sum(x**2), 3, 0.0, 1.0, SHORT),
    "four draws": Case(lambda x: -0.5 * jnp.sum(x**2), 3, 0.0, 1.0, {**SHORT, "num_samples": 4}),
    "a hole of NaN": Case(
        lambda x: jnp.where(x[0] > 0, jnp.log(-x[0]), -0.5 * jnp.sum(x**2)), 2, [-np.sqrt(2 / np.pi), 0],
        [np.sqrt(1 - 2 / np.pi), 1], SHORT,
    ),
}  # fmt: skip
EASY = {
    "a Gaussian": Case(lambda x: -0.5 * jnp.sum((x - 3) ** 2 / 4), 5, 3.0, 2.0),
    "correlated": Case(lambda x: -0.5 * (x[0] ** 2 + (x[1] - 2 * x[0]) ** 2), 2, 0.0, [1.0, np.sqrt(5)]),
    "skewed": Case(lambda x: 3 * x[0] - jnp.exp(x[0]), 1, 0.9227843, np.sqrt(0.3949341)),
    "a banana": Case(lambda x: -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2), 2, [0, 2.0], [np.sqrt(8), 3.0]),
    "light tails": Case(lambda x: -jnp.sum(x**4), 3, 0.0, np.sqrt(0.3379891)),
}


def verdicts(case: Case) -> list[tuple[bool, float]]:
    """Whether it said "converged", and how far the worst mean was off, in standard deviations."""
    target, found = tessmc.Target(case.log_density, case.dim), []
    options = {"num_chains": 64, "progress": False, **(case.options or {})}
    init = None if case.init is None else case.init(options["num_chains"])
    for seed in SEEDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            result = tessmc.sample(target, init=init, seed=seed, **options)
            mean = result.unconstrained.mean((0, 1), np.float64)
            error = np.inf if case.mean is None else float(np.max(np.abs(mean - case.mean) / case.sd))
            found.append((result.verdict.converged, error))
    return found


@pytest.mark.parametrize("name", HARD)
def test_converged_is_not_said_where_the_truth_is_missed(name):
    wrong = [(seed, error) for seed, (said, error) in enumerate(verdicts(HARD[name])) if said and error > MAX_ERROR]
    assert not wrong


@pytest.mark.parametrize("name", EASY)
def test_converged_is_said_of_what_is_easy(name):
    found = verdicts(EASY[name])
    assert all(error < MAX_ERROR for said, error in found if said)
    assert sum(said for said, _ in found) >= 0.95 * len(found)


def test_some_of_these_are_hard():  # the check is able to fail
    missed = [name for name in ("two modes, 0.7 and 0.3", "far from the start", "a narrow ridge")
              if any(error > MAX_ERROR for _, error in verdicts(HARD[name]))]  # fmt: skip
    assert len(missed) == 3
