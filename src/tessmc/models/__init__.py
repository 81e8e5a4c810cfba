"""The paper's targets, and others to test with."""

from tessmc.models._banana import BananaMap, banana
from tessmc.models._credit import sparse_logistic
from tessmc.models._funnel import funnel
from tessmc.models._lynx import predator_prey
from tessmc.models._oxygen import oxygen, oxygen_flat
from tessmc.models._stock import regime_switching

__all__ = [
    "BananaMap",
    "banana",
    "funnel",
    "oxygen",
    "oxygen_flat",
    "predator_prey",
    "regime_switching",
    "sparse_logistic",
]
