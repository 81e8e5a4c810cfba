"""One transition of one chain."""

from tessmc.kernels._arc import Arc, ChainState, ask, begin, go_on, has_missed, tell
from tessmc.kernels._elliptical import EllipticalSlice
from tessmc.kernels._kernel import AbstractSliceKernel, Pushed, StepInfo, choose
from tessmc.kernels._law import AbstractLaw, Gaussian, StudentT, log_normal
from tessmc.kernels._transport import TransportEllipticalSlice

__all__ = [
    "AbstractLaw",
    "AbstractSliceKernel",
    "Arc",
    "ChainState",
    "EllipticalSlice",
    "Gaussian",
    "Pushed",
    "StepInfo",
    "StudentT",
    "TransportEllipticalSlice",
    "ask",
    "begin",
    "choose",
    "go_on",
    "has_missed",
    "log_normal",
    "tell",
]
