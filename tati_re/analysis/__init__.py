"""Analysis: arrays and tables of numbers in, numbers with errors out.

The names of predictions and of the summary are of rooms above this one, and loaded when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

from tati_re.analysis.averages import averages, parameter_averages, trajectory_averages
from tati_re.analysis.convergence import (
    autocorrelation_time,
    chains_of,
    effective_sample_size,
    monte_carlo_error,
    r_hat,
)
from tati_re.analysis.coordinates import coordinate_of, diffusion_map_of
from tati_re.analysis.covariance import Eigenpairs, covariance_eigenpairs, covariance_table, leading_eigenpairs
from tati_re.analysis.diffusion_map import DiffusionMap, diffusion_map, landmarks
from tati_re.analysis.export import to_arviz, write_arviz
from tati_re.analysis.free_energy import free_energy
from tati_re.analysis.group_temperatures import group_temperatures
from tati_re.analysis.reweighting import reweight
from tati_re.analysis.temperature import (
    Temperature,
    configurational_temperature,
    kinetic_temperature,
    target_temperature,
    temperatures,
)
from tati_re.runs.positions import Positions
from tati_re.runs.trajectory import Position, stored_positions

__all__ = [
    "Calibration",
    "DiffusionMap",
    "Eigenpairs",
    "Position",
    "Positions",
    "PosteriorAverage",
    "Temperature",
    "accuracy",
    "auroc",
    "autocorrelation_time",
    "averages",
    "brier_score",
    "calibration",
    "chains_of",
    "configurational_temperature",
    "coordinate_of",
    "covariance_eigenpairs",
    "covariance_table",
    "crps",
    "diffusion_map",
    "diffusion_map_of",
    "effective_sample_size",
    "free_energy",
    "gaussian_negative_log_likelihood",
    "group_temperatures",
    "kinetic_temperature",
    "landmarks",
    "leading_eigenpairs",
    "monte_carlo_error",
    "negative_log_likelihood",
    "parameter_averages",
    "posterior_average",
    "predictive_entropy",
    "r_hat",
    "reweight",
    "stored_positions",
    "summarize",
    "target_temperature",
    "temperatures",
    "to_arviz",
    "trajectory_averages",
    "write_arviz",
]

_ELSEWHERE = {
    "Calibration": "tati_re.prediction.metrics",
    "PosteriorAverage": "tati_re.prediction.metrics",
    "accuracy": "tati_re.prediction.metrics",
    "calibration": "tati_re.prediction.metrics",
    "gaussian_negative_log_likelihood": "tati_re.prediction.metrics",
    "negative_log_likelihood": "tati_re.prediction.metrics",
    "posterior_average": "tati_re.prediction.metrics",
    "predictive_entropy": "tati_re.prediction.metrics",
    "auroc": "tati_re.prediction.scores",
    "brier_score": "tati_re.prediction.scores",
    "crps": "tati_re.prediction.scores",
    "summarize": "tati_re.report.summary",
}


def __getattr__(name: str) -> Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'tati_re.analysis' has no attribute '{name}'")
    return getattr(importlib.import_module(_ELSEWHERE[name]), name)
