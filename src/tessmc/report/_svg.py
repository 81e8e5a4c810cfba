"""Small pictures as SVG, whose colours are those of the page, light or dark."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

# Left, right, top and bottom of a panel, for its ticks and labels.
MARGINS = (54, 10, 12, 34)
LONGEST = 24


def short(name: str, length: int = LONGEST) -> str:
    """A name that fits beside an axis."""
    return name if len(name) <= length else name[: length - 1] + "…"


def number(value: float, num_digits: int = 4) -> str:
    return f"{value:.{num_digits}g}".replace("-", "−")


def limits(values: Any, margin: float = 0.04) -> tuple[float, float]:
    """The range of all finite values and a little more; never empty."""
    flat = np.asarray(values, float).ravel()
    flat = flat[np.isfinite(flat)]
    low, high = (0.0, 1.0) if flat.size == 0 else (float(flat.min()), float(flat.max()))
    room = margin * (high - low) or max(abs(low), 1.0) * 0.1
    return low - room, high + room


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers in a range, about so many."""
    raw = (high - low) / count
    power = 10 ** np.floor(np.log10(raw))
    step = power * next(each for each in (1, 2, 5, 10) if each * power >= raw * 0.999)
    first = np.ceil(low / step)
    # Adding zero makes -0 a zero.
    return [float(place * step) + 0.0 for place in np.arange(first, np.floor(high / step) + 1)]


class Panel:
    """Axes, and what is drawn on them, in the coordinates of the data."""

    def __init__(
        self,
        across: tuple[float, float],
        up: tuple[float, float],
        size: tuple[int, int] = (340, 210),
        margins: tuple[int, int, int, int] = MARGINS,
    ):
        self.across, self.up, self.size = across, up, size
        left, right, top, bottom = margins
        self.box = (left, size[0] - right, top, size[1] - bottom)
        # What is drawn is cut off at the axes; words are not.
        self.parts: list[Markup] = []
        self.words: list[Markup] = []

    def x(self, value: Any) -> np.ndarray:
        left, right, *_ = self.box
        return left + (np.asarray(value, float) - self.across[0]) / np.ptp(self.across) * (right - left)

    def y(self, value: Any) -> np.ndarray:
        *_, top, bottom = self.box
        return bottom - (np.asarray(value, float) - self.up[0]) / np.ptp(self.up) * (bottom - top)

    def _places(self, x: Any, y: Any) -> np.ndarray:
        """In the picture; what is far outside is left a little outside, as NaN is left out by the callers."""
        width, height = self.size
        places = np.stack(np.broadcast_arrays(self.x(x), self.y(y)), axis=-1)
        return np.clip(places, [-9.0, -9.0], [width + 9.0, height + 9.0])

    def line(self, x: Any, y: Any, kind: str = "a", is_closed: bool = False) -> None:
        """A line; it is broken where a value is not finite."""
        path, is_on = [], False
        for across, up in self._places(x, y):
            is_finite = np.isfinite(across) and np.isfinite(up)
            if is_finite:
                path.append(f"{'L' if is_on else 'M'}{across:.1f} {up:.1f}")
            is_on = bool(is_finite)
        self.parts.append(Markup('<path class="line {}" d="{}"/>').format(kind, "".join(path) + "Z" * is_closed))

    def points(self, x: Any, y: Any, kind: str = "a") -> None:
        """A cloud in one path: a round pen that is set down at every point inside the axes."""
        places = self._places(x, y)
        left, right, top, bottom = self.box
        is_in = (places >= [left - 1, top - 1]).all(axis=1) & (places <= [right + 1, bottom + 1]).all(axis=1)
        dots = "".join(f"M{across:.1f} {up:.1f}h0" for across, up in places[is_in])
        self.parts.append(Markup('<path class="dots {}" d="{}"/>').format(kind, dots))

    def bars(self, edges: np.ndarray, heights: np.ndarray, kind: str = "a") -> None:
        """A histogram as one area."""
        x = np.repeat(edges, 2)
        y = np.concatenate([[0], np.repeat(heights, 2), [0]])
        path = "L".join(f"{across:.1f} {up:.1f}" for across, up in self._places(x, y))
        self.parts.append(Markup('<path class="area {}" d="M{}Z"/>').format(kind, path))

    def band(self, low: float, high: float) -> None:
        """A range of the vertical axis, from side to side."""
        left, right, *_ = self.box
        top, bottom = float(self.y(high)), float(self.y(low))
        given = left, top, right - left, bottom - top
        self.parts.append(Markup('<rect class="band" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(*given))

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> None:
        """Words at a place of the picture, not of the data."""
        given = f"{x:.1f}", f"{y:.1f}", anchor, kind, words
        self.words.append(Markup('<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>').format(*given))

    def axes(
        self,
        across: str = "",
        up: str = "",
        names: tuple[Sequence[tuple[float, str]] | None, Sequence[tuple[float, str]] | None] = (None, None),
    ) -> None:
        """Ticks and labels; `names` gives ticks and their words where they are not the numbers themselves."""
        left, right, top, bottom = self.box
        self.words.append(Markup('<path class="axis" d="M{} {}V{}H{}"/>').format(left, top, bottom, right))
        on_x, on_y = (
            [(tick, number(tick, 6)) for tick in ticks(*span)] if given is None else given
            for given, span in zip(names, (self.across, self.up), strict=True)
        )
        for tick, words in on_x:
            self.text(float(self.x(tick)), bottom + 13, words)
        for tick, words in on_y:
            self.text(left - 5, float(self.y(tick)) + 3.5, words, anchor="end")
        self.text((left + right) / 2, self.size[1] - 4, short(across, 40), "label")
        place = f"translate(10 {(top + bottom) / 2:.1f}) rotate(-90)"
        label = Markup('<text transform="{}" text-anchor="middle" class="label">{}</text>')
        self.words.append(label.format(place, short(up)))

    def inner(self) -> Markup:
        left, right, top, bottom = self.box
        place = left, top - 2, right - left + 2, bottom - top + 2
        window = Markup('<svg x="{0}" y="{1}" width="{2}" height="{3}" viewBox="{0} {1} {2} {3}">').format(*place)
        return window + Markup("").join(self.parts) + Markup("</svg>") + Markup("").join(self.words)


def picture(panels: Iterable[tuple[tuple[int, int], Panel]], size: tuple[int, int], seen: str) -> Markup:
    """Panels at their places in one picture; `seen` says what is seen, for those who do not see it."""
    groups = [Markup('<g transform="translate({} {})">{}</g>').format(*place, panel.inner()) for place, panel in panels]
    head = Markup('<svg viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">')
    return head.format(*size, *size, seen) + Markup("").join(groups) + Markup("</svg>")


def alone(panel: Panel, seen: str) -> Markup:
    return picture([((0, 0), panel)], panel.size, seen)
