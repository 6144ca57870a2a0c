"""Losses of examples that do not all count the same."""

from typing import Any

import numpy as np

from tati_re.core.backend import tf


class WeightedLoss:
    """A loss (`Loss`) times the weight of each example, which comes with the labels; all else is the loss' own.
    It gets labels back in the type and number of dimensions of `labels`, which are as the loss takes them."""

    def __init__(self, loss: Any, labels: np.ndarray) -> None:
        self.loss, self._type, self._rank = loss, tf.as_dtype(labels.dtype), labels.ndim

    def __getattr__(self, name: str) -> Any:
        if name == "loss":
            raise AttributeError(name)
        return getattr(self.loss, name)

    @staticmethod
    def packed(labels: np.ndarray, weights: np.ndarray, dtype: tf.DType) -> np.ndarray:
        """Labels, `(n,)` or `(n, outputs)`, and behind them the weights, `(n,)`, as one array `(n, outputs + 1)`.
        The type is that of the parameters; it holds class numbers up to 2^24 exactly."""
        flat = labels.reshape(len(labels), -1)
        return np.concatenate([flat, weights[:, None]], axis=1).astype(dtype.as_numpy_dtype)

    def _parts(self, packed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        labels = tf.cast(packed[..., :-1], self._type)
        return labels[..., 0] if self._rank == 1 else labels, packed[..., -1]

    def per_example(self, packed: tf.Tensor, outputs: tf.Tensor, *noise: Any) -> tf.Tensor:
        labels, weights = self._parts(packed)
        losses = self.loss.per_example(labels, outputs, *noise)
        return tf.cast(weights, losses.dtype) * losses

    def accuracy(self, packed: tf.Tensor, outputs: tf.Tensor, signs: bool) -> tf.Tensor:
        """As that of the loss: every example counts once."""
        return self.loss.accuracy(self._parts(packed)[0], outputs, signs)
