"""What all commands share: the application, how they talk, and how they end."""

import io
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

CONVERGED, BUG, BAD_INPUT, NOT_CONVERGED, INTERRUPTED = 0, 1, 2, 3, 130

EXIT_CODES = (
    "Exit codes: 0 converged, 3 finished but not converged, 130 interrupted with the draws so far, 2 bad input."
)

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich", epilog=EXIT_CODES)

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else there.", metavar="")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.", metavar="")]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Do not keep compiled programs for the next run.", metavar="")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.", metavar="")]


def say(*lines: object) -> None:
    """Print on standard output, as it is."""
    console = Console()
    for line in lines:
        console.print(line if isinstance(line, Text) else str(line), highlight=False, markup=False, soft_wrap=True)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        from tessmc import __version__

        say(f"tessmc {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", help="Show the version and exit.", metavar="", is_eager=True, callback=_tell_version),
]


@app.callback()
def main(version: Version = False) -> None:
    """Transport Elliptical Slice Sampling: posteriors by learned maps, without gradients or tuning."""


class UserError(Exception):
    """A mistake that is not ours, in a sentence."""


def say_json(found: dict[str, Any]) -> None:
    """Print one JSON object; what JSON has no number for is null."""
    sys.stdout.write(json.dumps(_plain(found), indent=2, allow_nan=False, ensure_ascii=False) + "\n")


@contextmanager
def aside(is_wanted: bool) -> Iterator[None]:
    """With --json: what the user's file prints, or anything that it starts, goes to standard error."""
    if not is_wanted:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    # NumPy's numbers are Python's by `item`.
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def complain(sentence: str, style: str = "bold red", head: str = "Error: ") -> None:
    """Print on standard error."""
    console = Console(stderr=True)
    console.print(Text.assemble((head, style), sentence), soft_wrap=True, highlight=False)


@contextmanager
def talking(file: str = "", debug: bool = False, quiet: bool = False) -> Iterator[None]:
    """Run a command: warnings and log lines go to standard error, and errors become sentences and exit codes.

    Args:
        file: the user's own, FILE.py:NAME.
        debug: whether errors are shown with their tracebacks, and the library's log.
        quiet: whether progress is left out.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character should not cost a run.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings(), _log_lines(debug, quiet):
        warnings.showwarning = lambda message, *_: complain(str(message), "bold yellow", "Warning: ")
        try:
            yield
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        # Everything: whether it is the user's or ours is looked at there.
        except Exception as error:
            if debug:
                traceback.print_exc()
            sentence, code = _told(error, Path(file.rpartition(":")[0]))
            complain(sentence)
            raise typer.Exit(code) from None


def _told(error: Exception, file: Path) -> tuple[str, int]:
    """An error as a sentence, with the line of the user's file that raised it, and an exit code."""
    from tessmc import BlackBoxError, CallbackError, DensityError, StorageError

    known = (UserError, BlackBoxError, CallbackError, DensityError, StorageError)
    where = _line_in(error, file)
    if where and not isinstance(error, known):
        return f"{where}: {type(error).__name__}: {error}", BAD_INPUT
    if isinstance(error, (*known, TypeError, ValueError, ImportError, OSError)):
        return f"{error}{f' ({where})' if where else ''}", BAD_INPUT
    return f"{type(error).__name__}: {error}. This may be a bug of tessmc: add --debug to see where it comes from", BUG


def _line_in(error: BaseException | None, file: Path) -> str:
    """The last line of a file through which an error, or what caused it, went."""
    if error is None or not file.is_file():
        return ""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).resolve() == file.resolve():
        return f"{file}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if Path(frame.filename).resolve() == file.resolve():
            return f"{file}, line {frame.lineno}"
    return _line_in(error.__cause__, file)


@contextmanager
def _log_lines(debug: bool, quiet: bool) -> Iterator[None]:
    """The library's log on standard error: warnings, progress where no terminal shows it, and all to find a fault."""
    levels = {"tessmc": logging.INFO if debug else logging.WARNING, "tessmc.progress": logging.INFO + 10 * quiet}
    loggers = {logging.getLogger(name): level for name, level in levels.items()}
    before, handler = {logger: logger.level for logger in loggers}, _Handler()
    logging.getLogger("tessmc").addHandler(handler)
    for logger, level in loggers.items():
        logger.setLevel(level)
    try:
        yield
    finally:
        logging.getLogger("tessmc").removeHandler(handler)
        for logger, level in before.items():
            logger.setLevel(level)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            complain(record.getMessage(), "bold yellow", "Warning: ")
        else:
            complain(record.getMessage(), head="")


def keep_programs(no_cache: bool) -> None:
    """Keep compiled programs for the next run, unless that is not wanted."""
    if not no_cache:
        from tessmc import enable_cache

        enable_cache()
