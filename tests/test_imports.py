"""What is imported when: the first look at tessmc is quick, since heavy packages come when they are needed."""

import subprocess
import sys

import pytest

import tessmc

HEAVY = ("jax", "arviz", "matplotlib", "numpyro", "optax", "pandas", "pymc", "scipy", "xarray", "zarr")


def imported_by(program: str) -> set[str]:
    """The heavy packages that a program imports."""
    program = f"import sys\n{program}\nprint('imported:', *sorted({set(HEAVY)} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("imported:")[2].split())


def test_import_is_light():
    assert imported_by("import tessmc; dir(tessmc); tessmc.__version__") == set()


def test_help_needs_no_jax():
    program = "from tessmc.cli import app\ntry:\n    app(['sample', '--help'])\nexcept SystemExit:\n    pass"
    assert imported_by(program) == set()


def test_sampling_needs_neither_plots_nor_tables():
    found = imported_by("from tessmc import sample, Target, check, models, Warmup")
    assert "jax" in found
    assert not found & {"arviz", "matplotlib", "pandas", "pymc", "xarray"}


def test_every_name_is_there():
    for name in tessmc.__all__:
        assert getattr(tessmc, name) is not None
        assert name in dir(tessmc)
    assert len(set(tessmc.__all__)) == len(tessmc.__all__)
    from tessmc.sampling import sample

    assert tessmc.sample is sample


def test_type_checkers_see_what_users_get():
    """The names that are imported for type checkers are those that are exported."""
    import ast
    from pathlib import Path

    tree = ast.parse(Path(tessmc.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name for node in block.body for alias in node.names}
    assert seen == set(tessmc.__all__)


def test_a_cache_folder_that_cannot_be_written_to_keeps_nobody_from_arviz(tmp_path, monkeypatch):
    # ArviZ notes there that it has warned today.
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    program = "from tessmc.diagnostics import import_arviz; import os; assert import_arviz().rhat"
    assert "arviz" in imported_by(f"{program}; assert os.environ['XDG_CACHE_HOME'].endswith('file')")


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'smaple'"):
        _ = tessmc.smaple
