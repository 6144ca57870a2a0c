"""Analysis: from arrays and tables of numbers to numbers with errors."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
from tati_re.analysis.export import write_table
from tati_re.analysis.free_energy import free_energy
from tati_re.analysis.group_temperatures import group_temperatures
from tati_re.analysis.heating import Heating, relative_heating
from tati_re.analysis.reweighting import reweight
from tati_re.analysis.temperature import (
    Temperature,
    configurational_temperature,
    kinetic_temperature,
    target_temperature,
    temperatures,
)
from tati_re.runs.positions import Position, Positions, stored_positions

if TYPE_CHECKING:
    from tati_re.prediction.arviz import to_arviz, write_arviz

__all__ = [
    "DiffusionMap",
    "Eigenpairs",
    "Heating",
    "Position",
    "Positions",
    "Temperature",
    "autocorrelation_time",
    "averages",
    "chains_of",
    "configurational_temperature",
    "coordinate_of",
    "covariance_eigenpairs",
    "covariance_table",
    "diffusion_map",
    "diffusion_map_of",
    "effective_sample_size",
    "free_energy",
    "group_temperatures",
    "kinetic_temperature",
    "landmarks",
    "leading_eigenpairs",
    "monte_carlo_error",
    "parameter_averages",
    "r_hat",
    "relative_heating",
    "reweight",
    "stored_positions",
    "target_temperature",
    "temperatures",
    "to_arviz",
    "trajectory_averages",
    "write_arviz",
    "write_table",
]

_OF_PREDICTION = (
    "Calibration",
    "PosteriorAverage",
    "accuracy",
    "auroc",
    "brier_score",
    "calibration",
    "crps",
    "gaussian_negative_log_likelihood",
    "negative_log_likelihood",
    "posterior_average",
    "predictive_entropy",
    "to_arviz",
    "write_arviz",
)


def __getattr__(name: str) -> Any:
    """What needs predictions, and scores of them by the path that they had before `tati_re.prediction`."""
    if name not in _OF_PREDICTION:
        raise AttributeError(f"module 'tati_re.analysis' has no attribute '{name}'")
    room = "tati_re.prediction.arviz" if name.endswith("_arviz") else "tati_re.prediction"
    return getattr(importlib.import_module(room), name)
