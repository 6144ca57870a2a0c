"""Quality of predicted probabilities, and predictions averaged over a posterior."""

from typing import NamedTuple

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.views import viewable

SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)
"""Where a softmax in float32 underflows, 1.2e-38; 87.3 nats."""


@front_doors
@viewable
class Calibration(NamedTuple):
    """Reliability of predicted probabilities by bin.

    Attributes:
        edges: Bin edges, shape (bins + 1,), from 0 to 1.
        confidence: Mean probability of the predicted class in each bin, shape (bins,); nan in an
            empty bin.
        accuracy: Fraction of correct predictions in each bin, shape (bins,); nan in an empty bin.
        count: Number of examples in each bin, shape (bins,).
        error: Expected calibration error, sum over bins of count/n |accuracy - confidence|.
    """

    edges: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray
    error: float


def class_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """Probabilities `(n, k)`, k >= 2, float64; also of a positive class alone, `(n,)` or `(n,
    1)`.
    """
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.size == 0:
        raise InputError("Probabilities have the wrong shape.", values.shape, "(examples, classes)")
    if not (values.min() >= -1e-6 and values.max() <= 1 + 1e-6):
        raise InputError(
            "Probabilities must lie between 0 and 1.",
            f"{values.min():g} to {values.max():g}",
            "0 to 1",
        )
    return np.concatenate([1.0 - values, values], axis=1) if values.shape[1] == 1 else values


def class_labels(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """Class numbers from 0, int64, shape (n,).

    Args:
        labels: Integers, or -1 and 1 for two classes, shape (n,) or (n, 1), or one-hot rows of
            shape (n, num_classes).
        num_classes: The number of classes.

    Raises:
        InputError: A label is not one of the classes.
    """
    values = np.asarray(labels)
    if values.ndim == 2 and values.shape[1] == num_classes:
        values = values.argmax(axis=1)
    values = values.reshape(-1)
    if num_classes == 2 and np.isin(values, (-1, 1)).all():
        values = values > 0
    classes = values.astype(np.int64)
    if not (
        np.array_equal(classes, values)
        and classes.size
        and classes.min() >= 0
        and classes.max() < num_classes
    ):
        listed = ", ".join(map(str, np.unique(values)[:5]))
        raise InputError(
            "Labels do not match the probabilities.",
            listed,
            f"integers from 0 to {num_classes - 1}",
        )
    return classes


@front_door
def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the fraction of examples whose most probable class is correct.

    Args:
        probabilities: Class probabilities, `(n, classes)`, in [0, 1].
        labels: True classes, `(n,)`, counted from 0.

    Returns:
        The fraction, in [0, 1].

    Raises:
        InputError: Shapes or labels do not fit.
    """
    values, right = paired(probabilities, labels)
    return float((values.argmax(axis=1) == right).mean())


@front_door
def negative_log_likelihood(
    probabilities: np.ndarray, labels: np.ndarray, floor: float = SMALLEST_PROBABILITY
) -> float:
    """Returns the mean over examples of -log(probability of the true class), in nats.

    Args:
        probabilities: Class probabilities, `(n, classes)`, in [0, 1].
        labels: True classes, `(n,)`, counted from 0.
        floor: Smaller probabilities are replaced by this value, in [0, 1). Default: 1.2e-38, where
            float32 underflows.

    Returns:
        The mean in nats, at least 0.

    Raises:
        InputError: Shapes or labels do not fit.
    """
    values, right = paired(probabilities, labels)
    chosen = np.clip(values[np.arange(len(right)), right], floor, 1.0)
    with np.errstate(divide="ignore"):
        return float(np.mean(-np.log(chosen)))


@front_door
def predictive_entropy(probabilities: np.ndarray) -> np.ndarray:
    """Returns the entropy -sum p log p of the class probabilities of each example, in nats.

    Args:
        probabilities: Class probabilities, `(n, classes)`, in [0, 1].

    Returns:
        The entropy, `(n,)`, from 0 (certain) to log k (uniform over k classes).

    Raises:
        InputError: The shape is wrong, or values lie outside [0, 1].
    """
    values = class_probabilities(probabilities)
    return -np.sum(values * np.log(np.where(values > 0, values, 1.0)), axis=1)


@front_door
def calibration(probabilities: np.ndarray, labels: np.ndarray, num_bins: int = 15) -> Calibration:
    """Returns reliability bins and the expected calibration error of the predicted class.

    Even perfectly calibrated predictions have an error above 0 by chance, of order sqrt(bins/n).
    Reference: C. Guo, G. Pleiss, Y. Sun, K. Weinberger, On calibration of modern neural networks,
    ICML 2017, equation 5 (15 bins of equal width in the confidence).

    Args:
        probabilities: Class probabilities, `(n, classes)`, in [0, 1].
        labels: True classes, `(n,)`, counted from 0.
        num_bins: Number of bins, at least 1. Default: 15.

    Returns:
        The bins and the error.

    Raises:
        InputError: Shapes or labels do not fit.
    """
    refuse_if(num_bins < 1, "num_bins is too small.", num_bins, "at least 1")
    values, right = paired(probabilities, labels)
    sure = values.max(axis=1)
    hit = values.argmax(axis=1) == right
    # Bins are closed above, as in the reference: a confidence of 1 belongs to the last bin.
    bins = np.clip(np.ceil(sure * num_bins).astype(int) - 1, 0, num_bins - 1)
    count = np.bincount(bins, minlength=num_bins)
    filled = np.where(count > 0, count, np.nan)
    confidence = np.bincount(bins, weights=sure, minlength=num_bins) / filled
    share = np.bincount(bins, weights=hit, minlength=num_bins) / filled
    error = float(np.nansum(count * np.abs(share - confidence)) / len(right))
    return Calibration(np.linspace(0.0, 1.0, num_bins + 1), confidence, share, count, error)


def paired(probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of all classes and class numbers, checked for equal length.

    Args:
        probabilities: Probabilities as `class_probabilities` takes them, one row per example.
        labels: Labels as `class_labels` takes them, one per example.

    Returns:
        Probabilities, shape (n, classes), and labels from 0, shape (n,).

    Raises:
        InputError: Lengths differ, or labels do not match the probabilities.
    """
    values = class_probabilities(probabilities)
    right = class_labels(labels, values.shape[1])
    if len(values) != len(right):
        raise InputError(
            "Probabilities and labels differ in length.", f"{len(values)} and {len(right)}", "equal"
        )
    return values, right
