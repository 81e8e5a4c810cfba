"""Compiled programs that are kept from process to process."""

import logging
import subprocess
import sys

import jax

import tessmc
from tessmc import _cache

PROGRAM = """
import sys
import jax
import tessmc

names = []
jax.monitoring.register_event_listener(lambda name, **_: names.append(name.rpartition("/")[2]))
folder = tessmc.enable_cache(sys.argv[1])
result = tessmc.sample(lambda x: -0.5 * (x**2).sum(), like=2, num_chains=8, num_warmup=8, num_samples=5, progress=False)
print(folder is not None, names.count("cache_hits"), names.count("cache_misses"), float(result.unconstrained.sum()))
"""


def run(folder):
    """Whether there is a cache, programs found in it and not found, and a number that all draws decide on."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    is_on, *numbers = done.stdout.split()
    return is_on == "True", *map(float, numbers)


def test_a_second_process_compiles_nothing_and_a_damaged_cache_breaks_nothing(tmp_path):
    folder = tmp_path / "deep" / "cache"
    is_on, num_hits, num_misses, draws = run(folder)
    assert is_on
    assert num_hits == 0
    # Each is looked for again by every process: what runs step by step on the host would be hundreds.
    assert 5 < num_misses < 20
    names = sorted(path.name for path in folder.iterdir())
    assert run(folder) == (True, num_misses, 0, draws)
    assert sorted(path.name for path in folder.iterdir()) == names
    for place, path in enumerate(sorted(folder.iterdir())):
        path.write_bytes(b"no program" if place % 2 else path.read_bytes()[:50])
    is_on, num_hits, _, again = run(folder)
    assert is_on
    assert num_hits == 0
    assert again == draws


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path, caplog, cache_settings):
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING, "tessmc"):
        assert tessmc.enable_cache(tmp_path / "file") is None
        assert tessmc.enable_cache(tmp_path / "file" / "below") is None
    assert "compiled programs are not kept" in caplog.text
    assert {name: getattr(jax.config, name) for name in cache_settings} == cache_settings


def test_by_default_it_is_in_the_users_cache_folder(tmp_path, monkeypatch, cache_settings):
    monkeypatch.setattr(_cache, "user_cache_path", lambda name: tmp_path / name)
    folder = tessmc.enable_cache()
    assert folder == _cache.cache_path()
    assert folder.is_relative_to(tmp_path / "tessmc")
    assert jax.config.jax_compilation_cache_dir == str(folder) != cache_settings["jax_compilation_cache_dir"]


def test_other_processors_have_other_folders(monkeypatch):
    here = _cache.cache_path()
    assert here == _cache.cache_path()
    monkeypatch.setattr(_cache, "_features", lambda: b"something else")
    assert _cache.cache_path() != here
