"""Analysis: from arrays and tables of numbers to numbers with errors."""

from typing import TYPE_CHECKING, Any

from tati_re.analysis.alignment import Alignment as Alignment
from tati_re.analysis.alignment import align as align
from tati_re.analysis.averages import averages as averages
from tati_re.analysis.averages import parameter_averages as parameter_averages
from tati_re.analysis.averages import trajectory_averages as trajectory_averages
from tati_re.analysis.convergence import autocorrelation_time as autocorrelation_time
from tati_re.analysis.convergence import chains_of as chains_of
from tati_re.analysis.convergence import effective_sample_size as effective_sample_size
from tati_re.analysis.convergence import is_short as is_short
from tati_re.analysis.convergence import monte_carlo_error as monte_carlo_error
from tati_re.analysis.convergence import r_hat as r_hat
from tati_re.analysis.covariance import Eigenpairs as Eigenpairs
from tati_re.analysis.covariance import covariance_eigenpairs as covariance_eigenpairs
from tati_re.analysis.covariance import covariance_table as covariance_table
from tati_re.analysis.covariance import leading_eigenpairs as leading_eigenpairs
from tati_re.analysis.diffusion_map import DiffusionMap as DiffusionMap
from tati_re.analysis.diffusion_map import diffusion_map as diffusion_map
from tati_re.analysis.diffusion_map import landmarks as landmarks
from tati_re.analysis.format import write_table as write_table
from tati_re.analysis.free_energy import coordinate_of as coordinate_of
from tati_re.analysis.free_energy import diffusion_map_of as diffusion_map_of
from tati_re.analysis.free_energy import free_energy as free_energy
from tati_re.analysis.heating import Heating as Heating
from tati_re.analysis.heating import relative_heating as relative_heating
from tati_re.analysis.learning_coefficient import coefficient_estimates as coefficient_estimates
from tati_re.analysis.learning_coefficient import learning_coefficient as learning_coefficient
from tati_re.analysis.learning_coefficient import learning_curve as learning_curve
from tati_re.analysis.named_draws import draws_of as draws_of
from tati_re.analysis.named_draws import parameter_summary as parameter_summary
from tati_re.analysis.nested_rhat import NestedRHat as NestedRHat
from tati_re.analysis.nested_rhat import nested_r_hat as nested_r_hat
from tati_re.analysis.reweighting import reweight as reweight
from tati_re.analysis.temperature import Temperature as Temperature
from tati_re.analysis.temperature import configurational_temperature as configurational_temperature
from tati_re.analysis.temperature import group_temperatures as group_temperatures
from tati_re.analysis.temperature import kinetic_temperature as kinetic_temperature
from tati_re.analysis.temperature import target_temperature as target_temperature
from tati_re.analysis.temperature import temperatures as temperatures
from tati_re.core.lazy import names_exported
from tati_re.runs.positions import Position as Position
from tati_re.runs.positions import Positions as Positions
from tati_re.runs.positions import stored_positions as stored_positions

if TYPE_CHECKING:
    from tati_re.prediction.arviz import to_arviz as to_arviz
    from tati_re.prediction.arviz import write_arviz as write_arviz

__all__ = names_exported(__name__)


def __getattr__(name: str) -> Any:
    """What has predictions too, and therefore stands in a room above: it keeps its public name.

    The contract of layers in `pyproject.toml` names this exception.
    """
    if name not in ("to_arviz", "write_arviz"):
        raise AttributeError(f"module 'tati_re.analysis' has no attribute '{name}'")
    from tati_re.prediction import arviz

    return vars(arviz)[name]
