"""A Keras model as a function of one flat vector of its trainable parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tati_re.errors import InputError
from tati_re.models import inspect
from tati_re.models.backend import keras, tf
from tati_re.models.names import parameter_names, tensor_names


class FlatModel:
    """The trainable variables of a Keras model, in their order, flattened row by row into one vector of P parameters.

    Nothing here holds a state: `call` takes weights and non-trainable variables and returns outputs, in Keras'
    `StatelessScope`. All functions of tensors run eagerly, in a graph, under XLA and in `tf.vectorized_map`. A model
    whose variables move otherwise (constraints), or whose loss has terms that depend on activations, is refused.

    Args:
        model: A built Keras model with one input and one output, all trainable variables of one type, float32 or
            float64 (`tati_re.models.precision.in_precision`).

    Attributes:
        model: The model; `set` writes into it.
        num_parameters: P.
        shapes: Shape of each trainable variable.
        tensor_names: Name of each by its place: `dense/kernel`, `lstm/lstm_cell/bias`.
        dtype: "float32" or "float64", of the parameters.
        input_dtype: Type in which the model takes its inputs: an integer type where it says so, else `dtype`.
        auxiliary: Values of all non-trainable variables (statistics, frozen weights, states of seeds), in Keras' order.
        training_layers: Names of the layers that act differently while training (BatchNormalization, Dropout).
        has_training_state: Whether there are such layers.
        vectorizable: Whether `tf.vectorized_map` handles all layers as single large operations.
        xla_safe: Whether the gradient compiles under XLA.
        regularized: Names of the tensors with a weight regulariser.
        regularizer: Function (weights of one walker) -> sum of the weight regularisers, a scalar tensor; None where
            there are none.

    Raises:
        InputError: The model is of a kind that cannot be sampled; the sentence says which.

    Example:
        >>> import keras
        >>> flat = FlatModel(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
        >>> flat.num_parameters, flat.tensor_names
        (3, ['dense/kernel', 'dense/bias'])
    """

    def __init__(self, model: Any) -> None:
        inspect.refuse_unsupported(model)
        self.model = model
        variables = model.trainable_variables
        self.shapes: list[tuple[int, ...]] = [tuple(v.shape) for v in variables]
        self._sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self.shapes]
        self.num_parameters = sum(self._sizes)
        self.tensor_names = tensor_names(model)
        self.dtype: str = variables[0].dtype
        self.input_dtype = inspect.input_dtype_of(model) or self.dtype
        self.auxiliary = [np.array(v.numpy()) for v in model.non_trainable_variables]
        self.training_layers = inspect.training_layers(model)
        self.has_training_state = bool(self.training_layers)
        self.vectorizable = inspect.vectorizable(model)
        self.xla_safe = inspect.xla_safe(model)
        terms = [(i, v.regularizer) for i, v in enumerate(variables) if v.regularizer is not None]
        self.regularized = [self.tensor_names[i] for i, _ in terms]

        def regularizer(weights: Sequence[Any]) -> Any:
            return tf.add_n([tf.cast(term(weights[i]), self.dtype) for i, term in terms])

        self.regularizer = regularizer if terms else None

    def parameter_names(self) -> list[str]:
        """Returns the P names of the parameters, in the order of the vector: `dense/kernel[0,3]`."""
        return parameter_names(self.tensor_names, self.shapes)

    def get(self) -> np.ndarray:
        """Returns the parameters as they are in the Keras model, `(P,)`."""
        return np.concatenate([v.numpy().reshape(-1) for v in self.model.trainable_variables])

    def set(self, vector: Any) -> None:
        """Writes parameters `(P,)` into the Keras model.

        Raises:
            InputError: The vector has another shape.
        """
        vector = np.asarray(vector)
        if vector.shape != (self.num_parameters,):
            raise InputError("The parameters do not fit the model.", vector.shape, f"({self.num_parameters},)")
        pieces = np.split(vector, np.cumsum(self._sizes)[:-1])
        for variable, piece, shape in zip(self.model.trainable_variables, pieces, self.shapes, strict=True):
            variable.assign(piece.reshape(shape).astype(self.dtype))

    def split(self, position: Any) -> list[Any]:
        """Returns the weights of all walkers, a list of `(walkers, *shape)`, of positions `(walkers, P)`."""
        pieces = tf.split(position, self._sizes, axis=1)
        return [tf.reshape(piece, (-1, *shape)) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def split_one(self, vector: Any) -> list[Any]:
        """Returns the weights of one walker, a list of tensors of `shapes`, of a vector `(P,)`."""
        pieces = tf.split(vector, self._sizes, axis=0)
        return [tf.reshape(piece, shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def join(self, weights: Sequence[Any]) -> Any:
        """Returns positions `(walkers, P)` of weights of all walkers, a list of `(walkers, *shape)`: undoes `split`."""
        pairs = zip(weights, self._sizes, strict=True)
        return tf.concat([tf.reshape(weight, (-1, size)) for weight, size in pairs], axis=1)

    def call(
        self, weights: Sequence[Any], auxiliary: Sequence[Any], x: Any, training: bool = False
    ) -> tuple[Any, tuple]:
        """Computes the outputs of one walker.

        Args:
            weights: Tensors of `shapes`.
            auxiliary: Tensors of the shapes of `self.auxiliary`.
            x: Inputs, `(n, ...)`.
            training: Act as while training: batch statistics, dropout. Default False.

        Returns:
            Outputs `(n, ...)`, and the non-trainable variables as the call left them.
        """
        # Keras' own stateless_call skips what calling a model does: casting its inputs, telling layers that they train.
        variables = [*self.model.trainable_variables, *self.model.non_trainable_variables]
        with keras.StatelessScope(list(zip(variables, [*weights, *auxiliary], strict=True))) as scope:
            outputs = self.model(x, training=training)
        new = [scope.get_current_value(variable) for variable in self.model.non_trainable_variables]
        return outputs, tuple(new)
