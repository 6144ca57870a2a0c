"""The functions that samplers and swap rules may use beside arithmetic: on NumPy arrays, on tensors, and under XLA."""

from tati_re.core.ops import *  # noqa: F403
from tati_re.core.ops import __all__ as __all__
