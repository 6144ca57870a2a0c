"""Labels in the form that a potential holds on the device."""

from __future__ import annotations

import numpy as np

from tati_re.core.backend import tf
from tati_re.posterior.losses import Loss


def is_signs(dataset) -> bool:
    """Whether the labels are -1 and +1 in one column."""
    targets = dataset.targets
    one_column = targets.ndim == 1 or targets.shape[1] == 1
    return dataset.num_classes == 2 and one_column and targets.min() == -1 and targets.max() == 1


def has_accuracy(dataset, loss: Loss) -> bool:
    """Whether an accuracy is defined: not if numbers of more than two classes are regressed on."""
    if dataset.num_classes is None:
        return False
    return dataset.num_classes <= 2 or dataset.targets.ndim > 1 or loss.name == "sparse_categorical_crossentropy"


def device_targets(targets: np.ndarray, loss: Loss, dtype: tf.DType) -> np.ndarray:
    """Labels as the loss takes them: class numbers as int32 `(N,)`, everything else as `(N, outputs)` in the
    parameters' type."""
    if loss.name == "sparse_categorical_crossentropy":
        classes = np.asarray(targets).astype(np.int32)
        return (classes + 1) // 2 if classes.min() == -1 else classes
    values = np.asarray(targets, dtype.as_numpy_dtype)
    if loss.name == "binary_crossentropy" and values.min() == -1:
        values = (values + 1) / 2
    return values[:, None] if values.ndim == 1 else values
