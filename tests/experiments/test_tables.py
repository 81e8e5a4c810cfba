"""What is said of a run, and the tables made of many."""

import itertools
import json
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from tessmc.cli import app
from tessmc.experiments import (
    MODELS,
    PROBS,
    SAMPLERS,
    STORED,
    Batch,
    Job,
    Reference,
    _measure,
    _tables,
    as_markdown,
    failures,
    in_lines,
    in_parts,
    judge_draws,
    measure,
    save,
    table,
    table_of_evaluations,
)


def sampler(sd=1.0, num_chains=16):
    """Draws of the banana of Figure 1 that are exact, or wrong by a factor."""

    def batches(task):
        rng = np.random.default_rng(0)
        while True:
            time.sleep(0.02)
            u = sd * rng.normal(size=(num_chains, task.num_draws, 2))
            x = np.stack([8**0.5 * u[..., 0], u[..., 1] + 2 * u[..., 0] ** 2], axis=2)
            yield Batch(x.astype(np.float32), 10, 1)

    return batches


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.setitem(SAMPLERS, "exact", sampler())
    monkeypatch.setitem(SAMPLERS, "wrong", sampler(sd=1.5))


@pytest.mark.usefixtures("peers")
def test_exact_draws_pass_the_gate_and_others_do_not():
    right = _measure.run(Job("banana", "exact", 0), time.time())
    assert right["status"] == "passes"
    assert (right["num_evaluations"], right["num_gradients"]) == (right["num_draws"] // 10, right["num_draws"] // 100)
    assert right["ess_per_second"] == right["ess_bulk"] / right["seconds"]
    assert right["ess_per_evaluation"] == right["ess_bulk"] / (right["num_draws"] * 0.11)
    wrong = _measure.run(Job("banana", "wrong", 0, limit=0.0), time.time())
    assert wrong["status"] == "does not pass"
    assert wrong["num_draws"] == 100
    assert wrong["mean_error"] > 0.1 > 1.01 - wrong["r_hat"]
    assert wrong["ess_per_second"] == wrong["ess_per_evaluation"] == 0
    assert wrong["stein_v"] > 10 * right["stein_v"]


@pytest.mark.usefixtures("peers")
def test_what_judging_takes_is_not_counted(monkeypatch):
    def refer(target):
        time.sleep(1)
        return banana.refer(target)

    banana = MODELS["banana"]
    monkeypatch.setitem(MODELS, "banana", banana._replace(refer=refer))
    assert _measure.run(Job("banana", "exact", 0), time.time())["seconds"] < 0.9


@pytest.mark.usefixtures("peers")
def test_the_papers_budget_is_one_batch_or_a_samplers_own(monkeypatch):
    row = _measure.run(Job("banana", "wrong", 0, "paper", limit=0.0), time.time())
    assert (row["num_chains"], row["num_draws"]) == (16, 100)
    assert row["ess"] > 16 * 100
    json.dumps(row)
    monkeypatch.setitem(_measure.OWN_DRAWS, "wrong", 250)
    row = _measure.run(Job("banana", "wrong", 0, "paper", limit=0.0), time.time())
    assert (row["num_draws"], row["num_evaluations"]) == (300, 30)


@pytest.mark.usefixtures("peers")
def test_both_budgets_in_one_run():
    row = _measure.run(Job("banana", "exact", 0, "both"), time.time())
    assert row["status"] == "passes"
    assert row["paper"]["num_draws"] == 100 < row["num_draws"]
    assert row["paper"]["num_evaluations"] == 10 < row["num_evaluations"]
    assert row["paper"]["seconds"] < row["seconds"]
    assert row["paper"]["ess"] > 16 * 100


@pytest.mark.usefixtures("peers")
def test_a_look_at_the_gate_waits_until_the_run_has_grown(monkeypatch):
    seen = []
    passes = _measure.passes
    monkeypatch.setattr(_measure, "passes", lambda kept, _: seen.append(kept.num_draws) or passes(kept, _))
    began = time.time() - 0.4
    row = _measure.run(Job("banana", "exact", 0, num_draws=700), began)
    # Batches of 20 ms: five of them are a quarter of the time before the first.
    assert seen[0] >= 3 * 700
    assert row["num_draws"] == seen[-1]
    assert row["seconds"] > 0.5


@pytest.mark.usefixtures("peers")
def test_where_evaluations_are_counted_the_first_look_is_after_few_draws(monkeypatch):
    seen = []
    passes = _measure.passes
    monkeypatch.setattr(_measure, "passes", lambda kept, _: seen.append(kept.num_draws) or passes(kept, _))
    row = _measure.run(Job("banana", "exact", 0, "evaluations", num_draws=700), time.time())
    assert seen[0] == 20
    # Each look waits for a twentieth more.
    assert all(after >= 1.05 * before for before, after in itertools.pairwise(seen))
    assert row["passes"]
    assert row["num_evaluations"] == 10 * seen[-1] / 20


def test_groups_of_chains_that_disagree_do_not_pass():
    reference = Reference(np.zeros(1), np.ones(1), np.zeros((3, 1)), *3 * [np.zeros(1)])
    shifts = np.repeat(0.2 * (-1.0) ** np.arange(8), 8)[:, None, None]
    draws = np.random.default_rng(0).normal(size=(64, 500, 1))
    assert judge_draws(draws, reference)["passes"]
    row = judge_draws(draws + shifts, reference)
    assert not row["passes"]
    assert row["nested_r_hat"] == pytest.approx(np.sqrt(1 + 0.2**2 * 8 / 7), abs=0.005)
    # A number of chains that is no multiple of eight, and fewer than eight.
    assert judge_draws(draws[:61], reference)["num_chains"] == 61
    assert judge_draws(draws[:3], reference)["num_chains"] == 3


def test_a_peer_that_crashes_or_hangs_is_a_row(monkeypatch):
    row = measure(Job("banana", "no such sampler", 3, "paper", 10.0))
    assert row["seed"] == 3
    assert row["status"] == "crashed: KeyError: 'no such sampler'"

    def hang(*_, timeout, **__):
        raise subprocess.TimeoutExpired("python", timeout)

    # The process itself looks at the clock while it draws.
    asked = json.dumps([*Job("banana", "tess", 0, "gate", 0.5 - _measure.GRACE), time.time()])
    ended = subprocess.run([sys.executable, "-m", "tessmc.experiments", asked], capture_output=True)
    assert ended.returncode == _measure.HUNG
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=_measure.HUNG))
    assert measure(Job("banana", "tess", 0, "paper", 10.0))["status"] == "no answer within 25 s"
    monkeypatch.setattr(subprocess, "run", hang)
    assert measure(Job("banana", "tess", 0, "paper", 10.0))["status"] == "no answer within 25 s"


def test_of_very_many_draws_some_are_kept(monkeypatch):
    monkeypatch.setattr(_measure, "MAX_KEPT", 800)
    draws = np.random.default_rng(0).normal(1, 2, size=(8, 2950, 1))
    kept = _measure.Kept()
    for part in np.split(draws, [10, 150, 151, 800, 803, 2000], axis=1):
        kept.add(part)
    assert 800 < kept.draws[..., 0].size <= 1600
    assert np.array_equal(kept.draws, draws[:, ::16])
    # Moments are those of all draws.
    assert kept.num_draws == 2950
    assert kept.mean == pytest.approx(draws.mean((0, 1)))
    assert kept.sd == pytest.approx(draws.std((0, 1)))


def test_draws_that_stand_still_are_judged():
    reference = MODELS["banana"].refer(MODELS["banana"].make())
    row = judge_draws(np.ones((4, 50, 2)), reference)
    assert not row["passes"]
    assert row["r_hat"] == np.inf
    assert row["ess_bulk"] == 0


def rows():
    made = {key: 1.0 for _, key, _ in _tables.COLUMNS}
    speeds = {
        "tess": [10.0, 30.0, 20.0],
        "tess_free": [40.0, 40.0, 0.0],
        "quick": [2.0, 2.0, 0.0],
        "slow": [0.0, 0.0, 1.0],
    }
    found = [
        {**made, "sampler": name, "ess_per_second": speed, "passes": speed > 0, "status": "passes" if speed else "no"}
        for seed in range(3)
        for name, speed in ((name, values[seed]) for name, values in speeds.items())
    ]
    return [*found, {"sampler": "broken", "status": "crashed: ValueError"}]


def test_a_table_has_medians_and_ratios():
    head, *lines = table(rows())
    place = head.index("gated ESS/s")
    assert [line[0] for line in lines] == ["tess", "tess_free", "quick", "slow", "broken"]
    assert [line[place] for line in lines] == ["20.0", "40.0", "2.0", "0.0", "–"]
    assert [line[-2] for line in lines] == ["3/3", "2/3", "2/3", "1/3", "crashed"]
    # Our own rows are compared with the best peer, not with each other.
    assert [line[-1] for line in lines] == ["10", "20", "10", "∞", "–"]
    assert {len(line) for line in lines} == {len(head)}
    assert as_markdown([head, *lines]).count("\n| ") == 1 + len(lines)


def test_a_run_that_hung_has_no_speed():
    """In the cell as in the ratio: of one run of 100 a second, and one that never drew, the median is 50."""
    ended = {**rows()[0], "sampler": "quick", "ess_per_second": 100.0}
    hung = {"sampler": "quick", "status": "no answer within 90 s"}
    head, *lines = table([rows()[0], ended, hung])
    assert [line[head.index("gated ESS/s")] for line in lines] == ["10.0", "50.0"]
    assert [line[-2:] for line in lines] == [["1/1", "0.2"], ["1/2", "0.2"]]


def test_who_crashed_or_hung_is_told_in_full():
    assert failures([*rows(), *rows()]) == ["broken: crashed: ValueError"]
    assert failures(rows()[:4]) == []
    assert in_lines(["a", "b"]) == "- a\n- b\n\n"
    assert in_lines([]) == ""


def test_a_terminal_gets_the_table_in_parts():
    parts = dict(in_parts(table(rows())))
    assert parts["What counts"][0][-3:] == ["gated ESS/s", "gate", "TESS over it"]
    assert [len(lines[0]) for lines in parts.values()] == [10, 4, 7]
    assert sum(len(lines[0]) - 1 for lines in parts.values()) == len(table(rows())[0]) - 1
    assert all(len(line) == len(lines[0]) for lines in parts.values() for line in lines)


def test_a_comparison_is_saved(tmp_path):
    paths = save(rows(), "banana-gate", tmp_path / "new")
    assert [path.name for path in paths] == ["banana-gate.json", "banana-gate.md", "banana-gate.png"]
    assert json.loads(paths[0].read_text()) == rows()
    assert "| quick |" in paths[1].read_text()
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def counted(sampler, *needed):
    """Rows of a sampler that needed so many evaluations; None if it never passed with a million."""
    return [
        {**rows()[0], "sampler": sampler, "budget": "evaluations", "passes": each is not None,
         "num_evaluations": 10**6 if each is None else each}
        for each in needed
    ]  # fmt: skip


def test_evaluations_until_the_gate_are_medians_and_times_ours():
    found = [*counted("tess_box", 100, 300, 200), *counted("emcee", 2000, None, 3000), *counted("zeus", None, None, 5)]
    head, *lines = table_of_evaluations([*found, {"sampler": "pocomc", "status": "crashed: ValueError"}])
    assert [line[:3] for line in lines] == [
        ["tess_box", "200", "1.0"],
        ["emcee", "3,000", "15.0"],
        ["zeus", "> 1,000,000", "> 5000.0"],
        ["pocomc", "–", "–"],
    ]
    assert [line[-1] for line in lines] == ["3/3", "2/3", "1/3", "crashed"]
    assert {len(line) for line in lines} == {len(head)}


def test_the_command_counts_evaluations_of_samplers_without_gradients(tmp_path, monkeypatch):
    monkeypatch.setattr(_tables, "measure", lambda job: counted(job.sampler, 1234)[0])
    command = ["bench", "oxygen", "--budget", "evaluations", "--seeds", "1", "--out", str(tmp_path)]
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert all(name in done.output for name in ("tess_box", "emcee", "zeus", "pocomc", "1,234"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"oxygen-evaluations.{end}" for end in ("json", "md")]


def test_the_command_prints_the_table(tmp_path, monkeypatch):
    asked = []

    def answer(job):
        asked.append(job)
        return rows()[0 if job.sampler == "tess" else 2] | {"sampler": job.sampler}

    monkeypatch.setattr(_tables, "measure", answer)
    command = ["bench", "oxygen", "--peers", "nuts,chees", "--budget", "paper", "--seeds", "2", "--out", str(tmp_path)]
    done = CliRunner(env={"COLUMNS": "400"}).invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert {job[:1] + job[3:] for job in asked} == {("oxygen", "paper", 300, 100)}
    assert [job[1:3] for job in asked] == [(name, seed) for seed in (0, 1) for name in ("tess", "nuts", "chees")]
    assert "chees" in done.output
    assert (tmp_path / "oxygen-paper.json").exists()


def test_large_numbers_fit_into_a_terminal(tmp_path, monkeypatch):
    large = {"ess_bulk": 1_474_706.0, "ess_tail": 1_322_702.0, "ess_per_second": 76_256.9, "seconds": 119.3}
    answer = {**rows()[0], **large, "num_gradients": 196_544_000.0}
    monkeypatch.setattr(_tables, "measure", lambda job: answer | {"sampler": job.sampler})
    command = ["bench", "oxygen", "--peers", "numpyro,tess_free", "--seeds", "1", "--out", str(tmp_path)]
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, command, catch_exceptions=False)
    assert "1.47 M" in done.output
    assert "76,257" in done.output
    assert "196.54 M" in done.output
    assert "…" not in done.output
    assert "TESS" in done.output
    assert all(len(line) <= 80 for line in done.output.splitlines())


@pytest.mark.parametrize(
    "command", [["bench", "oxigen"], ["bench", "oxygen", "--peers", "nats"], ["bench", "oxygen", "--budget", "all"]]
)
def test_what_is_not_known_is_named(command):
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "should be of" in done.output.replace("\n", " ")


# Their data sets are not here.
STORED_ONLY = ("regime_switching", "predator_prey", "sparse_logistic")


@pytest.mark.parametrize("name", [name for name in MODELS if name not in STORED_ONLY])
def test_a_reference_is_that_of_its_model(name):
    """Densities at the mean of a reference and far from it, and the order of what it says."""
    model = MODELS[name]
    target = model.make()
    found = model.refer(target)
    assert {part.shape for part in (found.mean, found.sd, found.mean_se, found.sd_se)} == {(target.dim,)}
    assert found.quantiles.shape == found.quantiles_se.shape == (len(PROBS), target.dim)
    assert np.all(found.sd > 0)
    assert np.all(np.diff(found.quantiles, axis=0) > 0)
    assert np.all(np.abs(found.quantiles - found.mean) < 5 * found.sd)
    density = jax.jit(target.log_density)
    shifted = [density((found.mean + far * found.sd).astype(np.float32)) for far in (0.0, 8.0)]
    assert name in ("ring", "two_modes") or shifted[0] > shifted[1]


@pytest.mark.parametrize(("name", "dim"), list(zip(STORED_ONLY, (9, 8, 51), strict=True)))
def test_a_stored_reference_is_good_enough_to_gate_on(name, dim):
    stored = json.loads(STORED.read_text())[name]
    assert stored["ess"] >= 20_000
    assert stored["r_hat"] < 1.001
    # Another sampler says the same.
    assert stored["beside"]["sampler"] != stored["sampler"]
    assert stored["beside"]["z"] < 5
    found = MODELS[name].refer(SimpleNamespace(dim=dim))
    assert found.mean.shape == (dim,)
    assert found.quantiles.shape == found.quantiles_se.shape == (len(PROBS), dim)
    assert np.all(found.mean_se < 0.01 * found.sd)
    assert np.all(np.diff(found.quantiles, axis=0) > 0)


def exact_draws(name, num=200_000):
    u = np.random.default_rng(5).normal(size=(num, 10))
    if name == "banana":
        return np.stack([8**0.5 * u[:, 0], u[:, 1] + 2 * u[:, 0] ** 2], axis=1)
    if name == "funnel_10":
        return np.c_[1.5 * u[:, 0], np.exp(1.5 * u[:, :1]) * u[:, 1:]]
    if name == "student_10":
        return u / np.sqrt(np.random.default_rng(6).chisquare(3, (num, 1)) / 3)
    if name == "two_modes":
        return u[:, :5] + np.where(np.random.default_rng(6).uniform(size=(num, 1)) < 0.3, 5, -5)
    # The ring: radii by rejection, as their density is r times a Gaussian's.
    radius = 5 + 0.3 * u[:, 0]
    radius = radius[np.random.default_rng(6).uniform(0, 7, num) < radius]
    angle = 2 * np.pi * np.random.default_rng(7).uniform(size=radius.size)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


@pytest.mark.parametrize("name", ["banana", "funnel_10", "student_10", "ring", "two_modes"])
def test_exact_references_are_those_of_exact_draws(name):
    found, draws = MODELS[name].refer(MODELS[name].make()), exact_draws(name)
    quantiles = np.quantile(draws, PROBS, axis=0)
    assert np.all(np.abs(quantiles - found.quantiles) < 0.02 * found.sd)
    assert np.all(np.abs(draws.mean(0) - found.mean) < 0.02 * found.sd)
    # Where fourth moments are infinite, or nearly, draws do not tell.
    known = {"funnel_10": 1, "student_10": 0}.get(name)
    assert np.all(np.abs(draws.std(0) / found.sd - 1)[:known] < 0.01)
    assert not np.any(found.mean_se)
