"""True labels of the rows of a prediction, in the form that the network's loss takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.frames import labels_of
from tati_re.data.labels import are_names, numbers_of_names
from tati_re.posterior.likelihood_predictive import LikelihoodPredictive
from tati_re.posterior.predictive import CLASSES, LABELS, Predictive
from tati_re.prediction import results
from tati_re.prediction.metrics import class_labels
from tati_re.prediction.network import Network


@dataclass(frozen=True)
class RowLabels:
    """True labels of the rows of a prediction.

    Attributes:
        values: Labels in the form of the loss, `(n, ...)`.
        classes: Numbers of the classes, `(n * places,)`; None for labels that are no classes.
        are_outputs: Whether labels are values of the outputs. Others, such as values with an event,
            have a loss but no error.
    """

    values: np.ndarray
    classes: np.ndarray | None = None
    are_outputs: bool = True


def row_labels(network: Network, labels: Any, num_inputs: int) -> RowLabels | None:
    """Labels as the network's loss takes them.

    Args:
        network: The network, or the first of several.
        labels: Labels as `predict` takes them, or None.
        num_inputs: The number of inputs.

    Returns:
        The labels; None if there are none.

    Raises:
        InputError: Labels do not fit the inputs or the network.
    """
    if labels is None:
        return None
    values = labels_of(labels, "labels")
    if are_names(values, network.class_names):
        values = numbers_of_names(values, network.class_names, "labels")
    if len(values) != num_inputs:
        raise InputError(
            "The numbers of inputs and labels differ.", f"{num_inputs} and {len(values)}", "equal"
        )
    predictive = network.predictive
    if predictive.kind == CLASSES:
        found = _class_labels(predictive, values, num_inputs)
    elif predictive.kind == LABELS:
        shape = num_inputs, predictive.num_columns
        found = RowLabels(results.labels_of_rows(values, shape))
    else:
        found = _values(predictive, values, num_inputs)
    if isinstance(predictive, LikelihoodPredictive):
        predictive.check_labels(found.values)
    return found


def _class_labels(predictive: Predictive, labels: np.ndarray, num_inputs: int) -> RowLabels:
    count = num_inputs * predictive.rows
    refuse_if(
        labels.size not in (count, count * predictive.num_columns),
        "The labels do not match the network.",
        labels.shape,
        f"one class for each of {count:,}",
    )
    numbers = class_labels(labels.reshape(count, -1), predictive.num_columns)
    if predictive.task == "one_hot":
        return RowLabels(np.eye(predictive.num_columns)[numbers], classes=numbers)
    if predictive.task == "signs":
        return RowLabels(2 * numbers - 1, classes=numbers)
    return RowLabels(numbers.reshape(num_inputs, -1), classes=numbers)


def _values(predictive: Predictive, labels: np.ndarray, num_inputs: int) -> RowLabels:
    are_outputs = labels.size == num_inputs * predictive.num_columns
    if not are_outputs and not predictive.own_loss:
        raise InputError(
            "The targets do not match the network.", labels.shape, f"(n, {predictive.num_columns})"
        )
    if labels.dtype.kind not in "buif":
        raise InputError("The labels are not numbers.", f"type {labels.dtype}", "finite numbers")
    odd = np.argwhere(~np.isfinite(labels)).tolist()
    if odd:
        received = f"labels{odd[0]} = {labels[tuple(odd[0])]}"
        raise InputError("The labels are not finite numbers.", received, "finite numbers")
    return RowLabels(labels, are_outputs=are_outputs)
