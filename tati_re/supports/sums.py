"""Sums over the axes of one parameter, on NumPy arrays and tensors."""

from typing import Any

from tati_re.core import ops


def sum_event(values: Any, axes: int) -> Any:
    """Sums over the last axes.

    Args:
        values: Numbers, `(..., *event)`.
        axes: The number of axes of the event.

    Returns:
        The sums, `(...)`.
    """
    for _ in range(axes):
        values = ops.sum_over(values, -1)[..., 0]
    return values


def exclusive(values: Any) -> Any:
    """The cumulative sum of all entries before each one, along the last axis.

    Args:
        values: Numbers, `(..., n)`.
    """
    return ops.cumulative_sum(values) - values
