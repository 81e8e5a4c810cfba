"""Every test runs with shapes and dtypes checked at run time and without silent rank promotion."""

import jax
from jaxtyping import install_import_hook

# The edge, `targets` and `sampling`, meets wrong types on purpose and answers in sentences of its own.
CHECKED = ["_random", "adaptation", "diagnostics", "engines", "kernels", "models", "transports"]
install_import_hook([f"tessmc.{name}" for name in CHECKED], "beartype.beartype")
jax.config.update("jax_numpy_rank_promotion", "raise")

import contextlib  # noqa: E402
from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
from jax.experimental.compilation_cache import compilation_cache  # noqa: E402

from browser import browser, page  # noqa: E402, F401
from tessmc.diagnostics import import_arviz  # noqa: E402


def pytest_configure(config):
    """The first import of ArviZ on a day writes a file; processes that do it side by side trip over each other."""
    if not hasattr(config, "workerinput"):
        import_arviz()


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Run a test in both precisions; the global flag is left alone."""
    is_double = request.param == "float64"
    with jax.enable_x64(True) if is_double else contextlib.nullcontext():
        yield jax.numpy.dtype(request.param)


@pytest.fixture(scope="module", autouse=True)
def programs_forgotten():
    """Linux lets a process have 65,530 mappings, of which every compiled program takes several."""
    yield
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()


@pytest.fixture
def cache_settings():
    """What JAX has been told of a folder for compiled programs, so again when the test is over."""
    names = (
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    )
    before = {name: getattr(jax.config, name) for name in names}
    yield before
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(scope="module")
def ranks_promoted():
    """For models in other libraries' languages: those promote ranks, as they may. In all threads."""
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_rank_promotion", "raise")
