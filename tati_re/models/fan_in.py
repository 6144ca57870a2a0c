"""Fan-in of the layer of each parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


class PartShape(tuple):
    """The shape of a tensor's free part, with the fan-in of its layer."""

    fan_in: float

    def __new__(cls, shape: Sequence[int], fan_in: float) -> PartShape:
        made = super().__new__(cls, shape)
        made.fan_in = fan_in
        return made


def fan_in_plus_one(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> np.ndarray:
    """k = fan-in + 1 of the layer of each parameter; weights and biases of a layer alike (Baldock and Marzari 2019).

    Returns `(parameters,)`, float64, for the tensors of a model in the order of the flat vector. The fan-in of a tensor
    of weights is the product of all its lengths but the last; a layer without such a tensor has k = 1.

    Examples:
        >>> fan_in_plus_one(["dense/kernel", "dense/bias"], [(3, 1), (1,)])
        array([4., 4., 4., 4.])
    """
    known = [getattr(shape, "fan_in", None) for shape in shapes]
    layers = [name.rsplit("/", 1)[0] for name in names]
    fans = {layer: math.prod(shape[:-1]) for layer, shape in zip(layers, shapes, strict=True) if len(shape) > 1}
    counts = [fans.get(layer, 0) if own is None else own for layer, own in zip(layers, known, strict=True)]
    return np.concatenate([np.full(math.prod(shape), count + 1.0) for count, shape in zip(counts, shapes, strict=True)])
