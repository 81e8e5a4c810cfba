"""The command line."""

import runpy

from typer.testing import CliRunner

import tessmc
from tessmc.cli import app


def test_demo_prints_summaries_and_draws_figure_1(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "The banana of Figure 1" in done.output
    assert "log_scale" in done.output
    picture = (tmp_path / "figure-1.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 50_000


def test_help_is_shown_without_a_command():
    done = CliRunner().invoke(app, [])
    assert "demo" in done.output


def test_a_run_is_resumed(tmp_path):
    file = tmp_path / "model.py"
    file.write_text("def log_density(x):\n    return -0.5 * (x**2).sum()\n")
    other = tmp_path / "other.py"
    other.write_text("def log_density(x):\n    return -0.4 * (x**2).sum()\n")
    target = tessmc.Target(runpy.run_path(str(file))["log_density"], 3)
    tessmc.sample(target, num_chains=16, num_warmup=16, num_samples=20, run_dir=tmp_path / "run", progress=False)

    def resume(*given):
        return CliRunner().invoke(app, ["resume", str(tmp_path / "run"), *given])

    done = resume(f"{file}:log_density", "--draws", "60")
    assert done.exit_code in (0, 3), done.output
    assert "16 chains × 60 draws" in done.output
    assert tessmc.load(tmp_path / "run").num_draws == 60
    boxed = tmp_path / "boxed.py"
    boxed.write_text("import tessmc\nbox = tessmc.BlackBox(lambda x: -0.5 * float((x**2).sum()), 3)\n")
    done = resume(f"{boxed}:box", "--draws", "61")
    assert "16 chains × 61 draws" in done.output
    for spec, sentence in (
        ("nowhere.py:f", "FILE.py:NAME"),
        (f"{file}:other", "defines no other"),
        (f"{other}:log_density", "the log density is another"),
    ):
        done = resume(spec)
        assert done.exit_code == 2
        assert sentence in " ".join(done.output.split())
