"""The layers of a Keras model, and their consequences for sampling."""

import math
import re
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from tati_re.core.backend import (
    keras,
    layers_of,
    on_gpu,
    origin_of,
    quiet,
    tf,
    value_and_gradient,
    watched,
)
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.user_input import users_code
from tati_re.models.inputs import called, layout_of, tensors_of

# Checked one by one: outputs and gradients in tf.vectorized_map, without fallback, with weights and
# inputs per walker.
_VECTORIZABLE = frozenset(
    """Activation Add AlphaDropout Average AveragePooling1D AveragePooling2D BatchNormalization Concatenate Cropping1D
    Cropping2D Dense Dropout ELU EinsumDense Flatten GaussianDropout GaussianNoise GlobalAveragePooling1D
    GlobalAveragePooling2D GlobalMaxPooling1D GlobalMaxPooling2D GroupNormalization Identity InputLayer
    LayerNormalization LeakyReLU MaxPooling2D Maximum Minimum Multiply Normalization PReLU Permute ReLU RepeatVector
    Rescaling Reshape Softmax SpatialDropout1D SpatialDropout2D Subtract UnitNormalization ZeroPadding1D
    ZeroPadding2D""".split()  # noqa: SIM905
)
_SCOPE = re.compile(r"[A-Za-z0-9_.\\/>-]*")
_DROPOUT = (
    "AlphaDropout",
    "Dropout",
    "GaussianDropout",
    "GaussianNoise",
    "SpatialDropout1D",
    "SpatialDropout2D",
)
_KEEP_ACTIVATION = ("Flatten", "Reshape", "Permute", "Identity", *_DROPOUT)
_ACTIVATION_LAYERS = {"Softmax": "softmax", "ReLU": "relu", "LeakyReLU": "leaky_relu", "ELU": "elu"}
_ACTIVATION_LAYERS |= {"Sigmoid": "sigmoid", "HardSigmoid": "hard_sigmoid"}  # of keras.ops
_ACTIVATION_LAYERS |= {"LogSoftmax": "log_softmax", "LogSigmoid": "log_sigmoid", "Tanh": "tanh"}


def refuse_unsupported(model: Any) -> None:
    layers = [model, *layers_of(model)]
    built = all(layer.built for layer in layers)
    expected = "a model that starts with keras.Input, or was called on data"
    refuse_if(not built, "The model has no weights yet.", model.name, expected)
    variables = model.trainable_variables
    problem = "The model has no trainable parameters."
    refuse_if(not variables, problem, model.name, "a model with trainable weights")
    layout_of(model)
    outputs = one_output(model)
    masked = len(output_shape_of(model)) > 2 and outputs and is_masked(outputs[0])
    problem = "The model masks positions of its outputs, but the loss would count them."
    refuse_if(
        masked,
        problem,
        "Masking or mask_zero",
        "sequences of equal length, or outputs of one position",
    )
    _refuse_constraints(variables)
    _refuse_layers(layers_of(model))
    if any(_is_foreign(layer) or isinstance(layer, keras.layers.Lambda) for layer in layers):
        _refuse_calls(model)
    _refuse_odd_names(layers, variables)

    types = sorted({v.dtype for v in variables})
    if types not in (["float32"], ["float64"]):
        raise InputError(
            "The parameters of the model are not of one type.",
            ", ".join(types),
            "float32 or float64",
        )


def is_masked(tensor: Any) -> bool:
    """Whether some positions of a symbolic tensor of Keras are masked."""
    return getattr(tensor, "_keras_mask", None) is not None


def _refuse_constraints(variables: list[Any]) -> None:
    """Refuses constraints of weights, for which priors have walls."""
    bound = [
        f"{type(v.constraint).__name__} on {v.path}" for v in variables if v.constraint is not None
    ]
    refuse_if(
        bound,
        "Constraints of the model cannot be sampled. Use a prior instead.",
        ", ".join(bound),
        "no constraints",
    )


def _refuse_layers(layers: list[Any]) -> None:
    """Refuses layers that add to the loss, or that remember the batch before."""
    for layer in layers:
        if getattr(layer, "activity_regularizer", None) is not None:
            raise InputError(
                "Activity regularizers cannot be sampled.", f"one on layer {layer.name}", "none"
            )
        _refuse_state(layer)


def refuse_stateful(model: Any) -> None:
    """Refuses a model with a layer that remembers the batch before."""
    for layer in layers_of(model):
        _refuse_state(layer)


def _refuse_state(layer: Any) -> None:
    """Refuses a layer that remembers the batch before."""
    if getattr(layer, "stateful", False):
        raise InputError(
            "A layer keeps its state between batches.", f"layer {layer.name}", "stateful=False"
        )


def _refuse_odd_names(layers: list[Any], variables: list[Any]) -> None:
    """Refuses names that TensorFlow or a table cannot hold."""
    odd = [layer.name for layer in layers if not _SCOPE.fullmatch(layer.name)]
    odd += [v.name for v in variables if not v.name.isprintable()]
    refuse_if(
        odd,
        "model: TensorFlow or a table does not accept the name of a layer or weight.",
        repr(odd[:1])[1:-1],
        "a name of letters, digits and _ . -",
    )


def one_output(model: Any) -> list[Any]:
    """The output of a model as a symbolic tensor, in a list; none of one that was not called
    yet.
    """
    outputs = tensors_of(model, "outputs")
    refuse_if(
        len(outputs) > 1,
        "The model has several outputs.",
        len(outputs),
        "one output, for example joined by Concatenate",
    )
    return outputs


def _refuse_calls(model: Any) -> None:
    """Refuses layers that call `add_loss`, NumPy, or random numbers without a state in the model; a
    user's layer shows it only when run, so the model is traced once, and called twice on a few
    numbers.
    """
    losses = []
    foreign = set[int]()

    def run(x: Any) -> Any:
        with keras.StatelessScope(collect_losses=True) as scope:
            outputs = called(model, x)
        losses.extend(scope.losses)
        foreign.update(set(scope.state_mapping) - {id(variable) for variable in model.variables})
        return outputs

    shape = input_shape_of(model)
    dtype = input_dtype_of(model) or model.trainable_variables[0].dtype
    with users_code(
        "model: its call", "layers and functions of keras.ops or TensorFlow that can be compiled"
    ):
        traced = tf.function(run, autograph=False).get_concrete_function(
            tf.TensorSpec(shape, dtype)
        )
    outputs = traced.structured_outputs
    refuse_if(
        not tf.is_tensor(outputs),
        "The model has several outputs.",
        type(outputs).__name__,
        "one tensor",
    )
    refuse_if(
        losses, "Losses that layers add cannot be sampled.", f"add_loss in {model.name}", "none"
    )
    with users_code("model: its call", "a call that returns the same outputs for the same inputs"):
        first, again = (np.asarray(run(_ones(model))) for _ in range(2))
    problem = (
        "model: its call draws random numbers whose state no layer stores, so U is not a "
        "function of the parameters."
    )
    expected = (
        "keras.layers such as Dropout, or a keras.random.SeedGenerator stored as an "
        "attribute of the layer"
    )
    refuse_if(
        foreign or not np.allclose(first, again, rtol=1e-3, equal_nan=True),
        problem,
        model.name,
        expected,
    )


def _ones(model: Any) -> Any:
    """Two examples of a model's inputs: ones, or the first of all words."""
    dtype = input_dtype_of(model) or model.trainable_variables[0].dtype
    shape = [2, *(length or 8 for length in input_shape_of(model)[1:])]
    return tf.cast(tf.ones(shape) * (0.0 if "int" in dtype else 1.0), dtype)


def vectorizable(model: Any) -> bool:
    """Returns whether `tf.vectorized_map` turns every layer into one operation for all walkers."""
    parts = [model, *layers_of(model)]
    for part in [part for part in parts if isinstance(part, keras.Model)]:
        if (
            type(part) not in (keras.Model, keras.Sequential)
            and type(part).__name__ != "Functional"
        ):
            return False
        # Operations such as `x + y` between layers are no layers themselves.
        parts.extend(o for o in getattr(part, "operations", ()) if not isinstance(o, keras.Layer))
    return all(isinstance(part, keras.Model) or acts_alone(part) for part in parts)


def vectorizes(model: Any) -> bool:
    """Returns whether `tf.vectorized_map` can compute a model's gradient for several walkers, by
    tracing it once.
    """
    weights = [tf.stack([v.value, v.value]) for v in model.trainable_variables]
    over_walkers = partial(tf.vectorized_map, fallback_to_while_loop=False)
    return _computes(model, over_walkers, lambda gradient: gradient.get_concrete_function(weights))


def _computes(model: Any, mapped: Callable, tried: Callable, **compiled: bool) -> bool:
    """Whether the gradient of the sum of `mapped(sum of the outputs, weights)` can be used as
    `tried` does.
    """
    x = _ones(model)

    def total(weights: list[Any]) -> Any:
        with keras.StatelessScope(list(zip(model.trainable_variables, weights, strict=True))):
            return tf.reduce_sum(called(model, x))

    def gradient(weights: list[Any]) -> list[Any]:
        return value_and_gradient(lambda weights: mapped(total, weights), weights)[1]

    try:
        with quiet():
            tried(tf.function(gradient, autograph=False, **compiled))
    except (tf.errors.OpError, TypeError, ValueError, NotImplementedError):
        return False
    return True


def acts_alone(layer: Any) -> bool:
    """Returns whether a layer is known to treat examples independently in prediction."""
    return type(layer) in tuple(getattr(keras.layers, name) for name in _VECTORIZABLE)


def xla_safe(model: Any) -> bool:
    """Returns whether the gradient of the model compiles under XLA, for one walker. Keras' layers
    do; code that is not Keras' own, layers that prepare data, and those that call cuDNN are
    tried.
    """
    kinds = [(type(part).__module__, type(part).__name__) for part in [model, *layers_of(model)]]
    tried = {"Lambda"} | ({"LSTM", "GRU"} if on_gpu() else set())
    prepares = [
        ".preprocessing." in module and kind not in ("Normalization", "Rescaling")
        for module, kind in kinds
    ]
    if all(module.startswith("keras.") and kind not in tried for module, kind in kinds) and not any(
        prepares
    ):
        return True
    weights = [v.value for v in model.trainable_variables]
    return _computes(
        model, lambda total, at: total(at), lambda gradient: gradient(weights), jit_compile=True
    )


def work_of(model: Any, inputs: Any, dtype: str) -> float:
    """What a pass over some inputs costs, in numbers that it makes; each takes 0.2 to 1 ns.

    In a matrix product or a convolution a number is a sum of products; about a sixteenth of these
    products is added. Each round of a loop is counted.

    Args:
        model: A Keras model.
        inputs: Inputs, (n, ...).
        dtype: Type of the model's inputs.
    """
    x = tf.cast(np.asarray(inputs), dtype)
    work = list[float]()

    def seen(kind: Any, inputs: Any, _: Any, outputs: Any, *others: Any, **names: Any) -> None:
        sizes = [tensor.shape.num_elements() or 0 for tensor in (*outputs[:1], *inputs[:2])]
        if not any(
            operation in str(kind)
            for operation in ("ReadVariableOp", "Reshape", "Identity", "ExpandDims", "Squeeze")
        ):
            sums = any(operation in str(kind) for operation in ("MatMul", "Conv", "Einsum"))
            work.append(sum(sizes[:1]) + (math.sqrt(math.prod(sizes)) / 16 if sums else 0))

    watched(lambda: called(model, x), seen)
    return sum(work)


def training_layers(model: Any) -> list[str]:
    """The kinds of layers that act otherwise while training; refuses a model that then sets its
    parameters or adds to the loss.
    """
    names = set()
    doubtful_kinds = set[str]()
    for layer in [model, *layers_of(model)]:
        kind = type(layer).__name__
        if _is_random(layer):
            names.add(kind)
        elif _may_act_in_training(layer):
            doubtful_kinds.add(kind)

    if doubtful_kinds and _acts_in_training(model, doubtful_kinds):
        names |= doubtful_kinds
    return sorted(names)


def _is_foreign(layer: Any) -> bool:
    """Whether the class of a layer is not one of Keras."""
    return not type(layer).__module__.startswith("keras.")


def _is_random(layer: Any) -> bool:
    """Whether a layer of Keras draws numbers, or keeps statistics, while training."""
    if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
        return True

    rates = [getattr(layer, name, 0) for name in ("rate", "stddev", "dropout", "recurrent_dropout")]
    if any(isinstance(rate, (int, float)) and rate > 0 for rate in rates):
        return True
    return type(layer).__name__.startswith("Random") and not _is_foreign(layer)


def _may_act_in_training(layer: Any) -> bool:
    """Whether a layer itself may act otherwise while training; its layers are asked themselves."""
    if not _is_foreign(layer):
        return type(layer).__name__ == "SpectralNormalization"
    if "training" not in signature(layer.call).parameters and (
        type(layer).__name__ != "SpectralNormalization"
    ):
        return False

    seeds = any(isinstance(part, keras.random.SeedGenerator) for part in vars(layer).values())
    return seeds or not layers_of(layer)


def _acts_in_training(model: Any, doubtful_kinds: set[str]) -> bool:
    """Whether a call while training changes outputs or state; refuses what cannot be sampled."""
    with users_code("model: its call", "a call that works in training mode"):
        still = np.asarray(called(model, _ones(model)))
        with keras.StatelessScope(collect_losses=True) as scope:
            moved = np.asarray(called(model, _ones(model), training=True))

    refuse_if(
        scope.losses,
        "Losses that layers add cannot be sampled.",
        f"add_loss in {model.name}",
        "none",
    )
    sets = [v.path for v in model.trainable_variables if id(v) in scope.state_mapping]
    refuse_if(
        sets,
        "A layer changes sampled parameters of the model during training.",
        f"{', '.join(sorted(doubtful_kinds))} on {', '.join(sets)}",
        "none, or a prior for the parameters",
    )
    return bool(scope.state_mapping) or not np.allclose(still, moved, equal_nan=True)


def input_dtype_of(model: Any) -> str | None:
    inputs = tensors_of(model, "inputs")
    dtype = inputs[0].dtype if inputs and len(inputs) == 1 else "float32"
    return dtype if "int" in dtype else None


def input_shape_of(model: Any) -> tuple[int | None, ...]:
    """Returns the shape of the model's input, examples first as None; several inputs packed."""
    if layout := layout_of(model):
        return (None, sum(math.prod(shape) for _, shape in layout))
    inputs = tensors_of(model, "inputs")
    shape = inputs[0].shape if inputs else (model.get_build_config() or {}).get("input_shape")
    if not isinstance(shape, (tuple, list)):
        problem = "The model does not know the shape of its input."
        raise InputError(problem, model.name, "a model that was called on data")
    return (None, *shape[1:])


def output_shape_of(model: Any) -> tuple[int | None, ...]:
    """Returns the shape of the model's output, examples first as None."""
    if outputs := tensors_of(model, "outputs"):
        output = outputs[0] if isinstance(model, keras.Sequential) else model.output
    else:
        dtype = input_dtype_of(model) or model.compute_dtype
        with users_code(
            "model: its call",
            "layers and functions of keras.ops or TensorFlow that can be compiled",
        ):
            output = model.compute_output_spec(keras.KerasTensor(input_shape_of(model), dtype))
    kind = type(output).__name__
    several = isinstance(output, (dict, list, tuple))
    refuse_if(
        several, "The model's output is not a tensor.", kind, "one tensor, not in a dict or list"
    )
    return (None, *output.shape[1:])


def last_layer_of(model: Any) -> Any:
    """The last layer or operation that changes the outputs, of the innermost model where models are
    nested; None where it is not known.
    """
    layer = _last_layer(model)
    return last_layer_of(layer) if isinstance(layer, keras.Model) else layer


def output_activation_of(model: Any) -> str | None:
    """The name of the output activation, such as "softmax", "sigmoid" or "linear"; None where it
    cannot be told. That is for a model of one's own class, a sum of two branches, or a function of
    one's own. Layers that only reshape, or do nothing while sampling, are looked through.
    """
    layer = _last_layer(model)
    if layer is None:
        return None
    if isinstance(layer, keras.Model):
        return output_activation_of(layer)
    kind = type(layer).__name__
    if kind in _ACTIVATION_LAYERS:
        return _ACTIVATION_LAYERS[kind]
    convolution = kind.startswith(
        ("Conv", "DepthwiseConv", "SeparableConv")
    ) and not kind.startswith("ConvLSTM")
    if convolution or isinstance(
        layer, (keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Activation)
    ):
        name = getattr(layer.activation, "__name__", None)
        if name in ("softmax_v2", "softmax", "sigmoid", "tanh", "relu"):
            return "softmax" if name == "softmax_v2" else name
        return name if layer.activation is getattr(keras.activations, str(name), None) else None
    return None


def squashing_of(model: Any) -> str | None:
    """The kind of probabilities that a model's outputs are whatever its weights are.

    For models whose last activation cannot be read off their layers, see `output_activation_of`.
    Weights are drawn four times, up to ten times as large as usual: logits then leave 0 to 1.

    Args:
        model: A Keras model that was built.

    Returns:
        "softmax" if the outputs of an example add up to 1, "sigmoid" if each lies between 0 and 1,
        None for all others.
    """
    outputs = _of_drawn_weights(model)
    inside = np.isfinite(outputs).all() and outputs.min() >= -1e-6 and outputs.max() <= 1 + 1e-6
    if not inside or np.ptp(outputs, axis=0).max() < 1e-3:
        return None
    adds_up = outputs.shape[-1] > 1 and np.allclose(outputs.sum(axis=-1), 1.0, atol=1e-3)
    return "softmax" if adds_up else "sigmoid"


def takes_both_signs(model: Any) -> bool:
    """Whether outputs of a model may be above and below 0, by weights drawn as in `squashing_of`."""
    outputs = _of_drawn_weights(model)
    return bool((outputs.min(axis=0) < 0).all() and (outputs.max(axis=0) > 0).all())


def _of_drawn_weights(model: Any) -> np.ndarray:
    """Outputs `(draws, 2, ...)` for two examples and weights drawn four times, float64."""
    random = np.random.default_rng(0)
    inputs = _ones(model)
    if inputs.dtype.is_floating:
        inputs = tf.constant(random.standard_normal(inputs.shape), inputs.dtype)
    outputs = []
    for scale in (1.0, 1.0, 10.0, 10.0):
        weights = [scale * random.standard_normal(v.shape) for v in model.trainable_variables]
        pairs = zip(model.trainable_variables, weights, strict=True)
        drawn = [(variable, tf.constant(value, variable.dtype)) for variable, value in pairs]
        with keras.StatelessScope(drawn):
            outputs.append(np.asarray(called(model, inputs), np.float64))
    return np.stack(outputs)


def _last_layer(model: Any) -> Any:
    """Returns the last layer that changes the output's values."""
    if isinstance(model, keras.Sequential):
        layers = [layer for layer in model.layers if not _keeps_activation(layer)]
        return layers[-1] if layers else None
    outputs = tensors_of(model, "outputs")
    if len(outputs) != 1:
        return None
    tensor = outputs[0]
    while True:
        operation, call = origin_of(tensor)
        if not _keeps_activation(operation):
            return operation
        tensor = call.input_tensors[0]


def _keeps_activation(layer: Any) -> bool:
    """Whether outputs of a layer have the activation of its inputs."""
    if type(layer).__name__ == "Activation":
        return layer.activation is keras.activations.linear
    return type(layer).__name__ in _KEEP_ACTIVATION
