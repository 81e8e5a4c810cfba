"""Targets: supports, names, data, and what is refused."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from numpyro.distributions import constraints

from tessmc import Target

SUPPORTS = {
    "real": (constraints.real, (2,)),
    "positive": (constraints.positive, (3,)),
    "interval": (constraints.interval(-1.0, 4.0), ()),
    "unit_interval": (constraints.unit_interval, (2, 2)),
    "simplex": (constraints.simplex, (4,)),
    "batched simplex": (constraints.simplex, (2, 3)),
    "ordered": (constraints.ordered_vector, (3,)),
    "lower_cholesky": (constraints.lower_cholesky, (3, 3)),
}


def zero(x):
    return 0.0 * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(x))


def free_coordinates(name, value):
    """As many coordinates of a constrained value as it has free dimensions, to differentiate."""
    if name.endswith("simplex"):
        return value[..., :-1].ravel()
    if name == "lower_cholesky":
        return value[jnp.tril_indices(3)]
    return value.ravel()


@pytest.fixture(autouse=True)
def rank_promotion():
    """NumPyro's transforms promote ranks; only here may they."""
    with jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.parametrize("name", SUPPORTS)
def test_log_determinant_is_that_of_the_jacobian(name, dtype):
    support, shape = SUPPORTS[name]
    target = Target(zero, jnp.zeros(shape, dtype), support=support)
    positions = jnp.array([[0.5], [3.0]], dtype) * jr.normal(jr.key(1), (1, target.dim), dtype)

    @jax.jit
    @jax.vmap
    def both(position):
        jacobian = jax.jacobian(lambda x: free_coordinates(name, target.constrain(x)["x"]))(position)
        return target.log_density(position), jnp.linalg.slogdet(jacobian)[1]

    found, expected = both(positions)
    tolerance = 1e-4 if dtype == jnp.float32 else 1e-10
    assert jnp.allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", SUPPORTS)
def test_draws_lie_in_the_support_and_return_to_where_they_came_from(name):
    support, shape = SUPPORTS[name]
    target = Target(zero, jnp.zeros(shape), support=support)
    position = jr.normal(jr.key(2), (target.dim,))
    value = eqx.filter_jit(target.constrain)(position)["x"]
    assert value.shape == shape
    assert jnp.all(support(value))
    assert jnp.allclose(eqx.filter_jit(target.unconstrain)(value), position, atol=1e-4)


def test_a_pytree_keeps_its_names_and_shapes():
    like = {"a": 0.0, "b": {"c": jnp.zeros((2, 3)), "d": (jnp.zeros(1), jnp.zeros(2))}}
    target = Target(zero, like)
    shapes = {name: value.shape for name, value in target.constrain(jnp.arange(10.0)).items()}
    assert shapes == {"a": (), "b.c": (2, 3), "b.d.0": (1,), "b.d.1": (2,)}
    assert target.dim == 10


def test_the_density_sees_the_position_as_the_user_wrote_it():
    target = Target(
        lambda p: -p["sigma"] + p["mu"][1],
        {"mu": jnp.zeros(2), "sigma": 0.0},
        support={"mu": None, "sigma": constraints.positive},
    )
    assert jnp.isclose(target.log_density(jnp.array([5.0, 7.0, 0.3])), -jnp.exp(0.3) + 7.0 + 0.3)


def test_one_support_counts_for_all_leaves_below_it():
    target = Target(zero, {"a": jnp.zeros(2), "b": 0.0}, support=constraints.positive)
    values = target.constrain(-jnp.ones(3))
    assert all(jnp.all(value > 0) for value in values.values())


def test_data_are_arguments_of_the_program_not_part_of_it():
    count = 0

    def log_density(x, data):
        nonlocal count
        count += 1
        return -jnp.sum((x - data) ** 2)

    evaluate = eqx.filter_jit(lambda target, x: target.log_density(x))
    x = jnp.zeros(3)
    first = Target(log_density, 3, data=(jnp.ones(3),))
    second = Target(log_density, 3, data=(np.full(3, 2.0),))
    count = 0
    assert evaluate(first, x) == -3
    assert evaluate(second, x) == -12
    assert count == 1
    assert len(jax.make_jaxpr(first.log_density)(x).consts) <= 1


def test_x64_off_samples_in_float32_whatever_like_is():
    assert Target(zero, np.zeros(2, np.float64)).dtype == np.float32
    with jax.enable_x64(True):
        assert Target(zero, np.zeros(2, np.float64)).dtype == np.float64
        assert Target(zero, np.zeros(2, np.float32)).dtype == np.float32
        assert Target(zero, 2).dtype == np.float64


@pytest.mark.parametrize("function", [lambda x: float(x[0]), lambda _: 1.5], ids=["not traceable", "a Python float"])
def test_who_is_not_jax_is_sent_to_a_black_box(function):
    with pytest.raises(TypeError, match=r"tessmc\.BlackBox\(log_density, like\)"):
        Target(function, 2)


REFUSED = {
    "a vector": (lambda: Target(lambda x: x, 2), ValueError, r"array of shape \(2,\); sum the terms"),
    "an integer": (lambda: Target(lambda x: jnp.int32(x[0]), 2), TypeError, "returned int32; convert it"),
    "a Python float": (lambda: Target(lambda _: 1.5, 2), TypeError, "returned a float, 1.5"),
    "a NumPy float": (lambda: Target(lambda _: np.float64(1.5), 2), TypeError, "returned a float64"),
    "None": (lambda: Target(lambda _: None, 2), TypeError, "returned None; is a `return` missing"),
    "NumPy": (lambda: Target(lambda x: np.sum(np.exp(x)), 2), TypeError, "pass tessmc.BlackBox"),
    "float()": (lambda: Target(lambda x: float(x[0]), 2), TypeError, "pass tessmc.BlackBox"),
    "if": (lambda: Target(lambda x: x[0] if x[0] > 0 else x[1], 2), TypeError, "pass tessmc.BlackBox"),
    "no function": (lambda: Target(3, 2), TypeError, "pass a JAX function"),
    "integers": (lambda: Target(zero, jnp.arange(3)), TypeError, "`x` is int32; pass zeros of a float dtype"),
    "half precision": (lambda: Target(zero, jnp.zeros(3, jnp.float16)), TypeError, "`x` is float16"),
    "a string": (lambda: Target(zero, "abc"), TypeError, "`x` is a str"),
    "dimension 0": (lambda: Target(zero, 0), ValueError, "should be at least 1"),
    "True": (lambda: Target(zero, True), TypeError, "example position or a dimension"),
    "nothing": (lambda: Target(zero, {}), ValueError, "no free parameter"),
    "another tree": (lambda: Target(zero, 2, support={"a": constraints.positive}), ValueError, "does not match `like`"),
    "a word": (lambda: Target(zero, 2, support="positive"), TypeError, "NumPyro constraints"),
    "a matrix": (lambda: Target(zero, 2, support=constraints.lower_cholesky), ValueError, "does not fit its shape"),
    "a scalar simplex": (lambda: Target(zero, 0.0, support=constraints.simplex), ValueError, "does not fit its shape"),
    "a scalar order": (lambda: Target(zero, 0.0, support=constraints.ordered_vector), ValueError, "at least 1 axes"),
    "bare data": (lambda: Target(zero, 2, data=np.zeros(3)), TypeError, r"pass data=\(x,\)"),
    "discrete": (lambda: Target(zero, 2, support=constraints.boolean), ValueError, "not a continuous support"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_in_a_sentence(case):
    make, kind, sentence = REFUSED[case]
    with pytest.raises(kind, match=sentence):
        make()


def test_an_error_of_the_users_own_keeps_its_type_and_gains_a_note():
    def log_density(x):
        return x["missing"]

    with pytest.raises(KeyError) as caught:
        Target(log_density, {"a": 0.0})
    assert any(re.search("called it with a position like", note) for note in caught.value.__notes__)
