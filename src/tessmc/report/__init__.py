"""Pictures and pages."""

from tessmc.report._figures import figure_one, pair_plot, side_by_side

__all__ = ["figure_one", "pair_plot", "side_by_side"]
