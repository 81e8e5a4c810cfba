"""Draws in the formats of others."""

from tessmc.storage._arviz import to_arviz

__all__ = ["to_arviz"]
