"""`tessmc info`."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from tessmc.cli._app import Debug, Json, say_json, talking

PACKAGES = ("tessmc", "jax", "jaxlib", "equinox", "flowjax", "optax", "numpyro", "arviz", "zarr", "numpy")
OPTIONAL = ("pymc", "blackjax", "bridgestan", "distributed", "cloudpickle")


def info(json: Json = False, debug: Debug = False) -> None:
    """Show versions, devices, and where compiled programs are kept."""
    with talking("", debug):
        found = gather()
        if json:
            say_json(found)
            return
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        for name, value in in_rows(found):
            table.add_row(name, value)
        Console().print(table, highlight=False, markup=False)


def gather() -> dict[str, Any]:
    """All of it, by name."""
    import jax

    from tessmc._cache import cache_path

    folder = cache_path()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in (*PACKAGES, *OPTIONAL)},
        "cores": os.cpu_count(),
        "devices": [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()],
        "precision": jax.numpy.result_type(float).name,
        "cache": {"folder": folder, "num_files": len(files), "bytes": sum(path.stat().st_size for path in files)},
        "data": os.environ.get("TESSMC_DATA"),
    }


def in_rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """For a table."""
    packages = found["packages"]
    cache = found["cache"]
    return [
        ("tessmc", str(packages["tessmc"])),
        ("Python", f"{found['python']}, {found['platform']}"),
        ("packages", ", ".join(f"{name} {packages[name]}" for name in PACKAGES[1:])),
        ("optional", ", ".join(f"{name} {packages[name] or 'not installed'}" for name in OPTIONAL)),
        ("devices", f"{', '.join(found['devices'])}; {found['cores']} cores"),
        ("precision", f"{found['precision']}, unless a target is in float64"),
        ("compiled programs", f"{cache['folder']}: {cache['num_files']} files, {cache['bytes'] / 1e6:.1f} MB"),
    ]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def add_to(app: typer.Typer) -> None:
    app.command()(info)
