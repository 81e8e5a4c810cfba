"""Processes that sample into a folder, to be killed or interrupted: `python -m verify.victims KIND COUNT SEED FOLDER`.

All of them are children of one process that has imported everything and started nothing. KIND is `kill` or `interrupt`.
The last line of the output is a JSON object with counts.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np

import tessmc
import tessmc.engines._march
import tessmc.storage._folder

# Small steps and constant writing: a kill at any time meets some of it.
tessmc.storage._folder.MIN_SECONDS, tessmc.storage._folder.MAX_SHARE = 0.0, 1e9
tessmc.engines._march.MAX_TICKS = 8
UNHEEDED = 130
MODES = {"auto": tessmc.Warmup.auto(), "paper": tessmc.Warmup.paper(num_initial_steps=40)}


def log_density(x):
    return -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2)


def draw(mode: str, folder: Path) -> tessmc.Result:
    target = tessmc.Target(log_density, 2)
    return tessmc.sample(
        target, num_chains=8, num_warmup=24, num_samples=60, warmup=MODES[mode], run_dir=folder, progress=False
    )


def child(mode: str, folder: Path, truth: Path) -> int:
    """A process that looks at what is in the folder, then goes on until the run is complete; its number."""
    pid = os.fork()
    if pid:
        return pid
    import jax

    jax.config.update("jax_compilation_cache_dir", str(truth.parent / "cache"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    status = 1
    try:
        status = work(mode, folder, truth)
    except KeyboardInterrupt:
        status = UNHEEDED
    except Exception:
        # Nobody else hears of it.
        traceback.print_exc()
    finally:
        os._exit(status)


def work(mode: str, folder: Path, truth: Path) -> int:
    """0: complete and right; 2: interrupted, with all draws; 3: wrong."""
    if (folder / "manifest.json").exists() and not is_start_of(tessmc.load(folder), truth):
        return 3
    result = draw(mode, folder)
    if not truth.exists():
        np.save(truth, result.unconstrained)
    if not is_start_of(result, truth) or not is_start_of(tessmc.load(folder), truth):
        return 3
    return 0 if result.is_complete else 2


def is_start_of(result: tessmc.Result, truth: Path) -> bool:
    return np.array_equal(result.unconstrained, np.load(truth)[:, : result.num_draws])


def wait(pid: int, seconds: float) -> int | None:
    """How the process ended, or None if it has not after so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def cycle(kind: str, mode: str, folder: Path, truth: Path, seconds: float, chance: random.Random) -> dict[str, int]:
    """One run that is disturbed once and then left alone."""
    number = signal.SIGKILL if kind == "kill" else chance.choice([signal.SIGINT, signal.SIGTERM])
    pid = child(mode, folder, truth)
    status, hits = wait(pid, chance.uniform(0, seconds)), 0
    if status is None:
        os.kill(pid, number)
        status = wait(pid, 60.0)
        # A signal that came before the run had begun ends the process as it does any other; one that came when the
        # process had just ended killed nobody.
        allowed = (0, -signal.SIGKILL) if kind == "kill" else (0, 2, UNHEEDED, -signal.SIGTERM)
        hits = 0 if kind == "kill" and status == 0 else 1
        if status not in allowed:
            return _wrong(folder, "disturbed", status)
    if status != 0:
        pid = child(mode, folder, truth)
        status = wait(pid, 300.0)
        if status is None:
            os.kill(pid, signal.SIGKILL)
        if status != 0:
            return _wrong(folder, "resumed", status)
    return {"hits": hits, "right": hits}


def _wrong(folder: Path, what: str, status: int | None) -> dict[str, int]:
    sys.stderr.write(f"{folder}: the {what} process ended with {status} (None: it did not end)\n")
    return {"wrong": 1}


def main(kind: str, count: int, seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    totals = {"hits": 0, "right": 0, "wrong": 0}
    spans = {}
    for mode in MODES:
        truth = folder / f"{mode}.npy"
        # Twice: the second time nothing is compiled.
        for attempt in ("first", "second"):
            began = time.monotonic()
            status = wait(child(mode, folder / f"{mode}-{attempt}", truth), 300.0)
            spans[mode] = time.monotonic() - began
            if status != 0:
                sys.exit(f"the run that nobody disturbs ended with {status}")
    runs = 0
    while totals["hits"] < count:
        mode = list(MODES)[runs % len(MODES)]
        for name, number in cycle(
            kind, mode, folder / f"run-{runs}", folder / f"{mode}.npy", spans[mode], chance
        ).items():
            totals[name] += number
        runs += 1
    sys.stdout.write(json.dumps(totals) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
