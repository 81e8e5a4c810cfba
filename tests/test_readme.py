"""What the README and the pages show works."""

import re
from pathlib import Path

import numpy as np
import pytest
import xarray

import tessmc

ROOT = Path(__file__).parents[1]


def run_examples(page: str, num_blocks: int) -> dict:
    """The names that the Python on a page defines, from its first block to its last."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert len(blocks) == num_blocks
    names: dict = {}
    for block in blocks:
        exec(block, names)
    return names


def test_the_examples_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_examples("README.md", 4)
    assert "ess_bulk" in capsys.readouterr().out
    assert (names["result"].posterior["sigma"] > 0).all()
    assert abs(names["result"].posterior["slope"].mean() - 2) < 0.5
    with xarray.open_zarr("runs/line/draws.zarr", group="posterior", consolidated=False) as data:
        assert np.array_equal(data["slope"], names["result"].posterior["slope"])


def test_the_page_on_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_examples("docs/runs.md", 2)
    assert np.array_equal(names["draws"]["x"], names["result"].posterior["x"])
    again = tessmc.resume("runs/banana", names["log_density"], like=np.zeros(2, np.float32), progress=False)
    assert np.array_equal(again.posterior["x"], names["result"].posterior["x"])


def test_the_page_on_black_boxes():
    """Its first block; the files that it shows are examples of their own."""
    names = run_examples("docs/black-box.md", 1)
    assert names["result"].verdict.converged


@pytest.mark.usefixtures("ranks_promoted")
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_the_page_on_other_libraries():
    names = run_examples("docs/ecosystem.md", 5)
    assert names["result"].posterior["theta"].shape == (128, 100, 8)
    assert names["data"].log_likelihood["effect"].dims == ("chain", "draw", "school")
    means = [names["result"].posterior["mu"].mean(), names["from_pymc"].posterior["mu"].mean(),
             names["mcmc"].get_samples()["mu"].mean(), names["again"].posterior["mu"].mean()]  # fmt: skip
    assert np.ptp(means) < 0.3
    assert names["moves"].position["x"].shape == (100,)
