"""The pictures of a report, one function each: numbers in, SVG out."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from tessmc.diagnostics import MAX_R_HAT, MIN_ESS, Convergence
from tessmc.report._svg import Panel, alone, limits, number, picture, short, ticks

# Of a cloud, and of a line.
MAX_POINTS, MAX_STEPS = 800, 200
MAX_LINES = 8
NUM_BINS = 20
COLORS = "abcdefgh"
# Of a panel in a pair plot, and of all of them if they are few.
SIDE, WHOLE = 132, 480


def evenly(values: np.ndarray, count: int) -> np.ndarray:
    """At most so many rows, taken evenly."""
    return values[np.linspace(0, len(values) - 1, min(len(values), count)).astype(int)]


def trace(name: str, draws: np.ndarray) -> Markup:
    """Draws of a few chains, (chain, draw), one after the other."""
    few = evenly(draws, MAX_LINES)
    places = evenly(np.arange(draws.shape[1]), MAX_STEPS)
    panel = Panel((0, max(1, draws.shape[1] - 1)), limits(few))
    for kind, chain in zip(COLORS, few, strict=False):
        panel.line(places, chain[places], kind)
    panel.axes("draw", name)
    return alone(panel, f"Trace of {name}: {len(few)} chains, {_range(few)}")


def ranks(name: str, draws: np.ndarray) -> Markup:
    """How often each part of the ranks is visited, by groups of chains; even if they agree."""
    from scipy.stats import binom, rankdata

    share = (rankdata(draws) - 0.5).reshape(draws.shape) / draws.size
    groups = np.array_split(share, min(len(share), MAX_LINES))
    counts = [np.histogram(group, NUM_BINS, (0, 1))[0] / group.size * NUM_BINS for group in groups]
    size = min(group.size for group in groups)
    low, high = (binom.ppf(prob, size, 1 / NUM_BINS) * NUM_BINS / size for prob in (0.005, 0.995))
    panel = Panel((0, 1), (0, max(2.0, 1.05 * float(np.max(counts)))))
    panel.band(low, high)
    edges = np.linspace(0, 1, NUM_BINS + 1)
    for kind, count in zip(COLORS, counts, strict=False):
        panel.line(np.repeat(edges, 2)[1:-1], np.repeat(count, 2), kind)
    panel.axes(f"rank of {name}, as a share of all", "visits, 1 is even")
    seen = f"from {number(np.min(counts))} to {number(np.max(counts))} times as often as even"
    return alone(panel, f"Ranks of {name} in {len(groups)} groups of chains: each twentieth is visited {seen}")


def _range(values: np.ndarray) -> str:
    return f"from {number(np.min(values))} to {number(np.max(values))}"


def pairs(names: Sequence[str], points: np.ndarray) -> Markup:
    """Every pair of coordinates, (point, coordinate), with histograms of each on the diagonal."""
    few, count = evenly(points, MAX_POINTS), len(names)
    side = max(SIDE, WHOLE // count)
    # A few points far out would leave the rest a dot.
    spans = [limits(np.quantile(column, [0.002, 0.998])) for column in points.T]
    panels = []
    for down in range(count):
        for across in range(down + 1):
            left, bottom = 50 if across == 0 else 8, 34 if down == count - 1 else 8
            size, place = (side + left + 6, side + bottom + 6), (across * (side + 14) + 50 - left, down * (side + 14))
            margins = (left, 6, 6, bottom)
            x = spans[across]
            if across == down:
                panel = _marginal(points[:, across], x, size, margins)
            else:
                panel = Panel(x, spans[down], size, margins)
                panel.points(few[:, across], few[:, down])
            on_y: list[tuple[float, str]] | None = [] if across == down or across > 0 else None
            label = names[down] if across == 0 and down > 0 else ""
            panel.axes(short(names[across], 18) if down == count - 1 else "", label, (None if bottom > 8 else [], on_y))
            panels.append((place, panel))
    whole = count * (side + 14) + 50
    return picture(panels, (whole, whole), f"Pairs and histograms of {', '.join(short(name) for name in names)}")


def _marginal(
    values: np.ndarray, span: tuple[float, float], size: tuple[int, int], margins: tuple[int, int, int, int]
) -> Panel:
    heights, edges = np.histogram(values, 30, span, density=True)
    panel = Panel(span, (0, 1.08 * float(heights.max()) or 1), size, margins)
    panel.bars(edges, heights)
    return panel


def dots(names: Sequence[str], values: np.ndarray, what: str, bound: float, is_log: bool) -> Markup:
    """A number of every parameter, in their order, and the bound that it should keep."""
    shown, limit = (np.log10(np.maximum(each, 1)) if is_log else np.asarray(each) for each in (values, bound))
    panel = Panel((0, len(names) + 1), limits([*shown, limit], 0.08))
    panel.line(panel.across, [limit, limit], "bound")
    is_known = np.isfinite(shown)
    for place in np.flatnonzero(is_known).tolist():
        given = f"{panel.x(place + 1):.1f}", f"{panel.y(shown[place]):.1f}", names[place], number(values[place])
        dot = Markup('<circle class="a" cx="{}" cy="{}" r="2.5"><title>{}: {}</title></circle>')
        panel.parts.append(dot.format(*given))
    on_x = [(tick, number(tick)) for tick in ticks(*panel.across) if 1 <= tick <= len(names) and tick == round(tick)]
    panel.axes("parameter, in the order of the table", what, (on_x, _powers(*panel.up) if is_log else None))
    known = np.asarray(values)[is_known]
    seen = _range(known) if known.size else "none of which can be computed"
    side = "above" if is_log else "below"
    return alone(panel, f"{what} of {len(names)} parameters, {seen}; it should be {side} {bound}")


def _powers(low: float, high: float) -> list[tuple[float, str]]:
    """Ticks of a logarithmic axis: 1, 2 or 5 times powers of ten, or the powers alone where those are many."""
    factors = (1,) if high - low > 2 else (1, 2, 5)
    whole = [each * 10**power for power in range(int(low) - 1, int(high) + 1) for each in factors]
    return [(float(np.log10(each)), f"{each:g}") for each in whole if low <= np.log10(each) <= high]


def diagnostics(names: Sequence[str], found: Convergence) -> list[Markup]:
    return [
        dots(names, found.ess_bulk, "bulk ESS", MIN_ESS, is_log=True),
        dots(names, found.ess_tail, "tail ESS", MIN_ESS, is_log=True),
        dots(names, found.r_hat, "R-hat", MAX_R_HAT, is_log=False),
    ]


def series(what: str, across: str, x: np.ndarray, y: np.ndarray, bound: float | None = None) -> Markup:
    """One number of the warm-up, window by window."""
    values = y if bound is None else [*y, bound]
    panel = Panel(limits(x), limits(values, 0.08))
    if bound is not None:
        panel.line(panel.across, [bound] * 2, "bound")
    panel.line(x, y)
    if len(x) <= 60:
        panel.points(x, y, "big a")
    panel.axes(across, what)
    known = y[np.isfinite(y)]
    told = f"from {number(known[0])} in the first to {number(known[-1])} in the last" if known.size else "unknown"
    return alone(panel, f"{what} over the warm-up, {told}")


def grid(names: Sequence[str], lines: np.ndarray, points: np.ndarray) -> Markup:
    """Lines of a grid, (line, place, 2), that the map has bent, over draws."""
    across, up = (limits(np.quantile(column, [0.005, 0.995]), 0.15) for column in points.T)
    panel = Panel(across, up, (350, 340))
    few = evenly(points, MAX_POINTS)
    panel.points(few[:, 0], few[:, 1], "b")
    for line in lines:
        panel.line(line[:, 0], line[:, 1], "mesh")
    panel.axes(names[0], names[1])
    return alone(
        panel, f"A square grid of reference space as the map bends it, over draws of {names[0]} and {names[1]}"
    )


def cloud(names: Sequence[str], points: np.ndarray, radii: Sequence[tuple[float, str]]) -> Markup:
    """Draws pulled back to reference space, and circles that should hold known shares of them."""
    span = (-max(4.0, 1.1 * radii[-1][0]), max(4.0, 1.1 * radii[-1][0]))
    panel = Panel(span, span, (350, 340))
    panel.points(*evenly(points, MAX_POINTS).T)
    turn = np.linspace(0, 2 * np.pi, 60)
    shares = []
    for radius, share in radii:
        panel.line(radius * np.cos(turn), radius * np.sin(turn), "bound")
        found = np.mean(np.sum(points**2, axis=1) < radius**2)
        panel.text(float(panel.x(0)), float(panel.y(radius)) - 3, f"{share}: {found:.1%}", "note")
        shares.append(f"{found:.1%} inside the circle of {share}")
    panel.axes(names[0], names[1])
    return alone(panel, f"Draws pulled back, {names[0]} and {names[1]}: {', '.join(shares)}")


def quantiles(expected: np.ndarray, found: np.ndarray, worst: int, name: str) -> Markup:
    """Quantiles of every coordinate, (quantile, coordinate), against those of the law."""
    span = limits(expected, 0.1)
    panel = Panel(span, span, (350, 340))
    for place in evenly(np.arange(found.shape[1]), 40):
        panel.line(expected, found[:, place], "faint")
    panel.line(expected, found[:, worst], "b")
    panel.line(span, span, "bound")
    panel.axes("quantile of the law", "quantile of draws")
    gap = np.max(np.abs(found[:, worst] - expected))
    return alone(
        panel, f"Quantiles of pulled back draws against the law: the furthest, {name}, is off by up to {number(gap)}"
    )


def histogram(
    values: np.ndarray, across: str, seen: str, density: tuple[np.ndarray, np.ndarray] | None = None
) -> Markup:
    """How often each value comes, and the density that it should have, if one is known."""
    finite = values[np.isfinite(values)]
    span = limits(np.quantile(finite, [0.001, 0.999]) if finite.size else finite)
    heights, edges = np.histogram(finite, 40, span, density=True)
    top = max(float(np.nan_to_num(heights).max()), 0.0 if density is None else float(density[1].max()))
    panel = Panel(span, (0, 1.08 * top or 1))
    panel.bars(edges, np.nan_to_num(heights))
    if density is not None:
        panel.line(*density, "bound")
    panel.axes(across, "density")
    return alone(panel, seen)
