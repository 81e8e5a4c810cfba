"""Notes come back as they were written, or not at all."""

import hashlib
import json

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from tessmc import StorageError
from tessmc.storage import Note, from_arrays, read_note, to_arrays, write_note
from tessmc.storage._note import MAGIC


def tree():
    return {
        "keys": jr.split(jr.key(3), 4),
        "floats": jnp.arange(6.0).reshape(2, 3),
        "count": jnp.int32(7),
        "host": np.array([True, False]),
        "rows": np.arange(5, dtype=np.int32),
        "loss": 0.25,
        "steps": 12,
        "is_done": True,
        "function": jax.nn.relu,
    }


def test_a_tree_comes_back_as_it_was(tmp_path):
    path = tmp_path / "a.note"
    write_note(path, Note({"history": [{"s": np.float32(0.5), "loss": float("nan")}]}, to_arrays(tree())))
    words, arrays = read_note(path)
    assert words["history"][0]["s"] == 0.5
    like = {**jax.tree.map(lambda leaf: leaf, tree()), "rows": np.empty(0, np.int32), "loss": 0.0}
    found = from_arrays(like, arrays)
    assert np.array_equal(jr.key_data(found["keys"]), jr.key_data(tree()["keys"]))
    assert jr.key_impl(found["keys"]) == jr.key_impl(tree()["keys"])
    assert isinstance(found["floats"], jax.Array)
    assert isinstance(found["host"], np.ndarray)
    for name in ("floats", "count", "host", "rows", "loss", "steps", "is_done"):
        assert np.array_equal(found[name], tree()[name]), name
    assert (type(found["loss"]), type(found["steps"]), type(found["is_done"])) == (float, int, bool)
    assert found["function"] is jax.nn.relu
    assert [each.name for each in tmp_path.iterdir()] == ["a.note"]


def test_what_does_not_fit_is_refused():
    arrays = to_arrays(tree())
    with pytest.raises(StorageError, match="the note has 8 arrays where 7 are expected"):
        from_arrays({name: leaf for name, leaf in tree().items() if name != "loss"}, arrays)
    with pytest.raises(StorageError, match=r"float32\(2, 3\) where float32\(3, 2\) is expected"):
        from_arrays({**tree(), "floats": jnp.zeros((3, 2))}, arrays)
    with pytest.raises(StorageError, match="int32"):
        from_arrays({**tree(), "rows": np.empty(0, np.float32)}, arrays)


def test_every_flipped_bit_and_every_cut_is_noticed(tmp_path):
    path = tmp_path / "a.note"
    write_note(path, Note({"a": 1}, [np.arange(3.0)]))
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 5):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(StorageError, match="damaged"):
                read_note(path)
        path.write_bytes(whole[:place])
        with pytest.raises(StorageError, match="damaged"):
            read_note(path)
    path.write_bytes(whole)
    assert read_note(path).words == {"a": 1}
    path.unlink()
    with pytest.raises(StorageError, match="cannot be read"):
        read_note(path)


@pytest.mark.parametrize(
    "head",
    [
        {"words": {}, "arrays": [["float64", [2**60]]]},
        {"words": {}, "arrays": [["float32", [1]]]},
        {"words": {}, "arrays": [["float64", [-1]]]},
        {"words": {}, "arrays": [["object", [1]]]},
        {"words": {}, "arrays": [["float64", [True]]]},
        {"words": {}, "arrays": [["float64"]]},
        {"words": 3, "arrays": []},
        {"arrays": []},
        [],
        3,
    ],
)
def test_sizes_and_kinds_are_looked_at_before_anything_is_made(tmp_path, head):
    body = json.dumps(head).encode() + b"\n" + bytes(8)
    path = tmp_path / "a.note"
    path.write_bytes(b"\n".join([MAGIC, hashlib.sha256(body).hexdigest().encode(), body]))
    with pytest.raises(StorageError, match="no note"):
        read_note(path)


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "a.note"
    write_note(path, Note({"a": 1}, []))

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_note(path, Note({"a": 2}, []))
    assert read_note(path).words == {"a": 1}
