"""Shapes as types, shared by every layer."""

import jaxtyping
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Scalar = Float[Array, ""]
Count = Int[Array, ""]
Truth = Bool[Array, ""]
Point = Float[Array, " dim"]
Points = Float[Array, "chain dim"]
Key = PRNGKeyArray
Keys = jaxtyping.Key[Array, " chain"]

__all__ = ["Count", "Key", "Keys", "Point", "Points", "Scalar", "Truth"]
