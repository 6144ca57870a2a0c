"""Exploration: runs that start runs, the minima and valleys that they find, and the barriers between these."""

from tati_re.exploration.descent import StationaryPoint, characterize, descend, lowest_below
from tati_re.exploration.explorer import Exploration, explore
from tati_re.exploration.jobs import ExploredSystem
from tati_re.exploration.paths import Path, connect

__all__ = [
    "Exploration",
    "ExploredSystem",
    "Path",
    "StationaryPoint",
    "characterize",
    "connect",
    "descend",
    "explore",
    "lowest_below",
]
