"""Weights of examples: given with the data, or by class."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.given import as_array


def checked_weights(weights: Any, count: int, what: str = "sample_weights") -> np.ndarray:
    """Weights as float64 `(count,)`."""
    values = as_array(weights, what, np.float64)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.shape != (count,):
        raise InputError(f"{what} do not fit the examples.", f"shape {values.shape}", f"({count},), one an example")
    if not np.isfinite(values).all() or (values < 0).any():
        i = int(np.flatnonzero(~np.isfinite(values) | (values < 0))[0])
        raise InputError(f"{what} hold a value that is not a weight.", f"{values[i]:g} of example {i}", "0 or more")
    refuse_if(not values.any(), f"{what} are all zero.", expected="some above 0")
    return values


def of_classes(class_weights: Sequence[float] | Mapping[int, float], dataset: Any, targets: np.ndarray) -> np.ndarray:
    """The weight of each example's class, float64 `(n,)`; targets are labels in any form of those of the data set.
    Weights are one for each class in their order, or by class; classes that are not named count once."""
    count = dataset.num_classes
    if count is None:
        raise InputError("class_weights: the labels are no classes.", f"a {dataset.task}", "sample_weights")
    if isinstance(class_weights, Mapping):
        wrong = [key for key in class_weights if key not in range(count)]
        if wrong:
            raise InputError("class_weights: unknown class.", wrong[0], f"0 to {count - 1}")
        class_weights = [class_weights.get(k, 1.0) for k in range(count)]
    if len(class_weights) != count:
        raise InputError("class_weights are not one a class.", f"{len(class_weights)} of them", f"{count} numbers")
    weights = checked_weights(class_weights, count, "class_weights")
    if targets.ndim == 2:
        return weights[targets.argmax(axis=1)]
    return weights[np.where(targets < 0, 0, targets).astype(int)]


def with_weights(dataset: Any, sample_weights: Any = None, class_weights: Any = None) -> Any:
    """The data set with examples weighted by their own weights (given, or its own) times those of their classes.
    It comes before a part is kept for testing; class weights, as `of_classes` takes them, act on the test part too."""
    weights, test = dataset.weights, dataset.test_weights
    if sample_weights is not None:
        weights = checked_weights(sample_weights, dataset.num_examples)
    if class_weights is not None and len(class_weights):
        own = of_classes(class_weights, dataset, dataset.targets)
        weights = own if weights is None else weights * own
        if dataset.test_targets is not None:
            own = of_classes(class_weights, dataset, dataset.test_targets)
            test = own if test is None else test * own
    return replace(dataset, weights=weights, test_weights=test)
