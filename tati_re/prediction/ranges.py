"""Inputs outside the ranges that a run was trained on."""

import numpy as np

from tati_re.core.user_warnings import warn_user
from tati_re.data.columns import numbered
from tati_re.runs.manifest_entries import DataEntry

_MOST_NAMED = 5
_ROUNDING = 1e-6
"""Part of a range, or of the value, up to which rounding to float32 may exceed it."""


def outside_ranges(dataset: DataEntry, inputs: np.ndarray) -> str:
    """One sentence on rows outside the training range, or an empty text.

    Args:
        dataset: The entry of a run's manifest on its data.
        inputs: Inputs in the units of the data, shape `(n, columns)`.
    """
    ranges = dataset.input_ranges
    if ranges is None or inputs.ndim != 2 or inputs.shape[1] != len(ranges.low):
        return ""
    low = np.asarray(ranges.low, np.float64)
    high = np.asarray(ranges.high, np.float64)
    values = np.asarray(inputs, np.float64)
    margin = _ROUNDING * np.maximum(high - low, np.maximum(np.abs(low), np.abs(high)))
    outside = (values < low - margin) | (values > high + margin)
    rows = int(outside.any(axis=1).sum())
    if not rows:
        return ""
    columns = np.flatnonzero(outside.any(axis=0))
    names = list(dataset.feature_names or numbered(len(low)))
    listed = [
        f"{names[k]} ({_farthest(values[:, k], low[k], high[k]):g}, trained on {low[k]:g} to {high[k]:g})"
        for k in columns[:_MOST_NAMED]
    ]
    more = ", ..." if len(columns) > _MOST_NAMED else ""
    which = "1 row lies" if rows == 1 else f"{rows:,} rows lie"
    if len(values) > 1:
        which = f"{rows:,} of {len(values):,} rows {'lies' if rows == 1 else 'lie'}"
    counted = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
    return f"{which} outside the training range in {counted}: {', '.join(listed)}{more}."


def warn_of_ranges(dataset: DataEntry, inputs: np.ndarray) -> None:
    """Warns in the sentence of `outside_ranges`, if there is one.

    Args:
        dataset: The manifest entry of the training data, with the ranges of the inputs.
        inputs: Inputs to predict, shape (n, ...).
    """
    if sentence := outside_ranges(dataset, inputs):
        warn_user(sentence)


def _farthest(column: np.ndarray, low: float, high: float) -> float:
    """The value of a column that is farthest from its range."""
    return float(column[np.argmax(np.maximum(low - column, column - high))])
