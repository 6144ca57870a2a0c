"""The plan of a run: its length, and what it writes on its way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.engine.driver import Looks, Plan
from tati_re.engine.prediction_averages import PredictionAverages
from tati_re.engine.tensorboard import TensorBoard
from tati_re.launch.request import Request
from tati_re.posterior.device_data import device_inputs
from tati_re.posterior.likelihood_predictive import predictive_of
from tati_re.posterior.outputs import Outputs
from tati_re.runs.single_files import SingleFiles, single_files, trajectory_format
from tati_re.samplers.schedules import SCHEDULES


@dataclass(frozen=True)
class RunOutputs:
    """What a run writes on its way: its positions, copies of its tables, and TensorBoard's files.

    Attributes:
        parameter_names: Columns of the stored positions; of projections c0, c1, ...
        format: "csv" or "h5", the format of the stored positions.
        copies: Copies of tables under names of the user's.
        tensorboard: The rows as scalars of TensorBoard.
    """

    parameter_names: Sequence[str]
    format: str
    copies: SingleFiles
    tensorboard: TensorBoard


def outputs_of(request: Request) -> RunOutputs:
    """What the options of a request ask a run to write."""
    options = request.options
    directions = request.directions
    if directions is None:
        names = request.system.flat.parameter_names()
    else:
        names = [f"c{number}" for number in range(len(directions))]
    format_of_positions = trajectory_format(options, len(names))
    return RunOutputs(
        parameter_names=names,
        format=format_of_positions,
        copies=single_files(options, format_of_positions),
        tensorboard=TensorBoard(options.tensorboard),
    )


def plan_of(
    request: Request,
    outputs: RunOutputs,
    looks: Looks | None,
    burnt_in: Callable[[int, str, Any], None] | None,
) -> Plan:
    """The plan of a run for the engine.

    Args:
        request: The request of the run.
        outputs: What it writes.
        looks: Where it may end; None: at its last step alone.
        burnt_in: Called at the end of the burn-in; None: not called.
    """
    options = request.options
    callbacks = request.objects.get("callbacks") or ()
    return Plan(
        num_steps=options.num_steps,
        checkpoint_seconds=options.checkpoint_seconds,
        max_time=options.max_time,
        requeue_signal=options.requeue_signal,
        trajectory_format=outputs.format,
        parameter_names=outputs.parameter_names,
        expected=_expected_means(request),
        looks=looks,
        burnt_in=burnt_in,
        callbacks=(outputs.copies, outputs.tensorboard, *callbacks),
        predictions=_prediction_averages(request),
        limits=request.limits,
        title="sampling" if request.samples else "fitting",
    )


def _expected_means(request: Request) -> tuple[float, float]:
    """Expected `kinetic_energy` and `virial` at temperature 1; nan if unknown."""
    known = request.samples and "temperature_schedule" not in request.objects
    known = known and request.options.temperature_schedule in SCHEDULES["temperature_schedule"]
    half = 0.5 * request.potential.num_parameters if known else float("nan")
    confined = request.potential.confined and not request.potential.prior.walled
    return half if request.method.has_momentum else float("nan"), half if confined else float("nan")


def _prediction_averages(request: Request) -> PredictionAverages | None:
    """The averages of predictions that a run keeps, empty; None where it keeps none."""
    every = request.options.stream_predictions
    if not every or not request.samples:
        return None
    system = request.system
    ready = request.system.examples
    dataset = system.dataset
    loss = request.potential.loss
    outputs = Outputs(system.flat)
    assert ready.test_inputs is not None and dataset.test_targets is not None
    standard = None if dataset.preparation is None else dataset.preparation.target_standard
    deviation, mean = (1.0, 0.0) if standard is None else (standard.deviation, standard.mean)

    def per_example(targets: np.ndarray, values: np.ndarray) -> np.ndarray:
        return loss.per_example(tf.constant(targets), tf.constant(values)).numpy()

    predictive = predictive_of(
        loss.get_config(),
        dataset.task,
        dataset.num_classes,
        outputs.num_outputs,
        deviation=deviation,
        mean=mean,
        likelihood=request.objects.get("loss"),
        per_example=per_example,
        places=outputs.places,
    )
    inputs = system.prepared(
        device_inputs(ready.test_inputs, ready.input_scale, system.flat.input_dtype)
    )
    return PredictionAverages(
        outputs=outputs,
        predictive=predictive,
        inputs=inputs.numpy(),
        targets=dataset.test_targets,
        every=every,
    )
