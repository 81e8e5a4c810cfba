"""Every test runs with shapes and dtypes checked at run time and without silent rank promotion."""

import jax
from jaxtyping import install_import_hook

# The edge, `targets` and `sampling`, meets wrong types on purpose and answers in sentences of its own.
CHECKED = ["_random", "adaptation", "diagnostics", "engines", "kernels", "models", "transports"]
install_import_hook([f"tessmc.{name}" for name in CHECKED], "beartype.beartype")
jax.config.update("jax_numpy_rank_promotion", "raise")

import contextlib  # noqa: E402

import pytest  # noqa: E402

from browser import browser, page  # noqa: E402, F401


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Run a test in both precisions; the global flag is left alone."""
    is_double = request.param == "float64"
    with jax.enable_x64(True) if is_double else contextlib.nullcontext():
        yield jax.numpy.dtype(request.param)


@pytest.fixture(scope="module")
def ranks_promoted():
    """For models in other libraries' languages: those promote ranks, as they may. In all threads."""
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_rank_promotion", "raise")
