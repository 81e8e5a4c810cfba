"""`check`: a look at a target before a long run."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from tessmc._arrays import in_precision_of, put
from tessmc._types import Scalar
from tessmc.sampling._arguments import as_target, unconstrain
from tessmc.sampling._goal import check_count
from tessmc.targets import AbstractTarget, Check, examine


def check(
    target: Callable[..., Scalar] | AbstractTarget,
    *,
    like: PyTree[Any] = None,
    init: PyTree[Any] = None,
    support: PyTree[Any] = None,
    num_points: int = 64,
    seed: int = 0,
) -> Check:
    """Say what is wrong with a target before a long run, in seconds.

    It is asked at points where chains start: N(0, I) in the unconstrained space, or `init`. What it says of them need
    not hold elsewhere.

    Args:
        target: as `tessmc.sample` takes it.
        like: likewise.
        init: likewise.
        support: likewise.
        num_points: at which it is asked, twice; those of `init` if that is given.
        seed: of the points.

    Returns:
        `.is_fine`, `.problems` and `.notes`, sentences; it prints well.
    """
    check_count("num_points", num_points, 1)
    try:
        target = as_target(target, like, init, support)
    except (TypeError, ValueError) as error:
        return Check([str(error).rstrip(".")])
    with in_precision_of(target.dtype):
        if init is None:
            rng = np.random.default_rng(seed)
            return examine(target, put(rng.standard_normal((num_points, target.dim)), target.dtype))
        num_points = len(jax.tree.leaves(init)[0])
        return examine(target, unconstrain(target, target.check_init(init, num_points)))
