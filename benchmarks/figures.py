"""The paper's Figures 2 and 3 and the supplement's pair plot, drawn anew: `python -m benchmarks.figures [FOLDER]`."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import tessmc
from tessmc._clock import Clock
from tessmc.adaptation import WarmupTask
from tessmc.engines import collect
from tessmc.experiments import SAMPLERS, Task
from tessmc.report import pair_plot, side_by_side

FOLDER = Path("docs/results")


def columns(target: tessmc.Target, positions: np.ndarray, names: list[str]) -> np.ndarray:
    """Parameters in their supports, a column each."""
    found = jax.jit(jax.vmap(target.constrain))(positions.reshape(-1, target.dim))
    return np.stack([np.asarray(found[name]) for name in names], axis=1)


def figure_two(path: Path) -> None:
    """Oxygen: draws of the target, and of φ̂, what the learned map makes of its reference law."""
    target, names = tessmc.models.oxygen(), ["theta0", "theta1"]
    asked = WarmupTask(target, None, None, jr.key(0), 128, 400, Clock(), lambda *_: None)
    warmed = tessmc.Warmup.auto().run(asked)
    _, draws = collect(warmed.kernel, warmed.chains, 100)
    fresh = jax.vmap(lambda key: warmed.kernel.law.draw(key, jnp.zeros(target.dim), is_fresh=True))
    learned = jax.vmap(warmed.kernel.transport.transform)(fresh(jr.split(jr.key(1), 12_800)))
    clouds = {"the target, drawn by TESS": draws.position, "what the map has learned": np.asarray(learned)}
    side_by_side({title: columns(target, points, names) for title, points in clouds.items()}, names, path)


def figure_three(path: Path) -> None:
    """Predator and prey: initial values and scales, by TESS and by MEADS, in the paper's budget."""
    target, names = tessmc.models.predator_prey(), ["p0", "q0", "sigma_p", "sigma_q"]
    runs = {"MEADS, 128 × 100": "meads", "TESS, 128 × 100": "tess"}
    clouds = {label: next(SAMPLERS[name](Task(target, jr.key(0)))).draws for label, name in runs.items()}
    # Of where chains stand after a failed warm-up and of the posterior nothing but logarithms fit into one panel.
    logs = {label: np.log(columns(target, points, names)) for label, points in clouds.items()}
    pair_plot(logs, [f"log {name}" for name in names], path)


def hidden_markov(path: Path) -> None:
    """Regime switching: every pair of parameters."""
    target = tessmc.models.regime_switching()
    result = tessmc.sample(target, num_samples=100, progress=False)
    positions = np.concatenate([draws.reshape(12_800, -1) for draws in result.posterior.values()], axis=1)
    pair_plot({"draws of TESS": positions}, result.parameter_names, path, max_points=500)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (figure_two, figure_three, hidden_markov):
        draw(folder / f"{draw.__name__}.png")
        print(folder / f"{draw.__name__}.png", flush=True)
