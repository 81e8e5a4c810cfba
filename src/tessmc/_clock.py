"""Where the seconds of a run go."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Adds up seconds by phase; compiled work must be waited for inside the phase it belongs to."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._earlier = 0.0
        self._seconds = {"compile": 0.0, "warmup": 0.0, "fit": 0.0, "sampling": 0.0}

    @contextmanager
    def time(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] += time.perf_counter() - began

    def add(self, seconds: dict[str, float]) -> None:
        """Seconds of a run before this, of which this is the rest."""
        for phase in self._seconds:
            self._seconds[phase] += float(seconds.get(phase, 0.0))
        self._earlier += float(seconds.get("total", 0.0))

    def seconds(self) -> dict[str, float]:
        """Seconds by phase, and the total since the clock was made."""
        return {**self._seconds, "total": self._earlier + time.perf_counter() - self._began}
