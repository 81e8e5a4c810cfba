"""Maps T from reference to target space: FlowJAX bijections and our recipes."""

from tessmc.transports._affine import (
    FixedAffine,
    Spread,
    quadratic_terms,
    spread_of,
    spread_of_scores,
    spread_of_values,
)
from tessmc.transports._coupling import AffineCoupling, paper_coupling
from tessmc.transports._ladder import RUNGS, ladder_map, rung_mask, spread_of_map, with_spread
from tessmc.transports._marginal import Tails

__all__ = [
    "RUNGS",
    "AffineCoupling",
    "FixedAffine",
    "Spread",
    "Tails",
    "ladder_map",
    "paper_coupling",
    "quadratic_terms",
    "rung_mask",
    "spread_of",
    "spread_of_map",
    "spread_of_scores",
    "spread_of_values",
    "with_spread",
]
