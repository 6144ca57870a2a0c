"""Runs: the run folder on disk, written whole, read while it grows, and compared; without
TensorFlow.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.runs import manifest as manifest
    from tati_re.runs.compare import Tolerance as Tolerance
    from tati_re.runs.h5_table import H5Table as H5Table

__getattr__, __all__ = lazy_names(__name__)
