"""What is wrong with a target, before a long run."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tessmc._arrays import in_precision_of
from tessmc._errors import BlackBoxError
from tessmc._types import Point, Points
from tessmc.targets._black_box import BlackBox, constrain_all
from tessmc.targets._target import AbstractTarget

# Nats of rounding that decide in the place of a slice, which lies one below its chain on average.
MAX_NOISE = 0.5
# Shares of points: so many may be impossible, or have a gradient that is not finite.
MAX_IMPOSSIBLE, MAX_BAD_GRADIENTS = 0.5, 0.1
# Lengths beyond which a target lies far away, or is very wide; and the inverse of what is very narrow.
MAX_LENGTH = 1e3
# Where a run of 128 chains takes hours.
SLOW_MILLISECONDS = 1000.0


@dataclass(frozen=True)
class Check:
    """What was found when a target was looked at; it prints as a page of sentences.

    Attributes:
        problems: what is likely to spoil a run, a sentence each.
        notes: what is good to know, a sentence each.
        dim: unconstrained dimensions.
        dtype: of the log density.
        num_points: at which it was asked.
        milliseconds: of one call; of a compiled density, of one among as many as there are points.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dim: int = 0
    dtype: str = ""
    num_points: int = 0
    milliseconds: float = math.nan

    @property
    def is_fine(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def __str__(self) -> str:
        seen = f"{self.dim} unconstrained {'dimension' if self.dim == 1 else 'dimensions'}, {self.dtype}"
        head = [f"{seen}, {self.milliseconds:.3g} ms a call, asked at {self.num_points} points"] if self.dim else []
        verdict = "Nothing is wrong with the target, as far as can be seen." if self.is_fine else ""
        lines = [*head, *(f"Problem: {each}." for each in self.problems), *(f"Note: {each}." for each in self.notes)]
        return "\n".join(filter(None, [*lines, verdict]))


def examine(target: AbstractTarget, points: Points) -> Check:
    """Ask a target at some points, twice; a compiled one also for its gradients."""
    if isinstance(target, BlackBox):
        return _examine_box(target, np.asarray(points))
    with in_precision_of(target.dtype):
        density = jax.jit(jax.vmap(target.log_density))
        jax.block_until_ready(density(points))
        began = time.perf_counter()
        values = np.asarray(density(points))
        milliseconds = 1000 * (time.perf_counter() - began) / len(points)
        problems = _about_values(target, np.asarray(points), values, np.asarray(density(points)))
        notes: list[str] = []
        if np.isfinite(values).any():
            problems += _about_rounding(target, density, points, values)
            more, notes = _about_gradients(target, points, values)
            problems += more
    return _summed_up(target, points, milliseconds, problems, notes)


def _examine_box(box: BlackBox, points: np.ndarray) -> Check:
    # What it does with an error is told, not done.
    box = box.rejecting()
    # Compiled here, and not while time is taken.
    jax.block_until_ready(constrain_all(box.form, jnp.asarray(points)))
    try:
        began = time.perf_counter()
        values = box.log_densities(points)
        milliseconds = 1000 * (time.perf_counter() - began) / len(points)
        problems = box.desk.rejected()
        again = box.log_densities(points)
    except BlackBoxError as error:
        return _summed_up(box, points, math.nan, [str(error)], [])
    finally:
        box.desk.close()
    return _summed_up(box, points, milliseconds, problems or _about_values(box, points, values, again), [])


def _summed_up(
    target: AbstractTarget, points: Points | np.ndarray, milliseconds: float, problems: list[str], notes: list[str]
) -> Check:
    if milliseconds > SLOW_MILLISECONDS:
        notes = [*notes, "a call takes long: give a black box an executor, and every run a run_dir"]
    return Check(problems, notes, target.dim, target.dtype.name, len(points), milliseconds)


def _about_values(target: AbstractTarget, points: np.ndarray, values: np.ndarray, again: np.ndarray) -> list[str]:
    """Not a number, infinite, the same everywhere, or another one when asked again."""
    found = []
    words = ((np.isnan, "NaN", "return -inf where a position is impossible, and a number elsewhere"),
             (np.isposinf, "+inf", "a density is finite: bound it"))  # fmt: skip
    for is_bad, name, advice in words:
        if is_bad(values).any():
            where = target.describe(jnp.asarray(points[np.argmax(is_bad(values))]))
            found.append(f"the log density is {name} at {_share(is_bad(values))}, such as {where}; {advice}")
    is_impossible = np.isneginf(values)
    if is_impossible.mean() > MAX_IMPOSSIBLE:
        where = target.describe(jnp.asarray(points[np.argmax(is_impossible)]))
        found.append(
            f"the log density is -inf at {_share(is_impossible)}, such as {where}; pass `init` with points where it is "
            "not, or the `support` of the parameters"
        )
    is_finite = np.isfinite(values)
    if is_finite.sum() > 1 and np.ptp(values[is_finite]) == 0:
        found.append(f"the log density is {values[is_finite][0]:.6g} everywhere; does it use its argument?")
    is_other = ~np.isclose(values, again, rtol=1e-5, atol=1e-5, equal_nan=True)
    if is_other.any():
        place = int(np.argmax(is_other))
        found.append(
            f"the log density is not the same when it is asked again: {values[place]:.6g}, then {again[place]:.6g}, at "
            f"{target.describe(jnp.asarray(points[place]))}; fix its random numbers"
        )
    return found


def _about_rounding(
    target: AbstractTarget, density: Callable[[Points], Array], points: Points, values: np.ndarray
) -> list[str]:
    """How far the value moves where its position moves by its own rounding, at the best half of the points."""
    spacing = float(jnp.finfo(target.dtype).eps)
    moved = np.asarray(density(points * (1 + 4 * spacing)))
    is_known = np.isfinite(values) & np.isfinite(moved)
    if not is_known.any():
        return []
    values, moved = values[is_known], moved[is_known]
    best = values >= np.median(values)
    noise = float(np.median(np.maximum(np.abs(moved - values), spacing * np.abs(values))[best]))
    if noise <= MAX_NOISE:
        return []
    return [
        f"in {target.dtype} the log density, around {np.median(values[best]):.4g}, is only known to about {noise:.1g} "
        "nats, as much as a slice is high: set jax.config.update('jax_enable_x64', True), or subtract a constant"
    ]


def _about_gradients(target: AbstractTarget, points: Points, values: np.ndarray) -> tuple[list[str], list[str]]:
    """Gradients that are not finite; and where and how wide the target would be, were it Gaussian."""

    def slopes(point: Point) -> tuple[Array, Array]:
        gradient = jax.grad(target.log_density)
        slope = gradient(point)
        steepness = jnp.linalg.norm(slope)
        direction = slope / jnp.where(steepness > 0, steepness, 1)
        return steepness, direction @ jax.jvp(gradient, (point,), (direction,))[1]

    try:
        steepness, curvature = (np.asarray(each, float) for each in jax.jit(jax.vmap(slopes))(points))
    except (NotImplementedError, TypeError, ValueError) as error:
        return [], [f"JAX cannot take the gradient, values alone are used: {str(error).splitlines()[0]:.100}"]
    is_bad = np.isfinite(values) & ~np.isfinite(steepness)
    problems = []
    if is_bad.mean() > MAX_BAD_GRADIENTS:
        problems.append(
            f"the gradient is not finite at {_share(is_bad)} where the log density is; look for a `where` with NaN in "
            "the branch not taken, or pass warmup=tessmc.Warmup.auto(use_gradient=False)"
        )
    is_hill = np.isfinite(steepness) & (curvature < 0)
    if is_hill.any():
        away = float(np.median(steepness[is_hill] / -curvature[is_hill]))
        width = float(np.median(1 / np.sqrt(-curvature[is_hill])))
        if away > MAX_LENGTH:
            problems.append(
                f"the target seems to lie {away:.1g} away from where chains start; pass `init`, or shift it"
            )
        elif not 1 / MAX_LENGTH < width < MAX_LENGTH:
            problems.append(
                f"the target seems to be {width:.1g} wide, and chains start within 1; rescale its parameters"
            )
    return problems, []


def _share(is_so: np.ndarray) -> str:
    return f"{is_so.sum()} of {is_so.size} points"
