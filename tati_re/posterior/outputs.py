"""Outputs of a model for several vectors of parameters and the same inputs."""

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

_BLOCK_VALUES = 16_000_000  # Numbers of the widest layer that are computed at once.

_ROWS = 8192  # Inputs at a time.


def _as_they_are(x: Any) -> Any:
    return x


class Features:
    """Features of inputs of a model whose last layer alone is sampled (`LastLayer`).

    Those of the inputs that were asked for last are kept, as draws are predicted block by block.

    Args:
        flat: The model.
        prepared: What makes inputs as they are stored those that the model takes.
    """

    def __init__(self, flat: Any, prepared: Callable = _as_they_are) -> None:
        from tati_re.core.backend import Compiled

        self._rows = flat.rows_at_once
        self._compiled = Compiled(lambda x: flat.features(prepared(x)), free=(0,))
        self._last: tuple[tuple, np.ndarray] | None = None

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the features of inputs `(n, ...)`, `(n, *feature_shape)`."""
        inputs = np.asarray(inputs)
        key = (inputs.shape, inputs.dtype.str, crc32(np.ascontiguousarray(inputs).data))
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        values = self.computed(inputs)
        self._last = key, values  # at once, for the threads of a server
        return values

    def computed(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the features of inputs `(n, ...)`, computed in blocks of rows."""
        pieces = self._compiled.over_pieces(self._rows, [inputs])
        return np.concatenate([piece.numpy() for piece in pieces])


class Outputs:
    """A model (`FlatModel`) as a function of parameters and inputs, as in prediction; `prepared`
    makes what it sees.
    """

    def __init__(self, flat: Any, prepared: Callable = lambda x: x) -> None:
        from tati_re.core.backend import Compiled
        from tati_re.models.inspect import input_shape_of, output_shape_of

        self._prepared = prepared
        self.input_shape = tuple(input_shape_of(flat.model)[1:])
        shape = [n or 1 for n in output_shape_of(flat.model)[1:]]
        self.num_outputs = int(np.prod(shape, dtype=int))
        self.places = int(np.prod(shape[:-1], dtype=int))
        self._features: Features | None = None
        if flat.head is not None:
            self._features = Features(flat, prepared)
            self._prepared = prepared = _as_they_are
            flat = flat.head
        self.flat = flat
        self._together = flat.vectorizable and not flat.auxiliary
        self._width = max([self.num_outputs, *(shape[-1] for shape in flat.shapes if shape)])
        self._one = Compiled(
            lambda x, v, *others: flat.call(flat.split_one(v), others, prepared(x))[0], free=(0,)
        )
        self._several = Compiled(self._of_several, free=(0, 1))

    def __call__(
        self, parameters: np.ndarray, auxiliary: Sequence[np.ndarray], inputs: np.ndarray
    ) -> np.ndarray:
        """The outputs of each draw, `(draws, n, ...)`, in the model's number type. Parameters are
        `(draws, P)`, their non-trainable variables `(draws, *shape)` each; inputs, `(n, ...)`, are
        not prepared yet.
        """
        if not self.is_converted(parameters):
            parameters = np.asarray(parameters, self.flat.dtype)
        inputs = self._seen(inputs)
        if not self._together:
            return np.stack(
                [
                    self._of_one(v, [a[i] for a in auxiliary], inputs)
                    for i, v in enumerate(parameters)
                ]
            )
        most = max(1, _BLOCK_VALUES // (max(1, min(len(inputs), _ROWS)) * self._width))
        if len(parameters) <= most:
            blocks = [parameters]
        else:
            blocks = [parameters[first : first + most] for first in range(0, len(parameters), most)]
        block_outputs = [self._several.over_pieces(_ROWS, [inputs], vectors) for vectors in blocks]
        return _joined(
            [_joined([piece.numpy() for piece in pieces], 1) for pieces in block_outputs], 0
        )

    def converted(self, parameters: np.ndarray) -> Any:
        """Parameters as a tensor for many calls, which then spend no time on its conversion; an
        array if draws are computed one by one.

        Args:
            parameters: Parameters of the draws, shape (draws, P).
        """
        from tati_re.core.backend import tf

        values = np.asarray(parameters, self.flat.dtype)
        return tf.constant(values) if self._together else values

    def is_converted(self, parameters: Any) -> bool:
        """Whether parameters are a tensor."""
        from tati_re.core.backend import tf

        return tf.is_tensor(parameters)

    def of_one(
        self, vector: np.ndarray, auxiliary: Sequence[np.ndarray], inputs: np.ndarray
    ) -> np.ndarray:
        """The outputs of one vector `(P,)` with its variables that are not trained, `(n, ...)`."""
        return self._of_one(vector, auxiliary, self._seen(inputs))

    def _seen(self, inputs: np.ndarray) -> np.ndarray:
        """The inputs, or the features of a model whose last layer alone moves."""
        return inputs if self._features is None else self._features(inputs)

    def _of_one(
        self, vector: np.ndarray, auxiliary: Sequence[np.ndarray], inputs: np.ndarray
    ) -> np.ndarray:
        return np.concatenate(
            [piece.numpy() for piece in self._one.over_pieces(_ROWS, [inputs], vector, *auxiliary)]
        )

    def _of_several(self, x: Any, vectors: Any) -> Any:
        from tati_re.posterior.walkers import map_walkers

        def one(weights, auxiliary, inputs, _):
            return self.flat.call(weights, auxiliary, inputs)[0]

        x = self._prepared(x)
        return map_walkers("vectorized", one, self.flat.split(vectors), (), x, x, True)


def _joined(pieces: list[np.ndarray], axis: int) -> np.ndarray:
    """The pieces along an axis; a single one is not copied."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=axis)
