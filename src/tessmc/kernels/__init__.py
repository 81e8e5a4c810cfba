"""One transition of one chain."""

from tessmc.kernels._arc import Arc, ChainState, aim, ask, begin, draw_slice, keep_counts, tell
from tessmc.kernels._elliptical import EllipticalSlice
from tessmc.kernels._kernel import AbstractSliceKernel, StepInfo, choose
from tessmc.kernels._law import AbstractLaw, Gaussian, StudentT, log_normal
from tessmc.kernels._transport import TransportEllipticalSlice

__all__ = [
    "AbstractLaw",
    "AbstractSliceKernel",
    "Arc",
    "ChainState",
    "EllipticalSlice",
    "Gaussian",
    "StepInfo",
    "StudentT",
    "TransportEllipticalSlice",
    "aim",
    "ask",
    "begin",
    "choose",
    "draw_slice",
    "keep_counts",
    "log_normal",
    "tell",
]
