"""FILE.py:NAME as a target, and an executor by name."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tessmc.cli._app import UserError

if TYPE_CHECKING:
    from concurrent.futures import Executor

WHAT_IT_IS = (
    "FILE.py:NAME, where NAME is a log density of one position (with --like, or with `like` and maybe `support` beside "
    "it in FILE.py), a tessmc.Target, a tessmc.BlackBox, what tessmc.from_numpyro(model, ...) returns, a NumPyro model "
    "without arguments, a PyMC model, or a BridgeStan model."
)
LIKE = "Dimension of the vector that a bare log density takes; otherwise `like` in FILE.py says what it takes."
EXECUTOR = "Who calls a black box: processes:4, threads:4; without a number, as many as there are cores."


def find_target(
    given: str, like: int | None = None, last_resort: Callable[[], int | None] = lambda: None
) -> tuple[Any, dict[str, Any]]:
    """What a file of Python defines by that name, for `tessmc.sample`, and the options that go with it.

    Args:
        given: FILE.py:NAME.
        like: the dimension, if the user says it.
        last_resort: the dimension, if nobody else does.
    """
    path, _, name = given.rpartition(":")
    if not path or not Path(path).is_file():
        raise UserError(f"the target should be FILE.py:NAME with a file that is there, but is {given}")
    module = load_module(Path(path))
    if not hasattr(module, name):
        raise UserError(f"{path} defines no {name}; it has {', '.join(_names(module)) or 'nothing'}")
    return as_target(getattr(module, name), name, module, like, last_resort)


def as_target(
    found: Any, name: str, module: ModuleType, like: int | None, last_resort: Callable[[], int | None]
) -> tuple[Any, dict[str, Any]]:
    """An object of the user's as `tessmc.sample` takes it, and its options."""
    import tessmc

    # Whoever made a model of PyMC has imported that.
    pymc = sys.modules.get("pymc")
    if pymc is not None and isinstance(found, pymc.Model):
        found = tessmc.from_pymc(found)
    elif inspect.isfunction(found) and not _num_required(found) and "numpyro" in sys.modules:
        found = tessmc.from_numpyro(found)
    if isinstance(found, tessmc.targets.AbstractTarget) or tessmc.targets.is_bridgestan(found):
        if like is not None:
            raise UserError(f"{name} knows its own shape; leave out --like")
        return found, {}
    if not callable(found):
        raise UserError(f"{name} is a {type(found).__name__}; the target should be {WHAT_IT_IS.rstrip('.')}")
    if inspect.isfunction(found) and _num_required(found) != 1:
        raise UserError(
            f"{name} takes {_num_required(found)} arguments, and a log density takes one, the position; bind others "
            f"in the file, with tessmc.Target({name}, like, data=(...)) or, if it is a NumPyro model, with "
            f"tessmc.from_numpyro({name}, ...), and name what that returns"
        )
    example = like if like is not None else getattr(module, "like", None)
    example = example if example is not None else last_resort()
    if example is None:
        raise UserError(
            f"what {name} takes is not known: pass --like N for a vector of N numbers, or define `like`, an example "
            f"position, in the file; of a NumPyro model, name what tessmc.from_numpyro({name}, ...) returns"
        )
    return found, {"like": example, "support": getattr(module, "support", None)}


def load_module(path: Path) -> ModuleType:
    """A file as a module of its own name, with its folder in front of the path: so workers find it, too."""
    path = path.resolve()
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() != path:
        raise UserError(f"{path.name} has the name of another module, {path.stem}; rename the file")
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path.name} is not a file of Python; its name should end with .py")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise UserError(f"{path.name} ends the program when it is imported (exit {error.code})") from error
    return module


@contextmanager
def executor_of(given: str | None) -> "Iterator[Executor | None]":
    """The executor that `processes:4` or `threads:4` stands for."""
    if given is None:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from multiprocessing import get_context

    kind, _, number = given.partition(":")
    count = int(number) if number.isdigit() else (os.cpu_count() or 1) if not number else 0
    if kind not in ("processes", "threads") or count < 1:
        raise UserError(f"--executor should be processes:4 or threads:4, but is {given}")
    executor = ThreadPoolExecutor(count) if kind == "threads" else ProcessPoolExecutor(count, get_context("spawn"))
    try:
        yield executor
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _num_required(function: Any) -> int:
    """Arguments that a function has to be given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return sum(each.kind in kinds and each.default is each.empty for each in parameters)


def _names(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType | type)
    ][:10]
