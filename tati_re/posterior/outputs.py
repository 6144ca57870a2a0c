"""Outputs of a model for several vectors of parameters and the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_BLOCK_VALUES = 16_000_000
"""Numbers of the widest layer that are computed at once."""

_ROWS = 8192
"""Inputs at a time."""


class Outputs:
    """A model without a state: compiled once, for any number of vectors and inputs; layers act as in prediction.

    Args:
        flat: The model (`FlatModel`).
    """

    def __init__(self, flat: Any) -> None:
        from tati_re.models.inspect import input_shape_of, output_shape_of

        self.flat = flat
        self.input_shape = tuple(input_shape_of(flat.model)[1:])
        self.num_outputs = int(np.prod([n or 1 for n in output_shape_of(flat.model)[1:]], dtype=int))
        self._together = flat.vectorizable and not flat.auxiliary
        self._width = max([self.num_outputs, *(shape[-1] for shape in flat.shapes if shape)])
        self._compiled: Any = None

    def __call__(self, parameters: np.ndarray, auxiliary: Sequence[np.ndarray], inputs: np.ndarray) -> np.ndarray:
        """Computes outputs.

        Args:
            parameters: `(draws, P)`.
            auxiliary: The non-trainable variables of each draw, `(draws, *shape)` each.
            inputs: `(n, ...)`, as the model takes them.

        Returns:
            `(draws, n, ...)`, in the model's number type.
        """
        call, parts = self._call(), []
        rows = max(1, min(len(inputs), _ROWS))
        most = max(1, _BLOCK_VALUES // (rows * self._width)) if self._together else 1
        for start in range(0, len(inputs), rows):
            pieces = []
            for first in range(0, len(parameters), most):
                vectors = np.asarray(parameters[first : first + most], self.flat.dtype)
                pieces.append(call(vectors, [values[first] for values in auxiliary], inputs[start : start + rows]))
            parts.append(np.concatenate(pieces))
        return np.concatenate(parts, axis=1)

    def _call(self) -> Any:
        if self._compiled is None:
            from tati_re.core.backend import tf
            from tati_re.posterior.walkers import map_walkers

            flat, together = self.flat, self._together

            def outputs(vectors, extra, x):
                def one(weights, auxiliary, inputs, _):
                    return flat.call(weights, auxiliary, inputs)[0]

                if not together:
                    return one(flat.split_one(vectors[0]), extra, x, x)[None]
                return map_walkers("vectorized", one, flat.split(vectors), (), x, x, True)

            auxiliary = [tf.TensorSpec(np.shape(value), tf.as_dtype(value.dtype)) for value in flat.auxiliary]
            x = tf.TensorSpec((None, *self.input_shape), tf.as_dtype(flat.input_dtype))
            vectors = tf.TensorSpec((None, flat.num_parameters), tf.as_dtype(flat.dtype))
            concrete = tf.function(outputs, (vectors, auxiliary, x), autograph=False).get_concrete_function()

            def call(vectors, auxiliary, x):
                return concrete(
                    tf.constant(vectors), [tf.constant(value) for value in auxiliary], tf.constant(x)
                ).numpy()

            self._compiled = call
        return self._compiled
