"""What a user is told of a mistake: a sentence, with file and line, exit code 2, and a traceback only if asked for."""

import pytest

SMALL = ("--chains", "16", "--warmup", "16", "--draws", "20", "--no-cache")
FILE = """
import jax.numpy as jnp
import numpy as np
import tessmc

def log_density(x):
    return -0.5 * jnp.sum(x**2)

def raises(x):
    return jnp.zeros(3) @ x

def two(x, y):
    return -x * y

def infinite(x):
    return jnp.inf * jnp.abs(x[0])

def refuses(x):
    raise ArithmeticError("not here")

box = tessmc.BlackBox(refuses, 2)
target = tessmc.Target(log_density, 2)
number = 3
"""
# What is asked for, and what is said; {file} is the user's.
MISTAKES = {
    "nothing there": (["nowhere.py:f"], "should be FILE.py:NAME with a file that is there, but is nowhere.py:f"),
    "no name": (["{file}"], "should be FILE.py:NAME"),
    "another name": (["{file}:nope"], "defines no nope; it has log_density"),
    "no shape": (["{file}:log_density"], "pass --like N"),
    "a shape too many": (["{file}:target", "--like", "2"], "leave out --like"),
    "no function": (["{file}:number"], "number is a int"),
    "two arguments": (["{file}:two", "--like", "2"], "takes 2 arguments"),
    "raised while traced": (["{file}:raises", "--like", "2"], "{file}, line 10: TypeError: dot_general"),
    "raised when called": (["{file}:box"], "ArithmeticError: not here"),
    "line when called": (["{file}:box"], "({file}, line 19)"),
    "infinite": (["{file}:infinite", "--like", "2"], "the log density is +inf at x ="),
    "executor of a compiled density": (["{file}:target", "--executor", "threads:2"], "`executor` is for functions"),
    "no such executor": (["{file}:box", "--executor", "fibres:2"], "--executor should be processes:4"),
    "no workers": (["{file}:box", "--executor", "threads:0"], "--executor should be processes:4"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_sentence(name, tessmc_here, file_of):
    given, sentence = MISTAKES[name]
    file = file_of(FILE)
    done = tessmc_here("sample", *(each.format(file=file) for each in given), *SMALL)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    said = " ".join(done.stderr.split())
    assert sentence.format(file=file) in said
    assert "Error: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1\ny = x / 0\n", "line 2: ZeroDivisionError: division by zero"),
        ("def f(:\n", "line 1: SyntaxError"),
        ("import nothing_of_that_name\n", "line 1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(4)\n", "ends the program when it is imported (exit 4)"),
    ],
    ids=["error", "syntax", "import", "exit"],
)
def test_a_file_that_raises(text, sentence, tessmc_here, file_of):
    file = file_of(text)
    done = tessmc_here("sample", f"{file}:f", *SMALL)
    assert done.exit_code == 2
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback(tessmc_in_process, file_of):
    file = file_of("def f(x):\n    return x[0] / undefined\n")
    given = ("sample", f"{file}:f", "--like", "2", *SMALL)
    done = tessmc_in_process(*given)
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 2: NameError: name 'undefined' is not defined" in done.stderr
    assert "Traceback" not in done.stderr
    done = tessmc_in_process(*given, "--debug")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" in done.stderr
    assert "return x[0] / undefined" in done.stderr


def test_a_file_with_the_name_of_a_module_is_refused(tessmc_here, tmp_path):
    (tmp_path / "json.py").write_text("x = 1\n")
    done = tessmc_here("sample", f"{tmp_path / 'json.py'}:x")
    assert done.exit_code == 2
    assert "has the name of another module" in done.stderr


def test_what_is_not_the_users_is_called_a_bug(tessmc_here, file_of, monkeypatch):
    monkeypatch.setattr("tessmc.sampling._sample.as_goal", lambda *_: {}["gone"])
    done = tessmc_here("sample", f"{file_of(FILE)}:target", *SMALL)
    assert done.exit_code == 1
    assert "may be a bug of tessmc: add --debug" in " ".join(done.stderr.split())


@pytest.mark.parametrize("given", [["--chains", "0"], ["--nonsense"], ["--draws", "many"]])
def test_options_that_do_not_fit(given, tessmc_here, file_of):
    done = tessmc_here("sample", f"{file_of(FILE)}:target", *given)
    assert done.exit_code == 2
    assert given[0] in done.stderr
