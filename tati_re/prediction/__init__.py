"""Prediction: posterior averages of the outputs of a network, and how good they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.prediction.inputs import noise_like
    from tati_re.prediction.metrics import (
        Calibration,
        PosteriorAverage,
        accuracy,
        calibration,
        gaussian_negative_log_likelihood,
        negative_log_likelihood,
        posterior_average,
        predictive_entropy,
    )
    from tati_re.prediction.predict import average, source_of
    from tati_re.prediction.results import ClassPrediction, Prediction, RegressionPrediction
    from tati_re.prediction.scores import auroc, brier_score, crps
    from tati_re.prediction.temperature_study import TemperatureStudy

__all__ = [
    "Calibration",
    "ClassPrediction",
    "PosteriorAverage",
    "Prediction",
    "RegressionPrediction",
    "TemperatureStudy",
    "accuracy",
    "auroc",
    "average",
    "brier_score",
    "calibration",
    "crps",
    "gaussian_negative_log_likelihood",
    "negative_log_likelihood",
    "noise_like",
    "posterior_average",
    "predictive_entropy",
    "source_of",
]

__getattr__ = lazy_names(__name__)
