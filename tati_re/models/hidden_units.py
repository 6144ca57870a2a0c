"""The hidden units of a chain of layers: where in the flat vector each of them has its weights."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.errors import InputError

_WITH_UNITS = {"Dense", "Conv1D", "Conv2D", "Conv3D"}
_ODD_LAYERS = {"InputLayer", "Dropout", "Flatten", "Identity"}
_ODD_LAYERS |= {f"{kind}{d}D" for kind in ("AveragePooling", "GlobalAveragePooling", "ZeroPadding") for d in "123"}
_SAME = {*_ODD_LAYERS, "Activation", "ReLU", "LeakyReLU", "ELU", "GaussianNoise"}
_SAME |= {f"{kind}{d}D" for kind in ("MaxPooling", "GlobalMaxPooling") for d in "123"}
_ODD = {"tanh", "linear", "softsign"}


class HiddenUnits(NamedTuple):
    """Units (or filters) of one layer that may be permuted: the places of their incoming and outgoing weights in the
    flat vector, `(units, n)` each, and whether a unit with all its signs changed is the same function (`odd`)."""

    layer: str
    incoming: np.ndarray
    outgoing: np.ndarray
    odd: bool


def hidden_units(model: Any) -> list[HiddenUnits]:
    """The units of all hidden layers of a Keras model, from the first on; an `InputError` where it is no chain of dense
    and convolutional layers with activations, pooling, flattening and dropout."""
    layers, offset, places = list(model.layers), 0, {}
    for variable in model.trainable_variables:
        size = int(np.prod(variable.shape))
        places[id(variable)] = np.arange(offset, offset + size).reshape(variable.shape)
        offset += size
    for layer in layers:
        kind = type(layer).__name__
        conv = kind in _WITH_UNITS and kind != "Dense"
        if kind not in _WITH_UNITS | _SAME or (conv and (layer.groups > 1 or layer.data_format != "channels_last")):
            _refuse(f"layer {layer.name} of type {kind}")
    for first, second in pairwise(layers if type(model).__name__ != "Sequential" else ()):
        try:
            chained = second.input is first.output
        except (AttributeError, ValueError):
            chained = False
        if not chained:
            _refuse(f"layer {second.name} after {first.name}")
    with_units = [k for k, layer in enumerate(layers) if type(layer).__name__ in _WITH_UNITS]
    found = []
    for here, after in pairwise(with_units):
        layer, following = layers[here], layers[after]
        if any(id(v) not in places for v in (*layer.weights, *following.weights)):
            _refuse(f"layer {layer.name} or {following.name} with frozen weights")
        kernel, onward = places[id(layer.kernel)], places[id(following.kernel)]
        count, between = kernel.shape[-1], layers[here + 1 : after]
        incoming = kernel.reshape(-1, count).T
        if layer.use_bias:
            incoming = np.concatenate([incoming, places[id(layer.bias)][:, None]], axis=1)
        # Flattened images have their channels last: unit c stands at c, count + c, ...
        outgoing = np.moveaxis(onward.reshape(-1, count, onward.shape[-1]), 1, 0).reshape(count, -1)
        activations = [layer, *(one for one in between if type(one).__name__ == "Activation")]
        odd = {one.activation.__name__ for one in activations} <= _ODD
        odd &= {type(one).__name__ for one in between} <= {*_ODD_LAYERS, "Activation"}
        found.append(HiddenUnits(layer.name, incoming, outgoing, odd))
    return found


def _refuse(received: str) -> None:
    expected = "a chain of dense and convolutional layers with activations, pooling, flattening and dropout"
    raise InputError("The hidden units of this model cannot be matched.", received, expected)
