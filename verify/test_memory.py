"""With a run folder, memory does not grow with the draws."""

import subprocess
import sys

PROGRAM = """
import resource, sys
import jax.numpy as jnp
import tessmc

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

target = tessmc.Target(lambda x: -0.5 * jnp.sum(x**2), 10)
asked = {"num_warmup": 40, "run_dir": sys.argv[1], "progress": False}
tessmc.sample(target, num_samples=1000, **asked).summary()
before = peak()
for num_samples in (5_000, 20_000, 78_125):
    result = tessmc.sample(target, num_samples=num_samples, **asked)
    print(num_samples * 128, "draws of 10 parameters:", round(peak() - before), "MB more", flush=True)
assert result.posterior["x"].shape == (128, 78_125, 10)
"""


def test_ten_million_draws_take_less_than_100_mb(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run")], capture_output=True, text=True, timeout=3000
    )
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stderr[-2000:]
    *_, last = done.stdout.splitlines()
    assert int(last.split()[-3]) < 100, done.stdout
