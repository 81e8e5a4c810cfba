"""Killed, interrupted, on a full disk, with flipped bits: a run is resumed exactly, or says what is wrong."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import tessmc
from tessmc.sampling import _session

TARGET = tessmc.Target(lambda x: -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2), 2)


def disturbed(kind, count, seed, folder):
    command = [sys.executable, "-m", "verify.victims", kind, str(count), str(seed), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    sys.stdout.write(done.stderr[-4000:])
    assert done.returncode == 0
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("seed", range(8))
def test_killed_runs_are_resumed_to_the_same_draws(tmp_path, seed):
    assert disturbed("kill", 25, seed, tmp_path) == {"hits": 25, "right": 25, "wrong": 0}


@pytest.mark.parametrize("seed", range(2))
def test_interrupted_runs_lose_nothing(tmp_path, seed):
    assert disturbed("interrupt", 25, seed, tmp_path) == {"hits": 25, "right": 25, "wrong": 0}


def run(folder, num_samples=60, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tessmc.sample(
            TARGET, num_chains=8, num_warmup=24, num_samples=num_samples, run_dir=folder, progress=False, **options
        )


@pytest.fixture(scope="module")
def truth():
    return run(None).unconstrained


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(folder, 40)
    return folder


@pytest.fixture(scope="module")
def in_warmup(tmp_path_factory):
    """A folder of a run that was stopped in its warm-up."""
    folder, calls = tmp_path_factory.mktemp("in_warmup") / "run", []
    pause = _session.pause_at

    def stop(*given):
        calls.append(1)
        if len(calls) == 12:
            raise tessmc.engines.Stopped("enough")
        pause(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_session, "pause_at", stop)
        assert run(folder).num_draws == 0
    return folder


def often(patch):
    patch.setattr("tessmc.storage._folder.MIN_SECONDS", 0.0)
    patch.setattr("tessmc.storage._folder.MAX_SHARE", 1e9)
    patch.setattr("tessmc.engines._march.MAX_TICKS", 8)


@pytest.mark.parametrize("seed", range(40))
def test_errors_of_the_disk_lose_no_draw(tmp_path, truth, monkeypatch, seed):
    """From some moment on every write fails, or writes less than it says; later the disk is well again."""
    chance, replace, calls = random.Random(seed), os.replace, []
    last = chance.randrange(2, 150)
    code = chance.choice([errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])

    def fail(source, target):
        calls.append(1)
        if len(calls) > last:
            if seed % 2:
                raise OSError(code, os.strerror(code))
            # A short write that nobody reports.
            content = Path(source).read_bytes()
            Path(source).write_bytes(content[: len(content) // 2])
        return replace(source, target)

    often(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        try:
            found = run(tmp_path / "a")
        except tessmc.StorageError:
            # Noticed in the middle of the run, when something was read back.
            found = None
    if found is not None and seed % 2:
        assert np.array_equal(found.unconstrained, truth)
        assert found.reason
    try:
        again = run(tmp_path / "a")
    except tessmc.StorageError:
        again = run(tmp_path / "a", resume="previous")
    assert np.array_equal(again.unconstrained, truth)


def test_a_small_disk_that_fills(tmp_path, truth):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a file system in memory can only be mounted by root")
    try:
        found = run(disk / "a")
        assert "could not be written" in found.reason
        assert np.array_equal(found.unconstrained, truth)
        found.save(tmp_path / "elsewhere")
        assert np.array_equal(tessmc.load(tmp_path / "elsewhere").unconstrained, truth)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def damage(content: bytes, chance: random.Random) -> bytes:
    if chance.random() < 0.3:
        return content[: chance.randrange(len(content))] if content else b"x"
    damaged = bytearray(content or b"x")
    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


@pytest.mark.parametrize("part", range(4))
def test_flipped_bits_and_cut_files_are_noticed_or_harmless(finished, tmp_path, part):
    """10,000 of them: what is read is right, or is refused."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    known = {name: tessmc.load(finished).groups[name] for name in tessmc.load(finished).groups}
    known = {group: dict(found.items()) for group, found in known.items()}
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    chance, num_noticed = random.Random(part), 0
    for count in range(2500):
        path = files[count % len(files)]
        content = path.read_bytes()
        path.write_bytes(damage(content, chance))
        try:
            found = tessmc.load(folder)
            for group, arrays in known.items():
                for name, values in arrays.items():
                    got = found.groups[group][name]
                    assert np.array_equal(got, values[:, : got.shape[1]]), path
                    assert got.shape[1] in (40, found.num_draws)
        except tessmc.StorageError:
            num_noticed += 1
        path.write_bytes(content)
    assert num_noticed > 1000


JUNK = [
    None,
    True,
    -1,
    2**70,
    1e308,
    "x",
    [],
    {},
    [[]],
    {"kind": "os.system"},
    "../../etc",
    float("nan"),
    ["float64", [2**62]],
]


def spoil(value, chance: random.Random):
    """One place of a JSON document replaced by something else."""
    if isinstance(value, dict) and value and chance.random() < 0.85:
        name = chance.choice(list(value))
        return {**value, name: spoil(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        return [*value[:place], spoil(value[place], chance), *value[place + 1 :]]
    return chance.choice(JUNK)


@pytest.mark.parametrize("part", range(4))
def test_malformed_folders_are_refused_in_a_sentence(finished, tmp_path, part):
    """10,000 folders whose files are whole and whose content is wrong, checksums and all."""
    from tessmc.storage import RunFolder, read_note, write_note

    folder, chance = tmp_path / "run", random.Random(100 + part)
    shutil.copytree(finished, folder)
    manifest, slowest, num_refused = RunFolder(folder).manifest(), 0.0, 0
    notes = [*folder.glob("*.note")]
    for count in range(2500):
        where = count % 3
        if where == 0:
            spoiled = spoil(manifest, chance)
            RunFolder(folder).tell(spoiled if isinstance(spoiled, dict) else {})
        elif where == 1:
            path = chance.choice(notes)
            content, note = path.read_bytes(), read_note(path)
            arrays = list(note.arrays)
            place = chance.randrange(len(arrays))
            arrays[place] = chance.choice([arrays[place].astype(np.float64), np.zeros((3, 1)), np.zeros(0)])
            write_note(path, note._replace(words=spoil(note.words, chance), arrays=arrays))
        else:
            path = chance.choice(sorted(folder.glob("draws.zarr/**/zarr.json")))
            content = path.read_bytes()
            path.write_text(json.dumps(spoil(json.loads(content), chance)))
        began = time.process_time()
        try:
            found = tessmc.load(folder)
            for group in found.groups.values():
                for name in group:
                    assert group[name].shape[0] == 8
        except tessmc.StorageError:
            num_refused += 1
        slowest = max(slowest, time.process_time() - began)
        if where == 0:
            RunFolder(folder).tell(manifest)
        else:
            path.write_bytes(content)
    assert num_refused > 1000
    assert slowest < 1
