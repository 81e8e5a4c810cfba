"""What we sample: x ↦ log π(x), its dimension, names and supports."""

from tessmc.targets._black_box import BlackBox
from tessmc.targets._desk import NoLedger
from tessmc.targets._form import Form
from tessmc.targets._function import Target
from tessmc.targets._target import AbstractTarget

__all__ = ["AbstractTarget", "BlackBox", "Form", "NoLedger", "Target"]
