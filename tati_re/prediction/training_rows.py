"""Examples that a run was trained on, for the figure of a prediction."""

from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.prediction import results
from tati_re.prediction.deferred import changed
from tati_re.prediction.metrics import class_labels
from tati_re.prediction.network import dataset_of, has_its_data
from tati_re.runs.run import RunFiles

MOST_TRAINING = 1_000
"""Examples of the training data that a figure shows at most."""


def with_training(prediction: results.Prediction, run: RunFiles) -> Any:
    """The prediction with examples that the run was trained on, if the network has one input and
    the data are at hand.

    Args:
        prediction: The prediction.
        run: The run, or the first of several.
    """
    if (
        prediction.inputs is None
        or prediction.places > 1
        or np.size(prediction.inputs) != len(prediction.inputs)
    ):
        return prediction
    known = run.cached_result("training", lambda: _some_training(run))
    if known is None:
        return prediction
    inputs, targets = known
    if isinstance(prediction, results.RegressionPrediction):
        fits = targets.shape[1] == prediction.mean.shape[1]
    elif isinstance(prediction, results.ClassPrediction):
        targets = class_labels(targets, prediction.probabilities.shape[1])
        fits = True
    else:
        fits = False
    fits = fits and inputs.shape[1] == 1
    return changed(prediction, training=(inputs[:, 0], targets)) if fits else prediction


def _some_training(run: RunFiles) -> tuple[np.ndarray, np.ndarray] | None:
    """Inputs and targets of at most `MOST_TRAINING` training examples, a row each; None where the
    data are not at hand.
    """
    if not has_its_data(run):
        return None
    try:
        data = dataset_of(run)
    except InputError:  # moved or changed since: the figure goes without them
        return None
    chosen = np.unique(np.linspace(0, data.num_examples - 1, MOST_TRAINING).astype(int))
    inputs = np.asarray(data.inputs)[chosen].reshape(len(chosen), -1)
    targets = np.asarray(data.targets)[chosen].reshape(len(chosen), -1)
    return inputs, targets
