"""Ctrl-C and SIGTERM ask a run to end; it does so where nothing is lost."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Wish:
    """Whether somebody wants the run to end, and why; and since when it has been going on."""

    def __init__(self) -> None:
        self.reason, self.since = "", time.perf_counter()


@contextmanager
def heeding_signals() -> Iterator[Wish]:
    """The first signal is a wish; from then on signals act as they did before, so that a second one ends at once."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may say what signals do.
        yield wish
        return
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    def hear(number: int, _: FrameType | None) -> None:
        restore()
        wish.reason = f"interrupted by {signal.Signals(number).name}"

    for each in SIGNALS:
        # None: not set by Python, and not ours to touch.
        if signal.getsignal(each) is not None:
            before[each] = signal.signal(each, hear)
    try:
        yield wish
    finally:
        restore()
