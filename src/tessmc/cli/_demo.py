"""`tessmc demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tessmc.cli._app import INTERRUPTED, Debug, NoCache, Quiet, keep_programs, say, talking
from tessmc.cli._outcome import coloured

if TYPE_CHECKING:
    from tessmc import Result, Target


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the pictures.", metavar="FOLDER")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.", metavar="N", min=0)] = 0,
    quiet: Quiet = False,
    no_cache: NoCache = False,
    debug: Debug = False,
) -> None:
    """Sample the banana of Figure 1 and Neal's funnel in 10 dimensions, draw Figure 1, and write a report."""
    with talking("", debug, quiet):
        import tessmc
        from tessmc.report import figure_one

        keep_programs(no_cache)
        banana = tessmc.models.banana()
        result = show("The banana of Figure 1", banana, seed, quiet)
        show("Neal's funnel, d = 10", tessmc.models.funnel(10), seed, quiet)
        path = out / "figure-1.png"
        assert result.transport is not None
        maps = {"the exact map": tessmc.models.BananaMap(), "the learned map": result.transport}
        figure_one(banana, maps, result.unconstrained[:, -10:].reshape(-1, 2), path)
        say(f"Figure 1, with the exact map and with the one just learned: {path}")
        result.report(out / "banana.html")
        say(f"Report on the banana: {out / 'banana.html'}")


def show(title: str, target: "Target", seed: int, quiet: bool) -> "Result":
    """Sample a target and print its summary."""
    import tessmc

    result = tessmc.sample(target, num_samples=400, seed=seed, progress=not quiet)
    say(Text(title, style="bold"), coloured(result), "")
    if not result.is_complete:
        raise typer.Exit(INTERRUPTED)
    return result


def add_to(app: typer.Typer) -> None:
    app.command()(demo)
