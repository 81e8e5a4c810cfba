"""Our sampler as a NumPyro kernel."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from flowjax.bijections import AbstractBijection
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree
from numpyro import handlers
from numpyro.infer.mcmc import MCMCKernel
from numpyro.infer.util import constrain_fn
from numpyro.util import is_prng_key

from tessmc._clock import Clock
from tessmc._random import as_key
from tessmc._types import Key
from tessmc.adaptation import AbstractWarmup, Warmup, WarmupTask
from tessmc.kernels import ChainState, TransportEllipticalSlice
from tessmc.targets import from_numpyro


class Learned(eqx.Module):
    """A kernel with its map: numbers that compiled programs carry along, and the rest, by which they are told apart."""

    arrays: PyTree[Any]
    rest: "Rest" = eqx.field(static=True)

    def __init__(self, kernel: TransportEllipticalSlice):
        self.arrays, rest = eqx.partition(kernel, eqx.is_array)
        self.rest = Rest(rest)

    def kernel(self) -> TransportEllipticalSlice:
        return eqx.combine(self.arrays, self.rest.tree)


class Rest:
    """What of a kernel is not numbers; known by its identity."""

    def __init__(self, tree: PyTree[Any]):
        self.tree = tree


class TESSState(NamedTuple):
    """All chains.

    Attributes:
        i: iterations that NumPyro has made.
        num_warmup: of them, those in which nothing moves, since the warm-up was over before the first.
        stride: transitions for a draw.
        z: unconstrained values of the latent sites, by name, (chain, ...).
        potential_energy: minus the log density there.
        num_evaluations: of the density for the last draw.
        chains: where they are in reference space, too.
        learned: the kernel and its map.
        rng_key: of the draws to come.
    """

    i: Array
    num_warmup: Array
    stride: Array
    z: dict[str, Array]
    potential_energy: Array
    num_evaluations: Array
    chains: ChainState
    learned: Learned
    rng_key: Key


class TESS(MCMCKernel):
    """Transport elliptical slice sampling of a NumPyro model.

    The map is learned by all chains together, before NumPyro's first iteration:

        MCMC(TESS(model), num_warmup=400, num_samples=100, num_chains=128, chain_method="vectorized")

    Args:
        model: a function with NumPyro's primitives.
        transport: the map to start from, a FlowJAX bijection over the unconstrained sites as one flat vector.
        warmup: how it is learned; `tessmc.Warmup.auto()` by default.
    """

    sample_field = "z"

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        transport: AbstractBijection | None = None,
        warmup: AbstractWarmup | None = None,
    ):
        self.model, self.transport, self.warmup = model, transport, warmup
        # NumPyro asks for it to know whether `init` has been called.
        self._sample_fn: Any = None

    @property
    def is_ensemble_kernel(self) -> bool:
        return True

    def init(
        self,
        rng_key: Key,
        num_warmup: int,
        init_params: PyTree[Any],
        model_args: tuple[Any, ...] = (),
        model_kwargs: dict[str, Any] | None = None,
    ) -> TESSState:
        """Learn the map; nothing is compiled around this."""
        if is_prng_key(rng_key):
            raise ValueError(
                "TESS learns its map from many chains that move together; pass MCMC(..., num_chains=128, "
                'chain_method="vectorized")'
            )
        target = from_numpyro(self.model, *model_args, **(model_kwargs or {}))
        start = None if init_params is None else jax.vmap(lambda free: ravel_pytree(free)[0])(init_params)
        key, key_draws = jr.split(as_key(rng_key[0]))
        given = self.transport, start, key, len(rng_key), num_warmup, Clock(), lambda *_: None
        found = (self.warmup or Warmup.auto()).run(WarmupTask(target, *given))
        self._sample_fn = True
        return _at(
            TESSState(
                i=jnp.int32(0),
                num_warmup=jnp.int32(num_warmup),
                stride=jnp.int32(found.stride),
                z={},
                potential_energy=jnp.zeros(()),
                num_evaluations=jnp.zeros(len(rng_key), int),
                chains=found.chains.state,
                learned=Learned(found.kernel),
                rng_key=key_draws,
            )
        )

    def sample(self, state: TESSState, model_args: Any, model_kwargs: Any) -> TESSState:  # noqa: ARG002
        is_warm = state.i >= state.num_warmup
        return jax.lax.cond(is_warm, _move, lambda state: state, state)._replace(i=state.i + 1)

    def postprocess_fn(self, model_args: Any, model_kwargs: Any) -> Callable[[dict[str, Array]], dict[str, Array]]:
        """Values in their supports, deterministic sites included."""
        model, kwargs = handlers.seed(self.model, 0), model_kwargs or {}
        return lambda free: constrain_fn(model, model_args, kwargs, free, return_deterministic=True)

    def get_diagnostics_str(self, state: TESSState) -> str:
        return f"{state.num_evaluations.mean():.2f} evaluations a draw"


def _move(state: TESSState) -> TESSState:
    """A draw of every chain."""
    kernel = state.learned.kernel()
    key, key_step = jr.split(state.rng_key)

    def step(count: Array, carry: tuple[ChainState, Array]) -> tuple[ChainState, Array]:
        chains, num_evaluations = carry
        keys = jr.split(jr.fold_in(key_step, count), len(num_evaluations))
        chains, info = jax.vmap(kernel.step)(keys, chains)
        return chains, num_evaluations + info.num_tries.astype(num_evaluations.dtype)

    begun = state.chains, jnp.zeros_like(state.num_evaluations)
    chains, num_evaluations = jax.lax.fori_loop(0, state.stride, step, begun)
    return _at(state._replace(chains=chains, num_evaluations=num_evaluations, rng_key=key))


def _at(state: TESSState) -> TESSState:
    """The fields that say where the chains are."""
    target: Any = state.learned.kernel().log_density.__self__  # type: ignore[attr-defined]
    return state._replace(z=jax.vmap(target.sites)(state.chains.position), potential_energy=-state.chains.log_density)
