"""Predictions averaged while a run samples (`stream_predictions`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tati_re.core.backend import tf
from tati_re.engine.prediction_averages import PredictionAverages
from tati_re.posterior.examples import device_inputs
from tati_re.posterior.outputs import Outputs
from tati_re.posterior.predictive import Predictive

if TYPE_CHECKING:
    from tati_re.posterior.potential import ModelPotential
    from tati_re.simulation.system import System


def prediction_averages(system: System, potential: ModelPotential, every: int) -> PredictionAverages | None:
    """The averages that a run keeps, empty, at every so many steps; None where it keeps none."""
    if not every:
        return None
    dataset, loss = system.dataset, potential.loss
    outputs = Outputs(system.flat)
    standard = None if dataset.preparation is None else dataset.preparation.target_standard
    around = (1.0, 0.0) if standard is None else (standard.deviation, standard.mean)

    def per_example(targets: np.ndarray, values: np.ndarray) -> np.ndarray:
        return loss.per_example(tf.constant(targets), tf.constant(values)).numpy()

    predictive = Predictive(
        loss.get_config(), dataset.task, dataset.num_classes, outputs.num_outputs, around[0], around[1], per_example
    )
    ready = system.examples
    inputs = potential.prepared(device_inputs(ready.test_inputs, ready.input_scale, system.flat.input_dtype))
    return PredictionAverages(outputs, predictive, inputs.numpy(), dataset.test_targets, every)
