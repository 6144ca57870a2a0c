"""Classes with an order, such as grades: a cumulative logit law."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.likelihoods.contract import CLASSES, Likelihood
from tati_re.likelihoods.laws import Law
from tati_re.likelihoods.outputs import refuse_targets, tensorflow


class Ordinal(Likelihood):
    """Ordered classes 0, 1, ..., K - 1 with P(y <= k) = sigmoid(c_k) and rising thresholds c_k.

    The network predicts K - 1 numbers. The first shifts all thresholds c_k, the others stretch the
    gaps between neighboring thresholds. For outputs of 0 the class probabilities are the
    frequencies of the training labels.

    Source: P. McCullagh, J. R. Stat. Soc. B 42 (1980).
    """

    name = "ordinal"
    kind = CLASSES
    constants = ("first_threshold", "gaps")

    first_threshold: Any = 0.0
    gaps: Any = 1.0
    _fewest_classes = 0

    def check(self, targets: np.ndarray) -> None:
        counts = (targets >= 0) & (targets == np.floor(targets))
        refuse_targets(~counts, targets, self.name, "classes numbered from 0 in their order")
        columns = 1 if targets.ndim == 1 else targets.shape[1]
        refuse_if(columns > 1, "loss: ordinal needs one column of labels.", columns, 1)

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        classes = np.asarray(targets).reshape(-1).astype(int)
        # Half an example more in each class keeps the thresholds of absent ones finite.
        counts = np.bincount(classes, weights, self._fewest_classes) + 0.5
        refuse_if(len(counts) < 2, "loss: ordinal needs two classes.", len(counts), "at least 2")
        below = np.cumsum(counts)[:-1] / counts.sum()
        thresholds = np.log(below) - np.log1p(-below)
        likelihood.first_threshold = thresholds[0]
        likelihood.gaps = np.diff(thresholds)
        return likelihood

    def of_classes(self, count: int) -> Self:
        likelihood = copy.copy(self)
        likelihood._fewest_classes = count
        return likelihood

    @property
    def num_classes(self) -> int:
        """K, the number of classes from 0 to the largest label."""
        return np.size(self.gaps) + 2

    def num_outputs(self, columns: int) -> int:
        return self.num_classes - 1

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        labels = tf.cast(tf.reshape(targets, [-1]), tf.int32)
        chosen = tf.one_hot(labels, self.num_classes, dtype=tf.float64)
        return tf.reduce_sum(chosen * self.class_log_probs(outputs), axis=-1)

    def class_log_probs(self, outputs: Any) -> Any:
        tf = tensorflow()
        outputs = tf.cast(outputs, tf.float64)
        gaps = tf.constant(np.atleast_1d(self.gaps), tf.float64) * tf.exp(outputs[..., 1:])
        first = outputs[..., :1] + self.first_threshold
        thresholds = tf.concat([first, first + tf.cumsum(gaps, axis=-1)], axis=-1)
        # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), without cancellation.
        upper = tf.math.log_sigmoid(thresholds)
        lower = tf.math.log_sigmoid(-thresholds)
        inner = upper[..., 1:] + lower[..., :-1] + tf.math.log(-tf.math.expm1(-gaps))
        return tf.concat([upper[..., :1], inner, lower[..., -1:]], axis=-1)

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        values = np.asarray(outputs, np.float64)
        gaps = np.atleast_1d(self.gaps) * np.exp(values[..., 1:])
        first = values[..., :1] + self.first_threshold
        thresholds = np.concatenate([first, first + np.cumsum(gaps, axis=-1)], axis=-1)
        upper, lower = -np.logaddexp(0, -thresholds), -np.logaddexp(0, thresholds)
        inner = upper[..., 1:] + lower[..., :-1] + np.log(-np.expm1(-gaps))
        return np.concatenate([upper[..., :1], inner, lower[..., -1:]], axis=-1)

    def law(self, outputs: np.ndarray) -> Law:
        raise NotImplementedError("Classes have probabilities: log_probabilities.")

    def log_likelihood(
        self, targets: np.ndarray, outputs: np.ndarray, extra: Any = None
    ) -> np.ndarray:
        values = self.log_probabilities(outputs)
        labels = np.asarray(targets).reshape(-1).astype(int)
        index = np.broadcast_to(labels[:, None], (*values.shape[:-1], 1))
        return np.take_along_axis(values, index, axis=-1)[..., 0]

    def describe(self) -> str:
        return f"ordered classes, {self.num_classes} of them, by cumulative logits"
