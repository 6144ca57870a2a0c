"""Engine: many compiled steps; rows, checkpoints and progress, resumable byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.engine.environment import deterministic
    from tati_re.engine.loop import Loop
    from tati_re.engine.observables import Observables

__all__ = ["Loop", "Observables", "deterministic"]

__getattr__ = lazy_names(__name__)
