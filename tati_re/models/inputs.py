"""Inputs in a model's shape; several inputs stand side by side in one array
(`tati_re.data.packing`).
"""

import math
import re
from contextlib import nullcontext
from typing import Any

import numpy as np

from tati_re.core.backend import inputs_of, keras, layers_of, tf
from tati_re.core.errors import InputError, refuse_if


def tensors_of(model: Any, which: str) -> list[Any]:
    """Returns inputs or outputs of a model as symbolic tensors; none of a model not called yet.

    Args:
        model: A Keras model or layer.
        which: "inputs" or "outputs".
    """
    tensors = getattr(model, which, None)
    return list(tensors) if isinstance(tensors, (list, tuple)) else []


def layout_of(model: Any) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Returns name and shape of one example of each input of a model; empty where it has one
    input.
    """
    inputs = tensors_of(model, "inputs")
    if len(inputs) < 2:
        return ()
    named = (
        {id(tensor): name for name, tensor in model.input.items()}
        if isinstance(model.input, dict)
        else {}
    )
    layout = []
    for tensor in inputs:
        shape = tuple(tensor.shape[1:])
        refuse_if(
            None in shape,
            f"model: input {tensor.name} of several has no fixed shape.",
            shape,
            "fixed lengths",
        )
        layout.append((named.get(id(tensor), tensor.name), shape or (1,)))
    return tuple(layout)


def called(model: Any, x: Any, training: bool = False) -> Any:
    """Calls a model on inputs.

    Args:
        model: A Keras model.
        x: Inputs, (n, ...); several inputs are packed, (n, numbers).
        training: Whether layers act as in training. Default: False.
    """
    if layout := layout_of(model):
        pieces = tf.split(x, [math.prod(shape) for _, shape in layout], axis=-1)
        parts = []
        for piece, tensor in zip(pieces, model.inputs, strict=True):
            value = tf.reshape(piece, (-1, *tensor.shape[1:]))
            parts.append(value if "float" in tensor.dtype else tf.cast(value, tensor.dtype))
        x = keras.tree.pack_sequence_as(model.input, parts)
    # Without a letter first TensorFlow takes a name for that of an inner scope alone.
    with nullcontext() if model.name[0].isalnum() else tf.name_scope("model"):
        return model(x, training=training)


def fit_inputs(inputs: np.ndarray, model_shape: tuple) -> np.ndarray:
    """Inputs with a channel axis of length 1 added if the model has one.

    Args:
        inputs: Inputs, (n, ...).
        model_shape: Shape of one example in the model, with None for any length.

    Raises:
        InputError: The inputs have another shape.
    """
    shape = inputs.shape[1:]
    if len(model_shape) == len(shape) + 1 and model_shape[-1] == 1:
        inputs = inputs[..., None]
        shape = inputs.shape[1:]
    if len(shape) != len(model_shape) or any(
        want not in (None, have) for want, have in zip(model_shape, shape, strict=True)
    ):
        expected = f"shape {model_shape}{', a single example as x[None]' if inputs.shape == (*model_shape, 1) else ''}"
        raise InputError(
            "data: the inputs do not match the model.", f"inputs of shape {shape}", expected
        )
    return inputs


def checked_indices(model: Any, inputs: np.ndarray) -> np.ndarray:
    """The inputs unchanged; refuses numbers without a row in an `Embedding`.

    Steps would take another row for them.

    Args:
        model: A Keras model.
        inputs: Inputs in the model's shape, (n, ...).

    Raises:
        InputError: A number is not a whole one, or outside the rows of its layer.
    """
    tensors = tensors_of(model, "inputs")
    first = 0
    layers = {
        layer: inputs_of(layer)
        for layer in layers_of(model)
        if isinstance(layer, keras.layers.Embedding)
    }
    for tensor in tensors if layers else ():
        after = first + math.prod(tensor.shape[1:]) if len(tensors) > 1 else None
        part = inputs if after is None else inputs[:, first:after]
        first = after or 0
        for layer, layer_inputs in layers.items():
            if any(known_tensor is tensor for known_tensor in layer_inputs):
                wrong = part[(part < 0) | (part >= layer.input_dim) | (part != np.floor(part))]
                problem = f"data: an index exceeds the rows of layer {layer.name}."
                refuse_if(
                    wrong.size,
                    problem,
                    f"{wrong[:1]}",
                    f"whole numbers from 0 to {layer.input_dim - 1}",
                )
    known = {id(tensor) for tensor in tensors}
    if not all(
        layer_inputs and known.issuperset(map(id, layer_inputs)) for layer_inputs in layers.values()
    ):
        _look_up(
            model,
            inputs,
            tensors[0].dtype if len(tensors) == 1 else model.trainable_variables[0].dtype,
        )
    return inputs


def _look_up(model: Any, inputs: np.ndarray, dtype: str) -> None:
    """Calls the model where a row that an `Embedding` inside of it does not have is an error: on a
    CPU, without XLA.
    """
    try:
        with tf.device("CPU"):
            for start in range(0, len(inputs), 1024):
                called(model, tf.constant(inputs[start : start + 1024].astype(dtype)))
    except tf.errors.InvalidArgumentError as error:
        match = re.search(r"= (-?\d+ is not in \[.*?\))", str(error))
        if match is None:
            raise
        raise InputError(
            "data: an index exceeds the rows of an Embedding inside the model.", match[1]
        ) from None
