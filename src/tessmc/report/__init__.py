"""Pictures and pages."""

from tessmc.report._figures import figure_one

__all__ = ["figure_one"]
