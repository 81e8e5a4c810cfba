"""A likelihood in another program, which reads positions from its standard input and answers with log densities."""

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
    """Starts the program when it is first called, in whichever process that is, and keeps it running."""

    process = None

    def __call__(self, x):
        if self.process is None:
            command = [sys.executable, "-c", PROGRAM]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(" ".join(map(repr, x.tolist())) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def __getstate__(self):  # a running program does not travel: each worker starts its own
        return {}


if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as executor:
        result = tessmc.sample(tessmc.BlackBox(Program(), like=2), executor=executor, num_chains=32)
    print(result.summary())
