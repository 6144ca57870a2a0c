"""Runs: the run folder on disk, written whole, read while it grows, and compared; without TensorFlow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.runs import manifest
    from tati_re.runs.compare import Tolerance
    from tati_re.runs.tables import H5Table

__all__ = ["H5Table", "Tolerance", "manifest"]

__getattr__ = lazy_names(__name__)
