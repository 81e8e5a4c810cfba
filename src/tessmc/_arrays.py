"""From NumPy to JAX."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def put(values: Any, dtype: Any = float) -> Array:
    """An array on the device: `jnp.asarray(values, dtype)`, which would compile a program for every new shape."""
    return jax.device_put(np.asarray(values, jnp.result_type(dtype)))


def in_precision_of(dtype: Any) -> AbstractContextManager[Any]:
    """Where doubles are asked for, JAX has them meanwhile, whatever it is set to."""
    return jax.enable_x64(True) if np.dtype(dtype) == np.float64 else nullcontext()
