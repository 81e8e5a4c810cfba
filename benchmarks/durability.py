"""What a run folder costs: cold processes with and without one, in turn, up to the verdict; and a long run."""

import statistics
import subprocess
import sys
import tempfile
import time

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
    print("Cold seconds without and with a run folder, medians of 3")
    for model, num_samples in (("oxygen", 100), ("regime_switching", 100), ("banana", 20_000)):
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(3):
            for is_durable, times in found.items():
                times.append(seconds(model, num_samples, is_durable))
        without, with_one = (statistics.median(times) for times in found.values())
        share = with_one / without - 1
        print(f"{model:>20}, {num_samples} draws: {without:6.1f} {with_one:6.1f}  {share:+.1%}", flush=True)


if __name__ == "__main__":
    main()
