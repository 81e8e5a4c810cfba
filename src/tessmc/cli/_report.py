"""`tessmc report`."""

from pathlib import Path
from typing import Annotated

import typer

from tessmc.cli._app import Debug, say, talking


def report(
    run: Annotated[
        Path, typer.Argument(help="The folder of the run, finished or not.", show_default=False, metavar="RUN")
    ],
    out: Annotated[Path | None, typer.Option(help="The file; RUN/report.html if not given.", metavar="HTML")] = None,
    debug: Debug = False,
) -> None:
    """Write one page with pictures about a run that is in a folder."""
    with talking("", debug):
        import tessmc

        path = run / "report.html" if out is None else out
        tessmc.load(run).report(path)
        say(f"Report: {path}")


def add_to(app: typer.Typer) -> None:
    app.command()(report)
