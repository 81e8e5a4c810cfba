"""Draws on the disk: readable by others, and never wrong in silence."""

import numpy as np
import pytest
import xarray

from tessmc import StorageError
from tessmc.storage import Array, DrawStore, Stored

ARRAYS = [
    Array("posterior", "theta", (), "float32"),
    Array("posterior", "beta", (3,), "float32"),
    Array("sample_stats", "is_stuck", (), "bool"),
]


def made(num_draws, first=0):
    """Numbers that say where they belong."""
    place = np.arange(4)[:, None] * 1000.0 + np.arange(first, first + num_draws)
    return {
        "posterior": {
            "theta": place.astype(np.float32),
            "beta": (place[..., None] + np.array([0.1, 0.2, 0.3])).astype(np.float32),
        },
        "sample_stats": {"is_stuck": np.zeros((4, num_draws), bool)},
    }


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("tessmc.storage._draws.MAX_LENGTH", 8)
    monkeypatch.setattr("tessmc.storage._draws.MIN_LENGTH", 8)
    store = DrawStore(tmp_path / "draws.zarr", ARRAYS, 4, {"inference_library": "tessmc"}, "r+")
    store.create(30)
    for first, num_draws in ((0, 5), (5, 10), (15, 1), (16, 4)):
        store.write(first, made(num_draws, first))
    return store


def anew(store):
    return DrawStore(store.path, ARRAYS, 4, {}, "r")


def test_draws_are_read_as_they_were_written(store):
    other = anew(store)
    other.check(20)
    for step in (1, 3, 7):
        assert np.array_equal(other.read("posterior", "beta", 20, step), made(20)["posterior"]["beta"][:, ::step])
    assert other.read("posterior", "theta", 0).shape == (4, 0)


def test_xarray_opens_them_without_us(store):
    with xarray.open_zarr(store.path, group="posterior", consolidated=False) as data:
        assert data["beta"].dims == ("chain", "draw", "beta_dim_0")
        assert np.array_equal(data["theta"][:, :20], made(20)["posterior"]["theta"])
        # What has not been drawn yet.
        assert np.isnan(data["theta"][:, 20:]).all()
        assert data.attrs["inference_library"] == "tessmc"


def test_more_and_less_room(store):
    store.resize(50)
    store.write(20, made(30, 20))
    assert np.array_equal(anew(store).read("posterior", "theta", 50), made(50)["posterior"]["theta"])
    store.resize(20)
    assert np.array_equal(anew(store).read("posterior", "theta", 20), made(20)["posterior"]["theta"])


def test_draws_behind_the_stored_ones(store):
    found = Stored(store, "posterior", 16, made(10, 16)["posterior"])
    assert list(found) == ["theta", "beta"]
    assert len(found) == 2
    assert np.array_equal(found["beta"], made(26)["posterior"]["beta"])
    assert np.array_equal(found.every("theta", 3), made(26)["posterior"]["theta"][:, ::3])
    with pytest.raises(KeyError):
        found["gamma"]


@pytest.mark.parametrize(("old", "new"), [("float32", "int32"), ("little", "big"), ("NaN", "Infinity")])
def test_an_array_of_another_kind_is_refused(store, old, new):
    path = store.path / "posterior/theta/zarr.json"
    text = path.read_text()
    assert f'"{old}"' in text
    path.write_text(text.replace(f'"{old}"', f'"{new}"'))
    with pytest.raises(StorageError, match="theta"):
        anew(store).read("posterior", "theta", 20)


def test_all_damage_is_noticed_or_harmless(store):
    files = [path for path in store.path.rglob("*") if path.is_file()]
    assert len(files) > 10
    rng = np.random.default_rng(0)
    num_noticed = 0
    for path in files:
        whole = path.read_bytes()
        for _ in range(10):
            damaged = bytearray(whole)
            if rng.random() < 0.3:
                damaged = damaged[: rng.integers(len(damaged))]
            else:
                damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            try:
                other = anew(store)
                other.check(20)
                for group, name, _, _ in ARRAYS:
                    assert np.array_equal(other.read(group, name, 20), made(20)[group][name])
            except StorageError:
                num_noticed += 1
        path.write_bytes(whole)
    assert num_noticed > 5 * len(files)
    for path in store.path.rglob("c/0/1*"):
        if path.is_file():
            path.unlink()
            with pytest.raises(StorageError, match="missing"):
                anew(store).check(20)
            break
