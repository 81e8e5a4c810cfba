"""Workers of an executor: the function travels once to each, positions in batches; who dies is replaced."""

import itertools
import logging
import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from concurrent.futures.process import ProcessPoolExecutor
from typing import Any

from tessmc.targets._calls import Fault, Job, Outcome, learn, work

logger = logging.getLogger(__name__)

# Batches for each worker in a round: some calls take longer than others.
BATCHES_A_WORKER = 2
# Seconds between two looks at whether the run is to end.
PATIENCE = 0.1
# Seconds that a worker has beyond the time limit of its calls, to start and to answer.
GRACE = 10.0
# How often a batch is given out whose workers die, then each of its positions alone.
MAX_TRIES = 2

# What is asked for together: the places of the positions in a round.
Batch = Sequence[int]


class Crew:
    """The workers of an executor."""

    def __init__(self, executor: Executor, function: Callable[[Any], Any], is_vectorized: bool, timeout: float | None):
        refuse_fork(executor)
        self.given = self.executor = executor
        self.job = Job(uuid.uuid4().hex, is_vectorized, timeout)
        self._function = function
        self._payload: bytes | None = None
        self._num_sent, self._tickets = 0, itertools.count()
        self.num_workers = count_workers(executor)

    def dismiss(self) -> None:
        """End workers that were hired here; those of the user's own executor stay."""
        if self.executor is not self.given:
            self.executor.shutdown(wait=False, cancel_futures=True)
            self.executor = self.given

    def run(
        self, positions: Sequence[Any], batches: Sequence[Batch], rest: Callable[[], None]
    ) -> Iterator[tuple[Batch, list[Outcome]]]:
        """What comes of every batch, in the order in which they are done.

        Args:
            positions: of a round.
            batches: of their places.
            rest: is called while workers are busy, and may raise; who has not begun is then not asked any more.
        """
        waiting = list(batches)
        for _ in range(MAX_TRIES):
            fallen = yield from self._run_once(positions, waiting, rest)
            waiting = [batch for batch, _ in fallen]
            if not waiting:
                return
        # Somebody among them ends the process that asks: it is found if it is asked alone.
        for place in itertools.chain.from_iterable(waiting):
            for _ in range(MAX_TRIES):
                fallen = yield from self._run_once(positions, [[place]], rest)
                if not fallen:
                    break
            yield from (([place], [fault]) for _, fault in fallen)

    def _run_once(
        self, positions: Sequence[Any], batches: Sequence[Batch], rest: Callable[[], None]
    ) -> Any:  # a generator of what `run` gives, that returns the batches whose workers died
        fallen: list[tuple[Batch, Fault]] = []
        running = {self._submit(positions, batch): batch for batch in batches}
        last, is_late = time.monotonic(), False
        try:
            while running:
                done, _ = wait(running, PATIENCE, FIRST_COMPLETED)
                for future in done:
                    batch = running.pop(future)
                    found = self._result(future)
                    if found is None:
                        running[self._submit(positions, batch, with_function=True)] = batch
                    elif isinstance(found, Fault):
                        fallen.append((batch, _late(found, self.job) if is_late else found))
                    else:
                        yield batch, found
                if done:
                    last = time.monotonic()
                elif self._is_overdue(last, running.values()):
                    is_late, last = True, time.monotonic()
                    end_processes(self.executor)
                rest()
        finally:
            for future in running:
                future.cancel()
        if fallen:
            self._replace()
        return fallen

    def _submit(
        self, positions: Sequence[Any], batch: Batch, with_function: bool = False
    ) -> "Future[list[Outcome] | None]":
        # In the first round everybody needs it, later only who is new.
        with_function = with_function or self._num_sent < 2 * self.num_workers
        self._num_sent += with_function
        payload = self._function_in_bytes() if with_function else None
        given = next(self._tickets), self.job, payload, [positions[place] for place in batch]
        try:
            return self.executor.submit(work, *given)
        except BrokenExecutor:
            # Somebody died while there was nothing to do.
            self._replace()
            return self.executor.submit(work, *given)

    def _function_in_bytes(self) -> bytes | None:
        if is_in_this_process(self.executor):
            learn(self.job.token, self._function)
            return None
        if self._payload is None:
            self._payload = in_bytes(self._function)
        return self._payload

    def _result(self, future: "Future[list[Outcome] | None]") -> list[Outcome] | Fault | None:
        try:
            return future.result()
        except (BrokenExecutor, CancelledError, ConnectionError) as error:
            return _death(error)
        except Exception as error:
            # Dask's word for a task whose workers died again and again, and for the loss of a connection.
            if type(error).__name__ in ("KilledWorker", "CommClosedError", "FutureCancelledError"):
                return _death(error)
            raise

    def _replace(self) -> None:
        """A pool of processes is of no use any more when one of them has died; others replace workers themselves."""
        if isinstance(self.executor, ProcessPoolExecutor):
            logger.warning("a worker process died: another pool of %d takes its place", self.num_workers)
            broken: Any = self.executor
            self.executor = ProcessPoolExecutor(
                broken._max_workers, broken._mp_context, broken._initializer, broken._initargs
            )
            # Everybody is new.
            self._num_sent = 0
            if broken is not self.given:
                broken.shutdown(wait=False, cancel_futures=True)

    def _is_overdue(self, since: float, batches: Any) -> bool:
        """Whether nobody has answered for longer than the time limit allows: then a signal has not ended the call."""
        if self.job.timeout is None or not isinstance(self.executor, ProcessPoolExecutor):
            return False
        longest = 1 if self.job.is_vectorized else max(map(len, batches))
        return time.monotonic() - since > longest * self.job.timeout + GRACE


def _death(error: BaseException) -> Fault:
    return Fault("death", f"the worker that called it ended ({type(error).__name__})")


def _late(fault: Fault, job: Job) -> Fault:
    return fault._replace(kind="timeout", message=f"the call took longer than timeout={job.timeout:g} seconds")


def refuse_fork(executor: Executor) -> None:
    """A forked copy of a process in which JAX runs may hang for good."""
    if isinstance(executor, ProcessPoolExecutor):
        context: Any = executor._mp_context
        if context.get_start_method() == "fork":
            raise ValueError(
                "`executor` forks its processes, which can hang for good in a process that uses JAX; make it with "
                "ProcessPoolExecutor(..., mp_context=multiprocessing.get_context('spawn'))"
            )


def is_in_this_process(executor: Executor) -> bool:
    """Whether its workers are threads here: they need no copy of the function."""
    from concurrent.futures import ThreadPoolExecutor

    return isinstance(executor, ThreadPoolExecutor)


def count_workers(executor: Any) -> int:
    """How many calls an executor makes at a time, as far as it says."""
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return max(1, sum(client.nthreads().values()))
    for name in ("_max_workers", "num_workers"):
        found = getattr(executor, name, None)
        if isinstance(found, int) and found > 0:
            return found
    return 4


def end_processes(executor: Any) -> None:
    for process in list((executor._processes or {}).values()):
        process.kill()


def in_bytes(function: Callable[[Any], Any]) -> bytes:
    """The function as it travels; with cloudpickle, where that is installed, also one that is defined in a session."""
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    try:
        return pickler.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"the black box cannot be sent to workers: {error}. Define it, and what it uses, at the top of a module; "
            "or install cloudpickle; or take a ThreadPoolExecutor"
        ) from error
