"""A likelihood in another program: positions in, log densities out."""

import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import tessmc

# Here it is four lines of Python; it may as well be Fortran.
PROGRAM = """
import sys
for line in sys.stdin:
    x, y = map(float, line.split())
    print(-(x**2) / 16 - (y - x**2 / 4) ** 2 / 2, flush=True)
"""


class Program:
    """Starts the program when it is first called, and keeps it running."""

    process = None

    def __call__(self, x):
        if self.process is None:
            command = [sys.executable, "-c", PROGRAM]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = subprocess.Popen(command, text=True, **pipes)
        self.process.stdin.write(" ".join(map(repr, x.tolist())) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def __getstate__(self):
        return {}  # a running program does not travel: workers start their own


if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as executor:
        box = tessmc.BlackBox(Program(), like=2)
        result = tessmc.sample(box, executor=executor, num_chains=32)
    print(result.summary())
