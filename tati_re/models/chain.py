"""Networks that are a chain of layers with all parameters in dense layers: the inputs and outputs
of each dense layer. The gradient of one example's loss with respect to a dense layer's kernel is
the outer product of the layer's input and the slope of the loss with respect to its output before
the activation. Its moments over many examples are products of two matrices (Goodfellow, 2015), for
which input and output must be seen; Keras' own call of a model hides them.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tati_re.core.backend import keras, origin_of, tf
from tati_re.models.inputs import layout_of
from tati_re.models.inspect import acts_alone, input_shape_of


class Pass(NamedTuple):
    """A dense layer's part of a pass through the chain. `kernel` and `bias` (`None`: no bias) are
    places among the trainable variables; `inputs` is `(n, inputs)` where all walkers share them,
    else `(walkers, n, inputs)`; `linear`, `(walkers, n, outputs)`, comes before the activation.
    """

    kernel: int
    bias: int | None
    inputs: Any
    linear: Any


class DenseChain:
    """A model as a chain of layers, for several walkers at once; made by `chain_of`.

    Args:
        model: The Keras model.
        layers: All its layers in their order.
        variables_by_layer: For the id of each dense layer that moves, the places of kernel and bias
            among the trainable variables; None for no bias.
        frozen: All other variables, in the order in which `call` takes them.
    """

    def __init__(
        self, model: Any, layers: Sequence[Any], variables_by_layer: dict, frozen: Sequence[Any]
    ) -> None:
        self._frozen = frozen
        self._layers = layers
        self._places = variables_by_layer
        self.input_shape = input_shape_of(model)[1:]

    @property
    def layers(self) -> list[Any]:
        """The layers in their order."""
        return list(self._layers)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether inputs `(n, *shape)` fit the first layer exactly, which Keras does not check."""
        known = len(shape) == len(self.input_shape)
        return known and all(
            want in (None, got) for want, got in zip(self.input_shape, shape, strict=True)
        )

    def call(
        self,
        weights: Sequence[Any],
        auxiliary: Sequence[Any],
        x: Any,
        shared: bool,
        watch: Callable,
    ) -> tuple[Any, list[Pass]]:
        """The outputs of all walkers, and the dense layers; layers act as in prediction.

        Args:
            weights: All trainable variables, (walkers, *shape) each.
            auxiliary: All other variables, (*shape) each, the same for these walkers.
            x: Inputs: (n, ...) where all walkers share them, else (walkers, n, ...).
            shared: Whether all walkers share the inputs.
            watch: Function that is called with the linear output of each dense layer before
                anything is computed from it.

        Returns:
            Outputs, (walkers * n, ...), one walker after the other, and the passes through the
            dense layers, first to last.
        """
        walkers = _length(weights[0], axis=0)
        passes = []
        n = _length(x, axis=0 if shared else 1)
        values = x if shared else tf.reshape(x, (walkers * n, *x.shape[2:]))
        with keras.StatelessScope(list(zip(self._frozen, auxiliary, strict=True))):
            for layer in self._layers:
                if id(layer) not in self._places:
                    values = layer(values)
                    continue
                kernel, bias = self._places[id(layer)]
                inputs = tf.cast(values, weights[kernel].dtype)
                if shared:
                    linear = tf.einsum("ni,wio->wno", inputs, weights[kernel])
                else:
                    inputs = tf.reshape(inputs, (walkers, n, inputs.shape[1]))
                    linear = tf.matmul(inputs, weights[kernel])
                linear = linear if bias is None else linear + weights[bias][:, None]
                watch(linear)
                passes.append(Pass(kernel, bias, inputs, linear))
                values = tf.reshape(linear, (walkers * n, linear.shape[2]))
                shared = False
                values = values if layer.activation is None else layer.activation(values)
        return values, passes


def _length(values: Any, axis: int) -> Any:
    """The length of a tensor along an axis, a number where it is known before the call."""
    known = values.shape[axis]
    return tf.shape(values)[axis] if known is None else known


def chain_of(
    model: Any, variables: Sequence[Any] | None = None, others: Sequence[Any] | None = None
) -> DenseChain | None:
    """A built Keras model as a chain, or None.

    In a chain each layer takes the output of the one before and treats every example separately.
    All variables that move are kernels and biases of dense layers. Each of these layers is met
    once, with one vector per example.

    Args:
        model: The model.
        variables: The variables that move. Default: None, the trainable ones.
        others: All other variables. Default: None, the non-trainable ones.
    """
    layers = _row_of(model)
    if layers is None or layout_of(model) or not all(acts_alone(layer) for layer in layers):
        return None
    variables = model.trainable_variables if variables is None else variables
    others = model.non_trainable_variables if others is None else others
    numbers = {id(variable): i for i, variable in enumerate(variables)}
    shape = input_shape_of(model)
    variables_by_layer = {}
    met = []
    for layer in layers:
        layer_ids = [
            id(variable) for variable in layer.trainable_variables if id(variable) in numbers
        ]
        if layer_ids:
            dense = (
                type(layer) is keras.layers.Dense
                and not layer.lora_enabled
                and layer.quantization_mode is None
            )
            dense_ids = [id(layer.kernel), id(layer.bias)][: 1 + layer.use_bias] if dense else None
            if layer_ids != dense_ids or len(shape) != 2:
                return None
            variables_by_layer[id(layer)] = (
                numbers[layer_ids[0]],
                numbers[layer_ids[1]] if layer.use_bias else None,
            )
            met += layer_ids
        shape = layer.compute_output_shape(shape)
    return (
        DenseChain(model, layers, variables_by_layer, others)
        if sorted(met) == sorted(numbers)
        else None
    )


def _row_of(model: Any) -> list[Any] | None:
    """The layers of a model in order, nested models expanded; None for a model with branches or of
    a user's class.
    """
    if type(model) is keras.Sequential:
        layers = model.layers
    elif type(model).__name__ == "Functional":
        layers = _row_to(model.outputs[0], model.inputs[0])
    else:
        return None
    row: list[Any] = []
    for layer in layers or ():
        inside = _row_of(layer) if isinstance(layer, keras.Model) else [layer]
        if inside is None:
            return None
        row += inside
    return row or None


def _row_to(tensor: Any, start: Any) -> list[Any] | None:
    """Returns the layers between two symbolic tensors; None where one has several inputs."""
    layers: list[Any] = []
    while tensor is not start:
        layer, call = origin_of(tensor)
        values = [value for value in call.arguments.kwargs.values() if value is not None]
        if (
            not isinstance(layer, keras.Layer)
            or len(call.arguments.args) != 1
            or values
            or len(call.input_tensors) != 1
        ):
            return None
        layers.append(layer)
        tensor = call.input_tensors[0]
    return layers[::-1]
