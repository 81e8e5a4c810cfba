"""Chains over several devices and machines, and in batches that fit into memory.

Every device runs a loop of its own over its chains, in batches one after the other; none waits for another. What the
host needs of them is gathered after each chunk of ticks, so that everything else goes on as with one device.
"""

import hashlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from tessmc._types import Count
from tessmc.engines._ticks import Chain, Record, advance, tape_length
from tessmc.kernels import AbstractSliceKernel

logger = logging.getLogger(__name__)

# Fewer chains do not keep a device busy.
MIN_CHAINS = 8
AXIS = "chain"


class Places(NamedTuple):
    """How many chains there are on each device: what a compiled program is made for."""

    mesh: Mesh
    num_batches: int
    batch_size: int
    tape_length: int


class Layout:
    """Which devices the chains are on, and how many of them are computed at a time.

    Args:
        devices: of this process, or of all processes; these then have to make the same calls.
        num_chains: in all.
        batch_size: chains of one device that are computed at a time; None for all.
    """

    def __init__(self, devices: Sequence[jax.Device], num_chains: int, batch_size: int | None = None):
        self.num_chains = num_chains
        self.mesh = Mesh(np.array(devices), (AXIS,))
        share = -(-num_chains // len(devices))
        self.num_batches = 1 if batch_size is None else -(-share // batch_size)
        self.batch_size = -(-share // self.num_batches)
        self.is_shared = any(device.process_index != jax.process_index() for device in devices)
        self._known: tuple[Any, Any] = (None, None)
        batches = f" in {self.num_batches} batches" if self.num_batches > 1 else ""
        logger.info("%d chains = %d devices × %d%s", num_chains, len(devices), share, batches)

    def advance(self, kernel: AbstractSliceKernel, chains: Chain, until: int, num_ticks: int) -> tuple[Chain, Record]:
        """`advance` of the tick engine, of chains on this process's first device; the record is of NumPy."""
        leaves, structure = jax.tree.flatten(chains)
        kinds = tuple(jr.key_impl(leaf) if _is_key(leaf) else None for leaf in leaves)
        words = [self._put(_words(leaf), PartitionSpec(AXIS)) for leaf in jax.tree.leaves(self._filled(chains))]
        counts = [self._put(np.int32(count), PartitionSpec()) for count in (until, num_ticks)]
        places = Places(
            self.mesh,
            self.num_batches,
            self.batch_size,
            tape_length(self.num_chains, chains.state.reference.shape[1]),
        )
        found, tape = self._gather(_advance_all(places, structure, kinds, self._replicated(kernel), words, *counts))
        moved = [
            _from_words(jax.device_put(values[: self.num_chains]), kind)
            for values, kind in zip(found, kinds, strict=True)
        ]
        return jax.tree.unflatten(structure, moved), jax.tree.map(lambda rows: rows[:, : self.num_chains], tape)

    def agree(self, reason: str) -> str:
        """Why to stop, if any process has a reason to; "" otherwise."""
        if not self.is_shared:
            return reason
        found = multihost_utils.process_allgather(np.array(bool(reason)))
        return reason or ("another process was asked to end" if np.any(found) else "")

    def _filled(self, chains: Chain) -> Chain:
        """Chains for all places; those that are too many have nothing left to do."""
        num_more = self.mesh.size * self.num_batches * self.batch_size - self.num_chains
        if num_more == 0:
            return chains
        more = jax.tree.map(lambda leaf: jnp.repeat(leaf[:1], num_more, axis=0), chains)
        more = more._replace(
            is_placed=jnp.ones_like(more.is_placed), iteration=jnp.full_like(more.iteration, np.iinfo(np.int32).max)
        )
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), chains, more)

    def _replicated(self, kernel: AbstractSliceKernel) -> AbstractSliceKernel:
        """The kernel with its arrays on all devices; they travel once for as long as it is the same."""
        if self._known[0] is not kernel:
            self._refuse_others(kernel)
            self._known = (
                kernel,
                jax.tree.map(lambda leaf: self._put(leaf, PartitionSpec()) if eqx.is_array(leaf) else leaf, kernel),
            )
        return self._known[1]

    def _refuse_others(self, kernel: AbstractSliceKernel) -> None:
        """Processes that differ would draw from nothing in particular."""
        if not self.is_shared:
            return
        content = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(kernel) if eqx.is_array(leaf))
        digest = np.frombuffer(hashlib.sha256(content + bytes(self.num_chains)).digest(), np.uint32)
        if len(np.unique(multihost_utils.process_allgather(digest), axis=0)) > 1:
            raise RuntimeError(
                "the processes have come to different maps: they should be given the same target, data, seed and "
                "settings, and be of the same kind, or each sample by itself with devices=jax.local_devices()"
            )

    def _put(self, values: Any, spec: PartitionSpec) -> Array:
        values = np.asarray(values)
        return jax.make_array_from_callback(values.shape, NamedSharding(self.mesh, spec), lambda place: values[place])

    def _gather(self, tree: PyTree[Array]) -> PyTree[np.ndarray]:
        return multihost_utils.process_allgather(tree, tiled=True) if self.is_shared else jax.device_get(tree)


@eqx.filter_jit
def _advance_all(
    places: Places,
    structure: Any,
    kinds: tuple[Any, ...],
    kernel: AbstractSliceKernel,
    words: list[Array],
    until: Count,
    num_ticks: Count,
) -> tuple[list[Array], Record]:
    """`advance` on every device, each for its own chains; keys come and go as words."""
    arrays, rest = eqx.partition(kernel, eqx.is_array)

    def work(arrays: PyTree[Array], until: Count, num_ticks: Count, words: list[Array]) -> tuple[list[Array], Record]:
        chains = structure.unflatten(map(_from_words, words, kinds))
        chains, tape = advance(eqx.combine(arrays, rest), chains, until, num_ticks, places.tape_length)
        return [_words(leaf) for leaf in jax.tree.leaves(chains)], tape

    def on_device(
        arrays: PyTree[Array], until: Count, num_ticks: Count, words: list[Array]
    ) -> tuple[list[Array], Record]:
        if places.num_batches == 1:
            return work(arrays, until, num_ticks, words)
        batches = [part.reshape(places.num_batches, places.batch_size, *part.shape[1:]) for part in words]
        found, tape = lax.map(partial(work, arrays, until, num_ticks), batches)
        tape = jax.tree.map(lambda rows: _merged(jnp.moveaxis(rows, 0, 1), 1), tape)
        return [_merged(part, 0) for part in found], tape

    everywhere, divided = PartitionSpec(), PartitionSpec(AXIS)
    return jax.shard_map(
        on_device,
        mesh=places.mesh,
        in_specs=(everywhere, everywhere, everywhere, divided),
        out_specs=(divided, PartitionSpec(None, AXIS)),
        # A loop carries what differs between devices beside what does not.
        check_vma=False,
    )(arrays, until, num_ticks, words)


def _merged(values: Array, axis: int) -> Array:
    """An axis and the next one as one."""
    shape = values.shape
    return values.reshape(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _words(leaf: Array) -> Array:
    return jr.key_data(leaf) if _is_key(leaf) else leaf


def _from_words(words: Array, kind: Any) -> Array:
    return words if kind is None else jr.wrap_key_data(words, impl=kind)
