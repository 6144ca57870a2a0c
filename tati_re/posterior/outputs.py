"""Outputs of a model for several vectors of parameters and the same inputs."""

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

_BLOCK_VALUES = 16_000_000  # Numbers of the widest layer that are computed at once.

_ROWS = 8192  # Inputs at a time.

FEW_ROWS = 16
"""Inputs up to which each draw gets a copy of them. TensorFlow then multiplies by the weights of each
draw as they lie in memory, in half the time of one row by 960 networks of 2,410 weights; it would
transpose the weights of all draws first. From 64 rows on the transposed product is faster.
"""


def _as_they_are(x: Any) -> Any:
    return x


def _ignored(_: Any) -> None:
    pass


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


class SplitWeights:
    """The weights of several draws as tensors of their own, for many predictions.

    Args:
        tensors: For each trainable variable of the model the values of all draws, shape
            (draws, *shape).
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.tensors = list(tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def part(self, first: int, last: int) -> "SplitWeights":
        """The weights of consecutive draws.

        Args:
            first: Number of the first draw, from 0.
            last: Number after the last draw.
        """
        if first == 0 and last >= len(self):
            return self
        return SplitWeights([values[first:last] for values in self.tensors])


class Outputs:
    """A model (`FlatModel`) as a function of parameters and inputs, as in prediction.

    Args:
        flat: The model.
        prepared: Function that turns stored inputs into inputs of the model. Default: they stay as
            they are.
    """

    def __init__(self, flat: Any, prepared: Callable = lambda x: x) -> None:
        from tati_re.core.backend import Compiled
        from tati_re.models.chain import chain_of
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
        self._chain = chain_of(flat.model, flat.variables, flat.others) if self._together else None
        self._width = max(self.num_outputs, flat.widest)
        self._one = Compiled(
            lambda x, v, *others: flat.call(flat.split_one(v), others, prepared(x))[0], free=(0,)
        )
        self._split = Compiled(flat.split, free=(0,))
        free = tuple(range(1 + len(flat.shapes)))
        self._several = Compiled(self._of_several, free=free)
        self._several_few_rows = Compiled(self._of_several_few_rows, free=free)

    def __call__(
        self, parameters: np.ndarray, auxiliary: Sequence[np.ndarray], inputs: np.ndarray
    ) -> np.ndarray:
        """The outputs of each draw, (draws, n, ...), in the model's number type.

        Args:
            parameters: Parameters, (draws, P), or what `converted` makes of them.
            auxiliary: Non-trainable variables of the draws, (draws, *shape) each.
            inputs: Inputs, (n, ...), not prepared yet.
        """
        inputs = self._seen(inputs)
        if not self._together:
            return np.stack(
                [
                    self._of_one(v, [a[i] for a in auxiliary], inputs)
                    for i, v in enumerate(np.asarray(parameters, self.flat.dtype))
                ]
            )
        most = max(1, _BLOCK_VALUES // (max(1, min(len(inputs), _ROWS)) * self._width))
        return _joined(
            [
                self._of_block(self._weights(parameters, first, first + most), inputs)
                for first in range(0, len(parameters), most)
            ],
            axis=0,
        )

    def converted(self, parameters: np.ndarray) -> SplitWeights | np.ndarray:
        """Parameters as tensors for many calls, which then spend no time on their conversion; an
        array if draws are computed one by one.

        Args:
            parameters: Parameters of the draws, shape (draws, P).
        """
        values = np.asarray(parameters, self.flat.dtype)
        return self._as_tensors(values) if self._together else values

    def _as_tensors(self, parameters: np.ndarray) -> SplitWeights:
        return SplitWeights(self._split(np.asarray(parameters, self.flat.dtype)))

    def _weights(
        self, parameters: SplitWeights | np.ndarray, first: int, last: int
    ) -> SplitWeights:
        """The weights of some draws."""
        if isinstance(parameters, SplitWeights):
            return parameters.part(first, last)
        return self._as_tensors(parameters[first:last])

    def _of_block(self, weights: SplitWeights, inputs: np.ndarray) -> np.ndarray:
        """The outputs of some draws, of which as many are computed at once as memory allows."""
        few = len(inputs) <= FEW_ROWS
        function = self._several_few_rows if few else self._several
        pieces = function.over_pieces(_ROWS, [inputs], *weights.tensors)
        return _joined([piece.numpy() for piece in pieces], axis=1)

    def of_one(
        self, vector: np.ndarray, auxiliary: Sequence[np.ndarray], inputs: np.ndarray
    ) -> np.ndarray:
        """The outputs of one vector of parameters, (n, ...).

        Args:
            vector: Parameters, (P,).
            auxiliary: Values of the variables that are not trained, (*shape) each.
            inputs: Inputs, (n, ...), not prepared yet.
        """
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

    def _of_several(self, x: Any, *weights: Any) -> Any:
        from tati_re.posterior.walkers import map_walkers

        x = self._prepared(x)
        return map_walkers("vectorized", self._called, list(weights), (), x, x, shared=True)

    def _of_several_few_rows(self, x: Any, *weights: Any) -> Any:
        from tati_re.core.backend import tf
        from tati_re.posterior.walkers import map_walkers

        x = self._prepared(x)
        draws = tf.shape(weights[0])[:1]
        copies = tf.broadcast_to(x, tf.concat([draws, tf.shape(x)], axis=0))
        if self._chain is not None:
            # Vectorized, TensorFlow would copy the weights of all draws in each call.
            outputs, _ = self._chain.call(weights, (), copies, shared=False, watch=_ignored)
            return tf.reshape(outputs, (-1, tf.shape(x)[0], *outputs.shape[1:]))
        return map_walkers(
            "vectorized", self._called, list(weights), (), copies, copies, shared=False
        )

    def _called(self, weights: list, auxiliary: list, inputs: Any, _: Any) -> Any:
        """The outputs of one draw."""
        return self.flat.call(weights, auxiliary, inputs)[0]


def _joined(pieces: list[np.ndarray], axis: int) -> np.ndarray:
    """The pieces along an axis; a single one is not copied."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=axis)
