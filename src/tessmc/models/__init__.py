"""The paper's targets, and others to test with."""

from tessmc.models._banana import BananaMap, banana
from tessmc.models._credit import sparse_logistic
from tessmc.models._funnel import funnel
from tessmc.models._lynx import predator_prey
from tessmc.models._oxygen import oxygen, oxygen_data, oxygen_flat
from tessmc.models._stock import regime_switching
from tessmc.models._textbook import gaussian, mixture, ring, student_t

__all__ = [
    "BananaMap",
    "banana",
    "funnel",
    "gaussian",
    "mixture",
    "oxygen",
    "oxygen_data",
    "oxygen_flat",
    "predator_prey",
    "regime_switching",
    "ring",
    "sparse_logistic",
    "student_t",
]
