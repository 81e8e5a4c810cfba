"""The journal of a warm-up on the disk."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tessmc._errors import DamageError
from tessmc.engines import Journal
from tessmc.storage._note import Note, from_arrays, read_note, to_arrays, write_note

if TYPE_CHECKING:
    from tessmc.storage._folder import RunFolder


class FolderJournal(Journal):
    """The journal of a warm-up, in files of what was noted from one writing to the next."""

    def __init__(self, folder: "RunFolder", path: Path, rest: Callable[[], None], limit: int | None = None):
        super().__init__(rest, limit)
        self._folder, self._path = folder, path
        self._files = deque(sorted(self._path.glob("*.note")))
        self._count = 0
        self._entries: deque[list[np.ndarray]] = deque()
        self._pending: list[list[np.ndarray]] = []

    @property
    def keeps(self) -> bool:  # type: ignore[override]
        return not self._folder.trouble

    def recall(self, like: Any) -> Any:
        while not self._entries and self._files:
            self._load(self._files.popleft())
        if not self._entries:
            return None
        return from_arrays(like, self._entries.popleft(), str(self._file(self._count - 1)))

    def note(self, result: Any) -> None:
        if not self.keeps:
            return
        self._pending.append(to_arrays(result))
        if self.is_due():
            self.flush()
            self._folder.turn_ledger()

    def is_due(self) -> bool:
        return self._folder.pace.is_due()

    def flush(self) -> None:
        """Write what was noted."""
        if not self._pending or self._folder.trouble:
            return
        with self._folder.pace.writing(), self._folder.trying():
            sizes = [len(arrays) for arrays in self._pending]
            arrays = [array for entry in self._pending for array in entry]
            self._path.mkdir(exist_ok=True)
            write_note(self._file(self._count), Note({"sizes": sizes}, arrays))
        self._count += 1
        self._pending.clear()

    def _file(self, count: int) -> Path:
        return self._path / f"{count:06}.note"

    def _load(self, path: Path) -> None:
        if path != self._file(self._count):
            raise DamageError(f"{self._file(self._count)} is missing")
        words, arrays = read_note(path)
        self._count += 1
        left = iter(arrays)
        sizes = words.get("sizes")
        if not isinstance(sizes, list) or not all(isinstance(size, int) for size in sizes) or sum(sizes) != len(arrays):
            raise DamageError(f"{path} is no part of a journal")
        self._entries.extend([next(left) for _ in range(size)] for size in sizes)
