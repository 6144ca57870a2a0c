"""Names of a model's tensors and parameters. Keras numbers layers over the whole process
(`dense_7`); here those that the user did not name are numbered among siblings, so that a header
depends on nothing else in the process. By them the fan-in of the layer of each parameter is found,
too.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def snake_case(name: str) -> str:
    """Returns the layer name that Keras makes of a class name: `LSTMCell` -> `lstm_cell`."""
    name = re.sub(r"\W+", "", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()


def tensor_names(model: Any, whole: Any = None) -> list[str]:
    """One name for each trainable variable of a Keras model, by its place in the model.

    They are in the order of the variables, and all different: `dense/kernel`, `dense_1/bias`,
    `lstm/lstm_cell/kernel`. A name has the layers from the outside in, without the model, then the
    variable. A name that the user chose is kept. A layer that is used in several places has the
    name of the first.

    Args:
        model: The model.
        whole: Model that contains this one and gives the names. Default: None, the model.
    """
    names: dict[int, str] = {}
    _visit(model if whole is None else whole, "", names)
    return [names[id(variable)] for variable in model.trainable_variables]


def parameter_names(tensors: Iterable[str], shapes: Iterable[Sequence[int]]) -> list[str]:
    """One name for each entry of the tensors, the last index fastest, such as `dense/kernel[0,3]`.

    Args:
        tensors: Names of the tensors. A scalar has no index in its name.
        shapes: Their shapes.
    """
    names: list[str] = []
    for tensor, shape in zip(tensors, shapes, strict=True):
        indices = itertools.product(*(map(str, range(length)) for length in shape))
        names.extend(f"{tensor}[{','.join(place)}]" if place else tensor for place in indices)
    return names


def described_names(described: Mapping[str, Any]) -> list[str]:
    parts = described.get("parts", {})
    names: list[str] = []
    for tensor, shape in zip(described["names"], described["shapes"], strict=True):
        part = parts.get(tensor)
        entry_names = parameter_names([tensor], [shape if part is None else part["shape"]])
        still = set() if part is None else set(part["fixed"])
        names.extend(name for i, name in enumerate(entry_names) if i not in still)
    return names


def _visit(layer: Any, prefix: str, names: dict[int, str]) -> None:
    from tati_re.core.backend import layers_of

    children = layers_of(layer, recursive=False)
    inner = {id(v) for child in children for v in child.weights}
    layer_weights = [v for v in layer.weights if id(v) not in inner]
    for variable, name in zip(
        layer_weights, _distinct([_base(v, "variable") for v in layer_weights]), strict=True
    ):
        names.setdefault(id(variable), prefix + name)
    kinds = [f"(?:forward_|backward_)?{snake_case(type(child).__name__)}" for child in children]
    for child, name in zip(children, _distinct(list(map(_base, children, kinds))), strict=True):
        _visit(child, f"{prefix}{name}/", names)


def _base(part: Any, kind: str) -> tuple[str, bool]:
    """Returns the name of a layer or variable without Keras' number, and whether Keras made it."""
    automatic = re.fullmatch(rf"({kind})(?:_\d+)?", part.name)
    return (automatic[1], True) if automatic else (part.name, False)


def _distinct(bases: list[tuple[str, bool]]) -> list[str]:
    """Numbers the names that Keras made, in order; names chosen by the user are never changed."""
    used_names: set[str] = set()
    names = [""] * len(bases)
    for numbered in (False, True):
        for i, (base, automatic) in enumerate(bases):
            if automatic == numbered:
                candidates = itertools.chain([base], (f"{base}_{k}" for k in itertools.count(1)))
                names[i] = next(name for name in candidates if name not in used_names)
                used_names.add(names[i])
    return names


class PartShape(tuple):
    """The shape of a tensor, or of its free part, with the fan-in of its layer."""

    fan_in: float

    def __new__(cls, shape: Sequence[int], fan_in: float = 0.0) -> PartShape:
        made = super().__new__(cls, shape)
        made.fan_in = fan_in
        return made


def fan_in_plus_one(names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> np.ndarray:
    """k = fan-in + 1 of the layer of each parameter, (parameters,), float64.

    Weights and biases of a layer have the same k (Baldock and Marzari 2019). The fan-in of a tensor
    of weights is the product of all its lengths but the last. A unit of a recurrent layer has its
    inputs and the states of all units; a separable convolution has two layers. A layer without such
    a tensor (of a normalization) has k = 1.

    Args:
        names: Names of the tensors of a model, in the order of the flat vector.
        shapes: Their shapes; a `PartShape` brings its fan-in.
    """
    layers = [name.rsplit("/", 1)[0] for name in names]
    fans = dict[str, int]()
    depthwise_fans = dict[str, float]()
    for name, layer, shape in zip(names, layers, shapes, strict=True):
        if name.endswith("/depthwise_kernel"):
            depthwise_fans[name] = math.prod(shape[:-2])
        elif len(shape) > 1 and not name.endswith("bias"):
            before = fans.get(layer, 0) if name.endswith("/recurrent_kernel") else 0
            fans[layer] = before + math.prod(shape[:-1])
    known = [
        getattr(shape, "fan_in", depthwise_fans.get(name))
        for name, shape in zip(names, shapes, strict=True)
    ]
    counts = [
        fans.get(layer, 0) if fan is None else fan for layer, fan in zip(layers, known, strict=True)
    ]
    return np.concatenate(
        [
            np.full(math.prod(shape), count + 1.0)
            for count, shape in zip(counts, shapes, strict=True)
        ]
    )


def fans_by_layer(model: Any) -> dict[int, int]:
    """Fan-in by the id of each variable, of layers that the shape of their weights does not
    tell.
    """
    from tati_re.core.backend import keras, layers_of

    fans: dict[int, int] = {}
    for layer in layers_of(model):
        if isinstance(layer, keras.layers.EinsumDense):
            weights, outputs = layer.equation.split(",")[1].split("->")
            sizes = zip(weights, layer.kernel.shape, strict=True)
            fan = math.prod(size for letter, size in sizes if letter not in outputs)
        elif isinstance(layer, keras.layers.Embedding):
            fan = 1  # of the words one is there
        elif isinstance(layer, (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)):
            fan = math.prod(layer.kernel.shape[:-2])
        elif re.fullmatch("Conv[123]DTranspose", type(layer).__name__):
            fan = math.prod(layer.kernel.shape[:-2]) * layer.kernel.shape[-1]
        elif re.fullmatch("PReLU|(Layer|RMS)Normalization", type(layer).__name__):
            fan = 0  # entry by entry
        else:
            continue
        fans |= dict.fromkeys(map(id, layer.weights), fan)
    return fans
