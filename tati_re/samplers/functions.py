"""The functions that samplers and swap rules may use beside arithmetic: on NumPy arrays, on tensors, and under XLA."""

from tati_re.core.ops import *  # noqa: F403 - all of them, by its `__all__`
