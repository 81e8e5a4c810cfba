"""The command line: parse, call, print."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

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
    maps = {"the exact map": tessmc.models.BananaMap(), "the learned map": result.transport}
    figure_one(banana, maps, result.unconstrained[:, -10:].reshape(-1, 2), path)
    console.print(f"Figure 1, with the exact map and with the one just learned: {path}")


def _show(title: str, target: "Target", seed: int) -> "Result":
    import tessmc

    result = tessmc.sample(target, num_samples=400, seed=seed)
    console.print(f"[bold]{title}[/bold]")
    console.print(str(result.summary()), "\n", highlight=False, markup=False, soft_wrap=True)
    return result
