"""Pictures and pages."""

from tessmc.report._figures import figure_one, pair_plot

__all__ = ["figure_one", "pair_plot"]
