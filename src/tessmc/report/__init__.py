"""Pictures and pages."""

from tessmc.report._figures import figure_one, pair_plot, side_by_side
from tessmc.report._page import write_page

__all__ = ["figure_one", "pair_plot", "side_by_side", "write_page"]
