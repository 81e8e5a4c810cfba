"""What the README shows works."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert "ess_bulk" in capsys.readouterr().out
    assert (names["result"].posterior["sigma"] > 0).all()
    assert abs(names["result"].posterior["slope"].mean() - 2) < 0.5
