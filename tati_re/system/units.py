"""Whether a model that was given predicts in the units of the targets as it is."""

from typing import Any

import numpy as np

from tati_re.core.backend import keras
from tati_re.data.dataset import Dataset
from tati_re.models.inputs import called
from tati_re.models.inspect import last_layer_of, output_activation_of, takes_both_signs
from tati_re.prediction.network import fitted_shape

_EXAMPLES = 512
_RESCALING = ("Rescaling", "Normalization", "Lambda")
"""Kinds of layers that map outputs to the units of the targets, where they stand last."""


def predicts_in_units(model: Any, read: Dataset) -> bool:
    """Whether a model gives targets in their units, so that they should not be standardized.

    A model with linear outputs of order 1 does not. One does that was trained on the targets, whose
    last layer rescales, whose activation bounds its outputs, or whose outputs spread as widely as
    the targets, or lie near their mean, whatever the reason.

    Args:
        model: A Keras model, as it was given.
        read: The data as they were read; inputs of one array, targets `(n,)` or `(n, outputs)`.

    Returns:
        True also where it cannot be told.
    """
    if not isinstance(model, keras.Model) or read.layout or read.targets.ndim > 2:
        return True
    if _was_trained(model) or type(last_layer_of(model)).__name__ in _RESCALING:
        return True
    activation = output_activation_of(model)
    if activation != "linear" and (activation is not None or not takes_both_signs(model)):
        return True
    chosen = np.unique(np.linspace(0, read.num_examples - 1, _EXAMPLES).astype(int))
    targets = read.targets[chosen].reshape(len(chosen), -1).astype(np.float64)
    ready = fitted_shape(read.prepared(), model)
    inputs = np.asarray(ready.inputs[chosen]) * ready.input_scale
    outputs = np.asarray(called(model, inputs), np.float64).reshape(len(chosen), -1)
    if outputs.shape[1] == 2 * targets.shape[1]:  # behind the means, logarithms of deviations
        outputs = outputs[:, : targets.shape[1]]
    if outputs.shape != targets.shape or not np.isfinite(outputs).all():
        return True
    return bool(_in_units(outputs, targets).any())


def _was_trained(model: Any) -> bool:
    """Whether an optimizer of Keras has made steps with the model."""
    return model.compiled and int(np.asarray(model.optimizer.iterations)) > 0


def _in_units(outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Which outputs, `(n, outputs)`, are in the units of their targets, as far as numbers tell."""
    spread, mean = targets.std(axis=0), targets.mean(axis=0)
    fitted = ((outputs - targets) ** 2).mean(axis=0) < 0.9 * spread**2
    output_spread = outputs.std(axis=0)
    wide = (spread > 1) & (output_spread > 0.5 * spread) & (output_spread < 5 * spread)
    narrow = (spread < 1) & (output_spread < 2 * spread) & (output_spread > 0)
    far = np.abs(mean) > 3 * spread
    shifted = far & (np.abs(mean) > 3) & (np.abs(outputs.mean(axis=0) - mean) < 0.5 * np.abs(mean))
    return fitted | wide | narrow | shifted
