"""`tessmc sample` and `tessmc resume`."""

from pathlib import Path
from typing import Annotated

import typer

from tessmc.cli._app import EXIT_CODES, Debug, Json, NoCache, Quiet, aside, keep_programs, talking
from tessmc.cli._outcome import end, refuse_folder, tell
from tessmc.cli._target import EXECUTOR, LIKE, WHAT_IT_IS, executor_of, find_target

HOW, END, OUT = "How it is drawn", "When it ends, whatever comes first", "What comes of it"

Spec = Annotated[str, typer.Argument(help=WHAT_IT_IS, show_default=False, metavar="FILE.py:NAME")]
Ess = Annotated[
    float | None,
    typer.Option(help="Every parameter has so many effective draws.", metavar="N", rich_help_panel=END),
]
Seconds = Annotated[float | None, typer.Option(help="So many seconds have gone by.", metavar="N", rich_help_panel=END)]
Evaluations = Annotated[
    int | None, typer.Option(help="The density was asked so many times.", metavar="N", min=1, rich_help_panel=END)
]
Workers = Annotated[str | None, typer.Option(help=EXECUTOR, metavar="WHO:N", rich_help_panel=HOW)]
Report = Annotated[
    Path | None, typer.Option(help="Write a page with pictures to this file.", metavar="HTML", rich_help_panel=OUT)
]


def sample(
    target: Spec,
    like: Annotated[int | None, typer.Option(help=LIKE, metavar="N", min=1, rich_help_panel=HOW)] = None,
    chains: Annotated[
        int, typer.Option(help="Chains that run side by side.", metavar="N", min=1, rich_help_panel=HOW)
    ] = 128,
    warmup: Annotated[
        int, typer.Option(help="Transitions of each chain to learn from.", metavar="N", min=0, rich_help_panel=HOW)
    ] = 400,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same draws.", metavar="N", min=0, rich_help_panel=HOW)
    ] = 0,
    executor: Workers = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Each chain has made so many draws: 100 if not given, or any number with --target-ess.",
            metavar="N",
            min=1,
            rich_help_panel=END,
        ),
    ] = None,
    target_ess: Ess = None,
    max_seconds: Seconds = None,
    max_evaluations: Evaluations = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            help="Keep the run in this folder; the same command again goes on with it.",
            metavar="FOLDER",
            rich_help_panel=OUT,
        ),
    ] = None,
    report: Report = None,
    json: Json = False,
    quiet: Quiet = False,
    no_cache: NoCache = False,
    debug: Debug = False,
) -> None:
    """Draw from the posterior that a file of Python defines."""
    with talking(target, debug, quiet):
        import tessmc

        keep_programs(no_cache)
        refuse_folder(report)
        with aside(json), executor_of(executor) as workers:
            found, options = find_target(target, like)
            result = tessmc.sample(
                found,
                **options,
                num_chains=chains,
                num_warmup=warmup,
                num_samples=draws,
                seed=seed,
                target_ess=target_ess,
                max_seconds=max_seconds,
                max_evaluations=max_evaluations,
                executor=workers,
                run_dir=run_dir,
                progress=not quiet,
            )
        tell(result, json, report)
        end(result, target_ess)


def resume(
    run: Annotated[Path, typer.Argument(help="The folder of the run.", show_default=False, metavar="RUN")],
    target: Spec,
    executor: Workers = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Each chain has made so many draws in all; as many as then if not given.",
            metavar="N",
            min=1,
            rich_help_panel=END,
        ),
    ] = None,
    target_ess: Ess = None,
    max_seconds: Seconds = None,
    max_evaluations: Evaluations = None,
    report: Report = None,
    json: Json = False,
    quiet: Quiet = False,
    no_cache: NoCache = False,
    debug: Debug = False,
) -> None:
    """Go on with a run where it stopped, or draw more."""
    with talking(target, debug, quiet):
        import tessmc

        keep_programs(no_cache)
        given = {"num_samples": draws, "target_ess": target_ess, "max_evaluations": max_evaluations}
        options = {name: value for name, value in given.items() if value is not None}
        refuse_folder(report)
        with aside(json), executor_of(executor) as workers:
            found, more = find_target(target, last_resort=lambda: tessmc.load(run).num_parameters)
            asked = {"max_seconds": max_seconds, "executor": workers, "progress": not quiet}
            result = tessmc.resume(run, found, **options, **more, **asked)
        tell(result, json, report)
        end(result, target_ess)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EXIT_CODES)(sample)
    app.command(epilog=EXIT_CODES)(resume)
