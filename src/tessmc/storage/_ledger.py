"""Values of a black box as they come, so that none is asked for twice although the run is ended in between.

Whenever a state of the run is on the disk, what was asked for before is part of it. Between two states there is this
file: a record for each value, of a digest of the position, the value and a checksum. The file of the state before stays
as well: where a run ends by an error, its last state is older than its last value.
"""

import hashlib
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from tessmc.storage._folder import RunFolder

NAME, NAME_BEFORE = "values.log", "values.before.log"
_RECORD, _CHECKED = struct.Struct("<16sdI"), struct.Struct("<16sd")


class FileLedger:
    """Values that were paid for, by position, in a file."""

    def __init__(self, folder: "RunFolder"):
        self._folder = folder
        self._before, self._now = (_read(folder.path / name) for name in (NAME_BEFORE, NAME))
        self._file: BinaryIO | None = None

    def get(self, key: bytes) -> float | None:
        digest = _digest(key)
        found = self._now.get(digest, self._before.get(digest))
        if found is not None and digest not in self._now:
            # Needed since the last state: it is to be there for the next.
            self._add(digest, found)
        return found

    def put(self, key: bytes, value: float) -> None:
        self._add(_digest(key), value)

    def turn(self) -> None:
        """A state of the run has been written: begin another file."""
        self.close()
        self._before, self._now = self._now, {}
        if (self._folder.path / NAME).exists():
            with self._folder.trying():
                (self._folder.path / NAME).replace(self._folder.path / NAME_BEFORE)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _add(self, digest: bytes, value: float) -> None:
        if digest in self._now:
            return
        self._now[digest] = value
        if self._folder.trouble:
            return
        with self._folder.trying():
            if self._file is None:
                path, size = self._folder.path / NAME, _RECORD.size * (len(self._now) - 1)
                self._file = path.open("r+b" if path.exists() else "wb")
                # Half a record that a killed process left is written over.
                self._file.truncate(size)
                self._file.seek(size)
            checked = _CHECKED.pack(digest, value)
            self._file.write(checked + zlib.crc32(checked).to_bytes(4, "little"))
            self._file.flush()


def _read(path: Path) -> dict[bytes, float]:
    """The records up to the first that is damaged."""
    found: dict[bytes, float] = {}
    content = path.read_bytes() if path.exists() else b""
    for start in range(0, len(content) - _RECORD.size + 1, _RECORD.size):
        digest, value, checksum = _RECORD.unpack_from(content, start)
        if checksum != zlib.crc32(_CHECKED.pack(digest, value)):
            break
        found[digest] = value
    return found


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16).digest()
