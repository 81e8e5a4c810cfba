"""A run as a person sees it: two lines that move on a terminal or in a notebook, and a few lines in a log elsewhere."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from html import escape
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tessmc._errors import CallbackError
from tessmc.sampling._progress import Listener, Progress
from tessmc.sampling._signals import Wish

logger = logging.getLogger("tessmc.progress")

# Seconds until the first line of a log inside a phase; each next one takes half as long again.
FIRST_LINE, GROWTH = 30.0, 1.5


class Display:
    """Two lines: what is done now and how far it is; and what is known of the draws."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self._heard = 0.0
        self._spinner = Spinner("dots")

    def __call__(self, progress: Progress) -> None:
        self.progress, self._heard = progress, time.perf_counter()

    def render(self) -> RenderableType:
        """The lines as they are now; clocks go on while nothing is heard."""
        if self.progress is None:
            return Text("")
        progress = later(self.progress, time.perf_counter() - self._heard)
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column(no_wrap=True)
        line.add_column(no_wrap=True)
        line.add_column(ratio=1)
        bar = ProgressBar(1.0, progress.fraction or 0.0, pulse=progress.fraction is None)
        numbers = Text(" · ".join(filter(None, [how_far(progress), how_long(progress)])))
        line.add_row(self._spinner, Text(progress.phase, style="bold"), bar, numbers)
        return Group(line, Text("  " + " · ".join(how_well(progress)), style="dim", no_wrap=True, overflow="ellipsis"))


class Notebook:
    """The same two lines below a cell of Jupyter, by what every notebook has: no widgets are needed."""

    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display({"text/plain": ""}, raw=True, display_id=True)

    def __call__(self, progress: Progress) -> None:
        bar = "<progress>" if progress.fraction is None else f'<progress value="{progress.fraction:.3f}">'
        far, well = " · ".join(filter(None, [how_far(progress), how_long(progress)])), " · ".join(how_well(progress))
        page = f"<b>{escape(progress.phase)}</b> {bar}</progress> {escape(far)}<br><small>{escape(well)}</small>"
        self._show(page, f"{progress.phase}: {far}\n{well}")

    def close(self) -> None:
        """Leave nothing behind."""
        self._show("", "")

    def _show(self, page: str, text: str) -> None:
        self._handle.update({"text/html": page, "text/plain": text}, raw=True)


class Lines:
    """Lines of a log: one for every phase, and now and then one in a long phase."""

    def __init__(self) -> None:
        self._phase, self._next = "", FIRST_LINE

    def __call__(self, progress: Progress) -> None:
        is_over = progress.fraction == 1 and progress.phase == "sampling"
        if progress.phase == self._phase and progress.seconds < self._next and not is_over:
            return
        if progress.seconds >= self._next:
            self._next = GROWTH * progress.seconds
        self._phase = progress.phase
        words = [how_far(progress), *how_well(progress), how_long(progress)]
        logger.info("%s: %s", progress.phase, ", ".join(filter(None, words)))


def later(progress: Progress, seconds: float) -> Progress:
    """The same, so many seconds later."""
    left = None if progress.seconds_left is None else progress.seconds_left - seconds
    left = None if left is None or left < 0 else left
    return replace(progress, seconds=progress.seconds + seconds, seconds_left=left)


def how_far(progress: Progress) -> str:
    """Draws, or the share of a phase of the warm-up."""
    if progress.phase == "sampling":
        return f"{progress.done}{'' if progress.total is None else f'/{progress.total}'} draws"
    return "" if progress.fraction is None else f"{progress.fraction:.0%}"


def how_long(progress: Progress) -> str:
    """Time gone by, and what is left."""
    if progress.seconds_left is None or progress.fraction == 1:
        return clock_time(progress.seconds)
    most = "" if progress.phase == "sampling" else "up to "
    return f"{clock_time(progress.seconds)}, {most}{clock_time(progress.seconds_left)} left"


def how_well(progress: Progress) -> list[str]:
    """What is known of the draws."""
    found = [f"{progress.num_chains} {'chain' if progress.num_chains == 1 else 'chains'}"]
    if progress.evaluations_per_draw is not None:
        found.append(f"{progress.evaluations_per_draw:.2f} evaluations a draw")
    elif progress.num_evaluations:
        found.append(f"{progress.num_evaluations:,} evaluations")
    if progress.s is not None:
        found.append(f"s {progress.s:.2f}")
    if progress.r_hat is not None:
        found.append(f"R-hat {progress.r_hat:.3f}")
    if progress.ess is not None:
        found.append(f"ESS {progress.ess:,.0f}")
    return found


def clock_time(seconds: float) -> str:
    """Hours, minutes and seconds, as a clock has them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _is_terminal(stream: Any) -> bool:
    """Whether people look at it; of a stream of the user's own making, or of none, it is not known."""
    return bool(getattr(stream, "isatty", lambda: False)())


@contextmanager
def shown(is_wanted: bool, console: Console | None = None) -> Iterator[list[Listener]]:
    """Who shows a run on standard error, in a notebook or in a log; nobody if nobody would see it."""
    if not is_wanted:
        yield []
        return
    # Where colours are forced upon a file, lines that move are still of no use.
    console = console or Console(stderr=True, force_terminal=_is_terminal(sys.stderr))
    if console.is_jupyter:
        with closing(Notebook()) as notebook:
            yield [notebook]
    elif console.is_terminal and not console.is_dumb_terminal:
        display = Display()
        # What goes to a file is none of the display's.
        is_both = _is_terminal(sys.stdout)
        live = Live(console=console, transient=True, refresh_per_second=8, redirect_stdout=is_both,
                    get_renderable=display.render)  # fmt: skip
        with live:
            yield [display]
    else:
        yield [Lines()] if logger.isEnabledFor(logging.INFO) else []


class Caller:
    """Calls the user's function; one that raises, or returns True, ends the run where nothing is lost."""

    def __init__(self, callback: Callable[[Progress], Any], wish: Wish):
        self.callback, self.wish = callback, wish
        self.error: Exception | None = None

    def __call__(self, progress: Progress) -> None:
        if self.error is not None:
            return
        try:
            is_enough = self.callback(progress) is True
        # It is the user's function: it may raise anything.
        except Exception as error:
            self.error, is_enough = error, True
        if is_enough and not self.wish.reason:
            self.wish.reason = "ended by the callback"

    def failure(self) -> CallbackError | None:
        """What to raise in the end."""
        if self.error is None:
            return None
        failure = CallbackError(
            f"the callback raised {type(self.error).__name__}: {self.error}; the draws so far are in the `result` of "
            "this error"
        )
        failure.__cause__ = self.error
        return failure
