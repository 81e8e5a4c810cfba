"""What a run folder costs: cold processes with and without one, in turn, up to the verdict; and a long run."""

import statistics
import subprocess
import sys
import tempfile
import time

# A shared machine adds to some runs and takes from none: the fastest are the steadiest figure.
REPEATS = 5

PROGRAM = """
import sys
import tessmc
target = getattr(tessmc.models, sys.argv[1])()
run_dir = sys.argv[3] if len(sys.argv) > 3 else None
result = tessmc.sample(target, num_samples=int(sys.argv[2]), run_dir=run_dir, progress=False)
result.verdict
"""


def seconds(model: str, num_samples: int, is_durable: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        given = [f"{folder}/run"] if is_durable else []
        began = time.perf_counter()
        subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, model, str(num_samples), *given], check=True)
        return time.perf_counter() - began


def main() -> None:
    print(f"Cold seconds without and with a run folder, in turn: the fastest and the median of {REPEATS}")
    for model, num_samples in (("oxygen", 100), ("regime_switching", 100), ("banana", 20_000)):
        found: dict[bool, list[float]] = {False: [], True: []}
        for repeat in range(REPEATS):
            # Neither is always the first: a machine that gets slower or faster meanwhile favours none.
            for is_durable in (False, True) if repeat % 2 == 0 else (True, False):
                found[is_durable].append(seconds(model, num_samples, is_durable))
        print(f"{model:>20}, {num_samples:>5} draws:", end="")
        for how in (min, statistics.median):
            without, with_one = how(found[False]), how(found[True])
            print(f"   {without:6.1f} {with_one:6.1f}  {with_one / without - 1:+.1%}", end="", flush=True)
        print()


if __name__ == "__main__":
    main()
