"""A folder imports only from folders of a smaller number, and never another folder's private files."""

import ast
from pathlib import Path

import pytest

import tessmc

ROOT = Path(tessmc.__file__).parent
LAYERS = {
    "_types": -1, "_arrays": 0, "_errors": 0, "_cache": 0, "_clock": 0, "_random": 0,
    "targets": 1, "transports": 1, "diagnostics": 1,
    "kernels": 2, "models": 2,
    "engines": 3,
    "adaptation": 4,
    "storage": 5,
    "sampling": 6,
    "report": 7, "experiments": 7, "blackjax": 7, "numpyro": 7,
    "cli": 8,
}  # fmt: skip


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    """The tessmc modules that a file imports, wherever in the file it does."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found += [node.module] if node.module != "tessmc" else [f"tessmc.{name.name}" for name in node.names]
    return [name if "." in name else "tessmc.everything" for name in found if name.split(".")[0] == "tessmc"]


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards(path):
    here = part_of(path)
    for name in imports(path):
        _, there, *rest = name.split(".")
        # Names of the package itself, tessmc.Result and the like, stand above `sampling`.
        assert there == here or LAYERS.get(there, 7) < LAYERS[here], f"{here} imports {name}"
        assert there == here or not any(part.startswith("_") for part in rest), f"{here} reaches into {name}"


def test_every_part_has_a_layer():
    assert {part_of(path) for path in FILES} == set(LAYERS)


def test_an_upward_import_would_be_noticed(tmp_path):
    file = tmp_path / "file.py"
    file.write_text(
        "def f():\n    from tessmc.sampling import sample\n    import tessmc.engines._ticks\nimport tessmc\n"
    )
    assert sorted(imports(file)) == ["tessmc.engines._ticks", "tessmc.everything", "tessmc.sampling"]
