"""Classes with one output each: cross-entropies of class numbers and of rows of shares."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.likelihoods.contract import CLASSES, StandardizedLikelihood
from tati_re.likelihoods.gaussian import flat
from tati_re.likelihoods.outputs import refuse_targets, tensorflow


def loss_with_outputs(name: str, from_logits: bool) -> str:
    """The name of a loss with what it takes the model's outputs for, as a text.

    Args:
        name: Name of the loss.
        from_logits: Whether outputs are logits, not probabilities.
    """
    return f"{name}, the model's outputs treated as {'logits' if from_logits else 'probabilities'}"


class Categorical(StandardizedLikelihood):
    """Classes, one hot or as shares that add up to 1, with one output each.

    Args:
        from_logits: Whether outputs are logits, or probabilities but for a factor. Default: True.
    """

    name = "categorical_crossentropy"
    kind = CLASSES
    has_law = False
    takes_logits = True
    predicts_shares = True
    settings = ("from_logits",)
    constants = ("num_classes",)
    num_classes: Any = 2

    def __init__(self, from_logits: bool = True) -> None:
        self.from_logits = bool(from_logits)

    def check(self, targets: np.ndarray) -> None:
        refuse_targets((targets < 0) | (targets > 1), targets, self.name, "proportions from 0 to 1")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        likelihood.num_classes = targets.shape[-1]
        return likelihood

    def num_outputs(self, columns: int) -> int:
        return int(self.num_classes)

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        return -tensorflow().reduce_sum(targets * self.class_log_probs(outputs), axis=-1)

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        shares = flat(targets)
        values = self.log_probabilities(outputs)
        # A class without a share has no weight, even where its probability is 0.
        losses = np.where(shares > 0, shares * np.where(shares > 0, values, 0.0), 0.0)
        return -np.sum(losses, axis=-1)

    def class_log_probs(self, outputs: Any) -> Any:
        tf = tensorflow()
        if self.from_logits:
            return tf.nn.log_softmax(outputs, axis=-1)
        tiny = tf.constant(np.finfo(outputs.dtype.as_numpy_dtype).tiny, outputs.dtype)
        return tf.math.log(
            tf.maximum(outputs / tf.reduce_sum(outputs, axis=-1, keepdims=True), tiny)
        )

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        values = np.asarray(outputs, np.float64)
        by_place = values.reshape(*values.shape[:-1], self.places, -1)
        if self.from_logits:
            return _log_softmax(by_place).reshape(values.shape)
        with np.errstate(divide="ignore"):
            logs = np.log(by_place) - np.log(by_place.sum(-1, keepdims=True))
        return logs.reshape(values.shape)

    def probabilities_by_class(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        result = _softmax_by_class(outputs) if self._is_softmax else None
        return super().probabilities_by_class(outputs) if result is None else result

    @property
    def _is_softmax(self) -> bool:
        """Whether the outputs of an example are the logits of one softmax."""
        is_own = type(self).log_probabilities is Categorical.log_probabilities
        return self.from_logits and self.places == 1 and is_own

    def predicted(self, outputs: np.ndarray) -> np.ndarray:
        return np.exp(self.log_probabilities(outputs))

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        from scipy.special import softmax

        return softmax(outputs, axis=-1) if self.from_logits else outputs

    def labels_of(self, classes: np.ndarray) -> np.ndarray:
        return np.eye(int(self.num_classes))[classes]

    def stored(self, targets: np.ndarray, dtype: type) -> np.ndarray:
        values = super().stored(targets, dtype)
        off = np.maximum(-values, values - 1).max(-1)
        off = np.maximum(off, np.abs(values.sum(-1, dtype=np.float64) - 1))
        expected = "rows that add up to 1, of labels 0 and 1 or of probabilities"
        refuse_labels(self.name, values, off, expected)
        return values

    def check_fit(self, outputs: tuple, targets: tuple, num_classes: int | None) -> None:
        problem = (
            "loss: categorical_crossentropy needs one output and one column of labels per class."
        )
        expected = "sparse_categorical_crossentropy for class numbers, or binary_crossentropy for "
        last = outputs[-1] if outputs else 1
        refuse_if(last == 1, problem, "one column", f"{expected}two classes")
        super().check_fit(outputs, targets, num_classes)

    def describe(self) -> str:
        return loss_with_outputs(self.name, self.from_logits)


class SparseCategorical(Categorical):
    """Classes by their numbers, with one output each; see `Categorical`."""

    name = "sparse_categorical_crossentropy"
    one_output_a_class = True

    def check(self, targets: np.ndarray) -> None:
        numbers = (targets >= 0) & (targets == np.floor(targets))
        refuse_targets(~numbers, targets, self.name, "classes numbered from 0")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        likelihood.num_classes = int(np.max(targets)) + 1
        return likelihood

    def log_prob(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        return -self.loss(tf.cast(tf.reshape(targets, [-1]), tf.int32), outputs)

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        from tati_re.core.backend import on_gpu

        tf = tensorflow()
        if self.from_logits and outputs.shape.rank == 2 and not on_gpu():
            # Its kernel for GPUs is not deterministic. What `tf.nn` makes of it then ends in a slow
            # scatter.
            kernel = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits
            return kernel(features=outputs, labels=targets)[0]
        chosen = tf.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
        return -tf.reduce_sum(chosen * self.class_log_probs(outputs), axis=-1)

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        chosen = np.asarray(targets).reshape(-1).astype(np.int64)
        if self._is_softmax and outputs.ndim == 3 and outputs.shape[1] == len(targets):
            losses = _losses_by_class(outputs, chosen)
            if losses is not None:
                return losses
        values = self.log_probabilities(outputs)
        index = np.broadcast_to(chosen[:, None], (*values.shape[:-1], 1))
        log_probs = np.take_along_axis(values, index, -1)
        return -log_probs.reshape(*values.shape[:-2], len(targets), -1).sum(axis=-1)

    def labels_of(self, classes: np.ndarray) -> np.ndarray:
        return classes[:, None].astype(np.float64)

    def stored(self, targets: np.ndarray, dtype: type) -> np.ndarray:
        classes = np.asarray(targets).astype(np.int32)
        return self.without_signs(classes) if classes.min() == -1 else classes

    def without_signs(self, targets: np.ndarray) -> np.ndarray:
        return (np.asarray(targets) + 1) // 2

    def has_accuracy(self, num_classes: int | None, one_column: bool, multi_label: bool) -> bool:
        return num_classes is not None

    def right(self, targets: Any, outputs: Any, signs: bool) -> Any:
        tf = tensorflow()
        return tf.equal(tf.argmax(outputs, axis=-1, output_type=targets.dtype), targets)

    def check_fit(self, outputs: tuple, targets: tuple, num_classes: int | None) -> None:
        if num_classes is None:
            has_one_label = targets in ((), (1,))
            class_numbers = "class numbers; for several positions, with num_classes"
            expected = "gaussian or another regression loss" if has_one_label else class_numbers
            raise InputError("loss: the labels are not classes.", self.name, expected)
        last = outputs[-1] if outputs else 1
        problem = f"loss: {self.name} needs one output per class."
        received = f"labels up to {num_classes - 1} and a model with {last} outputs"
        expected = f"at least {num_classes} outputs, or labels from 0 to {last - 1}"
        refuse_if(last < num_classes, problem, received, expected)
        StandardizedLikelihood.check_fit(self, outputs, (*targets, last), num_classes)


def refuse_labels(name: str, values: np.ndarray, off: np.ndarray, expected: str) -> None:
    """Refuses labels that are no probabilities, with the row that is furthest from them.

    Args:
        name: Of the loss.
        values: Labels, shape (n, ..., columns).
        off: By how much each place is off, shape (n, ...).
        expected: What labels are allowed.

    Raises:
        InputError: A place is off by .001 or more.
    """
    by_row = off.reshape(len(values), -1).max(1)
    worst = int(by_row.argmax())
    first = ", ".join(f"{value:g}" for value in values[worst].ravel()[:4])
    problem = f"loss: {name} does not accept these labels."
    otherwise = f"{expected}, or gaussian or another regression loss"
    refuse_if(not by_row[worst] < 1e-3, problem, f"{first} in row {worst}", otherwise)


def _log_softmax(values: np.ndarray) -> np.ndarray:
    """Logarithm of the softmax over the last axis, float64.

    SciPy's reduces short rows one by one, which takes most of the time for a few classes.
    """
    from scipy.special import log_softmax

    classes = values.shape[-1]
    if classes > _FEW_CLASSES:
        return log_softmax(values, axis=-1)
    largest = values[..., 0].copy()
    for number in range(1, classes):
        np.maximum(largest, values[..., number], out=largest)
    if not np.isfinite(largest).all():
        return log_softmax(values, axis=-1)
    logs = values - largest[..., None]
    total = np.exp(logs) @ np.ones(classes)
    logs -= np.log(total)[..., None]
    return logs


_FEW_CLASSES = 32


def _softmax_by_class(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Softmax and its entropy in the number type of the outputs, class by class.

    With the classes first, each operation runs over long contiguous arrays: eight times as fast as
    rows of ten classes in double precision. In single precision no probability is below 1e-38.

    Args:
        outputs: Logits, shape (draws, n, classes).

    Returns:
        Probabilities, shape (classes, draws, n), and entropies, shape (draws, n). None if a logit is
        not finite.
    """
    num_draws, rows, classes = outputs.shape
    logits = _logits_by_class(outputs)
    if logits is None:
        return None
    if logits.dtype == np.float32:
        np.maximum(logits, _LEAST_LOGARITHM, out=logits)

    probabilities = np.exp(logits)
    total = probabilities.sum(axis=0)
    logits *= probabilities
    entropies = np.log(total) - logits.sum(axis=0) / total
    probabilities /= total
    return probabilities.reshape(classes, num_draws, rows), entropies.reshape(num_draws, rows)


def _losses_by_class(outputs: np.ndarray, chosen: np.ndarray) -> np.ndarray | None:
    """-log p of the true classes, a few draws at a time.

    Args:
        outputs: Logits, shape (draws, n, classes).
        chosen: True classes, shape (n,).

    Returns:
        Losses, shape (draws, n), float64; None if a logit is not finite.
    """
    losses = np.empty(outputs.shape[:2])
    number = np.arange(len(chosen))
    step = max(1, _BLOCK_VALUES // max(1, outputs[0].size))
    for first in range(0, len(outputs), step):
        some = outputs[first : first + step]
        logits = _logits_by_class(some)
        if logits is None:
            return None
        of_chosen = logits.reshape(-1, len(some), len(chosen))[chosen, :, number].T
        losses[first : first + step] = -of_chosen
        np.exp(logits, out=logits)
        losses[first : first + step] += np.log(logits.sum(axis=0)).reshape(len(some), -1)
    return losses


def _logits_by_class(outputs: np.ndarray) -> np.ndarray | None:
    """Logits less the largest of each row, shape (classes, draws * n); None if one is not finite.

    Args:
        outputs: Logits, shape (draws, n, classes).
    """
    classes = outputs.shape[-1]
    logits = np.ascontiguousarray(outputs.reshape(-1, classes).T)
    largest = logits[0].copy()
    for of_class in logits[1:]:
        np.maximum(largest, of_class, out=largest)
    with np.errstate(invalid="ignore"):
        logits -= largest
    return logits if np.isfinite(logits.min(initial=0.0)) else None


_BLOCK_VALUES = 1 << 17
"""Logits that are computed at a time, so that they stay in the cache."""
_LEAST_LOGARITHM = -87.0
"""Its exponential is the smallest number that single precision holds with all digits."""
