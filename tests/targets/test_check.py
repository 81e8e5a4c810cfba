"""What `check` finds, and that it finds nothing where nothing is wrong."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints

import tessmc


def normal(x):
    return -0.5 * jnp.sum(x**2)


def test_a_sound_target_is_fine(dtype):
    seen = tessmc.check(normal, like=jnp.zeros(3, dtype))
    assert seen.is_fine
    assert seen.problems == []
    assert (seen.dim, seen.dtype, seen.num_points) == (3, dtype.name, 64)
    assert seen.milliseconds > 0
    assert str(seen).startswith(f"3 unconstrained dimensions, {dtype.name}")
    assert "Nothing is wrong" in str(seen)


@pytest.mark.parametrize(
    "target",
    [tessmc.models.banana(), tessmc.models.funnel(10), tessmc.models.student_t(3, 5.0), tessmc.models.gaussian(5)],
    ids=["banana", "funnel", "student_t", "gaussian"],
)
def test_hard_but_sound_targets_are_fine(target):
    assert tessmc.check(target).problems == []


# What is wrong with a density, and the words that say so.
PROBLEMS = {
    "nan": (lambda x: jnp.log(x[0]) - x[0] ** 2, "NaN at 32 of 64 points, such as x = "),
    "infinite": (lambda x: jnp.where(x[0] > 1, jnp.inf, normal(x)), r"\+inf at"),
    "impossible": (lambda x: jnp.where(x[0] > 1, normal(x), -jnp.inf), r"-inf at \d\d of 64 points"),
    "constant": (lambda x: 0.0 * x[0] - 2.0, "is -2 everywhere"),
    "shape": (lambda x: -0.5 * x**2, r"array of shape \(2,\)"),
    "no value": (lambda _: None, "returned None"),
    "integer": (lambda x: jnp.round(x[0]).astype(int), "returned int32"),
    "gradient": (lambda x: normal(x) - jnp.sqrt(jnp.maximum(x[0], 0)), "gradient is not finite"),
    "rounding": (lambda x: normal(x) + 1e8, "only known to about"),
    "far": (lambda x: normal((x - 1e5) / 10), "lie 1e[+]05 away"),
    "narrow": (lambda x: normal(1e5 * x), "1e-05 wide"),
    "wide": (lambda x: normal(1e-5 * x), "1e[+]05 wide"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_named(name):
    density, words = PROBLEMS[name]
    seen = tessmc.check(density, like=2)
    assert not seen.is_fine
    assert any(re.search(words, problem) for problem in seen.problems), seen.problems
    assert f"Problem: {seen.problems[0]}." in str(seen)


def test_rounding_is_no_problem_in_doubles():
    with jax.enable_x64(True):
        assert tessmc.check(PROBLEMS["rounding"][0], like=2).is_fine


def test_init_says_where():
    density, support = PROBLEMS["far"][0], constraints.positive
    assert tessmc.check(density, init=1e5 + jnp.arange(20.0).reshape(10, 2)).is_fine
    seen = tessmc.check(lambda x: -x[0], like=1, support=support, init=jnp.linspace(0.1, 3, 7)[:, None])
    assert (seen.is_fine, seen.num_points) == (True, 7)


def test_a_density_without_a_gradient_is_noted():
    seen = tessmc.check(lambda x: -jax.lax.while_loop(lambda y: y < 1, lambda y: y + 1, jnp.abs(x[0])), like=1)
    assert seen.is_fine
    assert "JAX cannot take the gradient" in seen.notes[0]


def test_black_boxes():
    rng = np.random.default_rng(0)

    def refuse(x):
        if x[0] > 0:
            raise ArithmeticError("not here")
        return -float(x @ x)

    fine = tessmc.check(tessmc.BlackBox(lambda x: -float(x @ x), 2))
    assert fine.is_fine
    assert fine.milliseconds > 0
    for function, words in (
        (refuse, "32 raised an error, and count as impossible; the first: ArithmeticError: not here"),
        (lambda x: rng.normal() - x @ x, "not the same when it is asked again"),
        (lambda x: np.nan * x[0], "NaN at 64 of 64"),
        (lambda x: -(x**2), "array of shape (2,)"),
    ):
        (problem,) = tessmc.check(tessmc.BlackBox(function, 2)).problems
        assert words in problem


def test_no_points_are_refused():
    with pytest.raises(ValueError, match="`num_points` should be at least 1"):
        tessmc.check(normal, like=2, num_points=0)
