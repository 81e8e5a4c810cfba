"""`sample`: warm up, draw, judge."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection
from jaxtyping import Array, PyTree

from tessmc._clock import Clock
from tessmc._types import Key, Points, Scalar
from tessmc.adaptation import AbstractWarmup, Warmup, WarmupResult, WarmupTask
from tessmc.engines import Draws, collect, count_evaluations, every, rounding_noise
from tessmc.sampling._progress import progress_bar
from tessmc.sampling._result import Result
from tessmc.targets import AbstractTarget, Target

# Nats of noise in the log density: a slice lies one below its chain, on average.
MAX_NOISE = 0.5
MAX_STUCK = 0.01
MIN_VISITS = 50
# A share of all draws: at four standard deviations it moves a mean by 0.004 of one.
MAX_ERROR_OF_TAIL = 1e-3
MAX_UNSEEN = 0.005
BLOCK = 4096


def sample(
    target: Callable[..., Scalar] | AbstractTarget,
    *,
    like: PyTree[Any] = None,
    init: PyTree[Any] = None,
    support: PyTree[Any] = None,
    num_chains: int = 128,
    num_warmup: int = 400,
    num_samples: int = 100,
    seed: int | Key = 0,
    transport: AbstractBijection | None = None,
    warmup: AbstractWarmup | None = None,
    progress: bool = True,
) -> Result:
    """Draw from a density known up to a constant: learn a map in a warm-up, then move in its reference space.

    Args:
        target: a JAX log density of an array or a pytree, up to a constant; or a `tessmc.Target`.
        like: one example position: an array, a pytree, or an int for a flat vector.
        init: where the chains start, in the support, with a leading chain axis; by default N(0, I) in the
            unconstrained space.
        support: a NumPyro constraint, or a pytree of them matching `like`.
        num_chains: k, the chains that run side by side.
        num_warmup: h, transitions of each chain that are used to learn the map. With 0 the map is used as it is.
        num_samples: N, draws of each chain. Where the map leaves them slow to change, up to four transitions are made
            for each (`Result.stride`).
        seed: an int from 0 to 2³² - 1, or a JAX key. The same seed gives the same draws.
        transport: the map to start from, a FlowJAX bijection of shape (dim,).
        warmup: how the map is learned: `Warmup.auto()`, the default, or `Warmup.paper(...)`, Algorithm 2 to the letter.
        progress: show a bar if standard error is a terminal.

    Raises:
        DensityError: the log density is +inf at some point, or a chain finds no point of finite density.
        TypeError, ValueError: an argument does not fit; nothing has been compiled then.
    """
    clock = Clock()
    _check_count("num_chains", num_chains, 1)
    _check_count("num_warmup", num_warmup, 0)
    _check_count("num_samples", num_samples, 1)
    target = _as_target(target, like, init, support)
    transport = _as_transport(transport, target)
    warmup = _as_warmup(warmup)
    key = _as_key(seed)
    values = None if init is None else target.check_init(init, num_chains)
    with progress_bar(progress) as bar:
        bar.phase("compiling")
        start = None if init is None else _unconstrain(target, values)
        warmed = warmup.run(WarmupTask(target, transport, start, key, num_chains, num_warmup, clock, bar.step))
        noise = rounding_noise(warmed.kernel, warmed.chains, target.describe)
        num_transitions = num_samples * warmed.stride
        watch = partial(bar.step, "sampling", num_transitions)
        with clock.time("sampling"):
            chains, draws = collect(warmed.kernel, warmed.chains, num_transitions, watch, target.describe)
    num_evaluations = {
        **warmed.num_evaluations,
        "check": num_chains,
        "sampling": count_evaluations(chains) - count_evaluations(warmed.chains),
    }
    troubles = _troubles(draws, noise)
    _warn(draws, troubles)
    troubles += _light_tails(draws.log_ratio) + _unseen(warmed.history)
    return _result(target, warmed, every(draws, warmed.stride), num_evaluations, troubles, clock)


def _result(
    target: AbstractTarget,
    warmed: WarmupResult,
    draws: Draws,
    num_evaluations: dict[str, int],
    troubles: list[str],
    clock: Clock,
) -> Result:
    return Result(
        posterior=_constrain(target, draws.position),
        unconstrained=draws.position,
        stats={
            "log_density": draws.log_density,
            "log_ratio": draws.log_ratio,
            "num_evaluations": draws.num_tries,
            "num_nan": draws.num_nan,
            "is_stuck": draws.is_stuck,
        },
        num_evaluations_by_phase=num_evaluations,
        transport=warmed.kernel.transport,
        warmup_history=warmed.history,
        timings=clock.seconds(),
        troubles=troubles,
        stride=warmed.stride,
    )


@eqx.filter_jit
def _constrain_block(target: AbstractTarget, positions: Points) -> dict[str, Array]:
    return jax.vmap(target.constrain)(positions)


def _constrain(target: AbstractTarget, positions: np.ndarray) -> dict[str, np.ndarray]:
    """Draws in their supports, in blocks of one size, so that another number of draws compiles nothing new."""
    num_chains, num_draws, dim = positions.shape
    flat = positions.reshape(-1, dim)
    padded = np.concatenate([flat, np.zeros((-len(flat) % BLOCK, dim), flat.dtype)]).reshape(-1, BLOCK, dim)
    blocks = [jax.device_get(_constrain_block(target, jax.device_put(block))) for block in padded]
    names = blocks[0].keys()
    whole = {name: np.concatenate([block[name] for block in blocks])[: len(flat)] for name in names}
    return {name: values.reshape(num_chains, num_draws, *values.shape[1:]) for name, values in whole.items()}


def _unconstrain(target: AbstractTarget, values: PyTree[Array]) -> Points:
    start = jax.jit(jax.vmap(target.unconstrain))(values)
    is_finite = np.isfinite(np.asarray(start)).all(axis=1)
    if not is_finite.all():
        chain = int(np.argmin(is_finite))
        raise ValueError(
            f"`init` of chain {chain} lies on the boundary of its support, {jax.tree.map(lambda v: v[chain], values)}; "
            "move it inside"
        )
    return start


def _troubles(draws: Draws, noise: float) -> list[str]:
    """What forbids to trust the draws, a sentence each."""
    troubles = []
    if noise > MAX_NOISE:
        troubles.append(
            f"in {draws.position.dtype} the log density is only known to about {noise:.1f} nats, as much as a slice is "
            "high: set jax.config.update('jax_enable_x64', True), or subtract a constant from the log density"
        )
    if draws.is_stuck.mean() > MAX_STUCK:
        troubles.append(
            f"{draws.is_stuck.sum()} of {draws.is_stuck.size} draws repeat the one before, because no point inside the "
            "slice was found within the bound on tries; the density may be discontinuous, or the map far off"
        )
    return troubles


def _light_tails(log_ratio: np.ndarray) -> list[str]:
    """Where r is high the map makes the target too rare: chains come seldom and stay for about e^(r - median) draws.

    If that is as long as the run, a handful of visits decides on the weight of that tail, and no comparison of chains
    shows it. The weight of n visits is known up to a factor of about 1 ± 1/√n.
    """
    away = log_ratio - np.median(log_ratio)
    is_long = away > np.log(max(4.0, log_ratio.shape[1] / 4))
    num_visits = int(is_long[:, 0].sum() + (is_long[:, 1:] & ~is_long[:, :-1]).sum())
    if not 0 < num_visits < MIN_VISITS or is_long.mean() / np.sqrt(num_visits) < MAX_ERROR_OF_TAIL:
        return []
    stay = min(np.exp(min(away.max(), 20.0)), 1e6)
    num_chains = int(is_long.any(axis=1).sum())
    return [
        f"{num_chains} {'chain' if num_chains == 1 else 'chains'} came into a tail where the map is too light, to stay "
        f"there for up to {stay:.0f} draws: its weight is not known well; draw more, or warm up longer"
    ]


def _unseen(history: list[dict[str, Any]]) -> list[str]:
    """What the warm-up's draws from a wider law found, and draws under the map would not."""
    share = history[-1].get("share_unseen", 0.0) if history else 0.0
    if share < MAX_UNSEEN:
        return []
    return [f"about {share:.1%} of the target lie where the map is too light for chains to come; warm up longer"]


def _warn(draws: Draws, troubles: list[str]) -> None:
    """Say aloud, once, what is wrong, and what was met on the way."""
    messages = list(troubles)
    if draws.num_nan.any():
        messages.append(
            f"the log density was NaN at {draws.num_nan.sum()} of {draws.num_tries.sum()} points tried; they count as "
            "impossible. Return -inf there if that is meant"
        )
    for message in messages:
        warnings.warn(message, stacklevel=3)


def _check_count(name: str, count: int, least: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"`{name}` should be an int, but is {count!r}")
    if count < least:
        raise ValueError(f"`{name}` should be at least {least}, but is {count}")


def _as_target(target: Any, like: PyTree[Any], init: PyTree[Any], support: PyTree[Any]) -> AbstractTarget:
    if isinstance(target, AbstractTarget):
        if like is not None or support is not None:
            raise ValueError("a Target knows its shapes and supports; leave out `like` and `support`")
        return target
    if like is None and init is not None:
        if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(init)):
            raise ValueError(
                "`init` should hold arrays with a leading chain axis, but has plain numbers; "
                "pass arrays, and `like` to say the structure of a position"
            )
        like = jax.tree.map(lambda leaf: np.asarray(leaf)[0], init)
    if like is None and callable(target):
        raise ValueError("the shape of a position is not known; pass `like`, an example position or a dimension")
    return Target(target, like, support=support)


def _as_warmup(warmup: Any) -> AbstractWarmup:
    if warmup is None:
        return Warmup.auto()
    if not isinstance(warmup, AbstractWarmup):
        raise TypeError(
            f"`warmup` should be made by tessmc.Warmup.auto() or tessmc.Warmup.paper(...), but is {warmup!r}"
        )
    return warmup


def _as_transport(transport: Any, target: AbstractTarget) -> AbstractBijection | None:
    dim = target.dim
    if transport is None:
        return None
    if not isinstance(transport, AbstractBijection):
        raise TypeError(f"`transport` should be a FlowJAX bijection, but is a {type(transport).__name__}")
    if transport.shape != (dim,) or transport.cond_shape is not None:
        raise ValueError(
            f"`transport` should have shape ({dim},) and no condition, but has shape {transport.shape} and "
            f"condition {transport.cond_shape}; the target has {dim} unconstrained dimensions"
        )
    # A map learned in one precision may start a run in the other.
    return jax.tree.map(lambda leaf: leaf.astype(target.dtype) if eqx.is_inexact_array(leaf) else leaf, transport)


def _as_key(seed: Any) -> Key:
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        # Without 64-bit integers JAX would cut a larger seed, silently, to one that may be in use already.
        if not 0 <= seed < 2**32:
            raise ValueError(f"`seed` should lie between 0 and 2³² - 1, but is {seed}")
        return jr.key(int(seed), impl="threefry2x32")
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) and seed.shape == ():
        return seed
    if isinstance(seed, jax.Array | np.ndarray) and seed.dtype == np.uint32 and seed.shape == (2,):
        return jr.wrap_key_data(jnp.asarray(seed), impl="threefry2x32")
    raise TypeError(f"`seed` should be an int or one JAX key, such as jax.random.key(0), but is {seed!r}")
