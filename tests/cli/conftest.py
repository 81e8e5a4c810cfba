"""A command line in a process of its own, or in this one."""

import os
import subprocess
import sys
import uuid

import pytest
from typer.testing import CliRunner

from tessmc.cli import app


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """For processes: their cache folder is not the user's, and one compiles for all."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")), "TERM": "xterm", "COLUMNS": "100"}


@pytest.fixture(scope="session")
def command():
    return [sys.executable, "-m", "tessmc.cli"]


@pytest.fixture
def tessmc_in_process(command, environment, tmp_path):
    """Run a command in a process of its own, in a folder of its own."""

    def run(*arguments):
        return subprocess.run(
            [*command, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300
        )

    return run


@pytest.fixture
def tessmc_here(cache_settings, environment):  # noqa: ARG001
    """Run a command in this process: quick, for what does not sample."""
    return lambda *arguments: CliRunner(env=environment).invoke(app, list(map(str, arguments)))


@pytest.fixture
def file_of(tmp_path):
    """A file of Python, under a name that no other test has given to a module."""

    def write(text):
        path = tmp_path / f"model_{uuid.uuid4().hex}.py"
        path.write_text(text)
        return path

    return write
