"""Which predictions a run averages while it samples (`stream_predictions`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.engine.prediction_averages import PredictionAverages
from tati_re.posterior.device_data import stored_inputs
from tati_re.posterior.outputs import Outputs
from tati_re.posterior.predictive import Predictive


def check_stream(options: Any, dataset: Any, method: Any) -> None:
    """Refuses averages of predictions that a run could not keep, before it starts.

    Raises:
        InputError: The data have no test part, or weights are not known at the steps that would be predicted.
    """
    every = options.stream_predictions
    if every and dataset.test_inputs is None:
        raise InputError(
            "stream_predictions: the data have no test part.",
            dataset.name,
            "test_fraction above 0, test_data, or ((inputs, labels), (test inputs, test labels))",
        )
    if every and "weight" in method.label_names and every % options.record_every:
        raise InputError(
            f"stream_predictions: draws of {method.name} have weights, which are known where a row is recorded.",
            every,
            f"a multiple of record_every = {options.record_every}",
        )


def prediction_averages(sim: Any, options: Any, potential: Any) -> PredictionAverages | None:
    """The averages that a run keeps, empty; None where it keeps none."""
    if not options.stream_predictions:
        return None
    system, dataset, loss = sim._system, sim.dataset, potential.loss
    outputs = Outputs(system.flat)
    standard = None if dataset.preparation is None else dataset.preparation.target_standard
    around = (1.0, 0.0) if standard is None else (standard.deviation, standard.mean)

    def per_example(targets: np.ndarray, values: np.ndarray) -> np.ndarray:
        return loss.per_example(tf.constant(targets), tf.constant(values)).numpy()

    predictive = Predictive(
        loss.get_config(), dataset.task, dataset.num_classes, outputs.num_outputs, *around, per_example=per_example
    )
    ready = system.examples
    inputs = potential.prepared(
        tf.constant(stored_inputs(ready.test_inputs, ready.input_scale, system.flat.input_dtype))
    )
    return PredictionAverages(outputs, predictive, inputs.numpy(), dataset.test_targets, options.stream_predictions)
