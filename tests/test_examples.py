"""The examples of the documentation, run as a user runs them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
# Means that the summaries should show, by the quadrature of a grid for the first, and within so much.
MEANS = {
    "ode.py": ({"absorbed": 0.731, "cleared": 0.145, "noise": 0.019}, 0.01),
    "program.py": ({"x[0]": 0.0, "x[1]": 2.0}, 0.3),
    "cluster.py": ({"x[0]": 3.0, "x[1]": 3.0, "x[2]": 3.0}, 0.2),
}


def test_every_example_is_run():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(MEANS)


@pytest.mark.parametrize("name", MEANS)
def test_an_example(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, cwd=tmp_path, timeout=400
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Converged" in done.stdout
    means, tolerance = MEANS[name]
    for parameter, mean in means.items():
        found = re.search(rf"^{re.escape(parameter)} +(\S+)", done.stdout, flags=re.MULTILINE)
        assert abs(float(found[1]) - mean) < tolerance
