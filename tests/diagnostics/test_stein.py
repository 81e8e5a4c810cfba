"""The Stein discrepancy: against a direct sum by autodiff, and where it is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tessmc.diagnostics import _stein, stein_discrepancy


def kernel(x, y):
    return (1 + jnp.sum((x - y) ** 2)) ** -0.5


def stein_kernel(x, y, at_x, at_y):
    """The appendix: ∇x·∇y k + ∇x k·s(y) + ∇y k·s(x) + k s(x)·s(y)."""
    along_x, along_y = jax.grad(kernel)(x, y), jax.grad(kernel, argnums=1)(x, y)
    mixed = jnp.trace(jax.jacobian(jax.grad(kernel), argnums=1)(x, y))
    return mixed + along_x @ at_y + along_y @ at_x + kernel(x, y) * at_x @ at_y


@pytest.mark.parametrize("block", [4, 7, 100])
def test_it_is_the_sum_over_pairs(block, monkeypatch):
    monkeypatch.setattr(_stein, "BLOCK", block)
    rng = np.random.default_rng(0)
    draws, scores = rng.normal(size=(2, 12, 3))
    over = jax.vmap(jax.vmap(stein_kernel, (None, 0, None, 0)), (0, None, 0, None))
    with jax.enable_x64(True):
        pairs = np.asarray(jax.jit(over)(draws, draws, scores, scores))
    found = stein_discrepancy(draws, scores)
    assert np.isclose(found.v, pairs.mean())
    assert np.isclose(found.u, (pairs.sum() - np.trace(pairs)) / (12 * 11))


def test_one_point_drawn_again_and_again_has_the_kernel_on_its_diagonal():
    found = stein_discrepancy(np.full((5, 2), 3.0), np.tile([1.0, 2.0], (5, 1)))
    assert np.isclose(found.v, 2 + 5)
    assert np.isclose(found.u, 2 + 5)


def test_exact_draws_have_none_and_others_do():
    """U of 200 batches of exact draws of a Gaussian has mean 0; of draws that are half a sd off it has not."""
    rng = np.random.default_rng(0)
    batches = rng.normal(size=(200, 40, 2))
    exact, wrong = ([stein_discrepancy(x, -x).u for x in batches + shift] for shift in (0.0, 0.5))
    assert abs(np.mean(exact)) < 4 * np.std(exact) / np.sqrt(200)
    assert np.mean(wrong) > 20 * np.std(wrong) / np.sqrt(200)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(3, 1\)"):
        stein_discrepancy(np.ones((3, 2)), np.ones((3, 1)))
