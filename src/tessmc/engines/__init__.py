"""Many chains, many draws."""

from tessmc._errors import Stopped
from tessmc.engines._devices import MIN_CHAINS, Layout
from tessmc.engines._host import black_box_of
from tessmc.engines._journal import NO_JOURNAL, Journal
from tessmc.engines._march import (
    Draws,
    Rows,
    blank_draws,
    collect,
    count_evaluations,
    every,
    finished,
    march,
    move_chains,
    place_all,
    place_chains,
    prepare,
    put_rows,
    restart_chains,
    rounding_noise,
    settle,
)
from tessmc.engines._ticks import Chain, Record, advance

__all__ = [
    "MIN_CHAINS",
    "NO_JOURNAL",
    "Chain",
    "Draws",
    "Journal",
    "Layout",
    "Record",
    "Rows",
    "Stopped",
    "advance",
    "black_box_of",
    "blank_draws",
    "collect",
    "count_evaluations",
    "every",
    "finished",
    "march",
    "move_chains",
    "place_all",
    "place_chains",
    "prepare",
    "put_rows",
    "restart_chains",
    "rounding_noise",
    "settle",
]
