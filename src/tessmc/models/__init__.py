"""Targets to try things on."""

from tessmc.models._banana import BananaMap, banana
from tessmc.models._funnel import funnel

__all__ = ["BananaMap", "banana", "funnel"]
