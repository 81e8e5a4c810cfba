"""Asking a Python function for values: here or by workers, each position once, and never more than is allowed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, Protocol

import numpy as np

from tessmc._errors import BlackBoxError, Stopped
from tessmc.targets._calls import Fault, Job, Outcome, call_all
from tessmc.targets._crew import BATCHES_A_WORKER, Batch, Crew

# Positions in a call of a function that takes many, whoever calls it.
BATCH_SIZE = 32


class Ledger(Protocol):
    """Values that were paid for, by position."""

    def get(self, key: bytes) -> float | None: ...

    def put(self, key: bytes, value: float) -> None: ...


class NoLedger:
    """Knows nothing and keeps nothing."""

    def get(self, key: bytes) -> float | None:  # noqa: ARG002
        return None

    def put(self, key: bytes, value: float) -> None:
        pass


class Answers(NamedTuple):
    """What is known of a round.

    Attributes:
        values: of the positions; NaN where there is none.
        is_known: whose value came.
        stop: why the others did not: to be raised when what came has been put to use.
    """

    values: np.ndarray
    is_known: np.ndarray
    stop: Exception | None


class Desk:
    """Where values of a black box are asked for.

    Attributes:
        rest: is called while one waits, and may raise `Stopped`.
        ledger: values of a run before this.
        faults: how many calls were rejected, by kind, and the first of them in words.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        is_vectorized: bool,
        on_error: str,
        timeout: float | None,
        batch_size: int = BATCH_SIZE,
        executor: Executor | None = None,
    ):
        self.function, self.on_error, self.batch_size = function, on_error, batch_size
        self.job = Job("", is_vectorized, timeout)
        self.crew = None if executor is None else Crew(executor, function, is_vectorized, timeout)
        self.rest: Callable[[], None] = lambda: None
        self.ledger: Ledger = NoLedger()
        self.faults: dict[str, int] = {}
        self.first_fault = ""

    def with_executor(self, executor: Executor | None) -> "Desk":
        """Another desk for the same function."""
        job = self.job
        return Desk(self.function, job.is_vectorized, self.on_error, job.timeout, self.batch_size, executor)

    def rejecting(self) -> "Desk":
        """A desk that answers -inf where the function gives no value, by the same workers."""
        job = self.job
        desk = Desk(self.function, job.is_vectorized, "reject", job.timeout, self.batch_size)
        desk.crew = self.crew
        return desk

    def close(self) -> None:
        """End what was started here."""
        if self.crew is not None:
            self.crew.dismiss()

    def ask(self, positions: Sequence[Any], keys: Sequence[bytes], describe: Callable[[Any], str]) -> Answers:
        """The log densities at some positions.

        Args:
            positions: as the function takes them.
            keys: by which they are known again.
            describe: a position in the user's words.
        """
        values, stop = np.full(len(positions), np.nan), None
        is_known = np.zeros(len(positions), bool)
        for place, key in enumerate(keys):
            if (found := self.ledger.get(key)) is not None:
                values[place], is_known[place] = found, True
        try:
            for batch, outcomes in self._outcomes(positions, np.flatnonzero(~is_known)):
                for place, outcome in zip(batch, outcomes, strict=True):
                    if isinstance(outcome, Fault):
                        outcome = self._rejected(outcome, positions[place], describe)
                    values[place], is_known[place] = outcome, True
                    self.ledger.put(keys[place], outcome)
        except (Stopped, BlackBoxError) as error:
            stop = error
        return Answers(values, is_known, stop)

    def _outcomes(self, positions: Sequence[Any], places: np.ndarray) -> Iterator[tuple[Batch, list[Outcome]]]:
        batches = self._batches(places.tolist())
        if self.crew is not None:
            yield from self.crew.run(positions, batches, self.rest)
            return
        for batch in batches:
            self.rest()
            yield batch, call_all(self.function, self.job, [positions[place] for place in batch])

    def _batches(self, places: list[int]) -> list[list[int]]:
        """Which positions travel together: those of one call always alike, whoever makes it."""
        if self.job.is_vectorized:
            size = self.batch_size
        elif self.crew is None:
            size = 1
        else:
            size = -(-len(places) // (BATCHES_A_WORKER * self.crew.num_workers))
        return [places[start : start + size] for start in range(0, len(places), max(1, size))]

    def _rejected(self, fault: Fault, position: Any, describe: Callable[[Any], str]) -> float:
        """The value of a call that gave none, or an error."""
        where = describe(position)
        if self.on_error == "reject" and fault.kind != "misuse":
            self.faults[fault.kind] = self.faults.get(fault.kind, 0) + 1
            self.first_fault = self.first_fault or f"{fault.message}, at {where}"
            return -np.inf
        advice = "" if fault.kind == "misuse" else "; pass on_error='reject' to count such points as impossible"
        error = BlackBoxError(f"the black box gave no value at {where}: {fault.message}{advice}", position)
        if fault.traceback:
            error.add_note(f"raised by the black box:\n{fault.traceback}")
        raise error from fault.error

    def rejected(self) -> list[str]:
        """What was rejected, in a sentence."""
        if not self.faults:
            return []
        words = {"error": "raised an error", "timeout": "took too long", "death": "ended their process"}
        counts = ", ".join(f"{count} {words[kind]}" for kind, count in self.faults.items())
        return [f"of the calls of the black box {counts}, and count as impossible; the first: {self.first_fault}"]


def rows(tree_of_arrays: Iterable[np.ndarray], places: np.ndarray) -> list[list[np.ndarray]]:
    """The leaves of some positions, one list each, as NumPy users have them: in double precision, and their own."""
    leaves = [np.asarray(leaf)[places].astype(np.float64) for leaf in tree_of_arrays]
    return [[leaf[row].copy() for leaf in leaves] for row in range(len(places))]
