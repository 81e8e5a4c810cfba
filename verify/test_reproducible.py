"""The same seed gives the same bits, in another process, with other chunks, and with XLA's threads on or off."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, sys
import jax.numpy as jnp
import tessmc
import tessmc.engines._march as march

march.CHUNK_SECONDS, march.MAX_TICKS = float(sys.argv[2]), int(sys.argv[3])
scales = jnp.logspace(-1, 1, 20)
targets = {
    "banana": tessmc.Target(lambda x: -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2), 2),
    "skewed, d = 20": tessmc.Target(lambda x: jnp.sum(x / scales - jnp.exp(x / scales)), 20),
}
result = tessmc.sample(targets[sys.argv[1]], num_warmup=100, num_samples=20, seed=7, progress=False)
print(hashlib.sha256(result.unconstrained.tobytes()).hexdigest())
"""
SETTINGS = {
    "as it comes": ("0.2", "16384", ""),
    "again": ("0.2", "16384", ""),
    "short chunks": ("0.001", "5", ""),
    "one thread": ("0.2", "16384", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"),
}


@pytest.mark.parametrize("target", ["banana", "skewed, d = 20"])
def test_the_same_bits(target):
    found = {}
    for name, (seconds, ticks, flags) in SETTINGS.items():
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, target, seconds, ticks]
        done = subprocess.run(
            command, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found[name] = done.stdout.strip()
    assert len(set(found.values())) == 1, found
