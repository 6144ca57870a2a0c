"""What a run says: convergence, temperatures, predictions, and a summary in plain text."""

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
from tati_re.analysis.prediction import (
    Calibration,
    PosteriorAverage,
    accuracy,
    calibration,
    gaussian_negative_log_likelihood,
    negative_log_likelihood,
    posterior_average,
    predictive_entropy,
)
from tati_re.analysis.reweighting import reweight
from tati_re.analysis.scores import auroc, brier_score, crps
from tati_re.analysis.summary import summarize
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
