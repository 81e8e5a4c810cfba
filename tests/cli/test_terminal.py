"""The command line in a pseudo-terminal: what moves there, and Ctrl-C."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import tessmc

TARGET = """
import tessmc
target = tessmc.Target(lambda x: -0.5 * (x**2).sum(), 2)
"""


class Terminal:
    """A process in a pseudo-terminal of 80 columns."""

    def __init__(self, command, environment, cwd):
        self.end, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {name: value for name, value in environment.items() if name != "COLUMNS"}
        # With a terminal of its own, so that Ctrl-C there is a signal to it.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=inside, stdout=inside, stderr=inside, cwd=cwd, env=environment
        )
        os.close(inside)
        self.seen = ""

    def read(self, until=None, seconds=120):
        """What the process writes, until some words are seen or it ends."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if until is not None and until in self.seen:
                return self.seen
            if select.select([self.end], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.end, 2**16).decode(errors="replace")
                except OSError:
                    # The other end is closed: the process has ended.
                    break
        assert until is None, f"{until} was not seen in {self.seen[-500:]}"
        return self.seen

    def press_ctrl_c(self):
        os.write(self.end, b"\x03")

    def wait(self):
        self.read()
        os.close(self.end)
        return self.process.wait(60)


def test_progress_is_seen_and_ctrl_c_keeps_the_draws(command, environment, file_of, tmp_path):
    options = ("--chains", "16", "--warmup", "16", "--draws", "10000000", "--run-dir", tmp_path / "run")
    given = [*command, "sample", f"{file_of(TARGET)}:target", *map(str, options)]
    terminal = Terminal(given, environment, tmp_path)
    terminal.read(until="R-hat")
    terminal.press_ctrl_c()
    assert terminal.wait() == 130
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.seen)
    for words in ("compiling", "/10000000 draws", "left", "16 chains", "evaluations a draw", "s ", "R-hat 1.", "ESS"):
        assert words in plain
    assert "Incomplete: interrupted by SIGINT" in plain
    assert "Traceback" not in plain
    kept = tessmc.load(tmp_path / "run")
    assert kept.num_draws > 0
    assert not kept.is_complete
    assert f"16 chains × {kept.num_draws} draws" in plain


def test_standard_output_of_a_terminal_run_is_json_alone(command, environment, file_of, tmp_path):
    """Progress is on standard error: who redirects standard output gets what was asked for."""
    import json

    target = f"{file_of(TARGET)}:target"
    options = ("--chains", "16", "--warmup", "16", "--draws", "20", "--json")
    line = " ".join([*command, "sample", target, *options, ">", "out.json"])
    terminal = Terminal(["sh", "-c", line], environment, tmp_path)
    assert terminal.wait() == 3
    assert "compiling" in terminal.seen
    assert json.loads((tmp_path / "out.json").read_text())["num_draws"] == 20
