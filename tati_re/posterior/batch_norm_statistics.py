"""Statistics of batch normalization that belong to a stored draw, found again from the training
data.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tati_re.core.backend import Compiled, layers_of

_MOST_BATCHES = 16


class BatchNormStatistics:
    """Means and variances of the layers that normalize by each batch, for one vector of parameters.

    They are averages over up to 16 mini-batches of the training data. A trajectory holds none, and
    those with which a walker ended fit no other draw.

    Args:
        flat: The model, a `FlatModel`.
        inputs: Inputs of the training data as they are stored, (N, ...).
        batch_size: Examples of a mini-batch. None: all of them.
        prepared: Function that turns stored inputs into inputs of the model.
    """

    def __init__(
        self, flat: Any, inputs: np.ndarray, batch_size: int | None, prepared: Callable
    ) -> None:
        size = min(batch_size or len(inputs), len(inputs))
        firsts = np.linspace(0, len(inputs) - size, min(_MOST_BATCHES, len(inputs) // size)).astype(
            int
        )
        self._batches = [prepared(inputs[first : first + size]) for first in firsts]
        momenta: dict[int, float] = {}
        for layer in layers_of(flat.model):
            if type(layer).__name__ == "BatchNormalization" and layer.trainable:
                momenta |= dict.fromkeys(
                    map(id, (layer.moving_mean, layer.moving_variance)), layer.momentum
                )
        self._momenta = [momenta.get(id(variable)) for variable in flat.others]

        def after(x, vector, *auxiliary):
            return flat.call(flat.split_one(vector), auxiliary, x, training=True)[1]

        self._after = Compiled(after, free=(0,))

    def __call__(self, vector: np.ndarray, auxiliary: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The variables that are not trained, with the statistics of this draw in their place.

        Args:
            vector: Parameters of the draw, (P,).
            auxiliary: Values of the variables that are not trained, (*shape) each, in the order of
                the model. Further ones at the end stay as they are.
        """
        known = list(zip(auxiliary, self._momenta, strict=False))
        empty = [
            np.zeros_like(values) if momentum is not None else values for values, momentum in known
        ]
        fixed_variables = auxiliary[len(empty) :]
        moved = [
            [part.numpy() for part in self._after(batch, vector, *empty, *fixed_variables)]
            for batch in self._batches
        ]
        averages_of_batches = [
            values
            if momentum is None
            else np.mean(averages, axis=0, dtype=values.dtype) / (1 - momentum)
            for (values, momentum), averages in zip(known, zip(*moved, strict=True), strict=True)
        ]
        return [*averages_of_batches, *auxiliary[len(averages_of_batches) :]]
