"""Shapes as types, shared by every layer."""

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Scalar = Float[Array, ""]
Count = Int[Array, ""]
Truth = Bool[Array, ""]
Point = Float[Array, " dim"]
Points = Float[Array, "chain dim"]
Key = PRNGKeyArray

__all__ = ["Count", "Key", "Point", "Points", "Scalar", "Truth"]
