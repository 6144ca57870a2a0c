"""Rounded targets, whose rounding bounds a predicted spread from below."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tati_re.core.errors import refuse_if

AUTO, NONE = "auto", "none"
"""Values of the option `rounding`."""

_SHARE_OF_TIES = 0.5
"""Of rows whose target has the value of another row, from which on targets count as rounded."""
_SAME = 1e-9
"""Differences below this share of the range are errors of arithmetic."""
_LEAST_GAPS = 0.05
"""Share of the differences between neighboring values that may be smaller than the unit: values of
more digits than the others.
"""
_STD_OF_UNIFORM = 1 / math.sqrt(12)
_SHARE_OF_SPIKE = 0.1
_FEWEST_IN_SPIKE = 10
_FACTOR_OF_SPIKE = 5.0
"""Share, count, and multiple of what a rounded density gives a value, from which on it is a spike."""


def check_rounding(rounding: str) -> str:
    """The option, if it is known.

    Args:
        rounding: `auto` or `none`.

    Raises:
        InputError: Another word.
    """
    known = (AUTO, NONE)
    refuse_if(rounding not in known, "rounding is unknown.", rounding, " or ".join(known))
    return rounding


def rounding_of(targets: np.ndarray) -> np.ndarray:
    """The unit to which targets are rounded.

    It is the smallest difference of two values, but for one in twenty, where at least half of the
    rows have a value that occurs more than once. Other targets are not rounded in a way that
    matters.

    Args:
        targets: Values, shape (n, columns).

    Returns:
        Units, shape (columns,); 0 for targets that are not rounded.
    """
    values = np.asarray(targets, np.float64)
    return np.array([_rounding_of_column(column) for column in values.reshape(len(values), -1).T])


def least_std(targets: np.ndarray) -> np.ndarray:
    """The standard deviation of the rounding of targets: a uniform error of one unit.

    A density without this bound has no limit where the network predicts a rounded value exactly.

    Args:
        targets: Values, shape (n, columns).

    Returns:
        Deviations in the units of the targets, shape (columns,); 0 where they are not rounded.

    Source: W. F. Sheppard, Proc. London Math. Soc. 29 (1898).
    """
    return rounding_of(targets) * _STD_OF_UNIFORM


def spike_of(values: np.ndarray) -> tuple[float, float] | None:
    """A value that occurs too often for a density, such as the zeros of amounts that few pay.

    Args:
        values: Values of one target, shape (n,).

    Returns:
        The value and its share of the rows; None if no value is that frequent.
    """
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if len(distinct) < 2 or counts.max() < _FEWEST_IN_SPIKE:
        return None
    share = float(counts.max() / counts.sum())
    of_rounding = _rounding_of_column(values) / float(np.std(values))
    if share < max(_SHARE_OF_SPIKE, _FACTOR_OF_SPIKE * of_rounding):
        return None
    return float(distinct[counts.argmax()]), share


def log_hypot(log_width: Any, least: Any) -> Any:
    """log √(exp(2 log_width) + least²), in TensorFlow.

    Args:
        log_width: Logarithms of widths, shape (..., targets).
        least: Smallest widths, at least 0, shape (targets,) or ().

    Returns:
        Logarithms in the shape of `log_width`, which are unchanged if no width is bounded.
    """
    if not np.any(least):
        return log_width
    from tati_re.core.backend import tf

    with np.errstate(divide="ignore"):
        bound = tf.constant(np.log(least), log_width.dtype)
    larger = tf.maximum(log_width, bound)
    return larger + 0.5 * tf.math.log1p(tf.exp(-2.0 * tf.abs(log_width - bound)))


def bounded(value: Any, least_variance: Any) -> Any:
    """A shape or a precision a, whose inverse is at least the variance c of a rounding.

    Args:
        value: Values a above 0, in NumPy or TensorFlow.
        least_variance: Variances c, at least 0, shape (targets,) or ().

    Returns:
        a / (1 + a c).
    """
    if not np.any(least_variance):
        return value
    return value / (1.0 + value * np.asarray(least_variance, np.float64))


def _rounding_of_column(values: np.ndarray) -> float:
    ordered = np.sort(values[np.isfinite(values)])
    if len(ordered) < 2:
        return 0.0
    gaps = np.diff(ordered)
    is_same = gaps <= _SAME * (ordered[-1] - ordered[0])
    has_twin = np.zeros(len(ordered), bool)
    has_twin[:-1] |= is_same
    has_twin[1:] |= is_same
    if is_same.all() or has_twin.mean() < _SHARE_OF_TIES:
        return 0.0
    return float(np.quantile(gaps[~is_same], _LEAST_GAPS, method="lower"))
