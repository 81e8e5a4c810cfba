"""A run from the warm-up to its last draw, which may be interrupted, taken up again and extended."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tessmc._arrays import in_precision_of
from tessmc._clock import Clock
from tessmc._errors import BlackBoxError, CallbackError, DamageError, DensityError, StorageError
from tessmc.engines import Journal, Layout, Stopped, count_evaluations
from tessmc.sampling._asked import SCALES, Asked, refuse_another
from tessmc.sampling._display import Caller, shown
from tessmc.sampling._goal import Goal, check_count, least_ess, pause_at
from tessmc.sampling._progress import SILENT, Progress, Reporter
from tessmc.sampling._result import Result, some_of
from tessmc.sampling._run import Kept, Run, State, arrays_of, as_groups, as_warmup
from tessmc.sampling._signals import Wish, heeding_signals
from tessmc.sampling._troubles import troubles_of
from tessmc.sampling._warmed import Warmed, recalled, task_of, warm_up
from tessmc.storage import DrawStore, Manifest, RunFolder
from tessmc.targets import BlackBox, NoLedger

ATTRIBUTES = {"inference_library": "tessmc"}

Resume = Literal["auto", "never", "previous"]


class Session:
    """One run and its folder, if it has one."""

    def __init__(
        self,
        asked: Asked,
        folder: RunFolder | None,
        is_shown: bool,
        layout: Layout | None = None,
        callback: Callable[[Progress], Any] | None = None,
    ):
        self.asked, self.folder, self.is_shown, self.layout = asked, folder, is_shown, layout
        self.callback, self.reporter = callback, SILENT
        self.clock = Clock()
        self.journal = Journal()
        self.warmed: Warmed | None = None
        self.run: Run | None = None

    def start(self, resume: Resume, goal: Goal) -> Result:
        """Begin the run, or go on with it where a run before this ended."""
        with heeding_signals() as wish, self._folder_taken(), _with_advice(resume):
            self._open(resume, goal)
            with self._at_desk(wish, goal):
                return self._go(goal, wish, resume)

    @cached_property
    def manifest(self) -> Manifest:
        """What is asked, for a folder; a black box is called for it."""
        with in_precision_of(self.asked.target.dtype):
            return self.asked.manifest()

    @contextmanager
    def _at_desk(self, wish: Wish, goal: Goal) -> Iterator[None]:
        """A black box is asked until somebody wants the run to end, and what it says is written down as it comes."""
        if not isinstance(self.asked.target, BlackBox):
            yield
            return
        desk = self.asked.target.desk
        desk.rest = partial(self._pause, wish, goal)
        desk.ledger = NoLedger() if self.folder is None or self.folder.trouble else self.folder.ledger()
        try:
            yield
        finally:
            desk.close()

    @contextmanager
    def _folder_taken(self) -> Iterator[None]:
        if self.folder is None or self.folder.trouble:
            yield
            return
        self.folder.lock()
        try:
            yield
        finally:
            self.folder.release()

    def _open(self, resume: Resume, goal: Goal) -> None:
        """Look into the folder, and refuse it if it holds another run."""
        if self.folder is None:
            return
        asked = self.manifest
        if resume == "previous" and self.folder.exists():
            self.folder.set_aside_damage()
        if not self.folder.exists():
            self.folder.begin({**asked, "asked": goal.words()})
            return
        if resume == "never":
            raise StorageError(f"{self.folder.path} holds a run already; pass resume='auto' to go on with it")
        found = self.folder.manifest()
        refuse_another(asked, found, self.folder.path)
        self.clock.add(found.get("timings", {}))

    def _go(self, goal: Goal, wish: Wish, resume: Resume = "auto") -> Result:
        """Warm up, if that is to be done, and draw until the goal is reached or the run is stopped."""
        is_complete, reason = False, ""
        failure: BlackBoxError | CallbackError | DensityError | None = None
        with self._watched(wish, goal) as failures:
            try:
                if self.warmed is None:
                    self.warmed = self._recalled() or self._warm_up(wish, goal)
                if self.run is None:
                    self.run = self._begin_sampling(goal, resume)
                is_complete, reason = self._draw(self.run, goal, wish)
            except Stopped as stop:
                reason = str(stop)
            except (BlackBoxError, DensityError) as error:
                failure, reason = error, str(error)
            finally:
                if self.run is not None:
                    self.run.checkpoint()
        failure = failure or failures()
        result = self._result(is_complete, reason)
        self._sign_off(result)
        if failure is not None:
            failure.result = result
            raise failure
        return result

    @contextmanager
    def _watched(self, wish: Wish, goal: Goal) -> Iterator[Callable[[], CallbackError | None]]:
        """Tell who looks on how far it is; what a callback raised is known in the end."""
        with shown(self.is_shown) as listeners:
            caller = None if self.callback is None else Caller(self.callback, wish)
            listeners = [*listeners, *([caller] if caller else [])]
            self.reporter = Reporter(listeners, self.asked.num_chains, goal, wish)
            self.reporter.step("compiling", 0, 0)
            try:
                yield lambda: None if caller is None else caller.failure()
            finally:
                self.reporter = SILENT

    def _pause(self, wish: Wish, goal: Goal) -> None:
        """Between two pieces of work."""
        self.reporter.beat()
        pause_at(wish, goal, self.layout)

    def extend(self, num_samples: int) -> Result:
        """So many more draws."""
        check_count("num_samples", num_samples, 1)
        num_draws = 0 if self.run is None else self.run.kept.num_draws
        with heeding_signals() as wish, self._folder_taken(), in_precision_of(self.asked.target.dtype):
            if self.folder is not None and not self.folder.trouble:
                # As the folder has it: others may have gone on with the run meanwhile.
                self.run = None
            goal = Goal(num_draws + num_samples)
            with self._at_desk(wish, goal):
                return self._go(goal, wish)

    def save(self, state: State | None, result: Result, path: Path) -> None:
        """A result in a folder of its own, with where the chains stood after its last draw."""
        if state is None or self.warmed is None:
            raise ValueError("the run was stopped before its first draw: there is nothing to save")
        folder = RunFolder(path)
        folder.lock()
        try:
            folder.begin({**self.manifest, "asked": Goal(result.num_draws).words()})
            folder.end_warmup(self.warmed.words, self.warmed.tree())
            store = self._store(folder)
            store.create(result.num_draws)
            store.write(0, result.groups)
            folder.checkpoint({"num_draws": result.num_draws}, state)
            folder.tell({**folder.manifest(), **_account(result)})
        except OSError as error:
            folder.trouble = str(error)
        finally:
            folder.release()
        if folder.trouble:
            raise StorageError(f"the run could not be saved, try another folder: {folder.trouble}")

    def _result(self, is_complete: bool, reason: str) -> Result:
        words: dict[str, Any] = {"history": [], "num_evaluations": {}, "stride": 1, "noise": 0.0}
        kept = self._kept()
        transport, law, state = None, None, None
        num_evaluations = {"warmup": self.journal.num_made + self.journal.spent}
        if self.warmed is not None and self.run is not None:
            words, kept = self.warmed.words, self.run.kept
            transport, law = self.warmed.kernel.transport, self.warmed.kernel.law
            state = self.run.state
            paid = count_evaluations(self.run.chains) - count_evaluations(self.warmed.chains)
            num_evaluations = {**words["num_evaluations"], "sampling": paid}
        groups = dict(kept.groups())
        if self.warmed is not None and self.asked.save_warmup:
            groups |= as_warmup(as_groups(self.asked.target, self.warmed.draws, self.asked.keep))
        stats = dict(some_of(groups["sample_stats"], self.asked.num_chains * kept.num_draws))
        return Result(
            groups=groups,
            num_chains=self.asked.num_chains,
            num_draws=kept.num_draws,
            num_evaluations_by_phase=num_evaluations,
            transport=transport,
            warmup_history=words["history"],
            timings=self.clock.seconds(),
            troubles=troubles_of(stats, words["noise"], words["history"], self.asked.target.dtype),
            notes=self._notes(),
            stride=words["stride"],
            is_complete=is_complete,
            reason=("" if self.folder is None else self.folder.trouble) or reason,
            run_dir=None if self.folder is None else self.folder.path,
            law=law,
            settings=self.asked.settings(),
            _target=self.asked.target,
            _extend=self.extend,
            _save=partial(self.save, state),
        )

    def _notes(self) -> list[str]:
        """Calls of a black box that count as impossible, said aloud, too."""
        target = self.asked.target
        notes = target.desk.rejected() if isinstance(target, BlackBox) else []
        for sentence in notes:
            warnings.warn(sentence, stacklevel=5)
        return notes

    def _sign_off(self, result: Result) -> None:
        """Say in the manifest how it went."""
        if self.folder is not None and not self.folder.trouble:
            with self.folder.trying():
                self.folder.tell({**self.folder.manifest(), **_account(result)})

    def _kept(self) -> Kept:
        """No draws yet, and no folder for them."""
        return Kept(self.asked.target, self.asked.num_chains, keep=self.asked.keep)

    def _recalled(self) -> Warmed | None:
        if self.folder is None:
            return None
        return recalled(self.asked.warmup, task_of(self.asked, self.clock), self.folder)

    def _warm_up(self, wish: Wish, goal: Goal) -> Warmed:
        given = partial(self._pause, wish, goal), goal.max_evaluations
        self.journal = Journal(*given) if self.folder is None else self.folder.journal(*given)
        self.journal.layout = self.layout
        if isinstance(self.asked.target, BlackBox) and self.folder is not None:
            # For the fingerprint.
            self.journal.spent = len(SCALES)
        self.reporter.journal = self.journal
        return warm_up(self.asked, self.folder, self.clock, self.journal, self.reporter.step)

    def _begin_sampling(self, goal: Goal, resume: Resume) -> Run:
        assert self.warmed is not None
        asked, (kernel, chains, _, words) = self.asked, self.warmed
        first, step = int(np.asarray(chains.iteration).min()), words["stride"] * asked.thin
        if self.folder is None or self.folder.trouble:
            return Run(kernel, chains, first, step, self._kept())
        store = self._store(self.folder)
        kept = Kept(asked.target, asked.num_chains, self.folder, store, asked.keep)
        run = Run(kernel, chains, first, step, kept)
        try:
            self._take_up(run, self.folder, store)
        except StorageError:
            if resume != "previous":
                raise
            self.folder.forget_draws()
            kept.num_stored = 0
            run = Run(kernel, chains, first, step, kept)
        with self.folder.trying():
            if kept.num_stored:
                store.resize(max(kept.num_stored, goal.num_draws))
            else:
                store.create(goal.num_draws)
        return run

    def _take_up(self, run: Run, folder: RunFolder, store: DrawStore) -> None:
        """Bring chains to where they were in a run before this, if they had begun to draw."""
        found = folder.state(run.state)
        if found is not None:
            _, (run.chains, run.ahead) = found
            run.kept.num_stored = folder.num_draws()
            run.check()
            store.verify(run.kept.num_stored)

    def _store(self, folder: RunFolder) -> DrawStore:
        arrays = arrays_of(self.asked.about_target(), self.asked.keep)
        return DrawStore(folder.draws, arrays, self.asked.num_chains, ATTRIBUTES, "r+")

    def _draw(self, run: Run, goal: Goal, wish: Wish) -> tuple[bool, str]:
        """Whether all that was asked for is there, and why it ended if not by a number of draws."""
        assert self.warmed is not None
        journal = Journal(partial(self._pause, wish, goal), goal.max_evaluations)
        journal.layout = self.layout
        journal.spent = sum(self.warmed.words["num_evaluations"].values()) - count_evaluations(self.warmed.chains)
        self.reporter.journal, self.reporter.recent = journal, run.recent
        while True:
            if goal.target_ess is not None and goal.is_look(run.kept.num_draws):
                ess = least_ess(
                    run.kept.groups()["posterior"], run.kept.num_chains * run.kept.num_draws, goal.target_ess
                )
                if ess >= goal.target_ess:
                    return True, f"every parameter has {ess:.0f} effective draws or more"
            if run.kept.num_draws >= goal.num_draws:
                break
            with self.clock.time("sampling"):
                run.draw(
                    goal.next_look(run.kept.num_draws), partial(self.reporter.step, "sampling", goal.num_draws), journal
                )
        if goal.target_ess is None:
            return True, ""
        return False, f"after {goal.num_draws} draws a chain there are fewer than {goal.target_ess:.0f} effective ones"


def _account(result: Result) -> Manifest:
    """What the manifest says of a run that has ended."""
    return {
        "status": "complete" if result.is_complete else f"incomplete: {result.reason}",
        "reason": result.reason,
        "num_draws": result.num_draws,
        "timings": result.timings,
        "num_evaluations": result.num_evaluations_by_phase,
        "stride": result.stride,
        "troubles": result.troubles,
        "notes": result.notes,
        "verdict": str(result.verdict) if result.is_complete else None,
    }


@contextmanager
def _with_advice(resume: Resume) -> Iterator[None]:
    """What to do about a damaged folder."""
    try:
        yield
    except DamageError as error:
        if resume == "auto":
            raise DamageError(
                f"{error}. Pass resume='previous' to set aside what is damaged and go on from before, to the same draws"
            ) from error
        raise
