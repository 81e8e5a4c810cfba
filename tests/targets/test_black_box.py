"""Black boxes: what they are given, what they may return, and what becomes of calls that fail."""

import threading
import time

import jax
import numpy as np
import pytest
from numpyro.distributions import constraints

import tessmc
from black_boxes import Picky, line, quartic, quartics
from tessmc import BlackBox, BlackBoxError, Target

POINTS = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)


def test_one_by_one_and_all_at_once_are_the_same():
    alone, together = BlackBox(quartic, 2), BlackBox(quartics, 2, vectorized=True, batch_size=7)
    expected = [quartic(point.astype(float)) for point in POINTS]
    assert np.allclose(alone.log_densities(POINTS), expected, rtol=1e-12)
    assert np.allclose(together.log_densities(POINTS), expected, rtol=1e-12)


def test_batches_are_as_large_as_is_said():
    sizes = []

    def fn(x):
        sizes.append(len(x))
        return quartics(x)

    BlackBox(fn, 2, vectorized=True).log_densities(POINTS)
    BlackBox(fn, 2, vectorized=True, batch_size=20).log_densities(POINTS)
    assert sizes == [32, 18, 20, 20, 10]


def test_positions_have_the_structure_and_the_support_that_was_asked_for():
    seen = []

    def fn(p):
        seen.append(p)
        return line(p)

    like = {"slope": 0.0, "sigma": 1.0}
    support = {"slope": constraints.real, "sigma": constraints.positive}
    box = BlackBox(fn, like, support=support)
    with jax.numpy_rank_promotion("allow"):
        found = box.log_densities(np.array([[-0.5, 0.3]]))
    assert seen[0]["sigma"].dtype == np.float64
    assert np.isclose(seen[0]["sigma"], np.exp(-0.5))
    # The log-determinant of exp is its argument.
    assert np.isclose(found[0], line({"slope": 0.3, "sigma": np.exp(-0.5)}) - 0.5, atol=1e-6)
    assert box.dim == 2


def test_the_function_may_change_what_it_is_given():
    def fn(x):
        x[:] = 100
        return 0.0

    points = POINTS.copy()
    BlackBox(fn, 2).log_densities(points)
    assert np.array_equal(points, POINTS)


RETURNED = {
    "nothing": (lambda _: None, "returned None; is a `return` missing"),
    "an array": (lambda x: x, r"returned an array of shape \(2,\); sum the terms"),
    "one element": (lambda x: x[:1], r"shape \(1,\).*take the one element with \[0\]"),
    "words": (lambda _: "low", "returned 'low', a str"),
    "a complex number": (lambda _: 1j, "returned 1j, a complex"),
    "a truth value": (lambda _: True, "returned True, a bool"),
    "a ragged list": (lambda _: [[1.0], [1.0, 2.0]], "returned a list"),
}


@pytest.mark.parametrize("name", RETURNED)
@pytest.mark.parametrize("on_error", ["raise", "reject"])
def test_what_is_no_log_density_is_refused(name, on_error):
    fn, sentence = RETURNED[name]
    with pytest.raises(BlackBoxError, match=sentence):
        BlackBox(fn, 2, on_error=on_error).log_densities(POINTS)


def test_a_batch_of_another_size_is_refused():
    with pytest.raises(BlackBoxError, match=r"an array of shape \(32,\), but returned one of shape \(\)"):
        BlackBox(lambda x: float(x.sum()), 2, vectorized=True).log_densities(POINTS)


@pytest.mark.parametrize("value", [0, 1.5, np.float32(1), np.array(2.0), np.int64(3), jax.numpy.float32(1)])
def test_numbers_of_all_kinds_are_taken(value):
    assert BlackBox(lambda _: value, 2).log_densities(POINTS[:1]) == float(value)


def test_an_error_has_its_cause_its_place_and_its_traceback():
    with pytest.raises(BlackBoxError, match=r"no value at x = \[") as raised:
        BlackBox(Picky(0.5), 2).log_densities(POINTS)
    error = raised.value
    assert "ArithmeticError: x[0] is" in str(error)
    assert "on_error='reject'" in str(error)
    assert isinstance(error.__cause__, ArithmeticError)
    assert error.position[0] > 0.5
    assert "raise ArithmeticError" in "".join(error.__notes__)


@pytest.mark.parametrize("is_vectorized", [False, True])
def test_a_rejected_call_is_impossible_and_is_counted(is_vectorized):
    def fn(x):
        if not is_vectorized:
            return Picky(0.5)(x)
        if (x[:, 0] > 0.5).any():
            raise ArithmeticError("one of them")
        return quartics(x)

    box = BlackBox(fn, 2, on_error="reject", vectorized=is_vectorized)
    found, is_bad = box.log_densities(POINTS), POINTS[:, 0] > 0.5
    assert np.array_equal(np.isneginf(found), is_bad)
    assert np.allclose(found[~is_bad], quartics(POINTS[~is_bad].astype(float)))
    (sentence,) = box.desk.rejected()
    assert f"{is_bad.sum()} raised an error" in sentence
    assert "ArithmeticError" in sentence


@pytest.mark.parametrize("where", ["here", "in a thread"])
def test_a_call_that_takes_too_long_is_ended(where):
    box = BlackBox(Picky(0.5, seconds=20), 2, on_error="reject", timeout=0.2)
    points, found = POINTS[:6], []
    began = time.monotonic()
    if where == "here":
        found.append(box.log_densities(points))
    else:
        thread = threading.Thread(target=lambda: found.append(box.log_densities(points)))
        thread.start()
        thread.join()
    assert np.array_equal(np.isneginf(found[0]), points[:, 0] > 0.5)
    assert time.monotonic() - began < 10
    assert "took too long" in box.desk.rejected()[0]
    with pytest.raises(BlackBoxError, match=r"longer than timeout=0\.2 seconds"):
        BlackBox(Picky(0.5, seconds=20), 2, timeout=0.2).log_densities(points)


def test_compiled_code_cannot_call_it():
    with pytest.raises(TypeError, match="cannot be called by compiled code"):
        jax.jit(BlackBox(quartic, 2).log_density)(POINTS[0])
    assert np.isclose(BlackBox(quartic, 2).log_density(POINTS[0]), quartic(POINTS[0]))


REFUSED = {
    "no function": (lambda: BlackBox(3.0, 2), TypeError, "should be a function of one position, but is a float"),
    "no mode": (lambda: BlackBox(quartic, 2, on_error="ignore"), ValueError, "'raise' or 'reject', but is 'ignore'"),
    "no seconds": (lambda: BlackBox(quartic, 2, timeout=0), ValueError, "seconds above 0, but is 0"),
    "no size": (lambda: BlackBox(quartic, 2, batch_size=0), ValueError, "at least 1, but is 0"),
    "no shape": (lambda: BlackBox(quartic, None), TypeError, "`like` should be an example position"),
    "gradients": (
        lambda: tessmc.sample(BlackBox(quartic, 2), warmup=tessmc.Warmup.auto(use_gradient=True), num_chains=4),
        TypeError,
        "which a black box does not have",
    ),
    "the paper's first fit": (
        lambda: tessmc.sample(BlackBox(quartic, 2), warmup=tessmc.Warmup.paper(), num_chains=4),
        TypeError,
        r"num_initial_steps=0",
    ),
    "an executor that is none": (
        lambda: tessmc.sample(BlackBox(quartic, 2), executor=4),
        TypeError,
        "should be a concurrent.futures.Executor, but is a int",
    ),
    "an executor for JAX": (
        lambda: tessmc.sample(Target(lambda x: -x @ x, 2), executor=tessmc.targets.BlackBox),
        (TypeError, ValueError),
        "`executor`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(name):
    act, kind, sentence = REFUSED[name]
    with pytest.raises(kind, match=sentence):
        act()
