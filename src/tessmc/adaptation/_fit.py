"""Gradient steps on an objective, in one compiled loop."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from flowjax.bijections import AbstractBijection
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, PyTree
from paramax import NonTrainable

from tessmc._arrays import put
from tessmc._random import straight
from tessmc._types import Count, Key, Scalar
from tessmc.kernels import choose
from tessmc.transports import FixedAffine

ADAM = optax.scale_by_adam()
# With Nesterov's momentum (Dozat 2016); its moments are those of Adam.
NADAM = optax.scale_by_adam(nesterov=True)

# (transport, key, data) -> loss; a function of the module, so that it is compiled once.
Objective = Callable[[AbstractBijection, Key, Any], Scalar]


class FitState(NamedTuple):
    """A map in training: carried from fit to fit.

    Attributes:
        num_steps: steps taken, skipped ones included; they set the learning rate.
        num_skipped: steps not taken because the loss or a gradient was not finite.
        loss: the last finite loss.
    """

    transport: AbstractBijection
    moments: PyTree[Any]
    num_steps: Count
    num_skipped: Count
    loss: Scalar


class Decay(eqx.Module):
    """A learning rate that falls exponentially: rate · factor^(step / horizon)."""

    rate: Scalar
    factor: Scalar
    horizon: Scalar

    def __init__(self, rate: ArrayLike, factor: ArrayLike, horizon: ArrayLike):
        # Arrays, not numbers: another horizon is then no other program.
        self.rate, self.factor, self.horizon = (put(value) for value in (rate, factor, horizon))

    def __call__(self, step: Count) -> Scalar:
        return self.rate * self.factor ** (step / self.horizon)


def begin_fit(transport: AbstractBijection) -> FitState:
    """A map that has not been trained yet."""
    parameters, _ = trainable(transport)
    leaves = jax.tree.leaves(parameters)
    if not leaves:
        raise ValueError("the transport has no parameters to train; pass num_warmup=0 to use it as it is")
    blank = put(np.zeros(sum(leaf.size for leaf in leaves)), jnp.result_type(*leaves))
    unknown = put(np.nan, blank.dtype)
    moments = jax.tree.map(lambda leaf: put(np.zeros(leaf.shape), leaf.dtype), jax.eval_shape(ADAM.init, blank))
    return FitState(transport, moments, jnp.int32(0), jnp.int32(0), unknown)


@eqx.filter_jit
def fit(
    objective: Objective,
    state: FitState,
    key: Key,
    data: Any,
    schedule: Decay,
    num_steps: Count,
    *,
    mask: Array | np.ndarray | None = None,
    max_norm: Scalar | None = None,
    optimiser: optax.GradientTransformation = ADAM,
) -> FitState:
    """Take `num_steps` steps; those with a non-finite loss or gradient are skipped and counted.

    Args:
        objective: what is minimised.
        state: the map, and how far its training has come.
        key: of all steps of all fits of this map.
        data: what the objective is given.
        schedule: the learning rate.
        num_steps: how many.
        mask: 1 for the parameters that are to move, 0 for those that stay, as one vector.
        max_norm: longer gradients are cut to this length.
        optimiser: `ADAM` or `NADAM`.
    """
    key = straight(key)
    parameters, fixed = trainable(state.transport)
    # As one vector the parameters need one Adam update, not one for each array: less to compile and to hand over.
    vector, unravel = ravel_pytree(parameters)

    def loss_of(vector: Array, key: Key) -> Scalar:
        return objective(eqx.combine(unravel(vector), fixed), key, data)

    def step(_: Count, carry: tuple[Array, Any, Count, Count, Scalar]) -> tuple[Array, Any, Count, Count, Scalar]:
        vector, moments, count, num_skipped, last = carry
        loss, gradient = jax.value_and_grad(loss_of)(vector, jr.fold_in(key, count))
        if mask is not None:
            gradient = gradient * mask
        if max_norm is not None:
            gradient = gradient * jnp.minimum(1, max_norm / jnp.linalg.norm(gradient))
        is_finite = jnp.isfinite(loss) & jnp.all(jnp.isfinite(gradient))
        update, new_moments = optimiser.update(gradient, moments)
        moved = vector - schedule(count).astype(vector.dtype) * update
        taken = choose(is_finite, (moved, new_moments, loss.astype(last.dtype)), (vector, moments, last))
        return taken[0], taken[1], count + 1, num_skipped + ~is_finite, taken[2]

    carry = (vector, state.moments, state.num_steps, state.num_skipped, state.loss)
    vector, *rest = lax.fori_loop(0, num_steps, step, carry)
    return FitState(eqx.combine(unravel(vector), fixed), *rest)


def fit_side_by_side(run: Callable[[Key], FitState], keys: Sequence[Key]) -> FitState:
    """Fits of one map that differ in their keys alone, in a thread each; the mean of what they find.

    A compiled loop keeps one core busy. Fits that meet every few steps do what one with the points of all would do.
    """
    # As this thread has them: what is set by a `with` does not hold in others.
    has_x64 = jnp.result_type(float) == jnp.float64
    device = jax.config.jax_default_device  # type: ignore[attr-defined]

    def alone(key: Key) -> FitState:
        with jax.enable_x64(has_x64), jax.default_device(device):
            return jax.block_until_ready(run(key))

    with ThreadPoolExecutor(len(keys)) as pool:
        return _mean(tuple(pool.map(alone, keys)))


@eqx.filter_jit
def _mean(states: tuple[FitState, ...]) -> FitState:
    def mean(*leaves: Any) -> Any:
        return sum(leaves) / len(leaves) if eqx.is_inexact_array(leaves[0]) else leaves[0]

    return jax.tree.map(mean, *states)


def trainable(transport: AbstractBijection) -> tuple[PyTree[Any], PyTree[Any]]:
    """The parameters of a map that are to be trained, and the rest of it."""
    return eqx.partition(
        transport, eqx.is_inexact_array, is_leaf=lambda node: isinstance(node, NonTrainable | FixedAffine)
    )
