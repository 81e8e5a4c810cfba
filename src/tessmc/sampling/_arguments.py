"""What users give to `sample`, as we use it, or a sentence that says what does not fit."""

import os
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, PyTree

from tessmc._types import Points
from tessmc.adaptation import AbstractWarmup, Warmup
from tessmc.engines import MIN_CHAINS, Layout
from tessmc.sampling._goal import Goal, check_count
from tessmc.targets import AbstractTarget, BlackBox, StanBlackBox, Target, is_bridgestan


def unconstrain(target: AbstractTarget, values: PyTree[Array]) -> Points:
    start = jax.jit(jax.vmap(target.unconstrain))(values)
    is_finite = np.isfinite(np.asarray(start)).all(axis=1)
    if not is_finite.all():
        chain = int(np.argmin(is_finite))
        raise ValueError(
            f"`init` of chain {chain} lies on the boundary of its support, {jax.tree.map(lambda v: v[chain], values)}; "
            "move it inside"
        )
    return start


def as_goal(num_samples: Any, target_ess: Any, max_seconds: Any, max_evaluations: Any) -> Goal:
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


def as_names(keep: Any, target: AbstractTarget) -> tuple[str, ...] | None:
    if keep is None:
        return None
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    known = jax.eval_shape(target.constrain, np.zeros(target.dim, target.dtype))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"`keep` should name some of {', '.join(known)}, but is {keep!r}")
    return names


def as_target(target: Any, like: PyTree[Any], init: PyTree[Any], support: PyTree[Any]) -> AbstractTarget:
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


def with_executor(target: AbstractTarget, executor: Any) -> AbstractTarget:
    if executor is not None and not (hasattr(executor, "submit") and hasattr(executor, "shutdown")):
        raise TypeError(f"`executor` should be a concurrent.futures.Executor, but is a {type(executor).__name__}")
    if isinstance(target, BlackBox):
        return target.with_executor(executor)
    if executor is not None:
        raise ValueError(
            "`executor` is for functions that are not JAX, given as tessmc.BlackBox(fn, like); this density is compiled"
        )
    return target


def as_layout(
    devices: Any, batch_size: Any, target: AbstractTarget, num_chains: int, is_durable: bool
) -> Layout | None:
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
    layout = Layout(chosen, num_chains, batch_size)
    if layout.is_shared and is_durable:
        raise ValueError(
            "`run_dir` is for one process, but the devices are of several: save the result in one of them, or pass "
            "devices=jax.local_devices()"
        )
    return layout


def _busy(devices: Sequence[jax.Device], num_chains: int) -> Sequence[jax.Device]:
    """As many as the chains keep busy; those of other processes all, and of processors no more than there are cores."""
    if jax.process_count() > 1:
        return devices
    most = os.cpu_count() or 1 if devices[0].platform == "cpu" else len(devices)
    return devices[: max(1, min(most, num_chains // MIN_CHAINS))]


def as_warmup(warmup: Any) -> AbstractWarmup:
    if warmup is None:
        return Warmup.auto()
    if not isinstance(warmup, AbstractWarmup):
        raise TypeError(
            f"`warmup` should be made by tessmc.Warmup.auto() or tessmc.Warmup.paper(...), but is {warmup!r}"
        )
    return warmup


def as_transport(transport: Any, target: AbstractTarget, needs_inverse: bool) -> AbstractBijection | None:
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
    # A map learned in one precision may start a run in the other.
    transport = jax.tree.map(lambda leaf: leaf.astype(target.dtype) if eqx.is_inexact_array(leaf) else leaf, transport)
    _check_ways(transport, target.dtype, needs_inverse)
    return transport


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
