"""Cold starts, split into their parts: new process, import, compile, 128 × (400 + 100).

`Warmup.paper` on the banana; `Warmup.auto`, the default, on oxygen demand (d = 2), with an empty compilation cache and
with a full one; and on sparse logistic regression (d = 51) for what it compiles.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import json, sys, time
began = time.perf_counter()
import jax, tessmc
imported = time.perf_counter()
compiling = {"programs": 0, "seconds": 0.0}


def hear(event, seconds, **_):
    if event.startswith("/jax/core/compile/"):
        compiling["seconds"] += seconds
        compiling["programs"] += event.endswith("backend_compile_duration")


jax.monitoring.register_event_duration_secs_listener(hear)
target = getattr(tessmc.models, sys.argv[1])()
result = tessmc.sample(target, warmup=getattr(tessmc.Warmup, sys.argv[2])(), progress=False)
print(json.dumps({"import": imported - began, **result.timings, "compiling": compiling}))
"""


def run(model: str, warmup: str, cache: str | None = None) -> dict[str, float]:
    # Not only the largest programs, but all.
    keep = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"} if cache else {}
    began = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, model, warmup]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **keep})
    parts = json.loads(done.stdout)
    sample, compiling = parts.pop("total"), parts.pop("compiling")
    total = time.perf_counter() - began
    parts["rest of sample"] = sample - sum(seconds for name, seconds in parts.items() if name != "import")
    parts["start and end of Python"] = total - sample - parts["import"]
    parts["total"] = total
    parts["of it tracing and compiling"] = compiling["seconds"]
    return {**parts, "programs": compiling["programs"]}


def show(title: str, runs: list[dict[str, float]]) -> None:
    print(f"\n{title}, median of {len(runs)} cold processes")
    for name in runs[0]:
        unit = "" if name == "programs" else " s"
        print(f"{name:>30} {statistics.median(each[name] for each in runs):7.2f}{unit}", flush=True)


def main() -> None:
    show("The banana, Warmup.paper", [run("banana", "paper") for _ in range(3)])
    show("Oxygen demand, d = 2, Warmup.auto", [run("oxygen", "auto") for _ in range(3)])
    with tempfile.TemporaryDirectory() as cache:
        run("oxygen", "auto", cache)
        show("The same with a full compilation cache", [run("oxygen", "auto", cache) for _ in range(3)])
    show("Sparse logistic regression, d = 51, Warmup.auto", [run("sparse_logistic", "auto")])


if __name__ == "__main__":
    main()
