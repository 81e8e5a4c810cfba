"""ArviZ's R-hat and effective sample sizes, and R-hat of groups of chains."""

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from jaxtyping import Float


class Convergence(NamedTuple):
    """R-hat and effective sample sizes, one number a parameter."""

    r_hat: Float[np.ndarray, " parameter"]
    ess_bulk: Float[np.ndarray, " parameter"]
    ess_tail: Float[np.ndarray, " parameter"]


def import_arviz() -> ModuleType:
    """ArviZ, imported when first needed: it takes longer than the rest of us together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import arviz
        except OSError:
            # ArviZ 0.23 notes in the user's cache that it has warned today: that may be read-only, and two processes
            # that do it at once trip over each other.
            with TemporaryDirectory() as folder, patch.dict(os.environ, XDG_CACHE_HOME=folder):
                import arviz
    return arviz


def convergence(draws: Float[np.ndarray, "chain draw parameter"]) -> Convergence:
    """Rank-normalised split R-hat, bulk and tail ESS (Vehtari et al. 2021), by ArviZ."""
    return Convergence(r_hat(draws), _by_arviz("ess", draws, method="bulk"), _by_arviz("ess", draws, method="tail"))


def r_hat(draws: Float[np.ndarray, "chain draw parameter"]) -> Float[np.ndarray, " parameter"]:
    """Rank-normalised split R-hat alone."""
    return _by_arviz("rhat", draws)


def _by_arviz(statistic: str, draws: np.ndarray, **options: object) -> Float[np.ndarray, " parameter"]:
    import xarray

    data = xarray.Dataset({"x": (("chain", "draw", "parameter"), draws.astype(float))})
    # A parameter that never moves divides by its variance of zero; its NaN is for the caller to judge.
    with np.errstate(divide="ignore", invalid="ignore"), _without_numba(import_arviz()):
        return np.asarray(getattr(import_arviz(), statistic)(data, **options)["x"])


@contextmanager
def _without_numba(arviz: ModuleType) -> Iterator[None]:
    """ArviZ before 1.0 uses Numba where it is installed: seconds of compilation, and errors with NumPy 2."""
    numba = getattr(arviz, "Numba", None)
    if numba is None or not numba.numba_flag:
        yield
        return
    numba.disable_numba()
    try:
        yield
    finally:
        numba.enable_numba()


def standard_errors(draws: Float[np.ndarray, "chain draw parameter"]) -> tuple[np.ndarray, np.ndarray]:
    """Monte Carlo standard errors of the mean and of the standard deviation of every parameter, by ArviZ."""
    mean, sd = (_by_arviz("mcse", draws, method=method) for method in ("mean", "sd"))
    return mean, sd


def quantile_errors(
    draws: Float[np.ndarray, "chain draw parameter"], probs: Iterable[float]
) -> Float[np.ndarray, "prob parameter"]:
    """Monte Carlo standard errors of quantiles, by ArviZ."""
    return np.stack([_by_arviz("mcse", draws, method="quantile", prob=prob) for prob in probs])


def nested_r_hat(
    draws: Float[np.ndarray, "chain draw parameter"], num_superchains: int
) -> Float[np.ndarray, " parameter"]:
    """R-hat of groups of chains, the superchains (Margossian et al. 2024), of ranks and of folded ranks.

    R-hat of many short chains stays above 1 however well they mix, as each chain's mean has few draws. Chains that
    began at the same point, or are counted as if they had, are one superchain here, and its mean has the draws of all.

    Args:
        draws: chains of one superchain stand in a row.
        num_superchains: a divisor of the number of chains, at least 2.
    """
    num_chains, num_draws, _ = draws.shape
    if num_superchains < 2 or num_chains % num_superchains:
        raise ValueError(f"{num_chains} chains cannot be divided into {num_superchains} superchains of one size")
    folded = np.abs(draws - np.median(draws, axis=(0, 1)))
    groups = (num_superchains, num_chains // num_superchains, num_draws, -1)
    return np.maximum(*(_nested(normal_scores(each).reshape(groups)) for each in (draws, folded)))


def _nested(draws: Float[np.ndarray, "superchain chain draw parameter"]) -> np.ndarray:
    """√(1 + B/W): superchains' means against the spread within them, between chains and of draws."""
    num_chains, num_draws = draws.shape[1:3]
    of_chains = draws.mean(axis=2)
    within = draws.var(axis=2, ddof=1 if num_draws > 1 else 0).mean(axis=1)
    between_chains = of_chains.var(axis=1, ddof=1) if num_chains > 1 else 0
    between = of_chains.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(1 + between / np.mean(within + between_chains, axis=0))


def normal_scores(draws: np.ndarray) -> np.ndarray:
    """Normal quantiles of the ranks among all draws of a parameter (Vehtari et al. 2021)."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    size = draws.shape[0] * draws.shape[1]
    ranks = rankdata(draws.reshape(size, -1), axis=0)
    return ndtri((ranks - 3 / 8) / (size + 1 / 4)).reshape(draws.shape)
