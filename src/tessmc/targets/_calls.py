"""What a worker does: call the user's function at a few positions, and say what came of each call."""

import contextlib
import multiprocessing
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

WANTED = "the black box should return a float, the log density"
WANTED_BATCH = "the black box should return one log density for each position, an array of shape"


class Fault(NamedTuple):
    """A call that gave no value.

    Attributes:
        kind: "error" if the function raised, "timeout" if it took too long, "death" if its process ended, and "misuse"
            if what it returned is no log density, or it cannot be called at all.
        message: in a line.
        traceback: in full, where there is one.
        error: what was raised, if it can be handed over.
    """

    kind: str
    message: str
    traceback: str = ""
    error: BaseException | None = None


Outcome = float | Fault


class Job(NamedTuple):
    """How the function is called.

    Attributes:
        token: its name in the memory of workers.
        is_vectorized: whether it takes many positions in a call.
        timeout: seconds of one call.
    """

    token: str
    is_vectorized: bool
    timeout: float | None


# The functions that this process knows, by their tokens: they are sent once, positions often.
_known: dict[str, Callable[[Any], Any]] = {}
MAX_KNOWN = 8


def learn(token: str, function: Callable[[Any], Any]) -> None:
    """Keep a function; the oldest of many is forgotten."""
    _known[token] = function
    while len(_known) > MAX_KNOWN:
        del _known[next(iter(_known))]


def work(_: int, job: Job, payload: bytes | None, positions: list[Any]) -> list[Outcome] | None:
    """A batch of positions, in a worker; None if it does not know the function and was not sent it.

    The first argument makes a call unlike all others: some executors do not repeat what they know.
    """
    is_ours = multiprocessing.parent_process() is not None
    if is_ours and threading.current_thread() is threading.main_thread():
        # Ctrl-C in a terminal reaches all processes; the one that samples decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if payload is not None and job.token not in _known:
        try:
            learn(job.token, pickle.loads(payload))
        # Whatever the import of the user's own modules may raise.
        except Exception as error:
            what = f"a worker cannot load the black box: {type(error).__name__}: {error}"
            return _alike(Fault("misuse", what, traceback.format_exc()), positions)
    if job.token not in _known:
        return None
    return [_handed_over(outcome) for outcome in call_all(_known[job.token], job, positions)]


def call_all(function: Callable[[Any], Any], job: Job, positions: list[Any]) -> list[Outcome]:
    """What comes of a call at each position, or of one call at all of them."""
    if not job.is_vectorized:
        return [_call(function, position, job.timeout, as_value) for position in positions]
    found = _call(function, _stacked(positions), job.timeout, lambda returned: as_values(returned, len(positions)))
    if not isinstance(found, Fault):
        return list(found)
    if len(positions) == 1 or found.kind == "misuse":
        return _alike(found, positions)
    # Which of them was it?
    return [outcome for position in positions for outcome in call_all(function, job, [position])]


def _alike(outcome: Outcome, positions: list[Any]) -> list[Outcome]:
    return [outcome for _ in positions]


def _stacked(positions: list[Any]) -> Any:
    import jax

    return jax.tree.map(lambda *leaves: np.stack(leaves), *positions)


def _call(
    function: Callable[[Any], Any], position: Any, timeout: float | None, check: Callable[[Any], Any]
) -> Any | Fault:
    try:
        returned = function(position) if timeout is None else _call_within(timeout, function, position)
    except TookTooLong:
        return Fault("timeout", f"the call took longer than timeout={timeout:g} seconds")
    # It is the user's function: it may raise anything.
    except Exception as error:
        return Fault("error", f"{type(error).__name__}: {error}", traceback.format_exc(), error)
    try:
        return check(returned)
    except (TypeError, ValueError) as error:
        return Fault("misuse", str(error))


def as_value(returned: Any) -> float:
    """A log density, or an error in a sentence."""
    if returned is None:
        raise TypeError(f"{WANTED}, but returned None; is a `return` missing?")
    value = _as_floats(returned, WANTED)
    if value.shape != ():
        raise ValueError(
            f"{WANTED}, but returned an array of shape {value.shape}; sum the terms, or take the one element with [0]"
        )
    return float(value)


def as_values(returned: Any, num_positions: int) -> list[float]:
    """Log densities of a batch, or an error in a sentence."""
    wanted = f"{WANTED_BATCH} ({num_positions},)"
    if returned is None:
        raise TypeError(f"{wanted}, but returned None; is a `return` missing?")
    values = _as_floats(returned, wanted)
    if values.shape != (num_positions,):
        raise ValueError(f"{wanted}, but returned one of shape {values.shape}")
    return values.tolist()


def _as_floats(returned: Any, wanted: str) -> np.ndarray:
    try:
        values = np.asarray(returned)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{wanted}, but returned a {type(returned).__name__}: {error}") from error
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{wanted}, but returned {returned!r:.80}, a {type(returned).__name__}")
    return values.astype(float)


class TookTooLong(BaseException):
    """Not an `Exception`: the user's function should not catch it."""


def _call_within(seconds: float, function: Callable[[Any], Any], position: Any) -> Any:
    """Call the function, for so long at most.

    In a main thread a signal ends the call. In another the call is left behind: nothing can end a thread.
    """
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
        with _alarm(seconds):
            return function(position)
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append((True, function(position)))
        except BaseException as error:
            answers.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not answers:
        raise TookTooLong
    is_returned, answer = answers[0]
    if not is_returned:
        raise answer
    return answer


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _handed_over(outcome: Outcome) -> Outcome:
    """An outcome that another process can read: of an error that cannot be sent, its words."""
    if isinstance(outcome, Fault) and outcome.error is not None:
        with contextlib.suppress(Exception):
            pickle.loads(pickle.dumps(outcome.error))
            return outcome
        return outcome._replace(error=None)
    return outcome
