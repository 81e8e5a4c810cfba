"""`tessmc bench`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


def bench(
    model: Annotated[
        str, typer.Argument(help="One of the models of tessmc.experiments.MODELS, such as oxygen.", metavar="MODEL")
    ],
    peers: Annotated[str, typer.Option(help="all, or names with commas between them.", metavar="NAMES")] = "all",
    budget: Annotated[
        str,
        typer.Option(
            help="paper: 128 chains x (400 + 100). gate: until it passes, or --limit. evaluations: likewise, of those "
            "who need no gradient, and the density evaluations are counted.",
            metavar="NAME",
        ),
    ] = "gate",
    seeds: Annotated[
        int, typer.Option(help="Runs of every sampler; the table has their medians.", metavar="N", min=1)
    ] = 3,
    limit: Annotated[float, typer.Option(help="Seconds that every run may take.", metavar="N", min=1)] = 300.0,
    draws: Annotated[int, typer.Option(help="Of each chain, at a time.", metavar="N", min=10)] = 100,
    out: Annotated[
        Path, typer.Option(help="The folder for the table (JSON, Markdown) and the picture.", metavar="FOLDER")
    ] = Path("bench"),
) -> None:
    """Compare TESS with its peers on a model: every run is a cold process, every speed stands behind the gate."""
    from tessmc import experiments

    console = Console()
    is_counting = budget == "evaluations"
    ours = "tess_box" if is_counting else "tess"
    names = [ours, *(name for name in peers.split(",") if name != ours)]
    if peers == "all":
        free = experiments.GRADIENT_FREE
        names = list(free) if is_counting else [name for name in experiments.SAMPLERS if name != "tess_box"]
    _check_choice("MODEL", [model], experiments.MODELS)
    _check_choice("--peers", names, experiments.SAMPLERS)
    _check_choice("--budget", [budget], experiments.BUDGETS)
    # Samplers take turns, so that a noisy moment hits all alike.
    jobs = [experiments.Job(model, name, seed, budget, limit, draws) for seed in range(seeds) for name in names]
    with console.status("starting") as status:
        rows = list(experiments.compare(jobs, status.update))
    paths = experiments.save(rows, f"{model}-{budget}", out)
    parts = [(f"{model}: evaluations", experiments.table_of_evaluations(rows))] if is_counting else None
    for title, (head, *lines) in parts or experiments.in_parts(experiments.table(rows)):
        shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
        for place, name in enumerate(head):
            # Heads may be broken between words; names and numbers not.
            width = max(map(len, (*name.split(), *(line[place] for line in lines))))
            shown.add_column(name, justify="right" if place else "left", width=width)
        for line in lines:
            shown.add_row(*line)
        console.print(shown)
    for sentence in experiments.failures(rows):
        console.print(sentence, highlight=False, markup=False)
    console.print(experiments.GATE if is_counting else experiments.FOOTNOTE)
    console.print("Saved:", *map(str, paths))


def _check_choice(what: str, found: list[str], known: Iterable[str]) -> None:
    unknown = [name for name in found if name not in known]
    if unknown:
        raise typer.BadParameter(f"{what} should be of {', '.join(known)}, but is {', '.join(unknown)}")


def add_to(app: typer.Typer) -> None:
    app.command()(bench)
