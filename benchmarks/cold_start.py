"""A cold start, split into its parts: new process, import, compile, 128 × (400 + 100) on the banana."""

import json
import statistics
import subprocess
import sys
import time

NUM_REPEATS = 3

PROGRAM = """
import json, time
began = time.perf_counter()
import tessmc
imported = time.perf_counter()
result = tessmc.sample(tessmc.models.banana(), progress=False)
print(json.dumps({"import": imported - began, **result.timings}))
"""


def run() -> dict[str, float]:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    parts = json.loads(done.stdout)
    sample = parts.pop("total")
    total = time.perf_counter() - began
    parts["rest of sample"] = sample - sum(seconds for name, seconds in parts.items() if name != "import")
    parts["start and end of Python"] = total - sample - parts["import"]
    return {**parts, "total": total}


def main() -> None:
    runs = [run() for _ in range(NUM_REPEATS)]
    print(f"\nCold start, 128 x (400 + 100) on the banana, Warmup.paper, median of {NUM_REPEATS} processes")
    for name in runs[0]:
        print(f"{name:>24} {statistics.median(each[name] for each in runs):7.2f} s")


if __name__ == "__main__":
    main()
