"""Many chains, many draws."""

from tessmc.engines._march import (
    Draws,
    collect,
    count_evaluations,
    every,
    finished,
    march,
    move_chains,
    place_all,
    place_chains,
    restart_chains,
    rounding_noise,
    settle,
)
from tessmc.engines._ticks import Chain, Record, advance

__all__ = [
    "Chain",
    "Draws",
    "Record",
    "advance",
    "collect",
    "count_evaluations",
    "every",
    "finished",
    "march",
    "move_chains",
    "place_all",
    "place_chains",
    "restart_chains",
    "rounding_noise",
    "settle",
]
