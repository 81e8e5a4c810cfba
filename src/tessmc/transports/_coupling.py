"""Affine coupling, (7)-(8), and the map of Section 2.5."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection, Chain, Scan
from jaxtyping import Array, Float

from tessmc._arrays import put
from tessmc._types import Key, Point


class AffineCoupling(AbstractBijection):
    """G or D of Section 2.5: one part of u is shifted and scaled by a network of the other part.

    The first `split` coordinates are u^A, the rest u^B. G moves A given B, D moves B given A (`moves_first`
    says which). Departs from the paper: the log scale ψ₁ is bounded, smoothly, by `max_log_scale`, since
    e^ψ₁ of a network overflows far out in the tails.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: None = eqx.field(static=True)
    split: int = eqx.field(static=True)
    moves_first: bool = eqx.field(static=True)
    max_log_scale: float = eqx.field(static=True)
    network: eqx.nn.MLP
    skip: Float[Array, "parameters given"] | None

    def __init__(
        self,
        rng: np.random.Generator,
        dim: int,
        *,
        moves_first: bool,
        width: int,
        depth: int = 2,
        activation: Callable[[Array], Array] = jax.nn.relu,
        max_log_scale: float = 3.0,
        has_skip: bool = False,
        dtype: Any = float,
    ):
        self.shape, self.cond_shape = (dim,), None
        self.split = (dim + 1) // 2
        self.moves_first = moves_first
        self.max_log_scale = max_log_scale
        num_moved = self.split if moves_first else dim - self.split
        # With d = 1 nothing is left to condition on; the network then sees a constant.
        num_given = max(1, dim - num_moved)
        self.network = _network(rng, num_given, 2 * num_moved, width, depth, activation, dtype)
        # A bounded network saturates far out; what it should follow into the tails is left to a matrix beside it.
        self.skip = put(np.zeros((2 * num_moved, num_given)), dtype) if has_skip else None

    def transform_and_log_det(self, x: Point, condition: None = None) -> tuple[Point, Array]:
        moved, given = self._parts(x)
        log_scale, shift = self._parameters(given)
        return self._join(jnp.exp(log_scale) * moved + shift, given), jnp.sum(log_scale)

    def inverse_and_log_det(self, y: Point, condition: None = None) -> tuple[Point, Array]:
        moved, given = self._parts(y)
        log_scale, shift = self._parameters(given)
        return self._join((moved - shift) * jnp.exp(-log_scale), given), -jnp.sum(log_scale)

    def _parameters(self, given: Float[Array, " given"]) -> tuple[Array, Array]:
        """Ψ of (7): the log scales ψ₁ and the shifts ψ₂."""
        given = given if given.size else jnp.zeros(1, given.dtype)
        if self.skip is None:
            parameters = self.network(given)
        else:
            # By its logarithm far out: a single draw there, of a heavy tail, would else decide how all is moved.
            parameters = self.network(jnp.arcsinh(given)) + self.skip @ (3 * jnp.arcsinh(given / 3))
        log_scale, shift = jnp.split(parameters, 2)
        return self.max_log_scale * jnp.tanh(log_scale / self.max_log_scale), shift

    def _parts(self, point: Point) -> tuple[Array, Array]:
        first, second = point[: self.split], point[self.split :]
        return (first, second) if self.moves_first else (second, first)

    def _join(self, moved: Array, given: Array) -> Point:
        return jnp.concatenate((moved, given) if self.moves_first else (given, moved))


def paper_coupling(
    key: Key,
    dim: int,
    num_layers: int = 2,
    *,
    width: int | None = None,
    depth: int = 2,
    activation: Callable[[Array], Array] = jax.nn.relu,
    max_log_scale: float = 3.0,
    dtype: Any = float,
) -> AbstractBijection:
    """The map of Section 2.5, T = Dₙ∘Gₙ∘…∘D₁∘G₁, at the identity.

    Args:
        key: for the first weights of the networks; a concrete key, since NumPy draws them.
        dim: d, at least 1.
        num_layers: n, the number of pairs of couplings.
        width: of the hidden layers; d if not given, as in Section 4.
        depth: the number of hidden layers.
        activation: of the hidden layers; the paper does not say, its code has relu.
        max_log_scale: the bound on |ψ₁|.
        dtype: of the parameters, and of the points that the map is given.
    """
    if dim < 1 or num_layers < 1:
        raise ValueError(f"a coupling map needs dim and num_layers of at least 1, got {dim} and {num_layers}")

    rng = np.random.default_rng(np.asarray(jr.key_data(key)))
    coupling = partial(
        AffineCoupling,
        rng,
        dim,
        width=width or dim,
        depth=depth,
        activation=activation,
        max_log_scale=max_log_scale,
        dtype=dtype,
    )
    ways = (True, False) if dim > 1 else (True,)
    return in_turn([Chain([coupling(moves_first=way) for way in ways]) for _ in range(num_layers)])


def in_turn(layers: Sequence[AbstractBijection]) -> Scan:
    """Layers of one kind, the first first: one is compiled, and run over the stacked parameters of all."""

    def stack(*leaves: Any) -> Any:
        return jax.device_put(np.stack(leaves)) if eqx.is_array(leaves[0]) else leaves[0]

    return Scan(jax.tree.map(stack, *layers))


def _network(
    rng: np.random.Generator,
    num_inputs: int,
    num_outputs: int,
    width: int,
    depth: int,
    activation: Callable[[Array], Array],
    dtype: Any,
) -> eqx.nn.MLP:
    """A dense network whose last layer is zero, so that a coupling made of it is the identity.

    Weights have Equinox's own law, U(-1/√n, 1/√n) for n inputs. They are drawn in NumPy: building a network
    op by op, or compiling its construction, takes longer than training it.
    """
    sizes = [num_inputs, *depth * [width], num_outputs]
    drawn = []
    for layer, (before, after) in enumerate(pairwise(sizes)):
        bound = 0 if layer == depth else 1 / np.sqrt(before)
        drawn += [put(rng.uniform(-bound, bound, shape), dtype) for shape in ((after, before), (after,))]
    skeleton = eqx.filter_eval_shape(eqx.nn.MLP, num_inputs, num_outputs, width, depth, activation, key=jr.key(0))
    return eqx.tree_at(
        lambda net: [part for layer in net.layers for part in (layer.weight, layer.bias)], skeleton, drawn
    )
