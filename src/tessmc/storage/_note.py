"""One file of a run folder that is not for others to read: arrays and a few words, with a checksum.

The file is there as a whole or not at all, and nothing in it can run: a line with the format, one with the SHA-256 of
all that follows, one of JSON that names the arrays, then their bytes.
"""

import hashlib
import itertools
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tessmc._errors import DamageError

MAGIC = b"tessmc note 1"
KINDS = ("bool", "uint8", "int8", "uint32", "int32", "int64", "uint64", "float16", "float32", "float64")


class Note(NamedTuple):
    """What a file holds: words and numbers by name, as in JSON, and arrays."""

    words: dict[str, Any]
    arrays: list[np.ndarray]


def write_note(path: Path, note: Note) -> None:
    """Write a note; whoever ends the process meanwhile leaves the file as it was."""
    arrays = [np.ascontiguousarray(array) for array in note.arrays]
    names = [[array.dtype.name, list(np.shape(whole))] for array, whole in zip(arrays, note.arrays, strict=True)]
    head = json.dumps({"words": note.words, "arrays": names}, default=plain).encode()
    body = b"".join([head, b"\n", *(array.tobytes() for array in arrays)])
    write_whole(path, b"\n".join([MAGIC, hashlib.sha256(body).hexdigest().encode(), body]))


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one instant, on the disk and not only in the system's memory."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)  # noqa: PTH105


def read_note(path: Path) -> Note:
    """Read a note.

    Raises:
        DamageError: the file is not what was written.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamageError(f"{path} cannot be read: {error.strerror}") from error
    magic, _, rest = content.partition(b"\n")
    digest, _, body = rest.partition(b"\n")
    if magic != MAGIC or hashlib.sha256(body).hexdigest().encode() != digest:
        raise DamageError(f"{path} is damaged: its checksum does not fit its content")
    head, _, blob = body.partition(b"\n")
    try:
        found = json.loads(head)
        words, names = found["words"], found["arrays"]
        return Note(dict(words), _cut(blob, names))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamageError(f"{path} is no note of tessmc: {error}") from error


def _cut(blob: bytes, names: Sequence[Any]) -> list[np.ndarray]:
    """Views of the bytes, after a look at whether they are as many as the arrays need."""
    kinds = [_kind(name) for name, _ in names]
    shapes = [tuple(_count(length) for length in shape) for _, shape in names]
    sizes = [kind.itemsize * math.prod(shape) for kind, shape in zip(kinds, shapes, strict=True)]
    if sum(sizes) != len(blob):
        raise ValueError(f"{sum(sizes)} bytes are announced, {len(blob)} are there")
    ends = itertools.accumulate(sizes)
    return [
        np.frombuffer(blob, kind, math.prod(shape), end - size).reshape(shape)
        for kind, shape, size, end in zip(kinds, shapes, sizes, ends, strict=True)
    ]


def plain(value: Any) -> Any:
    """Numbers of NumPy as JSON has them."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} cannot be written as JSON")


def _kind(name: Any) -> np.dtype:
    if name not in KINDS:
        raise ValueError(f"arrays of {name!r} are not stored")
    return np.dtype(name)


def _count(length: Any) -> int:
    if not isinstance(length, int) or isinstance(length, bool) or length < 0:
        raise ValueError(f"{length!r} is not a length")
    return length


def to_arrays(tree: Any) -> list[np.ndarray]:
    """The numbers of a pytree, its leaves in order; functions and the like are left out."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if _is_number(leaf)]
    leaves = [jr.key_data(leaf) if _is_key(leaf) else leaf for leaf in leaves]
    return [np.asarray(leaf) for leaf in jax.device_get(leaves)]


def from_arrays(like: Any, arrays: Sequence[np.ndarray], what: str = "the note") -> Any:
    """A pytree of the structure of `like` with other numbers; arrays of no elements there stand for any shape.

    Raises:
        DamageError: the arrays do not fit.
    """
    leaves, structure = jax.tree.flatten(like)
    if sum(map(_is_number, leaves)) != len(arrays):
        raise DamageError(f"{what} has {len(arrays)} arrays where {sum(map(_is_number, leaves))} are expected")
    left = iter(arrays)
    return jax.tree.unflatten(
        structure, [_like(leaf, next(left), what) if _is_number(leaf) else leaf for leaf in leaves]
    )


def _like(leaf: Any, array: np.ndarray, what: str) -> Any:
    data = jr.key_data(leaf) if _is_key(leaf) else leaf
    kind = np.asarray(data).dtype if isinstance(data, bool | int | float) else data.dtype
    if array.dtype != kind or (np.size(data) and array.shape != np.shape(data)):
        raise DamageError(f"{what} has an array of {array.dtype}{array.shape} where {kind}{np.shape(data)} is expected")
    if _is_key(leaf):
        return jr.wrap_key_data(jax.device_put(array), impl=jr.key_impl(leaf))
    if isinstance(leaf, bool | int | float):
        return array.item()
    return jax.device_put(array) if isinstance(leaf, jax.Array) else array.copy()


def _is_number(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | bool | int | float)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
