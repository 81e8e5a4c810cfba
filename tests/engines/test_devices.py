"""Chains over several devices, in batches, and over several processes: the draws of one device."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

ON_FOUR_DEVICES = """
import logging, sys
import jax, jax.numpy as jnp, numpy as np
import tessmc
from flowjax.bijections import Affine

said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("tessmc").addHandler(handler)
logging.getLogger("tessmc").setLevel("INFO")
assert len(jax.devices()) == 4

def banana(x):
    return -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2)

def draws(**options):
    given = {"num_warmup": 0, "num_samples": 60, "transport": Affine(jnp.zeros(2), 2 * jnp.ones(2)), **options}
    return tessmc.sample(banana, like=2, num_chains=50, seed=3, progress=False, **given).unconstrained

# An elementwise density and map round alike in batches of any size.
expected = draws(devices=1)
for options in ({"devices": 2}, {"devices": 3}, {"devices": jax.devices()[2:]}, {"devices": 1, "chain_batch_size": 8},
                {"devices": 4, "chain_batch_size": 5}, {"devices": jax.devices()[3:]}):
    assert np.array_equal(draws(**options), expected), options
assert "50 chains = 2 devices × 25" in said, said
assert "50 chains = 4 devices × 13 in 3 batches" in said, said

# Nothing else may depend on the devices: the warm-up, evaluations that are counted, folders, more draws.
runs = [tessmc.sample(banana, like=2, num_chains=48, num_warmup=60, num_samples=30, devices=devices, progress=False,
                      run_dir=f"{sys.argv[1]}/{devices}") for devices in (1, 2)]
assert runs[0].num_evaluations == runs[1].num_evaluations
one, two = (run.extend(5).unconstrained for run in runs)
# Where rounding decides whether a point lies inside, a chain goes another way.
assert np.isclose(one, two, atol=1e-2).mean() > 0.9
assert tessmc.sample(banana, like=2, num_chains=16, num_samples=9, max_evaluations=900, devices=2,
                     progress=False).num_evaluations <= 900
"""

OF_TWO_PROCESSES = """
import sys
import jax
port, place = sys.argv[1], int(sys.argv[2])
jax.distributed.initialize(f"127.0.0.1:{port}", 2, place, coordinator_bind_address=f"127.0.0.1:{port}")
import jax.numpy as jnp, numpy as np
import tessmc

def banana(x):
    return -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2)

assert (len(jax.devices()), len(jax.local_devices())) == (2, 1)
given = {"like": 2, "num_chains": 16, "num_warmup": 40, "num_samples": 20, "progress": False}
together = tessmc.sample(banana, **given)
alone = tessmc.sample(banana, devices=jax.local_devices(), **given)
assert together.unconstrained.shape == (16, 20, 2)
# Batches of 8 and of 16 round differently, and the map is learned from what they gave.
assert np.isclose(together.unconstrained, alone.unconstrained, atol=2e-2).mean() > 0.9

# One ends: all end, with what there is.
ended = tessmc.sample(banana, max_seconds=None if place else 3, **{**given, "num_samples": 10**6})
assert not ended.is_complete
assert "another process" in ended.reason if place else "max_seconds" in ended.reason

try:
    tessmc.sample(banana, run_dir=sys.argv[3], **given)
    raise AssertionError("a folder was taken")
except ValueError as error:
    assert "for one process" in str(error)
try:
    tessmc.sample(banana, **given, seed=place)
    raise AssertionError("other seeds went together")
except RuntimeError as error:
    assert "the same target, data, seed" in str(error)
print("alike", flush=True)
"""


def environment(**more):
    return {**{name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}, **more}


def test_draws_do_not_depend_on_devices_and_batches(tmp_path):
    flags = environment(XLA_FLAGS="--xla_force_host_platform_device_count=4")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ON_FOUR_DEVICES, str(tmp_path)],
        env=flags,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_copies_that_fill_up_a_batch_have_nothing_to_do():
    import jax

    from tessmc.engines import place_chains
    from tessmc.engines._devices import Layout

    chains = place_chains(jax.random.key(0), jax.numpy.ones((7, 2)))
    filled = Layout(jax.devices()[:1], 7, batch_size=4)._filled(chains)
    assert filled.iteration.shape == (8,)
    assert np.array_equal(filled.iteration[:7], chains.iteration)
    # No run asks for so many transitions.
    assert filled.iteration[7] == np.iinfo(np.int32).max
    assert filled.is_placed[7]


def test_two_processes_draw_what_one_does(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", OF_TWO_PROCESSES, port, str(place), str(tmp_path / "run")],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in range(2)
    ]
    try:
        for process in processes:
            found, complaints = process.communicate(timeout=600)
            assert "alike" in found, complaints[-3000:]
    finally:
        for process in processes:
            process.kill()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"devices": 0}, "from 1 to the"),
        ({"devices": []}, "some of jax.devices"),
        ({"devices": ["cpu"]}, "some of jax.devices"),
        ({"chain_batch_size": 0}, "at least 1"),
    ],
)
def test_what_does_not_fit_is_said(options, sentence):
    import tessmc

    with pytest.raises((TypeError, ValueError), match=sentence):
        tessmc.sample(lambda x: -(x**2).sum(), like=2, progress=False, **options)


def test_black_boxes_have_an_executor():
    import tessmc

    box = tessmc.BlackBox(lambda x: -np.sum(x**2), 2)
    with pytest.raises(ValueError, match="has its `executor`"):
        tessmc.sample(box, devices=1, progress=False)
