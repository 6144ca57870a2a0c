"""Alignment of walkers: hidden units of one network permuted so that its weights are near to those
of another. Of each unit of a chain of layers the flat vector has the weights at known places.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.front_door import front_door
from tati_re.core.views import viewable

_WITH_UNITS = {"Dense", "Conv1D", "Conv2D", "Conv3D"}
_ODD_LAYERS = {"InputLayer", "Dropout", "Flatten", "Identity"}
_ODD_LAYERS |= {
    f"{kind}{d}D"
    for kind in ("AveragePooling", "GlobalAveragePooling", "ZeroPadding")
    for d in "123"
}
_SAME = {*_ODD_LAYERS, "Activation", "ReLU", "LeakyReLU", "ELU", "GaussianNoise"}
_SAME |= {f"{kind}{d}D" for kind in ("MaxPooling", "GlobalMaxPooling") for d in "123"}
_ODD = {"tanh", "linear", "softsign"}


class HiddenUnits(NamedTuple):
    """Units (or filters) of one layer that may be permuted: the places of their incoming and
    outgoing weights in the flat vector, `(units, n)` each, and whether a unit with all its signs
    changed is the same function (`odd`).
    """

    incoming: np.ndarray
    outgoing: np.ndarray
    odd: bool


def hidden_units(model: Any) -> list[HiddenUnits]:
    """The units of all hidden layers of a Keras model, from the first on; an `InputError` where it
    is no chain of dense and convolutional layers with activations, pooling, flattening and
    dropout.
    """
    layers = list(model.layers)
    offset = 0
    indices_by_variable = {}
    for variable in model.trainable_variables:
        size = int(np.prod(variable.shape))
        indices_by_variable[id(variable)] = np.arange(offset, offset + size).reshape(variable.shape)
        offset += size
    for layer in layers:
        kind = type(layer).__name__
        conv = kind in _WITH_UNITS and kind != "Dense"
        if kind not in _WITH_UNITS | _SAME or (
            conv and (layer.groups > 1 or layer.data_format != "channels_last")
        ):
            _refuse(f"layer {layer.name} of type {kind}")
    for first, second in pairwise(layers if type(model).__name__ != "Sequential" else ()):
        try:
            chained = second.input is first.output
        except (AttributeError, ValueError):
            chained = False
        if not chained:
            _refuse(f"layer {second.name} after {first.name}")
    with_units = [k for k, layer in enumerate(layers) if type(layer).__name__ in _WITH_UNITS]
    units = []
    for before, after in pairwise(with_units):
        layer = layers[before]
        following = layers[after]
        if any(id(v) not in indices_by_variable for v in (*layer.weights, *following.weights)):
            _refuse(f"layer {layer.name} or {following.name} with frozen weights")
        kernel = indices_by_variable[id(layer.kernel)]
        onward = indices_by_variable[id(following.kernel)]
        count = kernel.shape[-1]
        between = layers[before + 1 : after]
        incoming = kernel.reshape(-1, count).T
        if layer.use_bias:
            incoming = np.concatenate(
                [incoming, indices_by_variable[id(layer.bias)][:, None]], axis=1
            )
        # Flattened images have their channels last: unit c stands at c, count + c, ...
        outgoing = np.moveaxis(onward.reshape(-1, count, onward.shape[-1]), 1, 0).reshape(count, -1)
        activations = [
            layer,
            *(
                layer_between
                for layer_between in between
                if type(layer_between).__name__ == "Activation"
            ),
        ]
        odd = {layer_between.activation.__name__ for layer_between in activations} <= _ODD
        odd &= {type(layer_between).__name__ for layer_between in between} <= {
            *_ODD_LAYERS,
            "Activation",
        }
        units.append(HiddenUnits(incoming, outgoing, odd))
    return units


def _refuse(received: str) -> None:
    expected = "a chain of dense and convolutional layers with activations, pooling, flattening and dropout"
    raise InputError("The hidden units of this model cannot be matched.", received, expected)


_SWEEPS = 100


@viewable
class Alignment(NamedTuple):
    """Walkers whose hidden units are matched to those of the first walker.

    Attributes:
        positions: The permuted positions, in the shape of the input.
        before: Distance between the mean of each walker and the mean of the first before matching,
            `(walkers,)`.
        after: The same distance after matching, `(walkers,)`.
    """

    positions: np.ndarray
    before: np.ndarray
    after: np.ndarray


@front_door
def align(model: Any, positions: np.ndarray) -> Alignment:
    """Permutes the hidden units of each walker to bring its mean close to the mean of the first
    walker.

    Permuting hidden units does not change the function of a network. For a tanh unit, neither does
    changing the sign of its incoming and outgoing weights. Layer by layer, linear assignment
    maximizes the sum of products of all weights of matched units, until nothing changes. This is
    done twice: from the current position, and after a first sweep over incoming weights alone,
    which finds exact copies. The closer result is used. All draws of a walker get the same
    permutation, so a chain that changes its permutation on its way stays one chain. Reference: S.
    Ainsworth, J. Hayase, S. Srinivasa, Git Re-Basin (2209.04836), algorithm 1.

    Args:
        model: The Keras model: a chain of dense and convolutional layers.
        positions: `(walkers, parameters)`, or `(walkers, draws, parameters)` with nan after the
            last draw of a walker.

    Returns:
        The aligned positions, and the distances before and after.

    Raises:
        InputError: The architecture is not supported, or the number of parameters differs.
    """
    layers = hidden_units(model)
    positions = np.asarray(positions)
    size = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    if positions.ndim not in (2, 3) or positions.shape[-1] not in (size, size + 1):
        raise InputError(
            "positions do not match the model.", positions.shape, f"(walkers, draws, {size})"
        )
    means = np.nanmean(positions.reshape(len(positions), -1, positions.shape[-1]), axis=1)
    aligned = np.array(positions)
    target = means[0].copy()
    before = np.linalg.norm(means - target, axis=1)
    for walker, mean in enumerate(means[1:], 1):
        tried = [_matched(layers, target, mean, first) for first in (False, True)]
        source, sign = min(
            tried, key=lambda match: float(np.linalg.norm(match[1] * mean[match[0]] - target))
        )
        aligned[walker] = sign * positions[walker][..., source]
        means[walker] = sign * mean[source]
    return Alignment(aligned, before, np.linalg.norm(means - target, axis=1))


def _matched(layers: list[HiddenUnits], target: np.ndarray, start: np.ndarray, first: bool):
    """Sources and signs of all parameters, such that sign * start[source] is near to the target."""
    from scipy.optimize import linear_sum_assignment

    source = np.arange(len(start))
    sign = np.ones_like(start)
    for sweep in range(_SWEEPS):
        changed = False
        for layer in layers:
            all_weights = np.concatenate([layer.incoming, layer.outgoing], axis=1)
            seen = layer.incoming if first and sweep == 0 else all_weights
            products = target[seen] @ (sign * start[source])[seen].T
            chosen = linear_sum_assignment(
                np.abs(products) if layer.odd else products, maximize=True
            )[1]
            turned = np.where((products[np.arange(len(chosen)), chosen] < 0) & layer.odd, -1.0, 1.0)
            changed |= bool((chosen != np.arange(len(chosen))).any() or (turned < 0).any())
            source[all_weights], sign[all_weights] = (
                source[all_weights[chosen]],
                turned[:, None] * sign[all_weights[chosen]],
            )
        if not changed and (sweep or not first):
            break
    return source, sign
