"""A Keras model seen as a function of one flat vector."""

from __future__ import annotations

import math

import numpy as np

from tati_re.models.backend import tf
from tati_re.models.inspect import has_training_state, refuse_what_changes_the_law, vectorizable, xla_safe
from tati_re.models.names import place_names


class FlatModel:
    """A Keras model as a pure function of its trainable weights, taken as one vector in the order of `trainable_variables`.

    Args:
        model: A built Keras model.

    Attributes:
        num_parameters: P.
        shapes: Of the trainable tensors.
        tensor_names: By their place in the model.
        dtype: Of the parameters.
        input_dtype: What the model takes.
        auxiliary: Values of all other variables (moving statistics, seeds), numpy.
        has_training_state, vectorizable, xla_safe: See :mod:`tati_re.models.inspect`.
        regularizer: `None`, or the sum of all weight regularisers as a function of the list of weights.

    Raises:
        InputError: The model is not built, has nothing to train, a constraint or an activity regulariser.
    """

    def __init__(self, model) -> None:
        refuse_what_changes_the_law(model)
        self.model = model
        self._variables = list(model.trainable_variables)
        self.shapes = [tuple(variable.shape) for variable in self._variables]
        self._sizes = [math.prod(shape) for shape in self.shapes]
        self.num_parameters = sum(self._sizes)
        self.tensor_names = place_names(model)
        self.dtype = str(self._variables[0].dtype)
        self.input_dtype = str(model.inputs[0].dtype) if getattr(model, "inputs", None) else model.compute_dtype
        self.has_training_state = has_training_state(model)
        self.vectorizable = vectorizable(model)
        self.xla_safe = xla_safe(model)
        regularized = [(k, v.regularizer) for k, v in enumerate(self._variables) if getattr(v, "regularizer", None) is not None]
        self.regularizer = (lambda weights: sum(function(weights[k]) for k, function in regularized)) if regularized else None

    @property
    def auxiliary(self) -> list[np.ndarray]:
        return [np.asarray(variable) for variable in self.model.non_trainable_variables]

    def parameter_names(self) -> list[str]:
        """P names such as `dense/kernel[0,3]`; a scalar tensor has no brackets."""
        return [
            f"{name}[{','.join(map(str, index))}]" if shape else name
            for name, shape in zip(self.tensor_names, self.shapes, strict=True)
            for index in np.ndindex(*shape)
        ]

    def get(self) -> np.ndarray:
        """The model's present weights, `(parameters,)`."""
        return np.concatenate([np.asarray(variable).reshape(-1) for variable in self._variables])

    def set(self, vector) -> None:
        """Writes a vector `(parameters,)` into the Keras model."""
        for variable, piece in zip(self._variables, np.split(np.asarray(vector), np.cumsum(self._sizes)[:-1]), strict=True):
            variable.assign(piece.reshape(variable.shape))

    def split(self, position) -> list:
        """`(walkers, parameters)` to one `(walkers, *shape)` tensor a weight."""
        walkers = position.shape[0]
        pieces = tf.split(position, self._sizes, axis=1)
        return [tf.reshape(piece, (walkers, *shape)) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def split_one(self, vector) -> list:
        """`(parameters,)` to the list of weights."""
        return [tf.reshape(piece, shape) for piece, shape in zip(tf.split(vector, self._sizes), self.shapes, strict=True)]

    def join(self, weights: list):
        """The inverse of `split`."""
        walkers = weights[0].shape[0]
        return tf.concat([tf.reshape(weight, (walkers, -1)) for weight in weights], axis=1)

    def call(self, weights: list, auxiliary: list, inputs, training: bool = False):
        """Outputs for one walker's weights, and its auxiliary variables afterwards."""
        return self.model.stateless_call(list(weights), list(auxiliary), inputs, training=training)
