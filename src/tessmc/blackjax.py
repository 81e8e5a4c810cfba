"""Our kernels as BlackJAX algorithms."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flowjax.bijections import AbstractBijection
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, PyTree

from tessmc._clock import Clock
from tessmc._random import as_key
from tessmc._types import Key, Scalar, Truth
from tessmc.adaptation import AbstractWarmup, Warmup, WarmupTask
from tessmc.kernels import (
    AbstractLaw,
    AbstractSliceKernel,
    ChainState,
    EllipticalSlice,
    Gaussian,
    StepInfo,
    TransportEllipticalSlice,
)
from tessmc.targets import Target

try:
    from blackjax.adaptation.base import AdaptationResults
    from blackjax.base import AdaptationAlgorithm, SamplingAlgorithm
except ImportError as error:
    raise ImportError('BlackJAX is not installed; pip install "tessmc[blackjax]"') from error


class SliceState(NamedTuple):
    """Where a chain is.

    Attributes:
        position: as the log density takes it.
        logdensity: of the target there, up to a constant.
        reference: the same point in reference space.
        log_ratio: log π̂ - log φ there; how far it varies says how far the map is from perfect.
    """

    position: PyTree[Array]
    logdensity: Scalar
    reference: Array
    log_ratio: Scalar


class WarmupInfo(NamedTuple):
    """What a warm-up did: an entry for each window, and density evaluations by phase."""

    history: list[dict[str, Any]]
    num_evaluations: dict[str, int]


def tess(
    logdensity_fn: Callable[[Any], Scalar],
    transport: AbstractBijection,
    *,
    law: AbstractLaw | None = None,
    first_try: Truth | bool = False,
) -> SamplingAlgorithm:
    """Algorithm 1, the transport elliptical slice sampler.

    Args:
        logdensity_fn: log π up to a constant, of an array or a pytree.
        transport: T, a FlowJAX bijection over the position as one flat vector.
        law: φ, the law of the reference space, if it is not N(0, I).
        first_try: whether to try a fresh point before each ellipse.
    """

    def kernel_of(unravel: Callable[[Array], Any], dim: int) -> TransportEllipticalSlice:
        if transport.shape != (dim,):
            raise ValueError(f"`transport` has shape {transport.shape}, but positions have {dim} numbers")
        density = lambda x: jnp.asarray(logdensity_fn(unravel(x)), x.dtype)  # noqa: E731
        return TransportEllipticalSlice(density, transport, law=law or Gaussian(), first_try=first_try)

    return _algorithm(kernel_of)


def elliptical_slice(
    loglikelihood_fn: Callable[[Any], Scalar], *, mean: ArrayLike, cov: ArrayLike
) -> SamplingAlgorithm:
    """Algorithm 3, the elliptical slice sampler of Murray, Adams and MacKay, for a Gaussian prior.

    Args:
        loglikelihood_fn: of an array or a pytree.
        mean: of the prior, over the position as one flat vector.
        cov: its covariance, (dim, dim), or its diagonal, (dim,).
    """
    cov = jnp.diag(jnp.asarray(cov)) if np.ndim(cov) == 1 else cov

    def kernel_of(unravel: Callable[[Array], Any], dim: int) -> EllipticalSlice:
        return EllipticalSlice(
            lambda x: jnp.asarray(loglikelihood_fn(unravel(x)), x.dtype),
            jnp.broadcast_to(jnp.asarray(mean, float), (dim,)),
            cov,
        )

    return _algorithm(kernel_of)


def _algorithm(kernel_of: Callable[[Callable[[Array], Any], int], AbstractSliceKernel]) -> SamplingAlgorithm:
    def init(position: PyTree[Any], rng_key: Any = None) -> SliceState:  # noqa: ARG001
        # Of whole numbers JAX would make whole numbers again after each move.
        flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf) * 1.0, position))
        return _state(kernel_of(unravel, flat.size).init(flat), unravel)

    def step(rng_key: Key, state: SliceState) -> tuple[SliceState, StepInfo]:
        flat, unravel = ravel_pytree(state.position)
        chain = ChainState(state.reference, flat, state.logdensity, state.log_ratio)
        moved, info = kernel_of(unravel, flat.size).step(as_key(rng_key), chain)
        return _state(moved, unravel), info

    return SamplingAlgorithm(init, step)


def _state(chain: ChainState, unravel: Callable[[Array], Any]) -> SliceState:
    return SliceState(unravel(chain.position), chain.log_density, chain.reference, chain.log_ratio)


def tess_adaptation(
    logdensity_fn: Callable[[Any], Scalar],
    num_chains: int,
    *,
    transport: AbstractBijection | None = None,
    warmup: AbstractWarmup | None = None,
) -> AdaptationAlgorithm:
    """Learn the map for `tess` with many chains; `run(key, positions, num_steps)` does it.

    It returns `AdaptationResults`, with the states of all chains and the parameters for `tess`, and what it did. It is
    not itself a compiled program, and cannot be part of one.

    Args:
        logdensity_fn: log π up to a constant, of an array or a pytree.
        num_chains: how many positions there are.
        transport: the map to start from.
        warmup: how it is learned; `tessmc.Warmup.auto()` by default.
    """

    def run(rng_key: Key, positions: PyTree[Any], num_steps: int = 400) -> tuple[AdaptationResults, WarmupInfo]:
        target = Target(logdensity_fn, jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], positions))
        start = jax.vmap(target.unconstrain)(target.check_init(positions, num_chains))
        task = WarmupTask(target, transport, start, as_key(rng_key), num_chains, num_steps, Clock(), lambda *_: None)
        found = (warmup or Warmup.auto()).run(task)
        unravel = ravel_pytree(target.form.example())[1]
        states = jax.vmap(lambda chain: _state(chain, unravel))(found.chains.state)
        kernel = found.kernel
        parameters = {"transport": kernel.transport, "law": kernel.law, "first_try": kernel.first_try}
        return AdaptationResults(states, parameters), WarmupInfo(found.history, found.num_evaluations)

    return AdaptationAlgorithm(run)
