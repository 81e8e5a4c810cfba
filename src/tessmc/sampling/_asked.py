"""What is asked of a run, and whether a folder holds a run of which the same was asked."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection

from tessmc._errors import StorageError
from tessmc._types import Key, Points
from tessmc.adaptation import AbstractWarmup
from tessmc.storage import Manifest, to_arrays
from tessmc.targets import AbstractTarget, BlackBox

# Where the density is asked for, to know it again: so many points around 0, closer and further.
SCALES = (0.1, 0.1, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0)
# Other machines round differently, relative to the density's own size.
TOLERANCE = {np.dtype("float32"): 1e-5, np.dtype("float64"): 1e-10}


@dataclass(frozen=True)
class Asked:
    """What decides on the draws, but for how many."""

    target: AbstractTarget
    transport: AbstractBijection | None
    start: Points | None
    key: Key
    num_chains: int
    num_warmup: int
    warmup: AbstractWarmup
    thin: int
    keep: tuple[str, ...] | None
    save_warmup: bool

    def manifest(self) -> Manifest:
        """For a run folder."""
        return {
            "settings": self.settings(),
            "target": {**self.about_target(), "fingerprint": fingerprint(self.target)},
            "generator": "threefry2x32; chain i folds i into the key, its transition j folds j into that",
        }

    def settings(self) -> Manifest:
        """The arguments of `sample` that decide on the draws; maps and starts by a digest."""
        return {
            "num_chains": self.num_chains,
            "num_warmup": self.num_warmup,
            "seed": np.asarray(jr.key_data(self.key)).tolist(),
            "warmup": {"kind": type(self.warmup).__name__, **asdict(self.warmup)},
            "transport": _digest(self.transport),
            "init": _digest(self.start),
            "thin": self.thin,
            "keep": None if self.keep is None else list(self.keep),
            "save_warmup": self.save_warmup,
        }

    def about_target(self) -> Manifest:
        """What is known of the target without asking it."""
        shapes = jax.eval_shape(self.target.constrain, np.zeros(self.target.dim, self.target.dtype))
        return {
            "dim": self.target.dim,
            "dtype": self.target.dtype.name,
            "parameters": {name: [list(leaf.shape), leaf.dtype.name] for name, leaf in shapes.items()},
        }


def fingerprint(target: AbstractTarget) -> list[float]:
    """Log densities at fixed points; -inf where a black box gives no value."""
    points = np.random.default_rng(0).standard_normal((len(SCALES), target.dim)) * np.array(SCALES)[:, None]
    points = points.astype(target.dtype)
    if isinstance(target, BlackBox):
        return target.rejecting().log_densities(points).tolist()
    density = jax.jit(target.log_density)
    return [float(density(jax.device_put(point))) for point in points]


def refuse_another(asked: Manifest, found: Manifest, where: Any) -> None:
    """Only the same run goes on in a folder.

    Raises:
        StorageError: it is another; the differences are named.
    """
    try:
        differences = [
            f"{name} is {_short(asked['settings'][name])} here and {_short(found['settings'][name])} in the folder"
            for name in asked["settings"]
            if asked["settings"][name] != found["settings"][name]
        ]
        here, there = (dict(each["target"]) for each in (asked, found))
        values, stored = (np.array(each.pop("fingerprint"), float) for each in (here, there))
        if here != there:
            differences.append(f"the target has the parameters {_short(here)} here and {_short(there)} in the folder")
        elif not _are_close(values, stored, TOLERANCE[np.dtype(here["dtype"])]).all():
            place = int(np.argmin(_are_close(values, stored, TOLERANCE[np.dtype(here["dtype"])])))
            differences.append(
                f"the log density is another: at a fixed point it is {values[place]:.6g}, and was {stored[place]:.6g}"
            )
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"the manifest of {where} is not of a run of this version: {error!r}") from error
    if differences:
        raise StorageError(
            f"{where} holds another run: {'; '.join(differences)}. Take another folder, or ask for the same"
        )


def _are_close(values: np.ndarray, stored: np.ndarray, tolerance: float) -> np.ndarray:
    return np.isclose(values, stored, rtol=tolerance, atol=tolerance, equal_nan=True)


def _digest(tree: Any) -> str | None:
    if tree is None:
        return None
    content = b"".join(array.tobytes() for array in to_arrays(tree))
    return hashlib.sha256(content).hexdigest()[:16]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 80 else text[:77] + "..."
