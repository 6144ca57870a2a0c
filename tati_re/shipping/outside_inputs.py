"""Inputs unlike those of the training data, on which an uncertainty has to stay as it is."""

from __future__ import annotations

import numpy as np

from tati_re.core.front_door import front_door
from tati_re.core.user_input import seeded

_WIDER = 0.5
"""Part of its range by which each column is extended on both sides."""


@front_door
def inputs_outside(inputs: np.ndarray, seed: int = 0) -> np.ndarray:
    """Generates inputs outside the data from given inputs, as many as there are.

    One half permutes the data: each column of a table is shuffled independently, and each image has
    its pixels shuffled. The other half is uniform noise: each column of a table over twice its
    range, each pixel over the range of all pixels. Integers stay integers, within their range.

    Args:
        inputs: Inputs, `(n, ...)`, as in the data set.
        seed: Seed of the random numbers. Default: 0.

    Returns:
        Inputs of the same shape and type.
    """
    values = np.asarray(inputs)
    random = seeded(seed, 0x0D)
    half = len(values) // 2
    shuffled = _shuffled(values[:half], random)
    noise = _noise(values, len(values) - half, random)
    return np.concatenate([shuffled, noise])


def _shuffled(values: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The same numbers in other rows, or at other places of an image."""
    if values.ndim <= 2:
        return random.permuted(values, axis=0)
    pixels = values.reshape(len(values), -1)
    return random.permuted(pixels, axis=1).reshape(values.shape)


def _noise(values: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Uniform random inputs over the range of each column, or of all pixels."""
    numbers = values.astype(np.float64)
    axis = 0 if values.ndim <= 2 else None
    low = np.min(numbers, axis=axis)
    high = np.max(numbers, axis=axis)
    are_integers = np.all(numbers == np.round(numbers), axis=axis)
    reach = np.where(are_integers | (values.ndim > 2), 0.0, _WIDER * (high - low))
    drawn = random.uniform(low - reach, high + reach, (count, *values.shape[1:]))
    return np.where(are_integers, np.round(drawn), drawn).astype(values.dtype)
