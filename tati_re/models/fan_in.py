"""How many inputs the units have that a parameter belongs to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def fan_in_plus_one(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> np.ndarray:
    """k = fan-in + 1 of the layer of each parameter; weights and biases of a layer alike (Baldock and Marzari 2019).

    The fan-in of a tensor of weights is the product of all its lengths but the last; a layer without such a tensor has
    k = 1.

    Args:
        names: Of the model's tensors, such as `dense/kernel`.
        shapes: Theirs, in the order of the flat vector.

    Returns:
        `(parameters,)`, float64.

    Example:
        >>> fan_in_plus_one(["dense/kernel", "dense/bias"], [(3, 1), (1,)])
        array([4., 4., 4., 4.])
    """
    layers = [name.rsplit("/", 1)[0] for name in names]
    fans = {layer: math.prod(shape[:-1]) for layer, shape in zip(layers, shapes, strict=True) if len(shape) > 1}
    ones = [np.full(math.prod(shape), fans.get(layer, 0) + 1.0) for layer, shape in zip(layers, shapes, strict=True)]
    return np.concatenate(ones)
