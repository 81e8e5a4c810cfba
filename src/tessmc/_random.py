"""JAX's own Threefry streams, hashed without a loop.

On CPU, JAX compiles the Threefry hash as a loop over its rounds, which in a program of many small draws
costs as much as a cheap density. Written out in a line it is three times as fast and compiles sooner.
The numbers are the same, bit for bit: a key may be switched over at any time.
"""

import math
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.extend.random import define_prng_impl
from jaxtyping import Array, UInt32

from tessmc._types import Key, Keys

Word = UInt32[Array, "..."]
# Of JAX, or of NumPy: unsigned, 32 bits.
Words = TypeVar("Words", Array, np.ndarray)

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def as_key(seed: Any) -> Key:
    """A key from what users give: an int, a key, or the two words of an old one."""
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        # Without 64-bit integers JAX would cut a larger seed, silently, to one that may be in use already.
        if not 0 <= seed < 2**32:
            raise ValueError(f"`seed` should lie between 0 and 2³² - 1, but is {seed}")
        return jr.key(int(seed), impl="threefry2x32")
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) and seed.shape == ():
        return _as_threefry(seed)
    if isinstance(seed, jax.Array | np.ndarray) and seed.dtype == np.uint32 and seed.shape == (2,):
        return jr.wrap_key_data(jnp.asarray(seed), impl="threefry2x32")
    raise TypeError(f"`seed` should be an int or one JAX key, such as jax.random.key(0), but is {seed!r}")


def _as_threefry(key: Key) -> Key:
    if str(jr.key_impl(key)) == "threefry2x32" or jr.key_impl(key) == _STRAIGHT:
        return key
    return jr.wrap_key_data(jr.bits(key, (2,), jnp.uint32), impl="threefry2x32")


def straight(key: Key) -> Key:
    """The same key with the hash written out; the key of another generator seeds a Threefry key.

    Other generators would not do for many chains: under `vmap`, JAX's `rbg` draws for all from the first key.
    """
    if jr.key_impl(key) == _STRAIGHT:
        return key
    key = _as_threefry(key)
    config: Any = jax.config
    # Without this flag Threefry numbers its words differently; JAX means to remove it.
    is_same = getattr(config, "jax_threefry_partitionable", True)
    return jr.wrap_key_data(jr.key_data(key), impl=_STRAIGHT) if is_same else key


def split(key: Key, num: int) -> tuple[Key, ...]:
    """The keys of `jax.random.split`, by NumPy: there is nothing to compile."""
    return tuple(_wrap(words, key) for words in _split_on_host(key, num))


def streams(key: Key, num: int) -> Keys:
    """One array of keys, the i-th of them `jax.random.fold_in(key, i)`, by NumPy."""
    return _wrap(_split_on_host(key, num), key)


def _split_on_host(key: Key, num: int) -> UInt32[np.ndarray, "num 2"]:
    low = np.arange(num, dtype=np.uint32)
    words = np.asarray(jr.key_data(straight(key)))
    return np.stack(threefry(words, np.zeros_like(low), low), axis=-1)


def _wrap(words: np.ndarray, like: Key) -> Array:
    return jr.wrap_key_data(jax.device_put(words), impl=jr.key_impl(straight(like)))


def threefry(key: Words, high: Words, low: Words) -> tuple[Words, Words]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3")."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(PARITY))
    high, low = high + schedule[0], low + schedule[1]
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            high = high + low
            low = high ^ ((low << distance) | (low >> (32 - distance)))
        high = high + schedule[(group + 1) % 3]
        low = low + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return high, low


def _counts(shape: tuple[int, ...]) -> tuple[Word, Word]:
    # One call never draws 2³² words, so the high word of the counter is zero.
    low = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    return jnp.zeros_like(low), low


def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> Word:
    return jnp.stack(threefry(key, *_counts(shape)), axis=-1)


def _fold_in(key: UInt32[Array, "2"], data: Array | int) -> Word:
    low = jnp.asarray(data, jnp.uint32)
    return jnp.stack(threefry(key, jnp.zeros_like(low), low))


def _random_bits(key: UInt32[Array, "2"], bit_width: int, shape: tuple[int, ...]) -> Array:
    high, low = threefry(key, *_counts(shape))
    if bit_width == 64:
        return (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)
    return (high ^ low).astype(jnp.dtype(f"uint{bit_width}"))


def _seed(seed: Array) -> Word:
    return jr.key_data(jr.key(seed, impl="threefry2x32"))


_STRAIGHT = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="tessmc_straight_threefry2x32",
    tag="tsf",
)
