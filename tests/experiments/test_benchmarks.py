"""The scripts that make references and pages, on made-up samplers and rows."""

import numpy as np
import pytest
from benchmarks import experiments, references

from tessmc.experiments import SAMPLERS, Batch, _tables


def sampler(seed, shift=0.0):
    """Exact draws of the banana of Figure 1, or shifted ones."""

    def batches(task):
        rng = np.random.default_rng(seed)
        while True:
            u = rng.normal(size=(32, task.num_draws, 2))
            x = np.stack([8**0.5 * u[..., 0], u[..., 1] + 2 * u[..., 0] ** 2], axis=2)
            yield Batch((x + shift).astype(np.float32), 1, 0)

    return batches


@pytest.fixture
def samplers(monkeypatch):
    monkeypatch.setitem(SAMPLERS, "one", sampler(0))
    monkeypatch.setitem(SAMPLERS, "other", sampler(1))
    monkeypatch.setitem(SAMPLERS, "shifted", sampler(1, shift=0.3))


@pytest.mark.usefixtures("samplers")
def test_a_reference_is_made_of_two_that_agree():
    found = references.make("banana", ["one", "other"], 60)
    assert found["sampler"] == "one"
    assert found["ess"] >= references.MIN_ESS
    assert found["r_hat"] < references.MAX_R_HAT
    assert found["beside"]["z"] < references.MAX_Z
    assert np.abs(np.array(found["mean"]) - [0, 2]).max() < 5 * max(found["mean_se"])
    assert np.shape(found["quantiles_se"]) == (3, 2)


@pytest.mark.usefixtures("samplers")
def test_a_reference_is_refused_if_another_disagrees_or_draws_are_too_few():
    with pytest.raises(SystemExit, match="not good enough"):
        references.make("banana", ["one", "shifted"], 60)
    with pytest.raises(SystemExit, match="not good enough"):
        references.make("banana", ["one", "other"], 0)


def test_a_page_is_filled_in_its_places():
    page = "a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\n<!-- end -->\nc\n"
    filled = experiments.fill(page, "x", "| new \\1 |")
    assert filled == "a\n<!-- x -->\n\n| new \\1 |\n<!-- end -->\nb\n<!-- y -->\n<!-- end -->\nc\n"
    # A second time it is the same.
    assert experiments.fill(filled, "x", "| new \\1 |") == filled
    with pytest.raises(ValueError, match="no place for z"):
        experiments.fill(page, "z", "")


def test_the_page_has_a_place_for_every_table():
    page = experiments.PAGE.read_text()
    row = {key: 1.0 for _, key, _ in _tables.COLUMNS} | {"sampler": "tess", "passes": True, "status": "passes"}
    runs = [each for job in experiments.jobs(1, 60.0) for each in experiments.apart(job, {**job._asdict(), **row})]
    wanted = {(each["model"], each["budget"]) for each in runs}
    assert len(wanted) == 8
    for model, budget in wanted:
        page = experiments.fill(page, f"{model}-{budget}", experiments.shown([row], budget))
    assert page.count("| tess |") == 2 * len(wanted)


def test_every_sampler_has_its_first_seed_before_any_has_its_second():
    seeds = [job.seed for job in experiments.jobs(2, 60.0)]
    assert seeds == sorted(seeds)
    assert {job.sampler for job in experiments.jobs(2, 60.0)} == set(SAMPLERS) - {"tess_box"}


def test_medians_are_over_the_seeds_that_all_samplers_had():
    rows = [{"sampler": name, "seed": seed} for name, seed in (("tess", 0), ("nuts", 0), ("tess", 1), ("nuts", 1))]
    assert experiments.of_whole_seeds(rows) == rows
    assert experiments.of_whole_seeds(rows[:3]) == rows[:2]
