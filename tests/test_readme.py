"""What the README shows works."""

import re
from pathlib import Path

import numpy as np
import xarray

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert "ess_bulk" in capsys.readouterr().out
    assert (names["result"].posterior["sigma"] > 0).all()
    assert abs(names["result"].posterior["slope"].mean() - 2) < 0.5
    with xarray.open_zarr("runs/line/draws.zarr", group="posterior", consolidated=False) as data:
        assert np.array_equal(data["slope"], names["result"].posterior["slope"])
