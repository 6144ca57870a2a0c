"""Engine: many compiled steps; rows, checkpoints and progress, resumable byte for byte."""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.core.backend import deterministic as deterministic
    from tati_re.core.potential import Recorder as Recorder
    from tati_re.engine.loop import Loop as Loop
    from tati_re.engine.observables import Observables as Observables

__getattr__, __all__ = lazy_names(__name__)
