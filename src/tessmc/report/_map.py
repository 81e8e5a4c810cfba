"""The map seen: draws pulled back to reference space, and a grid of reference space pushed to the target's."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array
from markupsafe import Markup

from tessmc._arrays import in_precision_of, put
from tessmc.kernels import AbstractLaw, StudentT
from tessmc.report import _plots
from tessmc.report._plots import evenly
from tessmc.report._svg import number

# Draws that are pulled back.
MAX_PULLED = 4096
# Lines of the grid each way, places on a line, and how far they reach.
NUM_LINES, NUM_PLACES, REACH = 13, 61, 3.0
SHARES = (0.5, 0.9, 0.99)


class MapStory(NamedTuple):
    """Pictures of the map, each with its caption, or why there are none."""

    pictures: list[tuple[Markup, str]]
    why_not: str = ""


def map_story(transport: AbstractBijection, law: AbstractLaw, positions: np.ndarray, names: list[str]) -> MapStory:
    """How far pulled back draws, (draw, dim), are from the law, and what the map does to a grid."""
    positions = evenly(positions, MAX_PULLED)
    with in_precision_of(positions.dtype):
        try:
            pull = jax.jit(jax.vmap(transport.inverse))
            references = np.asarray(pull(put(positions, positions.dtype)), float)
        except NotImplementedError as error:
            return MapStory([], f"The map has no inverse, so that draws cannot be pulled back: {error}")
        references = references[np.isfinite(references).all(axis=1)]
        if len(references) < 2:
            return MapStory([], "No draw could be pulled back to finite numbers.")
        pictures = [] if len(names) < 2 else _in_the_plane(transport, law, positions, references, names)
    return MapStory([*pictures, *_of_all(law, references)])


def _in_the_plane(
    transport: AbstractBijection, law: AbstractLaw, positions: np.ndarray, references: np.ndarray, names: list[str]
) -> list[tuple[Markup, str]]:
    pair, other = worst_pair(positions.astype(float)), worst_pair(references)
    lines = np.asarray(pushed_grid(transport, np.asarray(pair)), float)
    radii = [(radius_of(law, 2, share), f"{share:.0%}") for share in SHARES]
    grid = _plots.grid([names[place] for place in pair], lines, positions[:, pair].astype(float))
    cloud = _plots.cloud([f"u{place + 1}" for place in other], references[:, other], radii)
    return [
        (grid, "Target space, for the two coordinates that are furthest from Gaussian together: a square grid of "
               "reference space as the map bends it, through the plane that moves these two most; draws below it."),
        (cloud, "Reference space, for the two coordinates that the map leaves furthest from Gaussian: draws pulled "
                "back. Each circle names the share of draws that it should hold, then the share that it does."),
    ]  # fmt: skip


def _of_all(law: AbstractLaw, references: np.ndarray) -> list[tuple[Markup, str]]:
    marginal, radial = marginal_law(law), square_law(law, references.shape[1])
    probs = (np.arange(99) + 1) / 100
    expected, found = marginal.ppf(probs), np.quantile(references, probs, axis=0)
    worst = int(np.argmax(np.abs(found - expected[:, None]).max(axis=0)))
    squares = np.sum(references**2, axis=1)
    low, high = np.quantile(squares, [0.001, 0.999])
    x = np.linspace(low, high, 120)
    seen = (
        f"|u|² of pulled back draws: its mean is {number(squares.mean())}, and that of its law {number(radial.mean())}"
    )
    lines = "every coordinate" if references.shape[1] <= 40 else "40 of the coordinates"
    return [
        (_plots.quantiles(expected, found, worst, f"u{worst + 1}"),
         f"Quantiles of pulled back draws, a line for {lines}; the furthest off, u{worst + 1}, stands out. "
         "Under a perfect map all lie on the diagonal."),
        (_plots.histogram(squares, "|u|²", seen, (x, radial.pdf(x))), f"{seen} (dashed)."),
    ]  # fmt: skip


def worst_pair(points: np.ndarray) -> list[int]:
    """The two coordinates that depend on each other most, by correlations of values and of squares."""
    spread = points.std(axis=0)
    standard = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1)
    # One point far out should not decide.
    standard = np.clip(standard, -4, 4)
    squares = standard**2 - np.mean(standard**2, axis=0)
    scale = squares.std(axis=0)
    squares = squares / np.where(scale > 0, scale, 1)
    both = [np.abs(a.T @ b) / len(points) for a, b in ((standard, standard), (squares, standard), (squares, squares))]
    # A bend shows more of a map than a tilt does.
    score = both[0] / 2 + both[1] + both[1].T + both[2]
    np.fill_diagonal(score, -1)
    return sorted(int(place) for place in np.unravel_index(np.argmax(score), score.shape))


@eqx.filter_jit
def pushed_grid(transport: AbstractBijection, pair: np.ndarray) -> Array:
    """Lines of a square grid in the plane of reference space that moves a pair of coordinates most, as pushed."""
    origin = jnp.zeros(transport.shape)
    slopes = jax.jacrev(lambda u: transport.transform(u)[pair])(origin)
    plane, _ = jnp.linalg.qr(slopes.T)
    steps, places = jnp.linspace(-REACH, REACH, NUM_LINES), jnp.linspace(-REACH, REACH, NUM_PLACES)
    one, two = jnp.meshgrid(steps, places, indexing="ij")
    flat = jnp.concatenate([jnp.stack([one, two], -1), jnp.stack([two, one], -1)])
    points = flat.reshape(-1, 2) @ plane.T
    return jax.vmap(transport.transform)(points)[:, pair].reshape(flat.shape)


def _dof_and_scale(law: AbstractLaw) -> tuple[int, float]:
    return (int(law.dof), float(law.scale)) if isinstance(law, StudentT) else (0, 1.0)


def marginal_law(law: AbstractLaw) -> Any:
    """Of one coordinate, by SciPy."""
    from scipy import stats

    dof, scale = _dof_and_scale(law)
    return stats.t(dof, scale=scale) if dof else stats.norm(scale=scale)


def square_law(law: AbstractLaw, dim: int) -> Any:
    """Of |u|² in so many dimensions: χ², or a multiple of F."""
    from scipy import stats

    dof, scale = _dof_and_scale(law)
    return stats.f(dim, dof, scale=dim * scale**2) if dof else stats.chi2(dim, scale=scale**2)


def radius_of(law: AbstractLaw, dim: int, share: float) -> float:
    """Of the ball that holds such a share of the law."""
    return float(np.sqrt(square_law(law, dim).ppf(share)))


def in_words(law: AbstractLaw | None) -> str:
    dof, _ = (0, 1.0) if law is None else _dof_and_scale(law)
    return f"a Student-t with {dof} degrees of freedom" if dof else "a standard Gaussian"
