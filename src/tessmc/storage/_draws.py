"""Draws on the disk: a zarr group that xarray opens without us."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tessmc._errors import DamageError

# Values of all chains in one chunk of an array, about.
CHUNK = 2**20
MIN_LENGTH, MAX_LENGTH = 64, 4096
# Also what is all zero is written: a file that is not there is one that was lost.
CONFIG: Any = {"write_empty_chunks": True}

# Group → name → values with the axes (chain, draw, ...).
Groups = Mapping[str, Mapping[str, np.ndarray]]


class Array(NamedTuple):
    """One array of a store: its group and name, the shape of one draw, and what its numbers are."""

    group: str
    name: str
    shape: tuple[int, ...]
    kind: str


class DrawStore:
    """Arrays (chain, draw, ...), every chunk with a checksum; draws that have not been made are NaN or 0.

    Args:
        path: of the zarr group.
        arrays: what is stored.
        num_chains: the length of the first axis.
        attributes: of every group.
        mode: "r+" to read and write, "r" to read.
    """

    def __init__(
        self, path: Path, arrays: list[Array], num_chains: int, attributes: dict[str, Any], mode: Literal["r", "r+"]
    ):
        self.path, self.arrays, self.num_chains, self.attributes = path, arrays, num_chains, attributes
        self.mode = mode
        self.length = chunk_length(num_chains, max(math.prod(array.shape) for array in arrays))
        self._opened: dict[Array, Any] = {}

    def names(self, group: str) -> list[str]:
        return [array.name for array in self.arrays if array.group == group]

    def create(self, num_draws: int) -> None:
        """A store with room for so many draws; what was there goes."""
        import zarr

        self._opened.clear()
        zarr.create_group(self.path, overwrite=True, attributes=self.attributes)
        for group in dict.fromkeys(array.group for array in self.arrays):
            zarr.create_group(self.path, path=group, attributes=self.attributes)
        for array in self.arrays:
            self._create(self.path, array, num_draws)

    def resize(self, num_draws: int) -> None:
        """Room for so many draws; of those that are there, the first stay."""
        for array in self.arrays:
            stored = self._open(array)
            if stored.shape[1] != num_draws:
                stored.resize((self.num_chains, num_draws, *array.shape))

    def write(self, first: int, groups: Groups) -> None:
        """Put draws in their place. Whoever ends the process meanwhile leaves all others as they were.

        Raises:
            DamageError: a chunk that has to be filled up is damaged.
            OSError: of the disk.
        """
        for array in self.arrays:
            values = groups[array.group][array.name]
            with _explained(f"{self.path / array.group / array.name} cannot be filled up", OSError):
                self._open(array)[:, first : first + values.shape[1]] = values

    def read(self, group: str, name: str, num_draws: int, step: int = 1) -> np.ndarray:
        """Of the first draws every so manieth.

        Raises:
            DamageError: a file is damaged.
        """
        array = next(array for array in self.arrays if (array.group, array.name) == (group, name))
        stored: Any = self._open(array) if num_draws else None
        found = np.empty((self.num_chains, -(-num_draws // step), *array.shape), array.kind)
        # A chunk at a time: with a step, the whole would be many times what is asked for.
        for start in range(0, num_draws, self.length):
            end = min(start + self.length, num_draws)
            with _explained(f"draws {start} to {end - 1} in {self.path / group / name} are damaged"):
                part = stored[:, start:end]
            found[:, -(-start // step) : -(-end // step)] = part[:, -start % step :: step]
        return found

    def verify(self, num_draws: int) -> None:
        """Read all of the first draws, once.

        Raises:
            DamageError: some are damaged.
        """
        self.check(num_draws)
        for array in self.arrays:
            self.read(array.group, array.name, num_draws, max(1, num_draws))

    def check(self, num_draws: int) -> None:
        """Whether all files of the first draws are there, in their size.

        Raises:
            DamageError: one is not.
        """
        for array in self.arrays:
            for path, size in self._files(array, num_draws):
                if not path.is_file() or path.stat().st_size != size:
                    raise DamageError(f"{path} is missing or cut short")

    def _files(self, array: Array, num_draws: int) -> Iterator[tuple[Path, int]]:
        size = self.num_chains * self.length * math.prod(array.shape) * np.dtype(array.kind).itemsize
        if size == 0:
            return
        for chunk in range(-(-num_draws // self.length)):
            # Chunk (0, i, 0, ...), and the four bytes of its checksum.
            place = [0, chunk, *len(array.shape) * [0]]
            yield self.path / array.group / array.name / "c" / Path(*map(str, place)), size + 4

    def _create(self, store: Any, array: Array, num_draws: int) -> Any:
        import zarr
        from zarr.codecs import Crc32cCodec

        return zarr.create_array(
            store,
            name=f"{array.group}/{array.name}",
            shape=(self.num_chains, num_draws, *array.shape),
            dtype=array.kind,
            chunks=(self.num_chains, self.length, *(max(1, length) for length in array.shape)),
            compressors=[Crc32cCodec()],
            filters=None,
            fill_value=np.nan if np.issubdtype(array.kind, np.floating) else 0,
            dimension_names=["chain", "draw", *(f"{array.name}_dim_{axis}" for axis in range(len(array.shape)))],
        )

    def _open(self, array: Array) -> Any:
        import zarr

        if array in self._opened:
            return self._opened[array]
        path = self.path / array.group / array.name
        with _explained(f"{path} cannot be opened"):
            found = zarr.open_array(path, mode=self.mode).with_config(CONFIG)
            expected = self._create(zarr.storage.MemoryStore(), array, found.shape[1])
            if found.metadata.to_dict() != expected.metadata.to_dict():
                raise DamageError(f"{path / 'zarr.json'} is damaged: it describes another array than was written")
        self._opened[array] = found
        return found


@contextmanager
def _explained(what: str, allowed: type[Exception] = DamageError) -> Iterator[None]:
    """Whatever zarr says of a damaged file, and that is much, is damage; what is allowed passes."""
    try:
        yield
    except Exception as error:
        if isinstance(error, DamageError | allowed):
            raise
        raise DamageError(f"{what}: {error}") from error


class Stored(Mapping[str, np.ndarray]):
    """Arrays by name: draws on the disk, read whenever they are asked for, and behind them others."""

    def __init__(self, store: DrawStore, group: str, num_stored: int, others: Mapping[str, np.ndarray]):
        self._store, self._group, self._num_stored, self._others = store, group, num_stored, others

    def __getitem__(self, name: str) -> np.ndarray:
        return self.every(name, 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.names(self._group))

    def __len__(self) -> int:
        return len(self._store.names(self._group))

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of one draw."""
        return self._others[name].shape[2:]

    def every(self, name: str, step: int) -> np.ndarray:
        """Every so manieth draw."""
        if name not in self._store.names(self._group):
            raise KeyError(name)
        stored = self._store.read(self._group, name, self._num_stored, step)
        others = self._others[name][:, -self._num_stored % step :: step]
        return np.concatenate([stored, others], axis=1) if others.shape[1] else stored


def chunk_length(num_chains: int, dim: int) -> int:
    """Draws of a chain in one chunk."""
    return int(np.clip(CHUNK // (num_chains * dim), MIN_LENGTH, MAX_LENGTH))
