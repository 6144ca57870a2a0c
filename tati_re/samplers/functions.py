"""The functions that samplers and swap rules may use beside arithmetic: on NumPy arrays, on
tensors, and under XLA.
"""

from inspect import isfunction

from tati_re.core import ops
from tati_re.core.ops import *  # noqa: F403

_own = {
    name
    for name, value in vars(ops).items()
    if isfunction(value) and value.__module__ == ops.__name__
}
__all__ = sorted(name for name in _own if not name.startswith("_"))
