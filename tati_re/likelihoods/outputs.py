"""What every likelihood does with outputs of a network, and with labels that it cannot describe."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tati_re.core.errors import InputError

LOG_2PI = math.log(2 * math.pi)
_LEAST_LOGARITHM = -1e300
"""In place of the logarithm of 0, so that its product with 0 is 0."""


def tensorflow() -> Any:
    """TensorFlow, imported by the first log density, so that predictions of runs do without it."""
    from tati_re.core.backend import tf

    return tf


def parts(outputs: np.ndarray, count: int) -> list[np.ndarray]:
    """The groups of the outputs, `count` arrays of shape (..., targets), float64.

    Args:
        outputs: Outputs of the network, shape (..., targets * count).
        count: Number of groups, the likelihood's `outputs_per_target`.
    """
    return np.split(np.asarray(outputs, np.float64), count, axis=-1)


def entropy_of(log_probabilities: np.ndarray) -> np.ndarray:
    """-sum p log p over the last axis, in nats."""
    values = np.maximum(log_probabilities, _LEAST_LOGARITHM)
    return -np.sum(np.exp(values) * values, axis=-1)


def by_class(log_probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with the classes first, (classes, ...), and entropies in nats, (...)."""
    return np.moveaxis(np.exp(log_probabilities), -1, 0), entropy_of(log_probabilities)


def refuse_targets(wrong: np.ndarray, targets: np.ndarray, name: str, expected: str) -> None:
    """Refuses labels that a likelihood cannot describe; the message gives the first of them.

    Args:
        wrong: Whether each label is wrong, in the shape of `targets`.
        targets: Labels, shape (n, columns).
        name: Name of the loss in the message.
        expected: Labels that are allowed, in words.

    Raises:
        InputError: A label is wrong.
    """
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
    first = np.asarray(targets)[wrong][0]
    problem = f"loss: {name} cannot describe these labels."
    raise InputError(problem, f"{first:g} in row {row + 1}", expected)
