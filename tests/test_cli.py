"""The command line."""

from typer.testing import CliRunner

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
