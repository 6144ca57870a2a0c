"""The outputs of a network by which walkers are compared."""

import numpy as np

from tati_re.posterior.device_data import device_inputs
from tati_re.posterior.outputs import Outputs
from tati_re.prediction.quantities import INPUTS, Predict
from tati_re.system.system import System
from tati_re.system.walkers import Walkers


def outputs_to_compare(system: System, walkers: Walkers) -> Predict | None:
    """The outputs for up to 256 inputs of the test set, else of the training set.

    Args:
        system: The model and its data.
        walkers: The walkers, which have the model's non-trainable variables.

    Returns:
        A function of positions and their walkers that gives one output of each input in turn; None
        for a system without data.
    """
    if not system.has_data:
        return None
    ready = system.examples
    flat = system.flat
    data = ready.inputs if ready.test_inputs is None else ready.test_inputs
    chosen = np.unique(np.linspace(0, len(data) - 1, INPUTS).astype(int))
    inputs = device_inputs(np.asarray(data[chosen]), ready.input_scale, flat.input_dtype)
    inputs = system.prepared(inputs).numpy()
    outputs = Outputs(flat)

    def predict(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        extra = [np.asarray(value)[numbers % len(value)] for value in walkers.auxiliary]
        predictions = outputs(values, extra, inputs).reshape(len(values), len(inputs), -1)
        predictions = predictions.astype(np.float64)
        if system.dataset.num_classes and predictions.shape[2] > 1:
            # A softmax does not see the mean.
            predictions -= predictions.mean(axis=2, keepdims=True)
        indices = np.arange(len(inputs))
        return predictions[:, indices, indices % predictions.shape[2]]

    return predict
