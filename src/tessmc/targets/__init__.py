"""What we sample: x ↦ log π(x), its dimension, names and supports."""

from tessmc.targets._function import Target
from tessmc.targets._target import AbstractTarget

__all__ = ["AbstractTarget", "Target"]
