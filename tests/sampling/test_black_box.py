"""`sample` of a black box: the same draws by whoever calls it, and nothing is asked twice or lost."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager

import jax.numpy as jnp
import numpy as np
import pytest
from flowjax.bijections import Affine

import tessmc
from black_boxes import Counted, Fatal, Picky, Slow, Travelling, quartic, quartics
from tessmc import BlackBox, BlackBoxError

SPAWN = multiprocessing.get_context("spawn")
AS_IT_IS = {"transport": Affine(jnp.zeros(2), jnp.ones(2)), "num_warmup": 0, "num_chains": 8, "num_samples": 10}
LEARNED = {"num_chains": 8, "num_warmup": 24, "num_samples": 20, "transport": None}


def run(fn=quartic, box=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tessmc.sample(BlackBox(fn, 2, **(box or {})), **{**AS_IT_IS, "progress": False, **options})


@pytest.fixture(scope="module")
def truth():
    return run().unconstrained


@pytest.fixture(scope="module")
def learned():
    return run(**LEARNED)


@contextmanager
def processes(num_workers=2):
    with ProcessPoolExecutor(num_workers, mp_context=SPAWN) as executor:
        yield executor


def test_the_whole_method_works_without_a_gradient(learned):
    """The draws are those that values alone give a JAX target: the same to rounding, as long as that stays small."""
    compiled = tessmc.sample(
        lambda x: -jnp.sum(x**4) / 4 - x[0] * x[1],
        like=2,
        warmup=tessmc.Warmup.auto(use_gradient=False, frugal=True),
        progress=False,
        **LEARNED,
    )
    assert compiled.num_evaluations == learned.num_evaluations
    assert np.allclose(compiled.unconstrained, learned.unconstrained, atol=0.02)
    assert learned.num_evaluations_by_phase["fit"] == 0
    assert set(learned.stats) == set(compiled.stats)


def test_paper_mode_without_its_first_fit():
    found = run(warmup=tessmc.Warmup.paper(num_initial_steps=0), transport=None, num_warmup=3)
    assert np.isfinite(found.unconstrained).all()


def test_evaluations_are_calls(tmp_path):
    counted = Counted(tmp_path / "calls")
    assert run(counted).num_evaluations == counted.num_calls
    counted = Counted(tmp_path / "calls with a folder")
    assert run(counted, run_dir=tmp_path / "a").num_evaluations == counted.num_calls


@pytest.mark.parametrize("limit", [60, 101])
def test_a_limit_is_kept_exactly_and_the_run_goes_on_from_there(tmp_path, truth, limit):
    counted = Counted(tmp_path / "calls")
    found = run(counted, max_evaluations=limit, run_dir=tmp_path / "a")
    assert counted.num_calls == found.num_evaluations == limit
    assert found.reason == f"max_evaluations={limit} are spent"
    assert np.array_equal(run(counted, run_dir=tmp_path / "a").unconstrained, truth)


def test_a_limit_in_the_warm_up(tmp_path):
    counted = Counted(tmp_path / "calls")
    found = run(counted, max_evaluations=50, **LEARNED)
    assert counted.num_calls == 50
    assert found.num_draws == 0
    assert found.reason == "max_evaluations=50 are spent"


# --- executors -----------------------------------------------------------------------------------


def test_threads_make_the_same_draws(truth):
    with ThreadPoolExecutor(3) as executor:
        assert np.array_equal(run(executor=executor).unconstrained, truth)
        assert np.array_equal(run(quartics, {"vectorized": True}, executor=executor).unconstrained, truth)


def test_processes_make_the_same_draws_warm_up_and_all(truth, learned):
    with processes() as executor:
        assert np.array_equal(run(executor=executor).unconstrained, truth)
        assert np.array_equal(run(executor=executor, **LEARNED).unconstrained, learned.unconstrained)
        assert np.array_equal(run(quartics, {"vectorized": True}, executor=executor).unconstrained, truth)


def test_a_function_of_a_session_travels(truth):
    with processes(1) as executor:
        assert np.array_equal(run(lambda x: quartic(x) + 0.0, executor=executor).unconstrained, truth)


def test_the_function_travels_once_to_each_worker(tmp_path, truth):
    with processes() as executor:
        assert np.array_equal(run(Travelling(tmp_path / "arrivals"), executor=executor).unconstrained, truth)
    assert 1 <= (tmp_path / "arrivals").stat().st_size <= 2


def test_forks_are_refused():
    with (
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as executor,
        pytest.raises(ValueError, match=r"forks its processes.*get_context"),
    ):
        run(executor=executor)


def test_a_worker_that_dies_is_replaced(tmp_path, truth):
    with processes() as executor:
        assert np.array_equal(run(Fatal(tmp_path / "marker"), executor=executor).unconstrained, truth)
    assert (tmp_path / "marker").exists()


def test_a_pool_whose_workers_died_while_idle_is_replaced(truth):
    with processes() as executor:
        assert np.array_equal(run(executor=executor).unconstrained, truth)
        for process in executor._processes.values():
            process.kill()
        time.sleep(0.5)
        assert np.array_equal(run(executor=executor).unconstrained, truth)


def test_a_function_that_answers_differently_each_time_is_noticed():
    rng = np.random.default_rng(0)
    found = run(lambda x: quartic(x) + 3 * rng.normal())
    assert any("fix its random numbers" in trouble for trouble in found.troubles)


def test_a_position_that_ends_processes_is_found():
    with processes() as executor:
        with pytest.raises(BlackBoxError, match=r"the worker that called it ended") as raised:
            run(Fatal(above=1.0), executor=executor)
        assert raised.value.position[0] > 1.0
        assert raised.value.result.num_draws < 10


def test_an_error_of_a_worker_is_told_with_its_traceback():
    with processes(1) as executor, pytest.raises(BlackBoxError, match="ArithmeticError") as raised:
        run(Picky(1.0), executor=executor)
    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert "black_boxes.py" in "".join(raised.value.__notes__)


def test_a_call_of_a_worker_that_takes_too_long_is_ended():
    with processes(1) as executor:
        began = time.monotonic()
        found = run(Picky(1.0, seconds=60), {"timeout": 0.2, "on_error": "reject"}, executor=executor, num_samples=3)
        assert time.monotonic() - began < 50
    assert "took too long" in found.notes[0]
    assert found.unconstrained[..., 0].max() < 1.0


def test_a_cluster_one_of_whose_workers_is_killed(learned):
    distributed = pytest.importorskip("distributed")
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        warnings.simplefilter("ignore")
        pids = list(client.run(os.getpid).values())
        killer = threading.Timer(2.0, os.kill, (pids[0], signal.SIGKILL))
        killer.start()
        found = run(Slow(), executor=client.get_executor(), **LEARNED)
        killer.join()
        assert pids[0] not in client.run(os.getpid).values()
    assert np.array_equal(found.unconstrained, learned.unconstrained)


# --- faults --------------------------------------------------------------------------------------


def test_an_error_has_the_draws_so_far(tmp_path):
    with pytest.raises(BlackBoxError) as raised:
        run(Picky(2.2), num_samples=50, run_dir=tmp_path / "a")
    partial = raised.value.result
    assert not partial.is_complete
    assert "ArithmeticError" in partial.reason
    assert partial.num_draws > 0
    whole = run(num_samples=50).unconstrained
    assert np.array_equal(partial.unconstrained, whole[:, : partial.num_draws])
    assert np.array_equal(tessmc.load(tmp_path / "a").unconstrained, partial.unconstrained)
    # The function is mended; the run goes on, and asks for nothing that it knows.
    counted = Counted(tmp_path / "calls")
    again = run(counted, num_samples=50, run_dir=tmp_path / "a")
    assert np.array_equal(again.unconstrained, whole)
    assert again.num_evaluations > counted.num_calls


def test_rejected_calls_are_reported_and_never_drawn():
    with pytest.warns(UserWarning, match="count as impossible; the first: ArithmeticError"):
        found = tessmc.sample(BlackBox(Picky(0.5), 2, on_error="reject"), progress=False, **AS_IT_IS)
    assert found.unconstrained[..., 0].max() < 0.5
    assert "Note: of the calls" in str(found.summary())


def test_nan_is_never_accepted_and_infinity_is_named():
    found = run(lambda x: np.nan if x[0] > 0.5 else quartic(x))
    assert found.unconstrained[..., 0].max() < 0.5
    assert found.stats["num_nan"].sum() > 0
    with pytest.raises(tessmc.DensityError, match=r"\+inf at x = ") as raised:
        run(lambda x: np.inf if x[0] > 1.0 else quartic(x))
    assert raised.value.result is not None


# --- runs that are never lost ---------------------------------------------------------------------


PROGRAM = """
import sys, warnings
warnings.simplefilter("ignore")
import tessmc
from black_boxes import Counted
tessmc.sample(tessmc.BlackBox(Counted(sys.argv[1], 0.002), 2), run_dir=sys.argv[2], progress=False, num_chains=8,
              num_warmup=24, num_samples=20)
"""


def wait_for_calls(path, num_calls, child):
    deadline = time.monotonic() + 120
    while (not path.exists() or path.stat().st_size < num_calls) and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_killed_run_does_not_repeat_what_it_has_paid_for(tmp_path, learned):
    calls, folder = tmp_path / "calls", tmp_path / "a"
    path = os.pathsep.join(["tests", *sys.path])
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(calls), str(folder)], env={**os.environ, "PYTHONPATH": path}
    )
    wait_for_calls(calls, 250, child)
    child.kill()
    child.wait()
    before = calls.stat().st_size
    assert 250 <= before < learned.num_evaluations
    counted = Counted(calls)
    found = run(counted, run_dir=folder, **LEARNED)
    assert np.array_equal(found.unconstrained, learned.unconstrained)
    # One call may have been under way, and the density is known again by 8.
    assert counted.num_calls <= found.num_evaluations + 8 + 1


def test_an_interrupt_in_the_middle_of_a_round_keeps_what_came(tmp_path, truth):
    counted = Counted(tmp_path / "calls", seconds=0.05)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    found = run(counted, run_dir=tmp_path / "a")
    assert time.monotonic() - began < 3
    assert found.reason == "interrupted by SIGINT"
    assert found.num_evaluations == counted.num_calls
    again = run(counted, run_dir=tmp_path / "a")
    assert np.array_equal(again.unconstrained, truth)
    assert counted.num_calls == again.num_evaluations + 8


IN_WORKERS = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import tessmc
from black_boxes import Counted

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        box = tessmc.BlackBox(Counted(sys.argv[1], 0.05), 2)
        result = tessmc.sample(box, executor=executor, num_chains=8, progress=False)
    print(result.reason)
"""


def test_ctrl_c_in_a_terminal_ends_workers_cleanly(tmp_path):
    """The signal reaches the whole group of processes; who samples heeds it, and workers are let go."""
    calls, program = tmp_path / "calls", tmp_path / "program.py"
    program.write_text(IN_WORKERS)
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(program), str(calls)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for_calls(calls, 20, child)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out.strip(), err) == (0, "interrupted by SIGINT", "")
    # Of the group nobody is left, a moment later.
    time.sleep(5)
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)


def test_another_function_is_refused(tmp_path):
    run(run_dir=tmp_path / "a")
    with pytest.raises(tessmc.StorageError, match="the log density is another"):
        run(lambda x: 2 * quartic(x), run_dir=tmp_path / "a")


def test_extended_and_saved(tmp_path, truth):
    short = run(num_samples=4)
    assert np.array_equal(short.extend(6).unconstrained, truth)
    short.save(tmp_path / "a")
    box = BlackBox(quartic, 2)
    options = {"transport": AS_IT_IS["transport"], "num_samples": 10, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert np.array_equal(tessmc.resume(tmp_path / "a", box, **options).unconstrained, truth)
