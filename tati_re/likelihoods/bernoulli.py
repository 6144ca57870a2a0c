"""Labels of 0 and 1 with one output each: two classes, or several labels at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.likelihoods.categorical import loss_with_outputs, refuse_labels
from tati_re.likelihoods.contract import CLASSES, StandardizedLikelihood
from tati_re.likelihoods.gaussian import flat
from tati_re.likelihoods.outputs import refuse_targets, tensorflow


class Bernoulli(StandardizedLikelihood):
    """Labels of 0 and 1, or shares between them, each with an output of its own.

    Args:
        from_logits: Whether outputs are logits, or probabilities of label 1. Default: True.
    """

    name = "binary_crossentropy"
    kind = CLASSES
    has_law = False
    takes_logits = True
    takes_labels = True
    one_output = True
    settings = ("from_logits",)

    def __init__(self, from_logits: bool = True) -> None:
        self.from_logits = bool(from_logits)

    def check(self, targets: np.ndarray) -> None:
        refuse_targets((targets < 0) | (targets > 1), targets, self.name, "labels from 0 to 1")

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        if self.from_logits:
            values = tf.nn.sigmoid_cross_entropy_with_logits(targets, outputs)
        else:
            tiny = tf.constant(np.finfo(outputs.dtype.as_numpy_dtype).tiny, outputs.dtype)
            log_yes, log_no = (tf.math.log(tf.maximum(p, tiny)) for p in (outputs, 1 - outputs))
            values = -targets * log_yes - (1 - targets) * log_no
        return tf.reduce_sum(values, axis=-1)

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        labels = flat(targets)
        logits = self._logits(outputs)
        # Where a probability is 0 or 1 in its precision, the other term is infinite and has no
        # weight.
        yes = labels * np.where(labels > 0, np.logaddexp(0, -logits), 0.0)
        no = (1 - labels) * np.where(labels < 1, np.logaddexp(0, logits), 0.0)
        return (yes + no).sum(axis=-1)

    def _logits(self, outputs: np.ndarray) -> np.ndarray:
        values = np.asarray(outputs, np.float64)
        if self.from_logits:
            return values
        with np.errstate(divide="ignore"):
            return np.log(values) - np.log1p(-values)

    def class_log_probs(self, outputs: Any) -> Any:
        tf = tensorflow()
        logits = outputs if self.from_logits else tf.math.log(outputs) - tf.math.log1p(-outputs)
        return tf.concat([tf.math.log_sigmoid(-logits), tf.math.log_sigmoid(logits)], axis=-1)

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        from scipy.special import log_softmax

        logits = self._logits(outputs)
        if logits.shape[-1] > 1:  # rows of one 1 and else 0
            return log_softmax(logits, axis=-1)
        return np.concatenate([-np.logaddexp(0, logits), -np.logaddexp(0, -logits)], axis=-1)

    def label_log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """log p of 0 and of 1 for several labels at once, shape (..., outputs, 2)."""
        logits = self._logits(outputs)
        return np.stack([-np.logaddexp(0, logits), -np.logaddexp(0, -logits)], axis=-1)

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        return 0.5 * (1 + np.tanh(0.5 * outputs)) if self.from_logits else outputs

    def stored(self, targets: np.ndarray, dtype: type) -> np.ndarray:
        values = super().stored(targets, dtype)
        if values.min() == -1:
            values = self.without_signs(values)
        off = np.maximum(-values, values - 1).max(-1)
        refuse_labels(self.name, values, off, "labels of 0 and 1 or probabilities")
        return values

    def without_signs(self, targets: np.ndarray) -> np.ndarray:
        return (targets + 1) / 2

    def has_accuracy(self, num_classes: int | None, one_column: bool, multi_label: bool) -> bool:
        if num_classes is None:
            return multi_label
        return super().has_accuracy(num_classes, one_column, multi_label)

    def right(self, targets: Any, outputs: Any, signs: bool) -> Any:
        threshold = 0.0 if self.from_logits else 0.5
        tf = tensorflow()
        return tf.reduce_all(tf.equal(outputs > threshold, targets > 0.5), axis=-1)

    def describe(self) -> str:
        return loss_with_outputs(self.name, self.from_logits)
