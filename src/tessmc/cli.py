"""The command line: parse, call, print."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from tessmc import Result, Target

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console()


@app.callback()
def main() -> None:
    """Transport Elliptical Slice Sampling: posteriors by learned maps, without gradients or tuning."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the picture.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.")] = 0,
) -> None:
    """Sample the banana of Figure 1 and Neal's funnel in 10 dimensions, and draw Figure 1."""
    import tessmc
    from tessmc.report import figure_one

    banana = tessmc.models.banana()
    result = _show("The banana of Figure 1", banana, seed)
    _show("Neal's funnel, d = 10", tessmc.models.funnel(10), seed)
    path = out / "figure-1.png"
    assert result.transport is not None
    maps = {"the exact map": tessmc.models.BananaMap(), "the learned map": result.transport}
    figure_one(banana, maps, result.unconstrained[:, -10:].reshape(-1, 2), path)
    console.print(f"Figure 1, with the exact map and with the one just learned: {path}")


@app.command()
def bench(
    model: Annotated[str, typer.Argument(help="One of the models of tessmc.experiments.MODELS, such as oxygen.")],
    peers: Annotated[str, typer.Option(help="all, or names with commas between them.")] = "all",
    budget: Annotated[
        str,
        typer.Option(
            help="paper: 128 chains x (400 + 100). gate: until it passes, or --limit. evaluations: likewise, of those "
            "who need no gradient, and the density evaluations are counted."
        ),
    ] = "gate",
    seeds: Annotated[int, typer.Option(help="Runs of every sampler; the table has their medians.", min=1)] = 3,
    limit: Annotated[float, typer.Option(help="Seconds that every run may take.", min=1)] = 300.0,
    draws: Annotated[int, typer.Option(help="Of each chain, at a time.", min=10)] = 100,
    out: Annotated[Path, typer.Option(help="The folder for the table (JSON, Markdown) and the picture.")] = Path(
        "bench"
    ),
) -> None:
    """Compare TESS with its peers on a model: every run is a cold process, every speed stands behind the gate."""
    from tessmc import experiments

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


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="The folder of the run.")],
    target: Annotated[str, typer.Argument(help="FILE.py:NAME, the Target or log density that was sampled.")],
    draws: Annotated[int | None, typer.Option(help="Of each chain, in all; as many as then if not given.")] = None,
) -> None:
    """Go on with a run where it stopped, or draw more."""
    import tessmc

    options = {} if draws is None else {"num_samples": draws}
    try:
        found = _find(target)
        if not isinstance(found, tessmc.targets.AbstractTarget):
            options["like"] = tessmc.load(run).num_parameters
        result = tessmc.resume(run, found, **options)
    except (tessmc.StorageError, tessmc.DensityError, ValueError, TypeError) as error:
        console.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(2) from error
    console.print(str(result.summary()), highlight=False, markup=False, soft_wrap=True)
    if not result.is_complete:
        raise typer.Exit(130)
    raise typer.Exit(0 if result.verdict.converged else 3)


def _find(spec: str) -> Any:
    """What a file of Python defines by that name."""
    import runpy

    path, _, name = spec.rpartition(":")
    if not path or not Path(path).is_file():
        raise ValueError(f"the target should be FILE.py:NAME with a file that is there, but is {spec}")
    names = runpy.run_path(path)
    if name not in names:
        raise ValueError(f"{path} defines no {name}")
    return names[name]


def _check_choice(what: str, found: list[str], known: Iterable[str]) -> None:
    unknown = [name for name in found if name not in known]
    if unknown:
        raise typer.BadParameter(f"{what} should be of {', '.join(known)}, but is {', '.join(unknown)}")


def _show(title: str, target: "Target", seed: int) -> "Result":
    import tessmc

    result = tessmc.sample(target, num_samples=400, seed=seed)
    console.print(f"[bold]{title}[/bold]")
    console.print(str(result.summary()), "\n", highlight=False, markup=False, soft_wrap=True)
    if not result.is_complete:
        raise typer.Exit(1)
    return result
