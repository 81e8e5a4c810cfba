"""Pictures of what the sampler does."""

from collections.abc import Callable, Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import matplotlib.pyplot as plt
import numpy as np
from flowjax.bijections import AbstractBijection
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tessmc._types import Points
from tessmc.kernels import TransportEllipticalSlice, ask, begin
from tessmc.targets import AbstractTarget

DRAWS, ELLIPSE, POINT = "#3b6ea5", "#c8553d", "#1d1d1f"


def figure_one(
    target: AbstractTarget, transports: dict[str, AbstractBijection], positions: Points | np.ndarray, path: str | Path
) -> None:
    """Figure 1, for real: target and reference space side by side, one row for each map.

    Each panel has the contours of the density, the draws, one ellipse of the sampler and the point at which it
    starts: an ellipse in reference space, on the right, and what the map makes of it in target space, on the left.

    Args:
        target: a density in two dimensions.
        transports: title → map.
        positions: draws from the target.
        path: of the picture.
    """
    draws = jnp.asarray(positions)
    figure, axes = plt.subplots(len(transports), 2, figsize=(10, 4.6 * len(transports)), squeeze=False)
    for row, (title, transport) in zip(axes, transports.items(), strict=True):
        _draw_row(row, title, TransportEllipticalSlice(target.log_density, transport), draws)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncols=3, frameon=False)
    _save(figure, path)


def side_by_side(clouds: dict[str, np.ndarray], names: Sequence[str], path: str | Path, max_points: int = 5000) -> None:
    """Clouds of points in the plane, a panel each, on the same axes: Figure 2.

    Args:
        clouds: title → points, a row each.
        names: of the two coordinates.
        path: of the picture.
        max_points: of each cloud, taken evenly.
    """
    figure, axes = plt.subplots(1, len(clouds), figsize=(1 + 4.5 * len(clouds), 4), sharex=True, sharey=True)
    for panel, (title, points) in zip(np.ravel(axes), clouds.items(), strict=True):
        panel.plot(*_few(points, max_points).T, ".", color=DRAWS, alpha=0.3, markersize=2)
        panel.set(title=title, xlabel=names[0])
        panel.spines[["top", "right"]].set_visible(False)
    np.ravel(axes)[0].set_ylabel(names[1])
    _save(figure, path)


def _few(points: np.ndarray, count: int) -> np.ndarray:
    return points[np.linspace(0, len(points) - 1, min(len(points), count)).astype(int)]


def pair_plot(clouds: dict[str, np.ndarray], names: Sequence[str], path: str | Path, max_points: int = 2000) -> None:
    """Every pair of coordinates of one cloud of points or of several: Figure 3, and the supplement's.

    On the diagonal are histograms; two coordinates alone have one panel.

    Args:
        clouds: label → points, a row each; drawn one over the other, the first below.
        names: of the coordinates.
        path: of the picture.
        max_points: of each cloud in a panel, taken evenly; histograms have all.
    """
    first = 1 if len(names) == 2 else 0
    count = len(names) - first
    figure, axes = plt.subplots(count, count, figsize=(3 + 1.9 * count, 3 + 1.7 * count), squeeze=False)
    colors = dict(zip(clouds, (DRAWS, ELLIPSE, "#5b8c5a", "#8a6fa8"), strict=False))
    # A few points far out would leave the rest a dot.
    limits = np.quantile(np.concatenate(list(clouds.values())), [0.001, 0.999], axis=0).T
    for (down, across), panel in np.ndenumerate(axes):
        y, x = down + first, across
        panel.set_visible(x <= y)
        for label, points in clouds.items():
            few = _few(points, max_points)
            if x == y:
                panel.hist(points[:, x], 40, range=limits[x], density=True, histtype="step", color=colors[label])
            elif x < y:
                panel.plot(few[:, x], few[:, y], ".", color=colors[label], alpha=0.3, markersize=2)
        panel.set(xlim=limits[x], xlabel=names[x] if down == count - 1 else "")
        if x == y:
            panel.set(yticks=[])
        else:
            panel.set(ylim=limits[y], ylabel=names[y] if across == 0 else "")
        panel.spines[["top", "right"]].set_visible(False)
    handles = [Line2D([], [], marker="o", linestyle="", color=color, label=label) for label, color in colors.items()]
    figure.legend(handles=handles, loc="upper right", frameon=False)
    _save(figure, path)


def _draw_row(row: np.ndarray, title: str, kernel: TransportEllipticalSlice, positions: Points) -> None:
    target_space, reference_space = row
    references = jax.jit(jax.vmap(kernel.pull))(positions)
    # A draw out in one wing shows best how the map bends the ellipse.
    wing = np.argsort(np.asarray(positions)[:, 0])[int(0.95 * len(positions))]
    ellipse = _ellipse(kernel, positions[wing])
    pushed = jax.jit(jax.vmap(kernel.transport.transform))(ellipse)
    _draw_panel(target_space, kernel.log_density, positions, pushed)
    _draw_panel(reference_space, lambda u: _log_pulled(kernel, u), references, ellipse)
    target_space.set(title=f"Target space, {title}", xlabel="$x_1$", ylabel="$x_2$")
    reference_space.set(title=f"Reference space, {title}", xlabel="$u_1$", ylabel="$u_2$")
    reference_space.set_aspect("equal", adjustable="datalim")


def _log_pulled(kernel: TransportEllipticalSlice, reference: jax.Array) -> jax.Array:
    """Log π̂(u), the density that the sampler sees (2)."""
    return kernel.evaluate(reference).log_ratio - jnp.sum(reference**2) / 2


@eqx.filter_jit
def _ellipse(kernel: TransportEllipticalSlice, position: jax.Array) -> Points:
    """The whole ellipse of one transition from `position`, once around."""
    arc = begin(jr.key(2), kernel.init(position))
    angles = jnp.linspace(0, 2 * jnp.pi, 400)
    return jax.vmap(lambda angle: ask(arc._replace(angle=angle)))(angles)


def _draw_panel(axes: Axes, log_density: Callable, draws: Points, ellipse: Points) -> None:
    everything = np.concatenate([np.asarray(draws), np.asarray(ellipse)])
    low, high = everything.min(0), everything.max(0)
    margin = 0.1 * (high - low)
    x, y = np.meshgrid(*(np.linspace(a, b, 300) for a, b in zip(low - margin, high + margin, strict=True)))
    grid = jnp.asarray(np.stack([x, y], axis=-1), draws.dtype)
    height = np.asarray(jax.jit(jax.vmap(jax.vmap(log_density)))(grid))
    levels = height.max() - np.array([12.5, 8.0, 4.5, 2.0, 0.5])
    axes.contour(x, y, height, levels=levels, colors="0.6", linewidths=0.8, linestyles="solid")
    axes.plot(draws[:, 0], draws[:, 1], ".", color=DRAWS, alpha=0.25, markersize=3, label="draws")
    axes.plot(ellipse[:, 0], ellipse[:, 1], color=ELLIPSE, linewidth=1.8, label="one ellipse")
    axes.plot(*ellipse[0], "o", color=POINT, markersize=6, label="where it starts")
    axes.spines[["top", "right"]].set_visible(False)


def _save(figure: Figure, path: str | Path) -> None:
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
