"""A result as one HTML file that needs nothing else."""

import base64
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from tessmc._errors import StorageError
from tessmc.report import _plots
from tessmc.report._map import MapStory, in_words, map_story
from tessmc.report._svg import number
from tessmc.storage import RunFolder, versions

if TYPE_CHECKING:
    from tessmc.sampling import Result

# Parameters with a trace and ranks, and those of the pair plot.
MAX_SHOWN, MAX_PAIRED = 6, 5
# Rows of the warm-up's table.
MAX_ROWS = 40
PHASES = {
    "compile": "compiling", "warmup": "moving chains in the warm-up", "fit": "fitting the map",
    "check": "checking the target", "sampling": "sampling",
}  # fmt: skip
# Keys of the warm-up's history that have a column in its table, if any entry has them.
COLUMNS = {
    "stage": "stage", "iteration": "transitions", "rung": "rung", "evaluations": "evaluations a draw",
    "s_before": "s before", "s": "s after", "loss": "loss", "held_out_loss": "held-out loss",
    "dof": "law", "share_unseen": "share unseen", "num_seekers": "seekers",
    "num_skipped": "steps skipped",
}  # fmt: skip


def write_page(result: "Result", path: Path) -> Path:
    """Write the report of a result; the path that was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name may hold half a character that no file can.
    path.write_text(page(result), encoding="utf-8", errors="replace")
    return path


def page(result: "Result") -> str:
    """The report as HTML."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("tessmc.report", "."), autoescape=True, trim_blocks=True)
    script = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html").render(
        style=Markup((Path(__file__).parent / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        digest=digest,
        number=tell,
        **contents(result),
    )


def contents(result: "Result") -> dict[str, Any]:
    """All that the template shows, by name."""
    has_draws = result.num_draws > 0
    summary = result.summary()
    shown = shown_places(result) if has_draws else []
    draws = dict(zip(shown, columns(result, shown), strict=True))
    names = result.parameter_names
    return {
        "verdict": summary.verdict,
        "footer": summary.footer.splitlines(),
        "result": result,
        "head": list(summary.table.columns),
        "rows": [(name, list(zip(summary.table.columns, values, strict=True)))
                 for name, values in zip(names, summary.table.to_numpy().tolist(), strict=True)],
        "shown": [(names[place], _plots.trace(names[place], each), _plots.ranks(names[place], each))
                  for place, each in draws.items()],
        "pairs": pairs(names, draws),
        "num_paired": min(len(draws), MAX_PAIRED),
        "diagnostics": _plots.diagnostics(names, result.convergence) if has_draws else [],
        "warmup": warmup_series(result.warmup_history),
        "windows": window_table(result.warmup_history),
        "law": in_words(result.law),
        "map": seen_map(result) if has_draws else MapStory([], "There are no draws to look at."),
        "ratio": ratio(result) if has_draws else None,
        "seconds": by_phase(result.timings, result.timings.get("total", 0.0)),
        "evaluations": by_phase(result.num_evaluations_by_phase, result.num_evaluations),
        "settings": in_code(result.settings) if result.settings else {},
        "versions": made_with(result),
        "call": call(result),
    }  # fmt: skip


def shown_places(result: "Result") -> list[int]:
    """The worst parameters, by R-hat and by ESS, and the first, in the order of the table."""
    found = result.convergence
    order = np.argsort(np.nan_to_num(found.ess_bulk, nan=0.0))
    by_r_hat = np.argsort(-np.nan_to_num(found.r_hat, nan=np.inf))
    wanted = [*by_r_hat[:2], *order[:2], *range(len(order))]
    return sorted(dict.fromkeys(map(int, wanted)), key=lambda place: wanted.index(place))[:MAX_SHOWN]


def columns(result: "Result", places: list[int]) -> Iterator[np.ndarray]:
    """Draws of some parameters, (chain, draw) each."""
    found: dict[int, np.ndarray] = {}
    start = 0
    for _, draws in result.few("posterior"):
        size = math.prod(draws.shape[2:])
        here = [place for place in places if start <= place < start + size]
        flat = draws.reshape(*draws.shape[:2], size)
        found |= {place: flat[..., place - start].astype(float) for place in here}
        start += size
    yield from (found[place] for place in places)


def pairs(names: list[str], draws: dict[int, np.ndarray]) -> Markup | None:
    few = sorted(list(draws)[:MAX_PAIRED])
    return (
        _plots.pairs([names[place] for place in few], np.stack([draws[place].ravel() for place in few], 1))
        if few
        else None
    )


def warmup_series(history: list[dict[str, Any]]) -> list[tuple[Markup, str]]:
    """What was measured over the warm-up, a picture for each number that any entry has."""
    x = np.array([entry.get("iteration", place) for place, entry in enumerate(history)], float)
    wanted = {
        "s": ("s", "The spread s of log π(T(u)) − log φ̂: zero for a perfect map."),
        "evaluations": ("evaluations a draw", "Density evaluations a draw: 1 is the least that there can be."),
        "loss": ("loss", "What the fit minimised, on the draws that it was trained on."),
        "held_out_loss": ("held-out loss", "The same on draws that it had not seen."),
    }
    told = []
    for key, (what, caption) in wanted.items():
        y = np.array([np.nan if entry.get(key) is None else entry[key] for entry in history], float)
        is_known = np.isfinite(y)
        if is_known.any():
            bound = {"evaluations": 1.0, "s": 0.0}.get(key)
            told.append((_plots.series(what, "transitions of each chain", x[is_known], y[is_known], bound), caption))
    return told


def window_table(history: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """The history as a table; of very many entries some, taken evenly."""
    keys = [key for key in COLUMNS if any(entry.get(key) is not None for entry in history)]
    few = [history[place] for place in _plots.evenly(np.arange(len(history)), MAX_ROWS)] if history else []
    return [COLUMNS[key] for key in keys], [[_cell(key, entry.get(key)) for key in keys] for entry in few]


def _cell(key: str, value: Any) -> Any:
    """What of the history is a code, in words."""
    return (f"t, {value} d.f." if value else "Gaussian") if key == "dof" and value is not None else value


def seen_map(result: "Result") -> MapStory:
    if result.transport is None or result.law is None:
        return MapStory([], "The map is not known here: the run was stopped before it was learned, or was given one, "
                            "which tessmc.load(..., transport=...) has to be given, too.")  # fmt: skip
    if "unconstrained_posterior" not in result.groups:
        return MapStory([], "Unconstrained draws were not kept, because `keep` named some parameters.")
    ((_, draws),) = result.few("unconstrained_posterior")
    dim = draws.shape[2]
    return map_story(result.transport, result.law, draws.reshape(-1, dim), free_names(result, draws))


def free_names(result: "Result", draws: np.ndarray) -> list[str]:
    """A free coordinate has the name of the parameter that it is; of one that is transformed it has a number."""
    names = [f"free coordinate {place + 1}" for place in range(draws.shape[2])]
    if result.num_parameters == len(names):
        for place, values in enumerate(columns(result, list(range(len(names))))):
            if np.array_equal(values, draws[..., place]):
                names[place] = result.parameter_names[place]
    return names


def ratio(result: "Result") -> tuple[Markup, str]:
    values = dict(result.few("sample_stats"))["log_ratio"].astype(float).ravel()
    s = values.std()
    seen = f"r, the log ratio of target and map, over draws: s = {number(s)}"
    return _plots.histogram(values - np.median(values), "r − median", seen), f"{seen}. A perfect map has s = 0."


def by_phase(parts: dict[str, Any], total: float) -> list[tuple[str, float, float]]:
    """Words, amount and share of every phase, and of what is left."""
    known = {key: float(value) for key, value in parts.items() if key != "total"}
    found = [(PHASES.get(key, key), value) for key, value in known.items()]
    left = total - sum(known.values())
    if left > 0.005 * total:
        found.append(("everything else", left))
    return [(words, value, value / total if total else 0.0) for words, value in found]


def made_with(result: "Result") -> dict[str, str]:
    """Versions when the run was made, as its folder says, or those of now."""
    if result.run_dir is not None:
        try:
            return dict(RunFolder(result.run_dir).manifest()["versions"])
        except (StorageError, KeyError):
            return {}
    return versions()


def call(result: "Result") -> str:
    """The line of Python that makes the same draws of the same target."""
    settings = result.settings
    if not settings:
        return ""
    code = in_code(settings) | {"num_samples": result.num_draws}
    lines = [f"{key}={code[key]}" for key in ("num_chains", "num_warmup", "num_samples", "seed")]
    usual = {"thin": 1, "keep": None, "save_warmup": False}
    lines += [f"{key}={settings[key]!r}" for key, value in usual.items() if settings[key] != value]
    if code["warmup"] != "Warmup.auto()":
        lines.append(f"warmup=tessmc.{code['warmup']}")
    lines += [f"{key}=...,  # of digest {settings[key]}" for key in ("transport", "init") if settings[key] is not None]
    whole = (f"    {line}" if "#" in line else f"    {line}," for line in lines)
    return "\n".join(["result = tessmc.sample(", "    target,", *whole, ")"])


def in_code(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as one would write them in a call of `sample`; maps and starts by their digests."""
    high, low = settings["seed"] if len(settings["seed"]) == 2 else (1, 0)
    seed = low if high == 0 else f"jax.random.wrap_key_data(jnp.array({settings['seed']}, jnp.uint32))"
    warmup = dict(settings["warmup"])
    maker = {"AutoWarmup": "auto", "PaperWarmup": "paper"}.get(warmup.pop("kind"), "...")
    changed = ", ".join(f"{key}={value!r}" for key, value in warmup.items() if value is not None)
    return {**settings, "seed": seed, "warmup": f"Warmup.{maker}({changed})"}


# Columns whose numbers have a format of their own.
FORMATS = {"ess_bulk": "{:,.0f}", "ess_tail": "{:,.0f}", "r_hat": "{:.3f}"}


def tell(value: Any, column: str = "") -> str:
    """A number as a table shows it; a dash for what is not there."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if column in FORMATS:
        return FORMATS[column].format(value)
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
