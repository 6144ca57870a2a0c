"""Posterior: the potential U = λL + V, its gradient, variance and predictions, for all walkers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.core.potential import Batch
    from tati_re.posterior.function import FunctionEvaluate

__all__ = ["Batch", "FunctionEvaluate"]

__getattr__ = lazy_names(__name__)
