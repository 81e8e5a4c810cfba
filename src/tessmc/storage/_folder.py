"""A run folder: what a run needs to go on where it stopped, and what it has drawn.

- `manifest.json`: for people; what was asked, with what, and how far it has come.
- `warmup/`: the journal of a warm-up under way.
- `warmed.note`: the map and the chains after the warm-up; the journal is then not needed any more.
- `state-….note`: the chains in the middle of sampling; the last two.
- `draws.zarr`: the draws. They are written before the state that counts them.
- `values….log`: of a black box, the values that came after the last state.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from tessmc._errors import DamageError, StorageError
from tessmc.storage._journal import FolderJournal
from tessmc.storage._ledger import FileLedger
from tessmc.storage._note import Note, from_arrays, plain, read_note, to_arrays, write_note, write_whole

FORMAT = 1
# Of the time, at most, goes into writing; and it is not done more often than that, in seconds.
MAX_SHARE, MIN_SECONDS = 0.03, 1.0
_NUMBERED = re.compile(r"state-[0-9]+\.note")
MANIFEST, WARMED, WARMUP, DRAWS, LOCK = "manifest.json", "warmed.note", "warmup", "draws.zarr", "lock"

Manifest = dict[str, Any]


class Pace:
    """When it is time to write again."""

    def __init__(self) -> None:
        self._ended, self._cost = time.perf_counter(), 0.0

    def is_due(self) -> bool:
        return time.perf_counter() - self._ended > max(MIN_SECONDS, self._cost / MAX_SHARE)

    @contextmanager
    def writing(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._ended = time.perf_counter()
            self._cost = self._ended - began


class RunFolder:
    """Reads and writes a run folder; what is wrong with one is a `StorageError`.

    Attributes:
        trouble: why nothing is written any more, a sentence; empty if all is well.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.pace = Pace()
        self.trouble = ""
        self._lock: Any = None
        self._ledger: FileLedger | None = None

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Writing that may fail: the run goes on in memory, and nothing is written any more."""
        try:
            yield
        except (OSError, StorageError) as error:
            self.trouble = (
                f"{self.path} could not be written to ({error}): what comes now is in memory only; save it elsewhere "
                "with result.save(path)"
            )
            warnings.warn(self.trouble, stacklevel=4)

    def exists(self) -> bool:
        """Whether there is a run in the folder."""
        return (self.path / MANIFEST).exists()

    @property
    def draws(self) -> Path:
        return self.path / DRAWS

    def lock(self) -> None:
        """Make the folder, and keep others from writing there as long as this process lives."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / LOCK).open("a+")
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written to: {error.strerror}") from error
        if not _take(self._lock):
            self._lock.close()
            raise StorageError(f"{self.path} is being written by another process; wait for it, or take another folder")

    def release(self) -> None:
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # --- the manifest ------------------------------------------------------------------------------

    def begin(self, manifest: Manifest) -> None:
        """A new run, in an empty folder."""
        # A run that was ended before it had begun leaves half of a manifest.
        ours = (LOCK, MANIFEST + ".partial")
        strangers = [path.name for path in self.path.iterdir() if path.name not in ours and path.suffix != ".damaged"]
        if strangers:
            raise StorageError(
                f"{self.path} holds no run of tessmc but other files ({', '.join(sorted(strangers)[:3])}); "
                "take another folder, or empty it"
            )
        try:
            self.tell({**manifest, "format": FORMAT, "versions": versions(), "status": "warming up"})
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written to: {error.strerror}") from error

    def tell(self, manifest: Manifest) -> None:
        """Write the manifest."""
        words = {name: value for name, value in manifest.items() if name != "checksum"}
        text = json.dumps({**words, "checksum": _digest(words)}, indent=1, default=plain)
        write_whole(self.path / MANIFEST, text.encode() + b"\n")

    def manifest(self) -> Manifest:
        path = self.path / MANIFEST
        try:
            found = json.loads(path.read_bytes())
            digest = found.pop("checksum")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamageError(f"{path} cannot be read: {error}") from error
        if digest != _digest(found):
            raise DamageError(f"{path} is damaged: its checksum does not fit its content")
        if found.get("format") != FORMAT:
            raise StorageError(f"{path} is of format {found.get('format')}, this version of tessmc reads {FORMAT}")
        return found

    # --- the warm-up -------------------------------------------------------------------------------

    def journal(self, rest: Callable[[], None], limit: int | None = None) -> FolderJournal:
        return FolderJournal(self, self.path / WARMUP, rest, limit)

    def ledger(self) -> FileLedger:
        """Values that were paid for since the last state of the run."""
        if self._ledger is None:
            self._ledger = FileLedger(self)
        return self._ledger

    def turn_ledger(self) -> None:
        """All values up to now are part of a state that has been written."""
        if self._ledger is not None and not self.trouble:
            self._ledger.turn()

    def end_warmup(self, words: dict[str, Any], tree: Any) -> None:
        """Keep what came of the warm-up, and drop its journal."""
        if not self.trouble:
            with self.trying():
                write_note(self.path / WARMED, Note(words, to_arrays(tree)))
                shutil.rmtree(self.path / WARMUP, ignore_errors=True)
                self.turn_ledger()

    def note_of_warmup(self) -> Note | None:
        """What came of the warm-up, as it is in the file; None if it has not ended."""
        return read_note(self.path / WARMED) if (self.path / WARMED).exists() else None

    def warmed(self, note: Note, like: Any) -> Any:
        """The tree that is in the note of a warm-up."""
        return from_arrays(like, note.arrays, str(self.path / WARMED))

    # --- sampling ----------------------------------------------------------------------------------

    def checkpoint(self, words: dict[str, Any], tree: Any) -> None:
        """Keep a state of the chains; the one before stays, older ones go."""
        if self.trouble:
            return
        with self.trying():
            paths = self._states()
            count = _number(paths[-1]) + 1 if paths else 0
            write_note(self.path / f"state-{count:06}.note", Note(words, to_arrays(tree)))
            for path in paths[:-1]:
                path.unlink()
            self.turn_ledger()

    def state(self, like: Any) -> tuple[dict[str, Any], Any] | None:
        """The last state of the chains; None if sampling has not begun."""
        paths = self._states()
        if not paths:
            return None
        words, arrays = read_note(paths[-1])
        return words, from_arrays(like, arrays, str(paths[-1]))

    def num_draws(self) -> int:
        """How many draws of a chain are counted by the last state."""
        paths = self._states()
        if not paths:
            return 0
        count = read_note(paths[-1]).words.get("num_draws")
        if not isinstance(count, int) or count < 0:
            raise DamageError(f"{paths[-1]} is no state of a run")
        return count

    def _states(self) -> list[Path]:
        found = [path for path in self.path.glob("state-*.note") if _NUMBERED.fullmatch(path.name)]
        return sorted(found, key=_number)

    # --- repair ------------------------------------------------------------------------------------

    def set_aside_damage(self) -> None:
        """Rename what is damaged, and all that builds on it: the run can go on from before, to the same draws."""
        try:
            self.manifest()
        except StorageError:
            # Nothing tells any more what the rest belongs to.
            self._rename([path for path in self.path.iterdir() if path.name != LOCK and path.suffix != ".damaged"])
            return
        journal = sorted((self.path / WARMUP).glob("*.note"))
        is_good = [_is_good(path) for path in journal]
        bad = journal[is_good.index(False) :] if False in is_good else []
        bad += [path for path in self._states() if not _is_good(path)]
        warmed = self.path / WARMED
        if warmed.exists() and not _is_good(warmed):
            bad += [warmed, *self._states()]
        self._rename(bad)

    def forget_draws(self) -> None:
        """Sampling begins anew after the warm-up: some of the draws are lost."""
        self._rename(self._states())

    def _rename(self, paths: Iterable[Path]) -> None:
        for path in dict.fromkeys(paths):
            place = path.with_name(path.name + ".damaged")
            if place.is_dir():
                shutil.rmtree(place)
            os.replace(path, place)  # noqa: PTH105


def versions() -> dict[str, str]:
    """With what a run is made."""
    from importlib.metadata import version

    packages = {name: version(name) for name in ("tessmc", "jax", "jaxlib", "numpy", "equinox", "flowjax", "zarr")}
    system = {"python": platform.python_version(), "machine": platform.machine(), "device": jax.default_backend()}
    return {**packages, **system}


def _number(path: Path) -> int:
    """The how manieth state a file holds."""
    return int(path.stem.removeprefix("state-"))


def _digest(words: Manifest) -> str:
    return hashlib.sha256(json.dumps(words, sort_keys=True, default=plain).encode()).hexdigest()


def _is_good(path: Path) -> bool:
    try:
        read_note(path)
    except StorageError:
        return False
    return True


def _take(file: Any) -> bool:
    """A lock that goes with the process."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
