"""A progress bar that moves while compiled work runs, on a terminal only."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class Bar:
    """One line: what is done now, how far it is, how long it has taken."""

    def __init__(self, progress: Progress | None):
        self._progress = progress
        self._name = ""
        self._task = progress.add_task("starting", total=None) if progress else TaskID(0)

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin another phase; without a total the bar only shows that something is going on."""
        self._name = name
        if self._progress:
            self._progress.reset(self._task, description=name, total=total)

    def step(self, name: str, total: int, completed: int) -> None:
        """How far a phase is; the first word of a new phase begins it."""
        if name != self._name:
            self.phase(name, total)
        if self._progress:
            self._progress.update(self._task, completed=completed)


@contextmanager
def progress_bar(is_wanted: bool, console: Console | None = None) -> Iterator[Bar]:
    """A bar on standard error, or a silent one if it is not wanted or nobody would see it."""
    console = console or Console(stderr=True)
    if not (is_wanted and console.is_terminal):
        yield Bar(None)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress)
