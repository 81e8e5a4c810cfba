"""What we sample: x ↦ log π(x), its dimension, names and supports."""

from tessmc.targets._black_box import BlackBox
from tessmc.targets._bridgestan import StanBlackBox, is_bridgestan
from tessmc.targets._check import Check, examine
from tessmc.targets._desk import NoLedger
from tessmc.targets._form import Form
from tessmc.targets._function import Target
from tessmc.targets._numpyro import NumpyroTarget, from_numpyro
from tessmc.targets._pymc import PymcBlackBox, PymcTarget, from_pymc
from tessmc.targets._target import AbstractTarget, Labels

__all__ = [
    "AbstractTarget",
    "BlackBox",
    "Check",
    "Form",
    "Labels",
    "NoLedger",
    "NumpyroTarget",
    "PymcBlackBox",
    "PymcTarget",
    "StanBlackBox",
    "Target",
    "examine",
    "from_numpyro",
    "from_pymc",
    "is_bridgestan",
]
