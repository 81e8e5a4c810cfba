"""Medians over seeds, one row a sampler, for the terminal, for Markdown and as a picture."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tessmc.experiments._measure import Job, Row, measure

WHOLE = "{:,.0f}"
# Title → (head, key, format) of its columns.
PARTS = {
    "What counts": (
        ("R-hat", "r_hat", "{:.3f}"),
        ("nested", "nested_r_hat", "{:.3f}"),
        ("bulk ESS", "ess_bulk", WHOLE),
        ("tail ESS", "ess_tail", WHOLE),
        ("mean error", "mean_error", "{:.3f}"),
        ("cold s", "seconds", "{:.1f}"),
        ("gated ESS/s", "ess_per_second", "{:,.1f}"),
    ),
    "What it took": (
        ("evaluations", "num_evaluations", WHOLE),
        ("gradients", "num_gradients", WHOLE),
        ("gated ESS/eval", "ess_per_evaluation", "{:.3g}"),
    ),
    "The paper's metric": (
        ("τ_max*", "tau_max", "{:.3g}"),
        ("σ_τ*", "sigma_tau", "{:.3g}"),
        ("ESS*", "ess", WHOLE),
        ("ESS/s*", "paper_ess_per_second", "{:,.1f}"),
        ("Stein U*", "stein_u", "{:.3g}"),
        ("Stein V*", "stein_v", "{:.3g}"),
    ),
}
COLUMNS = [column for part in PARTS.values() for column in part]
GATE = "The gate: R-hat and nested R-hat below 1.01, and all means within 0.1 sd of the reference."
FOOTNOTE = (
    "* the paper's metric, which cannot tell mixing from standing still. Gated: zero unless R-hat and nested R-hat are "
    "below 1.01 and all means within 0.1 sd of the reference."
)
MAX_SHOWN = 1e9
OURS = ("tess", "tess_free", "tess_box")


def compare(jobs: Sequence[Job], watch: Callable[[str], None] = lambda _: None) -> Iterator[Row]:
    """The rows of all runs, one after the other."""
    for count, job in enumerate(jobs, 1):
        limit = f", at most {job.limit:.0f} s" if job.budget == "gate" else ""
        watch(f"{job.model}, run {count} of {len(jobs)}: {job.sampler}, seed {job.seed}{limit}")
        yield measure(job)


def table(rows: Sequence[Row]) -> list[list[str]]:
    """A head, then a line a sampler: medians over seeds that ended, how many passed, and how TESS compares."""
    samplers = list(dict.fromkeys(row["sampler"] for row in rows))
    speeds = {name: _median([row for row in rows if row["sampler"] == name], "ess_per_second") for name in samplers}
    lines = [["sampler", *(head for head, *_ in COLUMNS), "gate", "TESS over it"]]
    for name in samplers:
        mine = [row for row in rows if row["sampler"] == name]
        ended = [row for row in mine if "seconds" in row]
        if not ended:
            lines.append([name, *len(COLUMNS) * ["–"], in_a_word(mine[0]["status"]), "–"])
            continue
        # What is said of draws is said of the runs that made some; a speed is that of all.
        medians = {key: _median(ended, key) for _, key, _ in COLUMNS} | {"ess_per_second": speeds[name]}
        cells = [_shown(medians[key], form) for _, key, form in COLUMNS]
        passed = sum(row["passes"] for row in ended)
        lines.append([name, *cells, f"{passed}/{len(mine)}", ratio(speeds, name)])
    return lines


def table_of_evaluations(rows: Sequence[Row]) -> list[list[str]]:
    """A head, then a line a sampler: density evaluations until the gate, medians over seeds, and times TESS's own.

    A run that never passed counts as endless; of a median that is, what was spent in vain is shown.
    """
    samplers = list(dict.fromkeys(row["sampler"] for row in rows))
    needed = {name: _evaluations([row for row in rows if row["sampler"] == name]) for name in samplers}
    lines = [["sampler", "evaluations until the gate", "times TESS's", "R-hat", "mean error", "cold s", "gate"]]
    for name in samplers:
        mine = [row for row in rows if row["sampler"] == name]
        ended = [row for row in mine if "seconds" in row]
        passed = f"{sum(row['passes'] for row in ended)}/{len(mine)}"
        if not ended:
            lines.append([name, *5 * ["–"], in_a_word(mine[0]["status"])])
            continue
        spent = max(row["num_evaluations"] for row in ended)
        shown = WHOLE.format(needed[name]) if np.isfinite(needed[name]) else f"> {spent:,}"
        times = (needed[name] if np.isfinite(needed[name]) else spent) / needed.get(samplers[0], np.inf)
        more = "" if np.isfinite(needed[name]) else "> "
        cells = [_shown(_median(ended, key), form) for key, form in (("r_hat", "{:.3f}"), ("mean_error", "{:.3f}"))]
        seconds = f"{_median(ended, 'seconds'):.0f}"
        lines.append([name, shown, f"{more}{times:.1f}" if times else "–", *cells, seconds, passed])
    return lines


def _evaluations(rows: Sequence[Row]) -> float:
    return float(np.median([row["num_evaluations"] if row.get("passes") else np.inf for row in rows]))


def in_parts(lines: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[list[str]]]]:
    """The table cut into parts that a terminal can show, each with its title; gate and ratio are with the first."""
    first = 1
    for title, columns in PARTS.items():
        last = first + len(columns)
        ends = [-2, -1] if first == 1 else []
        yield title, [[line[0], *line[first:last], *(line[end] for end in ends)] for line in lines]
        first = last


def ratio(speeds: dict[str, float], name: str) -> str:
    """How many times as fast TESS is behind the gate; of its own rows, compared with the best peer."""
    best = max([speed for peer, speed in speeds.items() if peer not in OURS], default=0.0)
    ours, theirs = (speeds[name], best) if name in OURS else (speeds.get("tess", 0.0), speeds[name])
    if not ours and not theirs:
        return "–"
    if not theirs:
        return "∞"
    return f"{ours / theirs:.3g}" if ours < 1000 * theirs else f"{ours / theirs:,.0f}"


def _shown(value: float, form: str) -> str:
    # R-hat of chains that stand still has fifteen digits.
    if not value < MAX_SHOWN:
        return f"{value:.0e}"
    # A terminal of 80 columns has no room for more.
    if form == WHOLE and value >= 1e6:
        return f"{value / 1e6:,.2f} M"
    return (WHOLE if value >= 1e4 else form).format(value)


def _median(rows: Sequence[Row], key: str) -> float:
    # A run that crashed or hung has drawn nothing in its time.
    return float(np.median([row.get(key, 0.0) for row in rows]))


def failures(rows: Sequence[Row]) -> list[str]:
    """Who crashed or hung, and what was said of it, a line each."""
    return list(dict.fromkeys(f"{row['sampler']}: {row['status']}" for row in rows if "seconds" not in row))


def in_a_word(status: str) -> str:
    """How a run without draws ended, in a table; what else is said stays."""
    return "crashed" if status.startswith("crashed") else "hangs" if status.startswith("no answer") else status


def as_markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *body = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, "|" + len(lines[0]) * " --- |", *body, ""])


def in_lines(sentences: Sequence[str]) -> str:
    """Sentences of Markdown, with an empty line behind them."""
    return "".join(f"- {sentence}\n" for sentence in sentences) + ("\n" if sentences else "")


def save(rows: Sequence[Row], title: str, folder: Path) -> list[Path]:
    """Rows as JSON, the table as Markdown, gated speeds as a picture."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{title}.{ending}" for ending in ("json", "md", "png")]
    paths[0].write_text(json.dumps(list(rows), indent=1) + "\n")
    if rows and rows[0].get("budget") == "evaluations":
        paths[1].write_text(
            f"# {title}\n\n{as_markdown(table_of_evaluations(rows))}\n{in_lines(failures(rows))}{GATE}\n"
        )
        return paths[:2]
    paths[1].write_text(f"# {title}\n\n{as_markdown(table(rows))}\n{in_lines(failures(rows))}{FOOTNOTE}\n")
    draw_speeds(rows, title, paths[2])
    return paths


def draw_speeds(rows: Sequence[Row], title: str, path: Path) -> None:
    """Bars of gated ESS a second, on a log scale; samplers that never pass have none, but a word."""
    from matplotlib.figure import Figure

    samplers = list(dict.fromkeys(row["sampler"] for row in rows))
    speeds = [_median([row for row in rows if row["sampler"] == name], "ess_per_second") for name in samplers]
    order = np.argsort(speeds)
    figure = Figure(figsize=(7, 1 + 0.4 * len(samplers)), layout="constrained")
    axes = figure.subplots()
    colors = ["#c8553d" if samplers[i] in OURS else "#3b6ea5" for i in order]
    axes.barh([samplers[i] for i in order], [speeds[i] for i in order], color=colors)
    least = min([speed for speed in speeds if speed > 0], default=1.0)
    if max(speeds) > 0:
        axes.set_xscale("log")
    else:
        axes.set_xticks([])
    axes.set_xlim(least / 10, max([*speeds, least]) * 3)
    for place, i in enumerate(order):
        failure = in_a_word(next(row["status"] for row in rows if row["sampler"] == samplers[i]))
        text = f" {speeds[i]:,.3g}" if 0 < speeds[i] < 100 else f" {speeds[i]:,.0f}" if speeds[i] else f" {failure}"
        axes.text(max(speeds[i], least / 10), place, text, va="center")
    axes.set_xlabel("effective draws a cold second, behind the gate")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
