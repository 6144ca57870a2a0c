"""Posterior: the potential U = λL + V, its gradient, variance and predictions, for all walkers at
once.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.core.evaluate import Delegating as Delegating
    from tati_re.core.evaluate import Evaluate as Evaluate
    from tati_re.core.potential import Batch as Batch
    from tati_re.core.potential import Potential as Potential
    from tati_re.posterior.function import FunctionEvaluate as FunctionEvaluate

__getattr__, __all__ = lazy_names(__name__)
