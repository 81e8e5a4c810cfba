"""The paper's experiments beside all peers: `python -m benchmarks.experiments [--minutes m] [--seeds n] [--limit s]`.

Every sampler has its first seed on every model before any has its second, and nothing new begins when the minutes are
over. Rows and pictures go to `docs/results/`, and the tables of `docs/results.md` are written anew.
"""

import argparse
import os
import re
import subprocess
import time
from pathlib import Path

import jax

from tessmc.experiments import SAMPLERS, Job, Row, as_markdown, failures, in_lines, in_parts, measure, save, table

PAGE, FOLDER = Path("docs/results.md"), Path("docs/results")
MODELS = ("oxygen", "sparse_logistic", "regime_switching", "predator_prey")
# The paper's own, and ourselves without gradients.
OF_PAPER = ("tess", "tess_free", "meads", "chees", "nuts", "neutra")
# Which parts of a table are shown.
PARTS = {"gate": ("What counts", "What it took"), "paper": ("The paper's metric", "What counts")}


def jobs(num_seeds: int, limit: float) -> list[Job]:
    """In the order in which they are run."""
    return [
        Job(model, sampler, seed, "both" if sampler in OF_PAPER else "gate", limit)
        for seed in range(num_seeds)
        for model in MODELS
        for sampler in SAMPLERS
        if sampler != "tess_box"
    ]


def apart(job: Job, row: Row) -> list[Row]:
    """The rows of a run, one for each budget."""
    paper = row.get("paper", {"status": row["status"]})
    found = [{**row, "budget": "gate"}, {**job._asdict(), **paper, "budget": "paper"}]
    return found if job.budget == "both" else found[:1]


def of_whole_seeds(rows: list[Row]) -> list[Row]:
    """Without seeds that not all samplers of the table have had: medians would be of different seeds."""
    had: dict[str, set[int]] = {}
    for row in rows:
        had.setdefault(row["sampler"], set()).add(row["seed"])
    common = set.intersection(*had.values())
    return [row for row in rows if row["seed"] in common]


def fill(page: str, name: str, text: str) -> str:
    """The page with the text between the two comments of that name."""
    found = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not found.search(page):
        raise ValueError(f"the page has no place for {name}")
    return found.sub(lambda place: f"{place[1]}\n{text}\n{place[2]}", page)


def shown(rows: list[Row], budget: str) -> str:
    """The parts of a table that count for the budget, as Markdown."""
    parts = dict(in_parts(table(rows)))
    return in_lines(failures(rows)) + "\n".join(as_markdown(parts[title]) for title in PARTS[budget])


def described(seconds: float) -> str:
    """Of which state of the project, and on what, the tables are."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    machine = f"{os.cpu_count()} CPU cores, jax {jax.__version__}"
    return f"Commit `{commit}`, `make experiments`, {seconds / 60:.0f} minutes on {machine}.\n"


def publish(rows: dict[tuple[str, str], list[Row]], seconds: float) -> None:
    """Rows, pictures and the page."""
    page = fill(PAGE.read_text(), "run", described(seconds))
    for (model, budget), made in rows.items():
        found = of_whole_seeds(made)
        save(found, f"{model}-{budget}", FOLDER)
        page = fill(page, f"{model}-{budget}", shown(found, budget))
    PAGE.write_text(page)


def main(minutes: float, num_seeds: int, limit: float) -> None:
    began, rows = time.time(), {}
    try:
        for job in jobs(num_seeds, limit):
            if time.time() - began > 60 * minutes:
                break
            row = measure(job)
            print(f"{job.model} {job.sampler} {job.seed}: {row['status']}, {row.get('seconds', 0):.0f} s", flush=True)
            for each in apart(job, row):
                rows.setdefault((job.model, each["budget"]), []).append(each)
    finally:
        publish(rows, time.time() - began)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=85)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=75)
    asked = parser.parse_args()
    main(asked.minutes, asked.seeds, asked.limit)
