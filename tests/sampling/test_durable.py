"""Runs in folders: never lost, exactly resumed, and honest about what they hold."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from numpyro.distributions import constraints

import tessmc
from tessmc.adaptation import AutoWarmup
from tessmc.engines import Stopped
from tessmc.sampling import _session
from tessmc.sampling._signals import heeding_signals
from tessmc.storage import Note, RunFolder, read_note, write_note


def log_density(x):
    return -0.5 * (x[0] ** 2 / 8 + (x[1] - x[0] ** 2 / 4) ** 2)


TARGET = tessmc.Target(log_density, 2)
ASKED = {"num_chains": 16, "num_warmup": 32, "seed": 5, "progress": False}


def run(run_dir=None, target=TARGET, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tessmc.sample(target, run_dir=run_dir, **{**ASKED, "num_samples": 40, **options})


@pytest.fixture(scope="module")
def whole():
    """The run that nobody interrupts."""
    return run()


@pytest.fixture
def often(monkeypatch):
    """Everything is written after every chunk, and chunks are short."""
    monkeypatch.setattr("tessmc.storage._folder.MIN_SECONDS", 0.0)
    monkeypatch.setattr("tessmc.storage._folder.MAX_SHARE", 1e9)
    monkeypatch.setattr("tessmc.engines._march.MAX_TICKS", 4)


def same(one, other):
    assert one.num_draws == other.num_draws
    assert np.array_equal(one.unconstrained, other.unconstrained)
    for name in one.stats:
        assert np.array_equal(one.stats[name], other.stats[name]), name
    assert np.array_equal(one.posterior["x"], other.posterior["x"])
    return True


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("num_pieces", [7, 40])
def test_a_run_that_is_stopped_again_and_again_makes_the_same_draws(tmp_path, monkeypatch, whole, num_pieces):
    pause, calls = _session.pause_at, []

    def stop(*given):
        calls.append(1)
        if len(calls) % num_pieces == 0:
            raise Stopped("enough for now")
        pause(*given)

    monkeypatch.setattr(_session, "pause_at", stop)
    results = [run(tmp_path / "a")]
    while not results[-1].is_complete:
        results.append(run(tmp_path / "a"))
        assert len(results) < 200
    assert len(results) > (10 if num_pieces == 7 else 2)
    assert [each.num_draws for each in results] == sorted(each.num_draws for each in results)
    assert {each.reason for each in results[:-1]} == {"enough for now"}
    assert same(whole, results[-1])
    assert results[-1].num_evaluations_by_phase == whole.num_evaluations_by_phase
    assert len(results[-1].warmup_history) == len(whole.warmup_history)


@pytest.mark.usefixtures("often")
def test_a_run_that_is_stopped_while_it_seeks_makes_the_same_draws(tmp_path, monkeypatch):
    """In many dimensions: learning from π itself, and then from seekers in every window."""
    monkeypatch.setattr("tessmc.adaptation._path.NUM_STEPS", 300)
    monkeypatch.setattr("tessmc.adaptation._windows.SLOW", 0.0)
    # Seekers never come home.
    monkeypatch.setattr("tessmc.adaptation._windows.MAX_FINDS", -1.0)
    settings = {"target": tessmc.models.funnel(21), "num_warmup": 48, "num_samples": 5}
    whole, pause, calls = run(**settings), _session.pause_at, []
    assert any("num_seekers" in entry for entry in whole.warmup_history)

    def stop(*given):
        calls.append(1)
        if len(calls) % 100 == 0:
            raise Stopped("enough for now")
        pause(*given)

    monkeypatch.setattr(_session, "pause_at", stop)
    results = [run(tmp_path / "a", **settings)]
    while not results[-1].is_complete:
        results.append(run(tmp_path / "a", **settings))
        assert len(results) < 100
    assert len(results) > 3
    assert np.array_equal(results[-1].unconstrained, whole.unconstrained)
    assert results[-1].num_evaluations_by_phase == whole.num_evaluations_by_phase


def test_without_interruption_the_folder_holds_the_same_draws(tmp_path, whole):
    found = run(tmp_path / "a")
    assert found.is_complete
    assert same(whole, found)
    # Again: nothing is left to do.
    assert same(whole, run(tmp_path / "a"))
    loaded = tessmc.load(tmp_path / "a")
    assert same(whole, loaded)
    assert loaded.is_complete
    assert str(loaded.summary().table) == str(whole.summary().table)
    point = jnp.array([0.3, -0.2])
    assert np.array_equal(loaded.transport.transform(point), whole.transport.transform(point))
    with xarray.open_zarr(tmp_path / "a" / "draws.zarr", group="posterior", consolidated=False) as data:
        assert np.array_equal(data["x"], whole.posterior["x"])
    manifest = json.loads((tmp_path / "a" / "manifest.json").read_text())
    assert manifest["status"] == "complete"
    assert manifest["verdict"] == str(whole.verdict)
    assert manifest["settings"]["num_chains"] == 16
    assert manifest["versions"]["tessmc"] == tessmc.__version__


def test_a_new_run_makes_nothing_to_compare_a_folder_with(tmp_path, monkeypatch):
    # The outline of a warm-up costs as much as all writing, and there is nothing yet to fit into it.
    monkeypatch.delattr(AutoWarmup, "outline")
    assert run(tmp_path / "run", num_warmup=0, num_samples=2).num_draws == 2


def test_more_draws_continue_a_run(tmp_path, whole):
    first = run(tmp_path / "a", num_samples=15)
    assert same(whole, run(tmp_path / "a"))
    assert same(whole, first.extend(25))
    assert same(whole, run(num_samples=15).extend(25))
    assert same(whole, tessmc.resume(tmp_path / "a", TARGET, num_samples=40, progress=False))
    with pytest.raises(ValueError, match="pass it to"):
        tessmc.load(tmp_path / "a").extend(3)


def test_a_result_is_saved_and_loaded(tmp_path, whole):
    short = run(num_samples=15)
    short.save(tmp_path / "b")
    assert same(short, tessmc.load(tmp_path / "b"))
    assert same(whole, tessmc.resume(tmp_path / "b", TARGET, num_samples=40, progress=False))
    with pytest.raises(tessmc.StorageError, match="other files"):
        short.save(tmp_path)


def test_a_result_is_saved_as_it_was_although_the_run_went_on(tmp_path, whole):
    short = run(num_samples=15)
    assert same(whole, short.extend(25))
    short.save(tmp_path / "a")
    assert same(short, tessmc.load(tmp_path / "a"))
    assert same(whole, tessmc.resume(tmp_path / "a", TARGET, num_samples=40, progress=False))


def test_a_disk_that_is_full_from_the_start_is_refused(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(tessmc.StorageError, match="cannot be written to: No space left"):
        run(tmp_path / "a")


def test_a_result_is_not_saved_by_halves_in_silence(tmp_path, monkeypatch, whole):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tessmc.storage._folder.write_note", fail)
    with pytest.warns(UserWarning, match="could not be written"), pytest.raises(tessmc.StorageError, match="No space"):
        whole.save(tmp_path / "a")


def test_a_state_that_does_not_fit_the_draws_is_refused(tmp_path, whole):
    run(tmp_path / "a", num_samples=15)
    run(tmp_path / "b", num_samples=20)
    for path in (tmp_path / "a").glob("state-*.note"):
        path.unlink()
    # Of the same run, intact, and of another place: with the draws of before it would make a wrong chain.
    words, arrays = read_note(max((tmp_path / "b").glob("state-*.note")))
    write_note(tmp_path / "a" / "state-000000.note", Note({**words, "num_draws": 15}, arrays))
    with pytest.raises(tessmc.StorageError, match=r"transitions after 15 draws.*resume='previous'"):
        run(tmp_path / "a")
    assert same(whole, run(tmp_path / "a", resume="previous"))


def test_the_last_state_is_that_of_the_highest_number(tmp_path):
    folder = RunFolder(tmp_path)
    (tmp_path / "state-copy.note").write_text("")
    for number in ("999999", "1000000"):
        write_note(tmp_path / f"state-{number}.note", Note({"num_draws": int(number)}, []))
    assert folder.num_draws() == 1000000
    folder.checkpoint({"num_draws": 7}, ())
    assert folder.num_draws() == 7
    assert {path.name for path in tmp_path.glob("state-1*")} == {"state-1000000.note", "state-1000001.note"}


def test_a_goal_is_reached_where_a_part_of_a_parameter_is_constant():
    like = {"l": jnp.eye(2)}
    target = tessmc.Target(lambda p: -0.5 * jnp.sum(p["l"] ** 2), like, support={"l": constraints.lower_cholesky})
    found = run(None, target, num_samples=None, target_ess=500)
    assert found.is_complete
    assert "effective draws or more" in found.reason


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seed": 6}, "seed is .*6.* here and .*5.* in the folder"),
        ({"num_chains": 17}, "num_chains is 17 here and 16 in the folder"),
        ({"num_warmup": 33}, "num_warmup is 33"),
        ({"warmup": tessmc.Warmup.paper()}, "warmup is"),
        ({"thin": 2}, "thin is 2"),
        ({"init": np.ones((16, 2))}, "init is"),
        ({"target": tessmc.Target(lambda x: log_density(x) + 0.01 * x[0], 2)}, "the log density is another"),
        ({"target": tessmc.Target(lambda x: log_density(x) + (x[0] > 0), 2)}, "the log density is another"),
        ({"target": tessmc.Target(lambda x: -jnp.sum(x**2), 3)}, "the parameters"),
        ({"resume": "never"}, "holds a run already"),
    ],
)
def test_another_run_is_refused_with_the_difference(tmp_path_factory, options, sentence):
    folder = tmp_path_factory.getbasetemp() / "refused"
    if not folder.exists():
        run(folder)
    with pytest.raises(tessmc.StorageError, match=sentence):
        run(folder, **options)


def test_a_folder_in_use_by_another_process_is_refused(tmp_path, whole):
    program = (
        "from tessmc.storage import RunFolder\n"
        f"folder = RunFolder({str(tmp_path / 'a')!r})\n"
        "folder.lock()\nprint('has it')\ninput()"
    )
    command = [sys.executable, "-u", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "has it\n"
        with pytest.raises(tessmc.StorageError, match="another process"):
            run(tmp_path / "a")
        other.kill()
    # What a process held goes with it, however it ends.
    assert same(whole, run(tmp_path / "a"))


def test_what_cannot_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tessmc.StorageError, match="cannot be written to"):
        run(tmp_path / "file")
    with pytest.raises(tessmc.StorageError, match="cannot be read"):
        tessmc.load(tmp_path / "nowhere")


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_returns_what_there_is(tmp_path, whole, number):
    before = signal.getsignal(number)

    def send():
        deadline = time.monotonic() + 60
        while not (tmp_path / "a" / "state-000009.note").exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    found = run(tmp_path / "a", num_samples=10**6)
    thread.join()
    assert not found.is_complete
    assert found.reason == f"interrupted by {number.name}"
    assert signal.getsignal(number) is before
    num_same = min(found.num_draws, 40)
    assert num_same > 0
    assert np.array_equal(found.posterior["x"][:, :num_same], whole.posterior["x"][:, :num_same])
    assert same(found, tessmc.load(tmp_path / "a"))
    assert "Incomplete: interrupted" in str(found.summary())


def test_a_second_signal_acts_as_ever():
    # Processes that run tests side by side may ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with heeding_signals() as wish:
            os.kill(os.getpid(), signal.SIGINT)
            assert wish.reason == "interrupted by SIGINT"
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone():
    found, before = [], signal.getsignal(signal.SIGINT)

    def work():
        with heeding_signals() as wish:
            found.append((wish.reason, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [("", before)]


def test_goals(whole):
    found = run(num_samples=None, target_ess=1500)
    assert found.is_complete
    assert found.reason.startswith("every parameter has ")
    assert min(found.convergence.ess_bulk.min(), found.convergence.ess_tail.min()) >= 1500
    assert np.array_equal(found.unconstrained[:, :40], whole.unconstrained)
    few = run(num_samples=50, target_ess=1e9)
    assert (few.num_draws, few.is_complete) == (50, False)
    paid = run(max_evaluations=1200)
    assert not paid.is_complete
    assert "max_evaluations=1200" in paid.reason
    timed = run(num_samples=10**7, max_seconds=1.0)
    assert timed.reason == "max_seconds=1 is over"


def test_thinned_draws_are_every_so_manieth(whole):
    thinned = run(num_samples=10, thin=4)
    assert np.array_equal(thinned.unconstrained, whole.unconstrained[:, 3::4])
    assert np.array_equal(
        thinned.stats["num_evaluations"], whole.stats["num_evaluations"].reshape(16, 10, 4).sum(axis=2)
    )


@pytest.mark.parametrize("warmup", [tessmc.Warmup.auto(), tessmc.Warmup.paper(num_initial_steps=10)])
def test_draws_of_the_warmup_are_kept_if_asked(tmp_path, warmup):
    asked = {"save_warmup": True, "num_samples": 5, "warmup": warmup}
    in_memory, on_disk = run(**asked), run(tmp_path / "a", **asked)
    again = run(tmp_path / "a", **asked)
    draws = in_memory.groups["warmup_posterior"]["x"]
    assert draws.shape[0] == 16
    assert 0 < draws.shape[1] <= 32
    for other in (on_disk, again):
        assert np.array_equal(other.groups["warmup_posterior"]["x"], draws)
    assert "warmup_posterior" not in run(num_samples=5).groups


def test_a_parameter_without_elements_is_stored(tmp_path):
    target = tessmc.Target(lambda p: -jnp.sum(p["a"] ** 2) - p["b"] ** 2, {"a": jnp.zeros((0, 3)), "b": 0.0})
    found = run(tmp_path / "a", target, num_samples=5)
    loaded = tessmc.load(tmp_path / "a")
    assert loaded.posterior["a"].shape == found.posterior["a"].shape == (16, 5, 0, 3)
    assert np.array_equal(loaded.posterior["b"], run(None, target, num_samples=5).posterior["b"])


def test_only_what_is_named_is_kept(tmp_path):
    target = tessmc.Target(lambda p: -jnp.sum(p["a"] ** 2) - p["b"] ** 2, {"a": jnp.zeros(3), "b": 0.0})
    for folder in (None, tmp_path / "a"):
        found = run(folder, target, keep=["b"], num_samples=5)
        assert list(found.posterior) == ["b"]
        assert found.parameter_names == ["b"]
        with pytest.raises(ValueError, match="were not kept"):
            found.unconstrained  # noqa: B018
        found.summary()
    with pytest.raises(ValueError, match="some of a, b"):
        run(None, target, keep=["c"])


@pytest.mark.usefixtures("often")
def test_a_full_disk_loses_no_draw(tmp_path, monkeypatch, whole):
    write, count = os.replace, []

    def fail(*given):
        count.append(1)
        if len(count) > 60:
            raise OSError(28, "No space left on device")
        return write(*given)

    monkeypatch.setattr("os.replace", fail)
    with pytest.warns(UserWarning, match="could not be written"):
        found = tessmc.sample(TARGET, run_dir=tmp_path / "a", num_samples=40, **ASKED)
    assert len(count) > 60
    assert same(whole, found)
    assert "No space left" in found.reason
    monkeypatch.undo()
    assert same(whole, run(tmp_path / "a"))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("what", ["warmed.note", "state-*.note", "draws.zarr/posterior/x/c/**/0"])
def test_damage_is_named_and_mended(tmp_path, whole, what):
    run(tmp_path / "a", num_samples=20)
    path = [each for each in sorted((tmp_path / "a").glob(what)) if each.is_file()][-1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(tessmc.StorageError, match=f"{path.parent.name}.*resume='previous'"):
        run(tmp_path / "a")
    assert same(whole, run(tmp_path / "a", resume="previous"))


@pytest.mark.parametrize("part", ["a", 3, [], ["float32", [-1]], [[2], []], [[2], "float99"], [[2**40], "float32"]])
def test_a_manifest_of_arrays_that_cannot_be_is_refused(tmp_path, part):
    run(tmp_path / "a", num_samples=5)
    folder = RunFolder(tmp_path / "a")
    manifest = folder.manifest()
    folder.tell({**manifest, "target": {**manifest["target"], "parameters": {"x": part}}})
    with pytest.raises(tessmc.StorageError):
        tessmc.load(tmp_path / "a")


def test_an_array_that_describes_itself_oddly_is_refused(tmp_path):
    run(tmp_path / "a", num_samples=5)
    path = tmp_path / "a" / "draws.zarr" / "posterior" / "x" / "zarr.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fill_value": []}))
    with pytest.raises(tessmc.StorageError, match="posterior"):
        tessmc.load(tmp_path / "a").posterior["x"]
