"""What a black box costs beyond its calls: 128 chains, a call of 1 ms, in this process."""

import time
import warnings

import numpy as np

import tessmc

SECONDS = 1e-3


class Slow:
    """The banana, which takes a millisecond; it adds up what it takes."""

    def __init__(self) -> None:
        self.seconds, self.num_calls = 0.0, 0

    def __call__(self, x: np.ndarray) -> float:
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            pass
        value = -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2)
        self.seconds, self.num_calls = self.seconds + time.perf_counter() - began, self.num_calls + 1
        return value


def main() -> None:
    warnings.simplefilter("ignore")
    print("A black box of 1 ms a call, 128 chains x (400 + 100), seconds")
    for name in ("cold", "again in the same process"):
        slow = Slow()
        began = time.perf_counter()
        result = tessmc.sample(tessmc.BlackBox(slow, 2), progress=False)
        total, took = time.perf_counter() - began, result.timings
        around = (took["warmup"] + took["sampling"]) / slow.seconds - 1
        print(f"{name}: {total:.1f} in all, {slow.seconds:.1f} in {slow.num_calls} calls, {took['fit']:.1f} in fits")
        print(f"    beyond the calls: {around:.1%} around them, {total / slow.seconds - 1:.1%} in all", flush=True)


if __name__ == "__main__":
    main()
