"""A run from the warm-up to its last draw, which may be interrupted, taken up again and extended."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tessmc._clock import Clock
from tessmc._errors import DamageError, StorageError
from tessmc.adaptation import WarmupResult, WarmupTask
from tessmc.diagnostics import convergence
from tessmc.engines import Chain, Draws, Journal, Stopped, count_evaluations, rounding_noise
from tessmc.kernels import TransportEllipticalSlice
from tessmc.sampling._asked import Asked, refuse_another
from tessmc.sampling._goal import Goal, check_count, pause_at
from tessmc.sampling._progress import Bar, progress_bar
from tessmc.sampling._result import Result, some_of
from tessmc.sampling._run import STATS, Kept, Run, as_groups, as_warmup, together
from tessmc.sampling._signals import Wish, heeding_signals
from tessmc.sampling._troubles import troubles_of
from tessmc.storage import Array, DrawStore, Manifest, RunFolder

ATTRIBUTES = {"inference_library": "tessmc"}

Resume = Literal["auto", "never", "previous"]


class Warmed(NamedTuple):
    """What is to be known of a warm-up that has ended; of all but the kernel and the chains, words."""

    kernel: TransportEllipticalSlice
    chains: Chain
    draws: Draws
    words: dict[str, Any]

    def tree(self) -> Any:
        """What is kept of it in a folder, beside the words."""
        return parts_of(self.kernel), self.chains, self.draws


class Session:
    """One run and its folder, if it has one."""

    def __init__(self, asked: Asked, folder: RunFolder | None, is_shown: bool):
        self.asked, self.folder, self.is_shown = asked, folder, is_shown
        self.clock = Clock()
        self.warmed: Warmed | None = None
        self.run: Run | None = None

    def start(self, resume: Resume, goal: Goal) -> Result:
        """Begin the run, or go on with it where a run before this ended."""
        with heeding_signals() as wish, self._folder_taken(), _with_advice(resume):
            self._open(resume, goal)
            return self._go(goal, wish, resume)

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
        asked = self.asked.manifest()
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
        with progress_bar(self.is_shown) as bar:
            bar.phase("compiling")
            try:
                if self.warmed is None:
                    self.warmed = self._recalled_warmup() or self._warm_up(wish, goal, bar)
                if self.run is None:
                    self.run = self._begin_sampling(goal, resume)
                is_complete, reason = self._draw(self.run, goal, wish, bar)
            except Stopped as stop:
                reason = str(stop)
            finally:
                if self.run is not None:
                    self.run.checkpoint()
        result = self._result(is_complete, reason)
        self._sign_off(result)
        return result

    def extend(self, num_samples: int) -> Result:
        """So many more draws."""
        check_count("num_samples", num_samples, 1)
        num_draws = 0 if self.run is None else self.run.kept.num_draws
        with heeding_signals() as wish, self._folder_taken():
            if self.folder is not None and not self.folder.trouble:
                # As the folder has it: others may have gone on with the run meanwhile.
                self.run = None
            return self._go(Goal(num_draws + num_samples), wish)

    def save(self, result: Result, path: Path) -> None:
        """The run in a folder of its own."""
        if self.run is None or self.warmed is None:
            raise ValueError("the run was stopped before its first draw: there is nothing to save")
        folder = RunFolder(path)
        folder.lock()
        try:
            folder.begin({**self.asked.manifest(), "asked": Goal(result.num_draws).words()})
            folder.end_warmup(self.warmed.words, self.warmed.tree())
            store = self._store(folder)
            store.create(result.num_draws)
            store.write(0, result.groups)
            folder.checkpoint({"num_draws": result.num_draws}, (self.run.chains, self.run.ahead))
            folder.tell({**folder.manifest(), **_account(result)})
        finally:
            folder.release()

    def _result(self, is_complete: bool, reason: str) -> Result:
        words: dict[str, Any] = {"history": [], "num_evaluations": {}, "stride": 1, "noise": 0.0}
        kept = self._kept()
        transport, num_evaluations = None, {}
        if self.warmed is not None and self.run is not None:
            words, kept, transport = self.warmed.words, self.run.kept, self.warmed.kernel.transport
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
            stride=words["stride"],
            is_complete=is_complete,
            reason=("" if self.folder is None else self.folder.trouble) or reason,
            run_dir=None if self.folder is None else self.folder.path,
            _extend=self.extend,
            _save=self.save,
        )

    def _sign_off(self, result: Result) -> None:
        """Say in the manifest how it went."""
        if self.folder is not None and not self.folder.trouble:
            with self.folder.trying():
                self.folder.tell({**self.folder.manifest(), **_account(result)})

    def _kept(self) -> Kept:
        """No draws yet, and no folder for them."""
        return Kept(self.asked.target, self.asked.num_chains, keep=self.asked.keep)

    # --- the warm-up -------------------------------------------------------------------------------

    def _task(self, journal: Journal, watch: Callable[[str, int, int], None]) -> WarmupTask:
        asked = self.asked
        given = asked.target, asked.transport, asked.start, asked.key, asked.num_chains, asked.num_warmup
        return WarmupTask(*given, self.clock, watch, journal)

    def _recalled_warmup(self) -> Warmed | None:
        """The warm-up of a run before this, if it came to its end."""
        if self.folder is None:
            return None
        kernel, chains = self.asked.warmup.outline(self._task(Journal(), lambda *_: None))
        found = self.folder.warmed(Warmed(kernel, chains, self._kept().blank(0), {}).tree())
        if found is None:
            return None
        words, (parts, chains, draws) = found
        return Warmed(_assembled(kernel, parts), chains, draws, words)

    def _warm_up(self, wish: Wish, goal: Goal, bar: Bar) -> Warmed:
        def rest() -> None:
            pause_at(wish, goal)

        with self._journal(rest) as journal:
            found: WarmupResult = self.asked.warmup.run(self._task(journal, bar.step))
        noise = rounding_noise(found.kernel, found.chains, self.asked.target.describe)
        words = {
            "history": found.history,
            "num_evaluations": {**found.num_evaluations, "check": self.asked.num_chains},
            "stride": found.stride,
            "noise": noise,
        }
        draws = [self._kept().blank(0), *(found.draws if self.asked.save_warmup else [])]
        warmed = Warmed(found.kernel, found.chains, together(draws), words)
        if self.folder is not None:
            self.folder.end_warmup(words, warmed.tree())
        return warmed

    @contextmanager
    def _journal(self, rest: Callable[[], None]) -> Iterator[Journal]:
        if self.folder is None:
            yield Journal(rest)
            return
        kept = self.folder.journal(rest)
        try:
            yield kept
        except BaseException:
            # If all went well, there is no need for it any more.
            kept.flush()
            raise

    # --- sampling ----------------------------------------------------------------------------------

    def _begin_sampling(self, goal: Goal, resume: Resume) -> Run:
        assert self.warmed is not None
        asked, (kernel, chains, _, words) = self.asked, self.warmed
        first, step = int(np.asarray(chains.iteration).min()), words["stride"] * asked.thin
        if self.folder is None or self.folder.trouble:
            return Run(kernel, chains, first, step, self._kept())
        store = self._store(self.folder)
        kept = Kept(asked.target, asked.num_chains, self.folder, store, asked.keep)
        run = Run(kernel, chains, first, step, kept)
        found = self.folder.state((chains, run.ahead))
        try:
            if found is not None:
                store.verify(self.folder.num_draws())
        except StorageError:
            if resume != "previous":
                raise
            self.folder.forget_draws()
            found = None
        if found is not None:
            _, (run.chains, run.ahead) = found
            kept.num_stored = self.folder.num_draws()
        with self.folder.trying():
            if found is None:
                store.create(goal.num_draws)
            else:
                store.resize(max(kept.num_stored, goal.num_draws))
        return run

    def _store(self, folder: RunFolder) -> DrawStore:
        arrays = arrays_of(self.asked.about_target(), self.asked.keep)
        return DrawStore(folder.draws, arrays, self.asked.num_chains, ATTRIBUTES, "r+")

    def _draw(self, run: Run, goal: Goal, wish: Wish, bar: Bar) -> tuple[bool, str]:
        """Whether all that was asked for is there, and why it ended if not by a number of draws."""
        assert self.warmed is not None
        paid = sum(self.warmed.words["num_evaluations"].values()) - count_evaluations(self.warmed.chains)

        def pause(chains: Chain) -> None:
            pause_at(wish, goal, paid + count_evaluations(chains))

        while True:
            if goal.is_look(run.kept.num_draws) and (ess := _least_ess(run)) >= (goal.target_ess or 0):
                return True, f"every parameter has {ess:.0f} effective draws or more"
            if run.kept.num_draws >= goal.num_draws:
                break
            with self.clock.time("sampling"):
                run.draw(goal.next_look(run.kept.num_draws), partial(bar.step, "sampling", goal.num_draws), pause)
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


def arrays_of(about: Manifest, keep: Iterable[str] | None) -> list[Array]:
    """What is stored of every draw of a target."""
    names, kind = about["parameters"], about["dtype"]
    found = [Array("posterior", name, tuple(names[name][0]), names[name][1]) for name in keep or names]
    if keep is None:
        found.append(Array("unconstrained_posterior", "x", (about["dim"],), kind))
    kinds = (kind, kind, "int32", "int32", "bool")
    return found + [Array("sample_stats", name, (), each) for name, each in zip(STATS, kinds, strict=True)]


def _least_ess(run: Run) -> float:
    groups = run.kept.groups()
    columns = [draws.reshape(*draws.shape[:2], -1) for draws in groups["posterior"].values()]
    found = convergence(np.concatenate(columns, axis=2))
    return float(np.nan_to_num(np.minimum(found.ess_bulk, found.ess_tail)).min())


def parts_of(kernel: TransportEllipticalSlice) -> Any:
    """What of a kernel is learned; the target is not."""
    return kernel.transport, kernel.law, kernel.first_try, kernel.bridge


def _assembled(kernel: TransportEllipticalSlice, parts: Any) -> TransportEllipticalSlice:
    transport, law, first_try, bridge = parts
    return TransportEllipticalSlice(kernel.log_density, transport, kernel.max_tries, law, first_try, bridge)
