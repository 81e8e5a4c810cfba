"""`tessmc sample` and `tessmc resume`."""

from pathlib import Path
from typing import Annotated

import typer

from tessmc.cli._app import EXIT_CODES, Debug, Json, NoCache, Quiet, keep_programs, talking
from tessmc.cli._outcome import end, tell
from tessmc.cli._target import EXECUTOR, LIKE, WHAT_IT_IS, executor_of, find_target

Report = Annotated[Path | None, typer.Option(help="Write a page with pictures to this file, such as report.html.")]
Like = Annotated[int | None, typer.Option(help=LIKE, min=1)]
Ess = Annotated[float | None, typer.Option(help="Draw until every parameter has so many effective draws.")]
Seconds = Annotated[float | None, typer.Option(help="End after so long, with what there is.")]
Evaluations = Annotated[int | None, typer.Option(help="End after so many density evaluations.", min=1)]
Workers = Annotated[str | None, typer.Option(help=EXECUTOR)]


def sample(
    target: Annotated[str, typer.Argument(help=WHAT_IT_IS, show_default=False)],
    like: Like = None,
    chains: Annotated[int, typer.Option(help="Chains that run side by side.", min=1)] = 128,
    warmup: Annotated[int, typer.Option(help="Transitions of each chain to learn the map from.", min=0)] = 400,
    draws: Annotated[
        int | None, typer.Option(help="Of each chain; 100, or as many as --target-ess needs.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.", min=0)] = 0,
    target_ess: Ess = None,
    max_seconds: Seconds = None,
    max_evaluations: Evaluations = None,
    executor: Workers = None,
    run_dir: Annotated[
        Path | None, typer.Option(help="A folder that keeps the run; the same command again goes on with it.")
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
        found, options = find_target(target, like)
        with executor_of(executor) as workers:
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
    run: Annotated[Path, typer.Argument(help="The folder of the run.", show_default=False)],
    target: Annotated[str, typer.Argument(help=WHAT_IT_IS, show_default=False)],
    draws: Annotated[
        int | None, typer.Option(help="Of each chain, in all; as many as then if not given.", min=1)
    ] = None,
    target_ess: Ess = None,
    max_seconds: Seconds = None,
    max_evaluations: Evaluations = None,
    executor: Workers = None,
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
        found, more = find_target(target, last_resort=lambda: tessmc.load(run).num_parameters)
        with executor_of(executor) as workers:
            asked = {"max_seconds": max_seconds, "executor": workers, "progress": not quiet}
            result = tessmc.resume(run, found, **options, **more, **asked)
        tell(result, json, report)
        end(result, target_ess)


def add_to(app: typer.Typer) -> None:
    app.command(epilog=EXIT_CODES)(sample)
    app.command(epilog=EXIT_CODES)(resume)
