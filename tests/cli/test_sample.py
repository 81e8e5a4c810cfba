"""`tessmc sample` and the commands around it, as a script sees them: exit codes, JSON, files."""

import json
import os
import re

import numpy as np
import pytest

import tessmc

SMALL = ("--chains", "16", "--warmup", "16", "--draws", "20")
NORMAL = "def log_density(x):\n    return -0.5 * (x**2).sum()\n"


def test_a_run_that_has_not_converged_as_json(tessmc_in_process, file_of, tmp_path):
    done = tessmc_in_process(
        "sample", f"{file_of(NORMAL)}:log_density", "--like", 3, *SMALL, "--json", "--run-dir", "r"
    )
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert found["converged"] is False
    assert found["reasons"]
    assert (found["num_chains"], found["num_draws"], found["is_complete"]) == (16, 20, True)
    assert list(found["parameters"]) == ["x[0]", "x[1]", "x[2]"]
    result = tessmc.load(tmp_path / "r")
    assert found["parameters"]["x[1]"]["mean"] == pytest.approx(float(result.posterior["x"][..., 1].mean()), abs=1e-5)
    # Progress is a few lines on standard error, of which nothing comes with --quiet.
    assert "sampling: 20/20 draws, 16 chains" in done.stderr
    assert len(done.stderr.splitlines()) < 20


def test_a_run_that_has_converged(tessmc_in_process, file_of):
    target = f"{file_of(NORMAL + 'like = 2')}:log_density"
    options = ("--chains", "64", "--warmup", "100", "--draws", "200", "--quiet")
    done = tessmc_in_process("sample", target, *options)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    assert "Converged: max R-hat" in done.stdout
    # An end that the user has set is one: what counts is the verdict. An ESS that is not reached is not.
    assert tessmc_in_process("sample", target, *options, "--target-ess", "1e9").returncode == 3


def test_a_black_box_is_called_by_processes_and_threads(tessmc_in_process, tessmc_here, file_of):
    text = """
import os
from pathlib import Path
import numpy as np
import tessmc

def density(x):
    with Path(__file__).with_suffix(".pids").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return -0.5 * float(np.sum(x**2))

named = tessmc.BlackBox(density, 2)
nameless = tessmc.BlackBox(lambda x: density(x), 2)
"""
    path = file_of(text)
    given = ("sample", f"{path}:nameless", *SMALL, "--quiet", "--json", "--executor")
    by_processes = tessmc_in_process(*given, "processes:2")
    assert by_processes.returncode == 3, by_processes.stderr
    pids = path.with_suffix(".pids")
    assert len(set(pids.read_text().split())) == 2
    pids.unlink()
    given = ("sample", f"{path}:named", *SMALL, "--quiet", "--json", "--no-cache", "--executor")
    by_threads = tessmc_here(*given, "threads:2")
    assert by_threads.exit_code == 3, by_threads.stderr
    assert set(pids.read_text().split()) == {str(os.getpid())}
    parameters = [json.loads(done.stdout)["parameters"] for done in (by_processes, by_threads)]
    assert parameters[0] == parameters[1]


def test_a_run_is_resumed(tessmc_here, file_of, tmp_path):
    file, other = file_of(NORMAL), file_of(NORMAL.replace("0.5", "0.4"))
    boxed = file_of("import tessmc\nbox = tessmc.BlackBox(lambda x: -0.5 * float((x**2).sum()), 3)\n")
    run = tmp_path / "run"
    first = tessmc_here("sample", f"{file}:log_density", "--like", 3, *SMALL, "--run-dir", run, "--no-cache")
    assert first.exit_code == 3, first.output

    def resume(*given):
        return tessmc_here("resume", run, *given, "--no-cache")

    done = resume(f"{file}:log_density", "--draws", "60")
    assert done.exit_code in (0, 3), done.output
    assert "16 chains × 60 draws" in done.stdout
    assert tessmc.load(run).num_draws == 60
    done = resume(f"{boxed}:box", "--draws", "61")
    assert "16 chains × 61 draws" in done.stdout
    for spec, sentence in (
        ("nowhere.py:f", "FILE.py:NAME"),
        (f"{file}:other", "defines no other; it has log_density"),
        (f"{other}:log_density", "the log density is another"),
    ):
        done = resume(spec)
        assert done.exit_code == 2
        assert sentence in " ".join(done.stderr.split())
    done = tessmc_here("resume", tmp_path / "nothing", f"{file}:log_density", "--no-cache")
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr


def test_a_run_is_reported_on(tessmc_here, tmp_path):
    tessmc.sample(lambda x: -0.5 * (x**2).sum(), like=2, num_chains=16, num_warmup=16, num_samples=20,
                  run_dir=tmp_path / "run", progress=False)  # fmt: skip
    for options, path in (
        ((), tmp_path / "run" / "report.html"),
        (("--out", tmp_path / "it.html"), tmp_path / "it.html"),
    ):
        done = tessmc_here("report", tmp_path / "run", *options)
        assert done.exit_code == 0, done.output
        assert done.stdout.replace("\n", "") == f"Report: {path}"
        assert "<html" in path.read_text()[:500]
    assert tessmc_here("report", tmp_path / "nothing").exit_code == 2


def test_demo_prints_summaries_and_ends_by_naming_its_report(tessmc_in_process, tmp_path):
    done = tessmc_in_process("demo", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "The banana of Figure 1" in done.stdout
    assert "log_scale" in done.stdout
    picture = (tmp_path / "demo" / "figure-1.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 50_000
    assert done.stdout.rstrip().endswith("demo/banana.html")
    assert "<html" in (tmp_path / "demo" / "banana.html").read_text()[:500]


def test_info(tessmc_in_process, environment):
    found = json.loads(tessmc_in_process("info", "--json").stdout)
    assert found["packages"]["tessmc"] == tessmc.__version__
    assert found["devices"]
    assert found["cache"]["folder"].startswith(environment["XDG_CACHE_HOME"])
    shown = tessmc_in_process("info").stdout
    for word in ("jax", "devices", "compiled programs"):
        assert word in shown


def test_what_a_file_prints_is_not_in_the_json(tessmc_in_process, file_of):
    text = """
import os
import tessmc

print("loaded 300 rows")

def density(x):
    os.write(1, b"called\\n")
    return -0.5 * float((x**2).sum())

box = tessmc.BlackBox(density, 2)
"""
    given = f"{file_of(text)}:box", *SMALL, "--quiet", "--json"
    done = tessmc_in_process("sample", *given)
    assert json.loads(done.stdout)["num_draws"] == 20
    assert "loaded 300 rows" in done.stderr
    assert "called" in done.stderr
    done = tessmc_in_process("check", f"{file_of(text)}:box", "--json")
    assert json.loads(done.stdout)["is_fine"]


def test_a_report_that_cannot_be_written_costs_no_result(tessmc_here, file_of, tmp_path, monkeypatch):
    given = "sample", f"{file_of(NORMAL + 'like = 2')}:log_density", *SMALL, "--quiet", "--no-cache"
    done = tessmc_here(*given, "--report", tmp_path)
    assert done.exit_code == 2
    assert "is a folder" in " ".join(done.stderr.split())
    assert done.stdout == ""

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(tessmc.Result, "report", full)
    done = tessmc_here(*given, "--report", tmp_path / "it.html")
    assert done.exit_code == 2
    assert "no space left" in done.stderr
    assert "16 chains × 20 draws" in done.stdout


def test_a_terminal_that_lacks_a_character_costs_no_result(command, environment, file_of):
    import subprocess

    spec = f"{file_of(NORMAL + 'like = 2')}:log_density"
    given = [*command, "sample", spec, *SMALL, "--quiet"]
    done = subprocess.run(given, capture_output=True, env={**environment, "PYTHONIOENCODING": "ascii"}, timeout=300)
    assert done.returncode == 3, done.stderr
    assert b"16 chains \\xd7 20 draws" in done.stdout


def test_the_version(tessmc_here):
    done = tessmc_here("--version")
    assert (done.exit_code, done.stdout) == (0, f"tessmc {tessmc.__version__}\n")


def test_check(tessmc_here, file_of):
    path = file_of(NORMAL + "def wrong(x):\n    return -0.5 * x**2\n")
    done = tessmc_here("check", f"{path}:log_density", "--like", "2")
    assert done.exit_code == 0
    assert "Nothing is wrong" in done.stdout
    done = tessmc_here("check", f"{path}:wrong", "--like", "2", "--json")
    assert done.exit_code == 3
    assert "shape (2,)" in json.loads(done.stdout)["problems"][0]


def test_help_is_shown_without_a_command(tessmc_here):
    done = tessmc_here()
    for name in ("demo", "sample", "resume", "report", "check", "bench", "info"):
        assert name in done.output
        help_of = tessmc_here(name, "--help")
        assert help_of.exit_code == 0
        # Every option says what it does.
        assert "--help" in help_of.output
    assert "Exit codes" in done.output


def test_shells_complete(command, environment):
    import subprocess

    asked = {**environment, "_TESSMC_COMPLETE": "complete_bash", "COMP_WORDS": "tessmc re", "COMP_CWORD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=asked, timeout=60)
    assert set(done.stdout.split()) >= {"resume", "report"}


def test_numbers_that_json_lacks_are_null():
    from tessmc.cli._app import _plain

    found = _plain({"a": np.float32(1.5), "b": [float("nan"), np.inf], 3: (np.int64(2), None, True)})
    assert found == {"a": 1.5, "b": [None, None], "3": [2, None, True]}
    assert not re.search("nan|inf", json.dumps(found), re.IGNORECASE)
