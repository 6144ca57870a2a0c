"""One number after the draws that calibrates predictions: a temperature of classes, a scale of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp

from tati_re.core.errors import refuse_if
from tati_re.likelihoods.laws import Law
from tati_re.posterior.predictive import CLASSES, VALUES
from tati_re.prediction.deferred import Deferred, changed
from tati_re.prediction.draws import DRAWS
from tati_re.prediction.leave_one_out import chosen_rows
from tati_re.prediction.left_out import left_out_of, unseen_rows
from tati_re.prediction.metrics import class_labels
from tati_re.prediction.network import dataset_of
from tati_re.prediction.results import ClassPrediction, RegressionPrediction
from tati_re.runs import files
from tati_re.runs.csv_table import frame_text
from tati_re.runs.derived_tables import derived_table, has_numbers
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import RunFiles
from tati_re.runs.storage import write_whole

NONE, LOO = "none", "loo"
CALIBRATIONS = (NONE, LOO)
"""Values of the option `calibrate`."""

LEAST, MOST = 0.2, 5.0
"""Range of temperature and scale."""
MOST_DRAWS = 400
MOST_ROWS = 1_000
SCALED = (
    "gaussian",
    "heteroscedastic_gaussian",
    "mean_squared_error",
    "student_t",
    "laplace",
)
"""Likelihoods whose values may be anywhere, so that a prediction can be stretched about its mean."""


@dataclass(frozen=True)
class LeftOutCalibration:
    """What calibrates the predictions of a run.

    Attributes:
        factor: The temperature of classes, or the scale of values; above 1 where predictions were
            too sure.
        before: Leave-one-out log density per row without it, in nats.
        after: The same with it; found on the same rows.
        rows: Training rows that were left out, one by one.
    """

    factor: float
    before: float
    after: float
    rows: int

    def __str__(self) -> str:
        return (
            f"factor {self.factor:.3f}; leave-one-out density {self.after:.4f} nats a row, before "
            f"{self.before:.4f}"
        )


def calibration(run: RunFiles, model: Any = None, averaged: str = DRAWS) -> LeftOutCalibration:
    """Fits the temperature of class probabilities, or the scale of values, to left-out rows.

    The result for the draws is stored as `calibration.csv` in the run folder.

    Args:
        run: The run, at temperature 1.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.
        averaged: What the predictions average: `draws`, `fits` or `both`. Fits are calibrated on the
            rows that they were not trained on, alone or beside the draws. Default: `draws`.

    Returns:
        The factor, and the predictive densities without and with it.

    Raises:
        InputError: The likelihood cannot be calibrated by one number, or an error of `left_out`
            occurs.
    """
    if averaged == DRAWS and (stored := stored_calibration(run)) is not None:
        return stored
    data = dataset_of(run)
    if averaged == DRAWS:
        rows = chosen_rows(data.num_examples, MOST_ROWS)
    else:
        rows = unseen_rows(run, data, MOST_ROWS)
    held_out = left_out_of(run, data, rows, MOST_DRAWS, averaged, model)
    predictive = held_out.network.predictive
    if predictive.kind == CLASSES:
        p = np.exp(predictive.log_probabilities(held_out.outputs))
        refuse_if(
            predictive.rows > 1,
            "calibrate: sequences of classes cannot be calibrated.",
            f"{predictive.rows} places",
            "calibrate none",
        )
        log_p = np.log(np.einsum("si,sic->ic", np.exp(held_out.log_weights), p))
        labels = class_labels(data.targets[rows].reshape(len(rows), -1), log_p.shape[1])
        factor = best_temperature(log_p, labels)
        numbers = np.arange(len(rows))
        before = float(log_p[numbers, labels].mean())
        after = float(tempered(log_p, factor)[numbers, labels].mean())
    else:
        _check_values(predictive)
        targets = np.asarray(data.targets[rows], np.float64).reshape(len(rows), -1)
        law = predictive.law(held_out.outputs, held_out.extra)
        mean = (np.exp(held_out.log_weights)[..., None] * law.mean).sum(axis=0)
        factor = best_scale(law, held_out.log_weights, mean, targets)
        before = scaled_density(law, held_out.log_weights, mean, targets, 1.0)
        after = scaled_density(law, held_out.log_weights, mean, targets, factor)
    calibration_of_run = LeftOutCalibration(factor, before, after, len(rows))
    if averaged != DRAWS:
        return calibration_of_run
    write_whole(
        run.folder / files.CALIBRATION, frame_text(pd.DataFrame([vars(calibration_of_run)]))
    )
    return calibration_of_run


def _check_values(predictive: Any) -> None:
    known = predictive.kind == VALUES and predictive.name in SCALED
    problem = "calibrate: predictions under this loss cannot be calibrated."
    refuse_if(not known, problem, predictive.name, f"a loss of classes, {', '.join(SCALED)}")


def stored_calibration(run: RunFiles) -> LeftOutCalibration | None:
    """What an earlier call kept; None if there is nothing since the last draw.

    Args:
        run: The run.

    Raises:
        InputError: The file is no such table.
    """
    frame = derived_table(run, files.CALIBRATION)
    if frame is None:
        return None
    path = run.folder / files.CALIBRATION
    expected = "the unmodified file of the run"
    numbers = len(frame) == 1 and has_numbers(frame, ("factor", "before", "after", "rows"))
    factor = float(frame["factor"].iloc[0]) if numbers else 0.0
    refuse_if(not LEAST <= factor <= MOST, f"{path} has no calibration.", expected=expected)
    row = frame.iloc[0]
    return LeftOutCalibration(factor, float(row["before"]), float(row["after"]), int(row["rows"]))


def chosen_calibration(manifest: Manifest, calibrate: str | None) -> str:
    """Whether predictions are calibrated: as given, else as the options of the run say.

    Args:
        manifest: The manifest of the run.
        calibrate: `none`, `loo`, or None.

    Raises:
        InputError: Another word.
    """
    chosen = calibrate or manifest.options.calibrate
    problem = "calibrate has an unknown value."
    refuse_if(chosen not in CALIBRATIONS, problem, chosen, " or ".join(CALIBRATIONS))
    return chosen


def with_temperature(prediction: ClassPrediction, temperature: float) -> ClassPrediction:
    """Class probabilities p^(1/temperature), normalized.

    Args:
        prediction: A prediction.
        temperature: Above 0.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(prediction.probabilities)
    note = (
        f"Probabilities are calibrated by a temperature of {temperature:.3f}; std, lower "
        "and upper describe the uncalibrated draws."
    )
    return changed(
        prediction,
        probabilities=np.exp(tempered(logs, temperature)),
        notes=(*prediction.notes, note),
    )


def with_scale(
    prediction: RegressionPrediction,
    scale: float,
    again: Callable[[np.ndarray | None], RegressionPrediction],
) -> RegressionPrediction:
    """Predictions of values, stretched about their means.

    Args:
        prediction: A prediction.
        scale: s: y becomes mean + s (y - mean).
        again: Predicts the same inputs with other targets, shape (n, outputs), or none.
    """
    mean = prediction.mean
    targets = prediction.targets
    other = prediction if targets is None else again(mean + (targets - mean) / scale)

    def stretched(read: Callable[[], np.ndarray | None]) -> Deferred:
        def compute() -> np.ndarray | None:
            values = read()
            return None if values is None else mean + scale * (values - mean)

        return Deferred(compute)

    def scaled_crps() -> np.ndarray | None:
        return None if other.crps is None else scale * other.crps

    density = None
    if other.log_density is not None:
        density = other.log_density - mean.shape[1] * np.log(scale)
    note = f"Distributions are calibrated: stretched about their means by a factor of {scale:.3f}."
    return changed(
        other,
        targets=targets,
        draw_losses=prediction.draw_losses,
        parameter_std=scale * other.parameter_std,
        noise_std=None if other.noise_std is None else scale * other.noise_std,
        mean_lower=stretched(lambda: other.mean_lower),
        mean_upper=stretched(lambda: other.mean_upper),
        lower=stretched(lambda: other.lower),
        upper=stretched(lambda: other.upper),
        log_density=density,
        crps=Deferred(scaled_crps),
        notes=(*prediction.notes, note),
    )


def best_temperature(log_probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The temperature that gives held-out classes the largest mean log probability.

    Args:
        log_probabilities: log p of each class, shape (n, classes).
        labels: The right classes, counted from 0, shape (n,).

    Returns:
        τ of p^(1/τ), normalized: above 1 where predictions were too sure.
    """
    rows = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        logs = tempered(log_probabilities, float(np.exp(log_temperature)))
        return -float(logs[rows, labels].mean())

    return _least(loss)


def tempered(log_probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """log p of each class at another temperature, normalized, shape (n, classes).

    Args:
        log_probabilities: log p of each class, shape (n, classes).
        temperature: τ of p^(1/τ), above 0.
    """
    values = np.maximum(log_probabilities, np.log(np.finfo(np.float64).tiny))
    return log_softmax(values / temperature, axis=-1)


def best_scale(law: Law, log_weights: np.ndarray, mean: np.ndarray, targets: np.ndarray) -> float:
    """The factor about the mean that gives held-out values the largest mean log density.

    Args:
        law: Laws of draws and examples, shape (draws, n, targets).
        log_weights: Logarithms of the weights of the draws in each example, shape (draws, n).
        mean: Means of the predictions, shape (n, targets).
        targets: What came true, shape (n, targets).

    Returns:
        s: the prediction y becomes mean + s (y - mean); above 1 where predictions were too sure.
    """

    def loss(log_scale: float) -> float:
        return -scaled_density(law, log_weights, mean, targets, float(np.exp(log_scale)))

    return _least(loss)


def scaled_density(
    law: Law, log_weights: np.ndarray, mean: np.ndarray, targets: np.ndarray, scale: float
) -> float:
    """Mean log density of values under predictions that are stretched about their means.

    Args:
        law: Laws of draws and examples, shape (draws, n, targets).
        log_weights: Logarithms of the weights of the draws in each example, shape (draws, n).
        mean: Means of the predictions, shape (n, targets).
        targets: Observed values, shape (n, targets).
        scale: s: the prediction y becomes mean + s (y - mean), above 0.
    """
    moved = mean + (targets - mean) / scale
    logs = logsumexp(log_weights + law.log_prob(moved).sum(axis=-1), axis=0)
    return float(logs.mean() - targets.shape[1] * np.log(scale))


def _least(loss: Callable[[float], float]) -> float:
    bounds = (float(np.log(LEAST)), float(np.log(MOST)))
    optimum = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-5})
    return float(np.exp(optimum.x))
