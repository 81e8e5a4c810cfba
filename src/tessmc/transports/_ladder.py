"""The map of the automatic warm-up, and the rungs by which it is climbed."""

import math

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection, Chain, Permute

from tessmc._types import Key
from tessmc.transports._affine import FixedAffine, Spread
from tessmc.transports._coupling import AffineCoupling, in_turn
from tessmc.transports._marginal import Tails

# The first rung has nothing to train; each further one trains what is named beside those before it.
RUNGS = ("affine", "tails", "couplings")
# Its look at the order, of many small steps, is one program.
permute = eqx.filter_jit(Permute)


def ladder_map(key: Key, dim: int, dtype: np.dtype) -> Chain:
    """A map x = affine(tails(couplings(u))), all at the identity: one shape, hence one program, for every rung."""
    rng = np.random.default_rng(np.asarray(jr.key_data(key)))
    width = 32 if dim < 32 else 64
    # Either half of an order moves in turn: the first in the order itself, the last in its reverse.
    places = [way for order in orders(rng, dim, max(4, math.ceil(math.log2(dim)))) for way in (order, order[::-1])]
    layers = [
        Chain(
            [
                AffineCoupling(
                    rng,
                    dim,
                    moves_first=True,
                    width=width,
                    activation=jax.nn.silu,
                    has_skip=True,
                    dtype=dtype,
                ),
                # From the order of this layer to that of the next, and at last to the first.
                permute(np.argsort(now)[then]),
            ]
        )
        for now, then in zip(places, [*places[1:], places[0]], strict=True)
    ]
    start = FixedAffine(np.zeros(dim), np.ones(dim), np.eye(dim), dtype)
    return Chain([in_turn(layers), Tails(dim, dtype), start])


def orders(rng: np.random.Generator, dim: int, num: int) -> list[np.ndarray]:
    """Random orders of the coordinates; of log₂ d or more, any two coordinates stand in different halves in some.

    A coupling moves one half given the other: what is never apart is never told of each other.
    """
    found, past = [], np.zeros(dim, int)
    for _ in range(num):
        # Those that stood in the same halves so far are neighbours, and every other of them goes to either half.
        neighbours = np.lexsort((rng.random(dim), past))
        found.append(np.concatenate([neighbours[::2], neighbours[1::2]]))
        past[neighbours] = 2 * past[neighbours] + np.arange(dim) % 2
    return found


def with_spread(transport: Chain, spread: Spread, inflation: float = 1.0) -> Chain:
    """The same map with another affine layer."""
    dtype = np.dtype(_affine_layer(transport).shift.dtype)
    layer = FixedAffine(spread.shift, inflation * spread.scale, spread.factor, dtype)
    return eqx.tree_at(lambda chain: chain.bijections[-1], transport, layer)


def spread_of_map(transport: Chain) -> Spread:
    """The affine layer of a map."""
    layer = _affine_layer(transport)
    return Spread(*(np.asarray(part, np.float64) for part in (layer.shift, layer.scale, layer.factor)))


def _affine_layer(transport: Chain) -> FixedAffine:
    layer = transport.bijections[-1]
    assert isinstance(layer, FixedAffine), "a ladder ends in an affine layer"
    return layer


def rung_mask(transport: Chain, rung: str) -> Chain:
    """A map of ones and zeros: which parameters are trained on a rung."""
    couplings, tails, affine = transport

    def fill(part: AbstractBijection, value: bool) -> AbstractBijection:
        return jax.tree.map(lambda leaf: np.full_like(leaf, value) if eqx.is_inexact_array(leaf) else leaf, part)

    parts = (fill(couplings, rung == "couplings"), fill(tails, rung != "affine"), affine)
    return eqx.tree_at(lambda chain: chain.bijections, transport, parts)
