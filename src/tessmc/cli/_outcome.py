"""A result on the screen or as JSON, and the exit code that it means."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from tessmc.cli._app import CONVERGED, INTERRUPTED, NOT_CONVERGED, UserError, say, say_json

if TYPE_CHECKING:
    from tessmc import Result


def tell(result: "Result", as_json: bool, report: Path | None = None, title: str = "") -> None:
    """Print what came of a run, and write its report if one is wanted."""
    # What was found comes first: the report may fail.
    if as_json:
        say_json({**as_dict(result), **({} if report is None else {"report": report})})
    else:
        say(*filter(None, [title, coloured(result)]))
        if result.run_dir is not None and is_interrupted(result):
            say("To go on with it, give the same command again.")
    if report is not None:
        result.report(report)
        if not as_json:
            say(f"Report: {report}")


def refuse_folder(report: Path | None) -> None:
    """Before a long run, not after it."""
    if report is not None and report.is_dir():
        raise UserError(f"--report should be a file such as {report / 'report.html'}, but {report} is a folder")


def coloured(result: "Result") -> Text:
    """The summary, with the first words of the verdict in a colour."""
    text = Text(str(result.summary()))
    text.highlight_regex(r"(?m)^Converged:", "bold green")
    text.highlight_regex(r"(?m)^(Not converged|Incomplete):", "bold yellow")
    return text


def as_dict(result: "Result") -> dict[str, Any]:
    """A result in words and numbers, without its draws."""
    table = result.summary().table
    return {
        "converged": result.verdict.converged,
        "reasons": result.verdict.reasons,
        "is_complete": result.is_complete,
        "reason": result.reason,
        "num_chains": result.num_chains,
        "num_draws": result.num_draws,
        "stride": result.stride,
        "num_evaluations": result.num_evaluations_by_phase,
        "timings": result.timings,
        "notes": result.notes,
        "run_dir": result.run_dir,
        "parameters": {name: dict(row) for name, row in table.iterrows()},
    }


def exit_code(result: "Result", target_ess: float | None = None) -> int:
    """What a script is told: an end that the user set, such as a time, is an end; an ESS not reached is not."""
    if is_interrupted(result):
        return INTERRUPTED
    is_short = target_ess is not None and not result.is_complete
    return CONVERGED if result.verdict.converged and not is_short else NOT_CONVERGED


def is_interrupted(result: "Result") -> bool:
    """Whether a signal has ended the run."""
    return not result.is_complete and result.reason.startswith("interrupted")


def end(result: "Result", target_ess: float | None = None) -> None:
    """Leave the command."""
    raise typer.Exit(exit_code(result, target_ess))
