"""A run that is in a folder: to look at, or to go on with."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection

from tessmc._arrays import in_precision_of
from tessmc._clock import Clock
from tessmc._errors import DamageError, StorageError
from tessmc._types import Point, Scalar
from tessmc.adaptation import AbstractWarmup, AutoWarmup, PaperWarmup, WarmupTask
from tessmc.kernels import TransportEllipticalSlice
from tessmc.sampling._result import Result
from tessmc.sampling._run import arrays_of
from tessmc.sampling._sample import sample
from tessmc.sampling._warmed import recalled
from tessmc.storage import KINDS, DrawStore, Manifest, RunFolder, Stored
from tessmc.targets import AbstractTarget

WARMUPS = {"AutoWarmup": AutoWarmup, "PaperWarmup": PaperWarmup}


def resume(run_dir: str | os.PathLike[str], target: Callable[..., Scalar] | AbstractTarget, **options: Any) -> Result:
    """Go on with a run where it stopped, or draw more: `sample` with the settings that are in the folder.

    Args:
        run_dir: the folder.
        target: as it was given to `sample`.
        options: further arguments of `sample`: `like`, `init`, `support`, `transport` and `warmup` if they were given
            then, and how many draws are wanted now; by default as many as then.
    """
    manifest = RunFolder(run_dir).manifest()
    try:
        settings, asked = manifest["settings"], manifest["asked"]
        given = {name: settings[name] for name in ("num_chains", "num_warmup", "thin", "keep", "save_warmup")}
        given["seed"] = np.array(settings["seed"], np.uint32)
        if "warmup" not in options:
            given["warmup"] = _warmup(settings["warmup"])
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"the manifest of {run_dir} is not of a run of this version: {error!r}") from error
    for name in ("transport", "init"):
        if settings[name] is not None and options.get(name) is None:
            raise ValueError(f"the run in {run_dir} was given `{name}`; pass it again")
    return sample(target, run_dir=run_dir, **{**given, **asked, **options})


def load(run_dir: str | os.PathLike[str], transport: AbstractBijection | None = None) -> Result:
    """The result of a run that is in a folder, complete or not; draws are read when they are asked for.

    Args:
        run_dir: the folder.
        transport: the map that was given to `sample`, if one was: its structure is not in the folder.

    Raises:
        StorageError: the folder is damaged, or holds no run.
    """
    folder = RunFolder(run_dir)
    try:
        return _load(folder, folder.manifest(), transport)
    except StorageError:
        raise
    # Whatever a folder holds that no run has written.
    except Exception as error:
        raise DamageError(f"{run_dir} is not a run of this version of tessmc: {error!r}") from error


def _load(folder: RunFolder, manifest: Manifest, transport: AbstractBijection | None) -> Result:
    settings, about = manifest["settings"], manifest["target"]
    num_chains, num_draws = _count(settings["num_chains"]), folder.num_draws()
    arrays = arrays_of(about, settings["keep"])
    for array in arrays:
        is_sound = array.kind in KINDS and all(_count(length + 1) for length in array.shape)
        _refuse(".." in Path(array.name).parts or not is_sound, f"the array {array}")
    store = DrawStore(folder.draws, arrays, num_chains, {}, "r")
    store.check(num_draws)
    words, kernel = _warmed(folder, manifest, transport)
    others = {array.name: np.empty((num_chains, 0, *array.shape), array.kind) for array in arrays}
    return Result(
        groups={
            group: Stored(store, group, num_draws, others) for group in dict.fromkeys(array.group for array in arrays)
        },
        num_chains=num_chains,
        num_draws=num_draws,
        num_evaluations_by_phase=dict(manifest.get("num_evaluations", {})),
        transport=None if kernel is None else kernel.transport,
        warmup_history=list(words.get("history", [])),
        timings={"total": 0.0, **manifest.get("timings", {})},
        troubles=list(manifest.get("troubles", [])),
        notes=list(manifest.get("notes", [])),
        stride=_count(words.get("stride", 1)),
        is_complete=manifest["status"] == "complete",
        reason=str(manifest.get("reason", manifest["status"])),
        run_dir=folder.path,
        law=None if kernel is None else kernel.law,
        settings=dict(settings),
    )


def _warmed(
    folder: RunFolder, manifest: Manifest, transport: AbstractBijection | None
) -> tuple[dict[str, Any], TransportEllipticalSlice | None]:
    """What is known of the warm-up, and the kernel with its map if the structure of that is known."""
    settings, about, note = manifest["settings"], manifest["target"], folder.note_of_warmup()
    if note is None:
        return {}, None
    num_chains, dim = _count(settings["num_chains"]), _count(about["dim"])
    # Before anything of that size is made.
    _refuse((num_chains, dim) not in [array.shape for array in note.arrays], f"{num_chains} chains in {dim} dimensions")
    if settings["transport"] is not None and transport is None:
        return note.words, None
    warmup = _warmup(settings["warmup"])
    if isinstance(warmup, PaperWarmup):
        width = _count(dim if warmup.width is None else warmup.width)
        size = _count(warmup.num_layers) * (_count(warmup.depth + 1) - 1) * width**2
        _refuse(size > sum(array.size for array in note.arrays), f"a map of width {width}")
    key = jr.wrap_key_data(jnp.asarray(np.array(settings["seed"], np.uint32)), impl="threefry2x32")
    target, num_warmup = Unknown(dim, np.dtype(about["dtype"])), _count(settings["num_warmup"] + 1) - 1
    given = target, transport, None, key, num_chains, num_warmup
    with in_precision_of(target.dtype):
        found = recalled(warmup, WarmupTask(*given, Clock(), lambda *_: None), folder)
    return ({}, None) if found is None else (found.words, found.kernel)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
        raise ValueError(f"{value!r} is not a number of things")
    return value


def _refuse(is_wrong: bool, what: str) -> None:
    if is_wrong:
        raise ValueError(f"{what} cannot be")


def _warmup(settings: dict[str, Any]) -> AbstractWarmup:
    given = dict(settings)
    kind = given.pop("kind")
    if kind not in WARMUPS:
        raise ValueError(f"the warm-up {kind} is not known here; pass `warmup`")
    return WARMUPS[kind](**given)


class Unknown(AbstractTarget):
    """A target of which only the dimension is known."""

    dim: int
    dtype: np.dtype

    def log_density(self, position: Point) -> Scalar:
        raise AssertionError(f"a loaded run does not know its density at {position}")

    constrain = unconstrain = check_init = log_density  # type: ignore[assignment]
