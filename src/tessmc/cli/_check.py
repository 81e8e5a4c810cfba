"""`tessmc check`."""

from dataclasses import asdict
from typing import Annotated

import typer

from tessmc.cli._app import NOT_CONVERGED, Debug, Json, aside, say, say_json, talking
from tessmc.cli._target import LIKE, WHAT_IT_IS, find_target


def check(
    target: Annotated[str, typer.Argument(help=WHAT_IT_IS, show_default=False, metavar="FILE.py:NAME")],
    like: Annotated[int | None, typer.Option(help=LIKE, metavar="N", min=1)] = None,
    points: Annotated[int, typer.Option(help="At which the log density is asked.", metavar="N", min=1)] = 64,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say in seconds what is wrong with a target, before a long run."""
    with talking(target, debug):
        import tessmc

        with aside(json):
            found, options = find_target(target, like)
            seen = tessmc.check(found, **options, num_points=points)
        if json:
            say_json({"is_fine": seen.is_fine, **asdict(seen)})
        else:
            say(seen)
        raise typer.Exit(0 if seen.is_fine else NOT_CONVERGED)


def add_to(app: typer.Typer) -> None:
    app.command(epilog="Exit codes: 0 nothing is wrong, 3 problems were found, 2 bad input.")(check)
