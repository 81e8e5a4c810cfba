"""`sample`: warm up, draw, judge."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any

import jax
from flowjax.bijections import AbstractBijection
from jaxtyping import PyTree

from tessmc._arrays import in_precision_of
from tessmc._random import as_key
from tessmc._types import Key, Scalar
from tessmc.adaptation import AbstractWarmup
from tessmc.sampling._arguments import (
    as_goal,
    as_layout,
    as_names,
    as_target,
    as_transport,
    as_warmup,
    unconstrain,
    with_executor,
)
from tessmc.sampling._asked import Asked
from tessmc.sampling._goal import check_count
from tessmc.sampling._progress import Progress
from tessmc.sampling._result import Result
from tessmc.sampling._session import Resume, Session
from tessmc.storage import RunFolder
from tessmc.targets import AbstractTarget


def sample(
    target: Callable[..., Scalar] | AbstractTarget,
    *,
    like: PyTree[Any] = None,
    init: PyTree[Any] = None,
    support: PyTree[Any] = None,
    num_chains: int = 128,
    num_warmup: int = 400,
    num_samples: int | None = None,
    seed: int | Key = 0,
    transport: AbstractBijection | None = None,
    warmup: AbstractWarmup | None = None,
    executor: Executor | None = None,
    devices: int | Sequence[jax.Device] | None = None,
    chain_batch_size: int | None = None,
    target_ess: float | None = None,
    max_seconds: float | None = None,
    max_evaluations: int | None = None,
    thin: int = 1,
    keep: Iterable[str] | None = None,
    save_warmup: bool = False,
    run_dir: str | os.PathLike[str] | None = None,
    resume: Resume = "auto",
    progress: bool = True,
    callback: Callable[[Progress], Any] | None = None,
) -> Result:
    """Draw from a density known up to a constant: learn a map in a warm-up, then move in its reference space.

    Args:
        target: a JAX log density of an array or a pytree, up to a constant; a `tessmc.Target`; a `tessmc.BlackBox`;
            what `tessmc.from_numpyro` and `tessmc.from_pymc` make of a model; or a model of BridgeStan.
        like: one example position: an array, a pytree, or an int for a flat vector.
        init: where the chains start, in the support, with a leading chain axis; by default N(0, I) in the
            unconstrained space.
        support: a NumPyro constraint, or a pytree of them matching `like`.
        num_chains: k, the chains that run side by side.
        num_warmup: h, transitions of each chain that are used to learn the map. With 0 the map is used as it is.
        num_samples: N, draws of each chain: 100, or with `target_ess` as many as that needs. Where the map leaves them
            slow to change, up to sixteen transitions are made for each (`Result.stride`).
        seed: an int from 0 to 2³² - 1, or a JAX key. The same seed gives the same draws.
        transport: the map to start from, a FlowJAX bijection of shape (dim,).
        warmup: how the map is learned: `Warmup.auto()`, the default, or `Warmup.paper(...)`, Algorithm 2 to the letter.
        executor: who calls a black box: any `concurrent.futures.Executor`, such as a `ProcessPoolExecutor` that spawns,
            threads, or Dask's `client.get_executor()`; by default this process. The draws do not depend on it.
        devices: who computes a JAX density: so many devices, or these; by default all that JAX has and the chains keep
            busy, those of other processes (`jax.distributed`) included, which then make the same call. The draws do not
            depend on it, beyond the rounding of batches of other sizes.
        chain_batch_size: chains of one device that are computed at a time, to bound memory; by default all.
        target_ess: draw until every parameter has so many effective draws, bulk and tail.
        max_seconds: end after so long, with what there is; `Result.reason` says so.
        max_evaluations: end after so many density evaluations, those of the warm-up included.
        thin: keep one draw of so many; `num_samples` counts those that are kept.
        keep: names of the parameters to keep, if not all; unconstrained draws are kept only with all.
        save_warmup: keep the draws of the warm-up, too, in `Result.groups` and for ArviZ.
        run_dir: a folder to which everything is written as it is made. Called again with the same folder, `sample` goes
            on where it stopped, or where it had ended if more draws are asked for, to the very same draws.
        resume: what to do with a folder that holds a run: "auto" to go on with it, "never" to refuse it, "previous" to
            set aside what is damaged and go on from before.
        progress: show how far the run is, on a terminal or in a notebook; elsewhere a few lines go to
            the logger "tessmc.progress".
        callback: is called with a `tessmc.Progress`, at most ten times a second. If it returns True, the run ends with
            the draws so far, as with Ctrl-C. The draws do not depend on it.

    Raises:
        BlackBoxError: a black box gave no value; the error has the draws so far.
        CallbackError: the callback raised an error; this one has the draws so far.
        DensityError: the log density is +inf at some point, or a chain finds no point of finite density.
        StorageError: the folder is damaged, in use, or holds another run.
        TypeError, ValueError: an argument does not fit; nothing has been compiled then.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"`callback` should be a function of a tessmc.Progress, but is {callback!r}")
    check_count("num_chains", num_chains, 1)
    check_count("num_warmup", num_warmup, 0)
    check_count("thin", thin, 1)
    goal = as_goal(num_samples, target_ess, max_seconds, max_evaluations)
    if resume not in ("auto", "never", "previous"):
        raise ValueError(f"`resume` should be 'auto', 'never' or 'previous', but is {resume!r}")
    target = with_executor(as_target(target, like, init, support), executor)
    with in_precision_of(target.dtype):
        asked = Asked(
            target,
            as_transport(transport, target, needs_inverse=num_warmup > 0 or init is not None),
            None if init is None else unconstrain(target, target.check_init(init, num_chains)),
            as_key(seed),
            num_chains,
            num_warmup,
            as_warmup(warmup),
            thin,
            as_names(keep, target),
            bool(save_warmup),
        )
        layout = as_layout(devices, chain_batch_size, target, num_chains, is_durable=run_dir is not None)
        session = Session(asked, None if run_dir is None else RunFolder(run_dir), progress, layout, callback)
        return session.start(resume, goal)
