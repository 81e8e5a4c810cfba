"""One transition of one chain."""

from tessmc.kernels._arc import Arc, ChainState, ask, begin, tell
from tessmc.kernels._elliptical import EllipticalSlice
from tessmc.kernels._kernel import AbstractSliceKernel, StepInfo, choose, log_normal
from tessmc.kernels._transport import TransportEllipticalSlice

__all__ = [
    "AbstractSliceKernel",
    "Arc",
    "ChainState",
    "EllipticalSlice",
    "StepInfo",
    "TransportEllipticalSlice",
    "ask",
    "begin",
    "choose",
    "log_normal",
    "tell",
]
