"""Exploration: runs that start runs, the minima and valleys that they find, and the barriers
between these.
"""

from tati_re.core.lazy import names_exported
from tati_re.exploration.descent import StationaryPoint as StationaryPoint
from tati_re.exploration.descent import characterize as characterize
from tati_re.exploration.descent import descend as descend
from tati_re.exploration.descent import lowest_below as lowest_below
from tati_re.exploration.explorer import explore as explore
from tati_re.exploration.jobs import ExploredSystem as ExploredSystem
from tati_re.exploration.paths import Path as Path
from tati_re.exploration.paths import connect as connect
from tati_re.exploration.result import Exploration as Exploration
from tati_re.exploration.result import disconnectivity as disconnectivity

__all__ = names_exported(__name__)
