"""What a run tells of itself while it goes on, and to whom."""

import io
import logging
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
from flowjax.bijections import Identity
from rich.console import Console

import tessmc
from tessmc.diagnostics import convergence, running
from tessmc.sampling import _display, _progress
from tessmc.sampling._goal import Goal
from tessmc.sampling._signals import Wish

# Nothing is learned: two programs are compiled, once for all tests.
PLAIN = {"like": 2, "num_chains": 8, "num_warmup": 0, "transport": Identity((2,)), "progress": False}
EVENT = tessmc.Progress("sampling", 240, 400, 0.6, 128, 240, 99_000, 1.08, 0.31, 1.004, 21_400.0, 12.0, 8.0)


def normal(x):
    return -0.5 * (x**2).sum()


class Tee:
    """All that some programs put in the place of standard error."""

    def write(self, text):
        pass

    def flush(self):
        pass


@pytest.mark.parametrize("stream", [Tee(), None])
def test_a_stream_that_is_no_file_ends_no_run(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with _display.shown(True) as listeners:
        assert not any(isinstance(each, _display.Display) for each in listeners)


def test_a_file_on_standard_output_stays_the_users(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    with _display.shown(True, Console(file=io.StringIO(), force_terminal=True)) as (display,):
        assert isinstance(display, _display.Display)
        assert sys.stdout is stream


def test_a_callback_hears_of_all_phases():
    heard = []
    settings = {**PLAIN, "num_warmup": 7, "warmup": tessmc.Warmup.paper(num_initial_steps=2, num_steps=2)}
    del settings["transport"]
    tessmc.sample(normal, **settings, num_samples=9, callback=heard.append)
    phases = [event.phase for event in heard]
    assert phases[0] == "compiling"
    assert list(dict.fromkeys(phases)) == ["compiling", "first fit", "warm-up", "sampling"]
    last = heard[-1]
    assert (last.phase, last.done, last.total, last.fraction, last.num_draws) == ("sampling", 9, 9, 1.0, 9)
    assert last.num_chains == 8
    assert last.s is not None
    warmed = [event for event in heard if event.phase == "warm-up"][-1]
    assert (warmed.done, warmed.total, warmed.num_draws) == (7, 7, 0)
    assert np.all(np.diff([event.seconds for event in heard]) >= 0)


def test_what_a_callback_hears_is_so(monkeypatch):
    monkeypatch.setattr(_progress, "MAX_SHARE", 1.0)
    heard = []
    result = tessmc.sample(normal, **PLAIN, num_samples=60, callback=heard.append)
    last = heard[-1]
    assert last.num_evaluations == result.num_evaluations
    assert last.evaluations_per_draw == pytest.approx(result.stats["num_evaluations"].mean())
    assert last.s == pytest.approx(result.stats["log_ratio"].std(), rel=1e-5)
    found = running(result.unconstrained)
    assert (last.r_hat, last.ess) == found


def test_running_convergence_is_that_of_arviz():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((16, 200, 3))
    # One whose draws resemble each other, and one whose chains do not agree.
    draws[:, 1:, 1] += draws[:, :-1, 1]
    draws[:, :, 2] += 0.3 * rng.standard_normal((16, 1))
    exact = convergence(draws)
    for place in range(3):
        r_hat, ess = running(draws[:, :, place : place + 1])
        assert r_hat == pytest.approx(exact.r_hat[place], abs=0.005)
        assert ess == pytest.approx(exact.ess_bulk[place], rel=0.1)
    worst = running(draws)
    assert worst[0] == pytest.approx(exact.r_hat.max(), abs=0.005)
    assert worst[1] == pytest.approx(exact.ess_bulk.min(), rel=0.1)


def test_convergence_is_looked_at_seldom(monkeypatch):
    looks = []
    monkeypatch.setattr(_progress, "running", lambda draws: looks.append(draws.shape[1]) or (1.0, 100.0))
    look, draws = _progress.Look(), np.zeros((4, 1000, 2))
    size = draws.size * _progress.SECONDS_A_NUMBER
    look.at(draws, elapsed=0.9 * size / _progress.MAX_SHARE)
    assert looks == []
    look.at(draws[:, : _progress.MIN_DRAWS - 1], elapsed=1e6)
    assert looks == []
    look.at(draws[:, :500], elapsed=1e6)
    look.at(draws[:, :510], elapsed=1e6)
    look.at(draws, elapsed=1e6)
    assert looks == [500, 1000]


def test_draws_do_not_depend_on_who_looks_on(monkeypatch):
    monkeypatch.setattr(_progress, "PAUSE", 0.0)
    alone = tessmc.sample(normal, **PLAIN, num_samples=30)
    watched = tessmc.sample(normal, **{**PLAIN, "progress": True}, num_samples=30, callback=lambda _: None)
    assert np.array_equal(alone.unconstrained, watched.unconstrained)


def test_without_onlookers_nothing_is_computed(monkeypatch):
    monkeypatch.setattr(_progress.Reporter, "_event", None)
    assert tessmc.sample(normal, **PLAIN, num_samples=5).is_complete
    # Nor if there is neither a terminal nor a log.
    assert tessmc.sample(normal, **{**PLAIN, "progress": True}, num_samples=5).is_complete


class Boom:
    """A callback that raises, or returns True, after so many draws."""

    def __init__(self, after, error=None):
        self.after, self.error, self.num_calls = after, error, 0

    def __call__(self, event):
        is_now = event.num_draws >= self.after
        self.num_calls += is_now
        if is_now and self.error is not None:
            raise self.error
        return is_now


@pytest.fixture
def small_steps(monkeypatch):
    """Chunks of a few ticks, and an event after each."""
    monkeypatch.setattr(_progress, "PAUSE", 0.0)
    monkeypatch.setattr("tessmc.engines._march.MAX_TICKS", 4)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("run_dir", [None, "run"])
def test_a_callback_that_raises_loses_no_draws(tmp_path, run_dir):
    where = None if run_dir is None else tmp_path / run_dir
    boom = Boom(after=5, error=KeyError("mine"))
    with pytest.raises(tessmc.CallbackError, match="KeyError: 'mine'") as caught:
        tessmc.sample(normal, **PLAIN, num_samples=200, callback=boom, run_dir=where)
    assert caught.value.__cause__ is boom.error
    assert boom.num_calls == 1
    kept = caught.value.result
    whole = tessmc.sample(normal, **PLAIN, num_samples=200)
    assert 5 <= kept.num_draws < 200
    assert np.array_equal(kept.unconstrained, whole.unconstrained[:, : kept.num_draws])
    if where is not None:
        assert tessmc.load(where).num_draws == kept.num_draws
        again = tessmc.sample(normal, **PLAIN, num_samples=200, run_dir=where)
        assert np.array_equal(again.unconstrained, whole.unconstrained)


@pytest.mark.usefixtures("small_steps")
def test_a_callback_that_returns_true_ends_the_run():
    result = tessmc.sample(normal, **PLAIN, num_samples=200, callback=Boom(after=5))
    assert not result.is_complete
    assert result.reason == "ended by the callback"
    assert 5 <= result.num_draws < 200


@pytest.mark.usefixtures("small_steps")
def test_a_black_box_is_watched_while_it_is_called():
    heard = []
    box = tessmc.BlackBox(lambda x: -0.5 * float(np.sum(x**2)), 2)
    settings = {**PLAIN, "num_samples": 10}
    del settings["like"]
    tessmc.sample(box, **settings, callback=heard.append)
    counts = [event.num_evaluations for event in heard]
    assert counts == sorted(counts)
    assert len(set(counts)) > 5


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="`callback` should be a function"):
        tessmc.sample(normal, **PLAIN, callback=3)


def reporter_at(**given):
    """A reporter of a run that has sampled for two seconds, and what it says."""
    goal = Goal(given.pop("num_samples", None), given.pop("target_ess", None), given.pop("max_seconds", None))
    heard = []
    reporter = _progress.Reporter([heard.append], 4, goal, Wish())
    reporter.step("sampling", goal.num_draws, 0)
    reporter._began -= 2.0
    reporter._look.ess = given.pop("ess", None)
    reporter.step("sampling", goal.num_draws, given.pop("done"))
    reporter.beat(is_urgent=True)
    return heard[-1]


def test_time_left_follows_from_what_ends_the_run():
    assert reporter_at(num_samples=400, done=100).seconds_left == pytest.approx(6.0, abs=0.5)
    toward_ess = reporter_at(target_ess=1000, ess=250.0, done=100)
    assert toward_ess.total is None
    assert toward_ess.fraction == 0.25
    assert toward_ess.seconds_left == pytest.approx(6.0, abs=0.5)
    assert reporter_at(target_ess=1000, done=100).seconds_left is None
    assert reporter_at(num_samples=400, done=100, max_seconds=1.0).seconds_left == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_shows_two_lines_that_go_away(width):
    screen = io.StringIO()
    with _display.shown(True, Console(file=screen, force_terminal=True, width=width)) as (display,):
        display(EVENT)
        lines = Console(file=io.StringIO(), width=width, record=True)
        lines.print(display.render())
    first, second = lines.export_text().splitlines()
    assert first.split()[1] == "sampling"
    assert first.rstrip().endswith("240/400 draws · 0:12, 0:08 left")
    assert "━" in first
    assert len(first) <= width
    assert second.strip().startswith("128 chains · 1.08 evaluations a draw · s 0.31")
    if width >= 80:
        assert second.rstrip().endswith("R-hat 1.004 · ESS 21,400")
    assert "sampling" in screen.getvalue()
    # The cursor goes up and lines are erased.
    assert screen.getvalue().rstrip().endswith("\x1b[1A\x1b[2K")


def test_a_notebook_shows_the_same_and_clears_it(monkeypatch):
    cells = []

    class Handle:
        def update(self, data, raw):
            assert raw
            cells.append(data)

    module = types.ModuleType("IPython.display")
    module.display = lambda _, raw, display_id: Handle() if raw and display_id else None
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    with _display.shown(True, Console(force_jupyter=True)) as (notebook,):
        notebook(replace(EVENT, phase="<learning>", fraction=None))
        notebook(EVENT)
    first, second, last = cells
    assert "<b>&lt;learning&gt;</b> <progress></progress>" in first["text/html"]
    assert '<progress value="0.600"></progress> 240/400 draws · 0:12, 0:08 left' in second["text/html"]
    assert second["text/plain"].startswith("sampling: 240/400 draws")
    assert second["text/plain"].endswith("R-hat 1.004 · ESS 21,400")
    assert last == {"text/html": "", "text/plain": ""}


def test_elsewhere_a_few_lines_are_logged(caplog):
    with caplog.at_level(logging.INFO, "tessmc.progress"):
        tessmc.sample(normal, **{**PLAIN, "progress": True}, num_samples=30)
    lines = [record.getMessage() for record in caplog.records if record.name == "tessmc.progress"]
    assert lines[0].startswith("compiling: 8 chains")
    assert lines[-1].startswith("sampling: 30/30 draws, 8 chains")
    assert len(lines) <= 4


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0:00"), (59.6, "1:00"), (3599, "59:59"), (3600, "1:00:00"), (90061, "25:01:01")]
)
def test_a_clock(seconds, shown):
    assert _display.clock_time(seconds) == shown
