"""Compiled programs that are kept from run to run."""

import logging
import os
import platform
import tempfile
import zlib
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache
from platformdirs import user_cache_path

logger = logging.getLogger(__name__)


def cache_path() -> Path:
    """Where compiled programs are kept, if nothing else is said: in the user's cache folder.

    Machines that share a home may have other processors, to which such a program can mean an illegal instruction: each
    kind has a folder of its own.
    """
    return user_cache_path("tessmc") / "compiled" / f"{platform.machine()}-{zlib.crc32(_features()):08x}"


def _features() -> bytes:
    """What the processor can do, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    # Once for every core.
    return b"".join(sorted({line for line in lines if line.startswith((b"flags", b"Features", b"model name"))}))


def enable_cache(path: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder, so that the next process that needs the same ones does not compile them.

    This is JAX's own compilation cache, set to keep programs that are compiled fast, too. It is for all of JAX in this
    process: call it before the first run. The draws do not depend on it.

    Args:
        path: the folder; by default one in the user's cache folder, which may be removed at any time.

    Returns:
        The folder; None if nothing can be written there, in which case nothing has been changed.
    """
    folder = cache_path() if path is None else Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        logger.warning("compiled programs are not kept, because %s cannot be written to: %s", folder, error)
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # JAX looks at the folder's name once, at its first program.
    compilation_cache.reset_cache()
    return folder
