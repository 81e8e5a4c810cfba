"""`sample`: warm up, draw, judge."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any

import equinox as eqx
import jax
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, PyTree

from tessmc._arrays import in_precision_of
from tessmc._random import as_key
from tessmc._types import Key, Points, Scalar
from tessmc.adaptation import AbstractWarmup, Warmup
from tessmc.engines import MIN_CHAINS, Layout
from tessmc.sampling._asked import Asked
from tessmc.sampling._goal import Goal, check_count
from tessmc.sampling._result import Result
from tessmc.sampling._session import Resume, Session
from tessmc.storage import RunFolder
from tessmc.targets import AbstractTarget, BlackBox, StanBlackBox, Target, is_bridgestan


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
            slow to change, up to four transitions are made for each (`Result.stride`).
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
        progress: show a bar if standard error is a terminal.

    Raises:
        BlackBoxError: a black box gave no value; the error has the draws so far.
        DensityError: the log density is +inf at some point, or a chain finds no point of finite density.
        StorageError: the folder is damaged, in use, or holds another run.
        TypeError, ValueError: an argument does not fit; nothing has been compiled then.
    """
    check_count("num_chains", num_chains, 1)
    check_count("num_warmup", num_warmup, 0)
    check_count("thin", thin, 1)
    goal = _as_goal(num_samples, target_ess, max_seconds, max_evaluations)
    if resume not in ("auto", "never", "previous"):
        raise ValueError(f"`resume` should be 'auto', 'never' or 'previous', but is {resume!r}")
    target = _with_executor(_as_target(target, like, init, support), executor)
    with in_precision_of(target.dtype):
        asked = Asked(
            target,
            _as_transport(transport, target, needs_inverse=num_warmup > 0 or init is not None),
            None if init is None else _unconstrain(target, target.check_init(init, num_chains)),
            as_key(seed),
            num_chains,
            num_warmup,
            _as_warmup(warmup),
            thin,
            _as_names(keep, target),
            bool(save_warmup),
        )
        layout = _as_layout(devices, chain_batch_size, target, num_chains)
        if run_dir is not None and layout is not None and layout.is_shared:
            raise ValueError(
                "`run_dir` is for one process, but the devices are of several: save the result in one of them, or pass "
                "devices=jax.local_devices()"
            )
        session = Session(asked, None if run_dir is None else RunFolder(run_dir), progress, layout)
        return session.start(resume, goal)


def _unconstrain(target: AbstractTarget, values: PyTree[Array]) -> Points:
    start = jax.jit(jax.vmap(target.unconstrain))(values)
    is_finite = np.isfinite(np.asarray(start)).all(axis=1)
    if not is_finite.all():
        chain = int(np.argmin(is_finite))
        raise ValueError(
            f"`init` of chain {chain} lies on the boundary of its support, {jax.tree.map(lambda v: v[chain], values)}; "
            "move it inside"
        )
    return start


def _as_goal(num_samples: Any, target_ess: Any, max_seconds: Any, max_evaluations: Any) -> Goal:
    if num_samples is not None:
        check_count("num_samples", num_samples, 1)
    if max_evaluations is not None:
        check_count("max_evaluations", max_evaluations, 1)
    for name, value in (("target_ess", target_ess), ("max_seconds", max_seconds)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float | np.number)):
            raise TypeError(f"`{name}` should be a number, but is {value!r}")
        if value is not None and not value > 0:
            raise ValueError(f"`{name}` should be above 0, but is {value}")
    return Goal(num_samples, target_ess, max_seconds, max_evaluations)


def _as_names(keep: Any, target: AbstractTarget) -> tuple[str, ...] | None:
    if keep is None:
        return None
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    known = jax.eval_shape(target.constrain, np.zeros(target.dim, target.dtype))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"`keep` should name some of {', '.join(known)}, but is {keep!r}")
    return names


def _as_target(target: Any, like: PyTree[Any], init: PyTree[Any], support: PyTree[Any]) -> AbstractTarget:
    if is_bridgestan(target) and not isinstance(target, AbstractTarget):
        target = StanBlackBox(target)
    if isinstance(target, AbstractTarget):
        if like is not None or support is not None:
            raise ValueError("a Target knows its shapes and supports; leave out `like` and `support`")
        return target
    if like is None and init is not None:
        if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(init)):
            raise ValueError(
                "`init` should hold arrays with a leading chain axis, but has plain numbers; "
                "pass arrays, and `like` to say the structure of a position"
            )
        like = jax.tree.map(lambda leaf: np.asarray(leaf)[0], init)
    if like is None and callable(target):
        raise ValueError("the shape of a position is not known; pass `like`, an example position or a dimension")
    return Target(target, like, support=support)


def _with_executor(target: AbstractTarget, executor: Any) -> AbstractTarget:
    if executor is not None and not (hasattr(executor, "submit") and hasattr(executor, "shutdown")):
        raise TypeError(f"`executor` should be a concurrent.futures.Executor, but is a {type(executor).__name__}")
    if isinstance(target, BlackBox):
        return target.with_executor(executor)
    if executor is not None:
        raise ValueError(
            "`executor` is for functions that are not JAX, given as tessmc.BlackBox(fn, like); this density is compiled"
        )
    return target


def _as_layout(devices: Any, batch_size: Any, target: AbstractTarget, num_chains: int) -> Layout | None:
    """Where the chains are; None for one device and all at once."""
    if batch_size is not None:
        check_count("chain_batch_size", batch_size, 1)
    if isinstance(target, BlackBox):
        if devices is not None or batch_size is not None:
            raise ValueError("`devices` and `chain_batch_size` are for JAX densities; a black box has its `executor`")
        return None
    if devices is None:
        chosen = _busy(jax.devices(), num_chains)
    elif isinstance(devices, int | np.integer) and not isinstance(devices, bool):
        if not 1 <= devices <= len(jax.devices()):
            raise ValueError(f"`devices` should be from 1 to the {len(jax.devices())} that JAX has, but is {devices}")
        chosen = jax.devices()[:devices]
    else:
        chosen = list(devices)
        if not chosen or not all(isinstance(device, jax.Device) for device in chosen):
            raise TypeError(f"`devices` should be a number or some of jax.devices(), but is {devices!r}")
    if len(chosen) > num_chains:
        raise ValueError(f"{len(chosen)} devices are more than the {num_chains} chains; pass devices={num_chains}")
    if len(chosen) == 1 and batch_size is None and chosen[0] == jax.local_devices()[0]:
        return None
    return Layout(chosen, num_chains, batch_size)


def _busy(devices: Sequence[jax.Device], num_chains: int) -> Sequence[jax.Device]:
    """As many as the chains keep busy; those of other processes all, and of processors no more than there are cores."""
    if jax.process_count() > 1:
        return devices
    most = os.cpu_count() or 1 if devices[0].platform == "cpu" else len(devices)
    return devices[: max(1, min(most, num_chains // MIN_CHAINS))]


def _as_warmup(warmup: Any) -> AbstractWarmup:
    if warmup is None:
        return Warmup.auto()
    if not isinstance(warmup, AbstractWarmup):
        raise TypeError(
            f"`warmup` should be made by tessmc.Warmup.auto() or tessmc.Warmup.paper(...), but is {warmup!r}"
        )
    return warmup


def _as_transport(transport: Any, target: AbstractTarget, needs_inverse: bool) -> AbstractBijection | None:
    dim = target.dim
    if transport is None:
        return None
    if not isinstance(transport, AbstractBijection):
        raise TypeError(f"`transport` should be a FlowJAX bijection, but is a {type(transport).__name__}")
    if transport.shape != (dim,) or transport.cond_shape is not None:
        raise ValueError(
            f"`transport` should have shape ({dim},) and no condition, but has shape {transport.shape} and "
            f"condition {transport.cond_shape}; the target has {dim} unconstrained dimensions"
        )
    _check_ways(transport, target.dtype, needs_inverse)
    # A map learned in one precision may start a run in the other.
    return jax.tree.map(lambda leaf: leaf.astype(target.dtype) if eqx.is_inexact_array(leaf) else leaf, transport)


def _check_ways(transport: AbstractBijection, dtype: np.dtype, needs_inverse: bool) -> None:
    """Some bijections have a formula in one direction only."""
    point = jax.ShapeDtypeStruct(transport.shape, dtype)
    try:
        eqx.filter_eval_shape(transport.transform_and_log_det, point)
    except NotImplementedError as error:
        raise ValueError(
            f"`transport` cannot push a point from its reference space to the target's: {error}; FlowJAX's flows are "
            "built the other way round unless they are made with invert=False"
        ) from error
    try:
        if needs_inverse:
            eqx.filter_eval_shape(transport.inverse_and_log_det, point)
    except NotImplementedError as error:
        raise ValueError(
            f"`transport` has no inverse: {error}. A warm-up and `init` need one; pass num_warmup=0 and no `init` to "
            "use the map as it is"
        ) from error
