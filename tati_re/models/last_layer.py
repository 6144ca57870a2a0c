"""A Keras model whose last layer alone is sampled: the layers before it are frozen, and their outputs
are the features that the last layer takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tati_re.core.backend import first_outputs_of, keras, layers_of, origin_of, tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.models.flat import FlatModel
from tati_re.models.inputs import called, tensors_of
from tati_re.models.inspect import input_dtype_of, is_masked, refuse_stateful
from tati_re.models.names import tensor_names

_EXPECTED = "a Sequential or functional model that ends with one layer of weights"
_ACTIVATIONS = 2**24
"""Numbers of the widest layer that are computed at once."""
_MOST_ROWS = 1024


@dataclass(frozen=True, eq=False)
class SplitModel:
    """A model in two parts: `head(trunk(x))` has the outputs of the model.

    Attributes:
        trunk: The Keras model from the inputs to the features.
        head: The Keras model from the features to the outputs.
        layer: The last layer with trainable weights, the first of the head.
    """

    trunk: Any
    head: Any
    layer: Any


class LastLayer(FlatModel):
    """A model of which only the parameters of the last layer move.

    The last layer is the last one with trainable weights; layers behind it have none. The layers
    before it act as in prediction, with the weights that they have now.

    Args:
        model: A built Keras model, Sequential or functional.
        fix: Parameters of the last layer that are fixed, as to `FlatModel`. Default: none.

    Attributes:
        head: The last layer and those behind it as a function of the features.
        num_features: Numbers of an example that the last layer takes.
        layer_name: The name of the last layer in the names of the tensors.

    Raises:
        InputError: The model does not end with one layer of weights on one tensor.
    """

    def __init__(self, model: Any, fix: str | Sequence[str] | None = None) -> None:
        parts = split(model)
        super().__init__(parts.head, fix, model)
        self.head: FlatModel = FlatModel(parts.head, fix, model)
        self.model = model
        self.input_dtype = input_dtype_of(model) or self.dtype
        self.trunk = parts.trunk
        everything = sum(prod(v.shape) for v in model.trainable_variables)
        self.num_fixed = everything - self.num_parameters
        self.num_features = prod(self.feature_shape)
        self.layer_name = tensor_names(parts.head, model)[0].rsplit("/", 1)[0]
        self._frozen = list(parts.trunk.weights)
        # The model is the user's, who may train it further.
        self._values = [tf.constant(variable.numpy()) for variable in self._frozen]

    def __reduce__(self) -> Any:
        return LastLayer, (self.model, self._fix)

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of the features of an example."""
        return tuple(self.trunk.outputs[0].shape[1:])

    @property
    def rows_at_once(self) -> int:
        """Examples whose features are computed at once."""
        shapes = [tensor.shape[1:] for tensor in _tensors_of(self.trunk)]
        widest = max(prod(size or 1 for size in shape) for shape in shapes)
        return max(1, min(_MOST_ROWS, _ACTIVATIONS // widest))

    def described_in_words(self) -> str:
        """One sentence on what is sampled and what is frozen."""
        return (
            f"Sampling the last layer only: {self.layer_name} "
            f"({self.num_parameters:,} parameters) on {self.num_features:,} features; "
            f"{sum(prod(v.shape) for v in self._frozen):,} weights before it are frozen (layers)."
        )

    def frozen_values(self) -> dict[int, np.ndarray]:
        """The weights before the last layer, by the identity of their Keras variable."""
        values = zip(self._frozen, self._values, strict=True)
        return {id(variable): value.numpy() for variable, value in values}

    def features(self, x: Any) -> Any:
        """The features `(n, *feature_shape)` of prepared inputs `(n, ...)`."""
        with keras.StatelessScope(list(zip(self._frozen, self._values, strict=True))):
            return called(self.trunk, x)

    def set(self, vector: Any) -> None:
        """Writes parameters `(P,)` and the frozen weights into the Keras model."""
        super().set(vector)
        for variable, value in zip(self._frozen, self._values, strict=True):
            variable.assign(value)

    def call(
        self, weights: Sequence[Any], auxiliary: Sequence[Any], x: Any, training: bool = False
    ) -> tuple[Any, tuple]:
        """The outputs (n, ...) of one walker, and the non-trainable variables of the last layer.

        The frozen layers act as in prediction.

        Args:
            weights: Tensors in the shapes of `variables`.
            auxiliary: Tensors in the shapes of `self.auxiliary`.
            x: Prepared inputs of the whole model, (n, ...).
            training: Whether the last layer and those behind it act as in training. Default: False.
        """
        return self.head.call(weights, auxiliary, self.features(x), training)


def flat_model(
    model: Any, fix: str | Sequence[str] | None = None, layers: str = "all"
) -> FlatModel:
    """A Keras model as a function of the flat vector of the parameters that are sampled.

    Args:
        model: A built Keras model.
        fix: Parameters that are fixed, as to `FlatModel`. Default: none.
        layers: "all", or "last" to sample the last layer only. A model of one layer is sampled as a
            whole. Default: "all".
    """
    if layers == "all" or _is_one_layer(model):
        return FlatModel(model, fix)
    return LastLayer(model, fix)


def split(model: Any) -> SplitModel:
    """Splits a model before its last layer with trainable weights.

    Args:
        model: A built Keras model.

    Raises:
        InputError: The model is of one's own class, branches behind its last layer, uses the last
            layer twice, or freezes all layers.
    """
    refuse_stateful(model)
    parts = _split(model)
    shared = {id(v) for v in parts.layer.variables} & {id(v) for v in parts.trunk.variables}
    problem = f"layers: the last layer {parts.layer.name} also acts earlier in the model."
    refuse_if(shared, problem, model.name, "a last layer that is used once")
    return parts


def _split(model: Any) -> SplitModel:
    tensor = _output_of(model)
    end = tensor
    while True:
        operation, call = origin_of(tensor)
        masked = any(map(is_masked, call.input_tensors))
        problem = "layers: the model masks the inputs of its last layer."
        refuse_if(masked, problem, model.name, "features without a mask")
        _refuse_branches(model, operation, call)
        if isinstance(operation, keras.Layer) and operation.trainable_variables:
            break
        tensor = call.input_tensors[0]

    if isinstance(operation, keras.Model):
        return _split_inside(model, operation, call, tensor, end)
    feature = call.input_tensors[0]
    trunk = keras.Model(_input_of(model), feature, name="trunk")
    return SplitModel(trunk, keras.Model(feature, end, name="head"), operation)


def _split_inside(model: Any, inner: Any, call: Any, tensor: Any, end: Any) -> SplitModel:
    """The parts of a model whose last layer stands in a model inside of it."""
    parts = _split(inner)
    features = parts.trunk(*call.arguments.args)
    trunk = keras.Model(_input_of(model), features, name="trunk")
    start = keras.Input(batch_shape=features.shape, dtype=features.dtype)
    outputs = parts.head(start)
    if tensor is not end:
        outputs = keras.Model(tensor, end, name="behind")(outputs)
    return SplitModel(trunk, keras.Model(start, outputs, name="head"), parts.layer)


def _output_of(model: Any) -> Any:
    """The output of a Sequential or functional model."""
    outputs = tensors_of(model, "outputs")
    if len(outputs) != 1:
        problem = "layers: the last layer of this model is not known."
        raise InputError(problem, type(model).__name__, _EXPECTED)
    return outputs[0]


def _input_of(model: Any) -> Any:
    """The input of a model, several ones in their structure."""
    return model.inputs[0] if len(model.inputs) == 1 else model.input


def _refuse_branches(model: Any, operation: Any, call: Any) -> None:
    """Refuses a place with several inputs, or the start of the model, on the way from its output."""
    count = len(call.input_tensors)
    problem = "layers: no layer of the model has trainable weights."
    refuse_if(count == 0, problem, model.name, _EXPECTED)
    problem = "layers: the model branches before it has met its last layer."
    inside = isinstance(operation, keras.Model) and operation.trainable_variables
    refuse_if(count > 1 and not inside, problem, f"{operation.name} with {count} inputs", _EXPECTED)


def _is_one_layer(model: Any) -> bool:
    """Whether all weights belong to one layer."""
    layers = [layer for layer in layers_of(model) if layer.weights]
    return len([layer for layer in layers if not layers_of(layer)]) == 1


def _tensors_of(model: Any) -> list[Any]:
    """The symbolic tensors of a functional model, those of models inside of it too."""
    tensors = [*model.inputs, *model.outputs]
    for operation in model.operations:
        if isinstance(operation, keras.Model):
            tensors += _tensors_of(operation) if tensors_of(operation, "outputs") else []
        tensors += first_outputs_of(operation)
    return tensors
