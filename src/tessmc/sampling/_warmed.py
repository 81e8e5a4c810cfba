"""The warm-up of a run: made now, or by a run before this."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tessmc._clock import Clock
from tessmc.adaptation import AbstractWarmup, WarmupTask
from tessmc.engines import NO_JOURNAL, Chain, Draws, Journal, blank_draws, rounding_noise
from tessmc.kernels import TransportEllipticalSlice
from tessmc.sampling._asked import Asked
from tessmc.sampling._run import together
from tessmc.storage import RunFolder

Watch = Callable[..., None]


class Warmed(NamedTuple):
    """What is to be known of a warm-up that has ended; of all but the kernel and the chains, words."""

    kernel: TransportEllipticalSlice
    chains: Chain
    draws: Draws
    words: dict[str, Any]

    def tree(self) -> Any:
        """What is kept of it in a folder, beside the words: of the kernel what is learned."""
        kernel = self.kernel
        return (kernel.transport, kernel.law, kernel.first_try, kernel.bridge), self.chains, self.draws

    def with_tree(self, tree: Any, words: dict[str, Any]) -> "Warmed":
        (transport, law, first_try, bridge), chains, draws = tree
        before = self.kernel
        kernel = TransportEllipticalSlice(before.log_density, transport, before.max_tries, law, first_try, bridge)
        return Warmed(kernel, chains, draws, words)


def recalled(warmup: AbstractWarmup, task: WarmupTask, folder: RunFolder) -> Warmed | None:
    """The warm-up that is in a folder; None if it has not ended."""
    note = folder.note_of_warmup()
    if note is None:
        return None
    kernel, chains = warmup.outline(task)
    blank = Warmed(kernel, chains, _no_draws(task), {})
    return blank.with_tree(folder.warmed(note, blank.tree()), note.words)


def warm_up(asked: Asked, folder: RunFolder | None, clock: Clock, journal: Journal, watch: Watch) -> Warmed:
    """Go through the warm-up, or through what is left of it, and keep what comes of it."""
    task, num_asked = task_of(asked, clock, watch, journal), journal.spent
    try:
        found = asked.warmup.run(task)
        noise = rounding_noise(found.kernel, found.chains, asked.target.describe, journal)
    except BaseException:
        # If all goes well, there is no need for it any more.
        journal.flush()
        raise
    words = {
        "history": found.history,
        "num_evaluations": {**found.num_evaluations, "check": asked.num_chains + num_asked},
        "stride": found.stride,
        "noise": noise,
    }
    draws = together([_no_draws(task), *(found.draws if asked.save_warmup else [])])
    warmed = Warmed(found.kernel, found.chains, draws, words)
    if folder is not None:
        folder.end_warmup(words, warmed.tree())
    return warmed


def task_of(asked: Asked, clock: Clock, watch: Watch = lambda *_: None, journal: Journal = NO_JOURNAL) -> WarmupTask:
    given = asked.target, asked.transport, asked.start, asked.key, asked.num_chains, asked.num_warmup
    return WarmupTask(*given, clock, watch, journal)


def _no_draws(task: WarmupTask) -> Draws:
    return blank_draws(task.num_chains, 0, task.target.dim, task.target.dtype)
