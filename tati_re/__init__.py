"""tati_re: sample the posterior of a Keras model as a physical system.

The names below are loaded on first use, so that `import tati_re` is quick and does not start
TensorFlow.
"""

import os
from typing import TYPE_CHECKING

from tati_re._version import __version__ as __version__
from tati_re.core.errors import CertificateWarning as CertificateWarning
from tati_re.core.errors import InputError as InputError
from tati_re.core.errors import SamplingError as SamplingError
from tati_re.core.lazy import lazy_names
from tati_re.core.process.standard_streams import open_missing

if TYPE_CHECKING:
    from tati_re import analysis as analysis
    from tati_re import data as data
    from tati_re import evidence as evidence
    from tati_re import exchange as exchange
    from tati_re import exploration as exploration
    from tati_re import landscape as landscape
    from tati_re import optimizers as optimizers
    from tati_re import plotting as plotting
    from tati_re import prediction as prediction
    from tati_re import samplers as samplers
    from tati_re import shipping as shipping
    from tati_re import sklearn as sklearn
    from tati_re import supports as supports
    from tati_re import testing as testing
    from tati_re.distributed.jobs import side_by_side as side_by_side
    from tati_re.landscape.gaussian import GaussianApproximation as GaussianApproximation
    from tati_re.landscape.gaussian import gaussian_approximation as gaussian_approximation
    from tati_re.launch.run import Run as Run
    from tati_re.launch.run import load as load
    from tati_re.posterior import priors as priors
    from tati_re.posterior.function import FunctionPotential as FunctionPotential
    from tati_re.posterior.named_density import NamedDensity as NamedDensity
    from tati_re.prediction.predict import predict as predict
    from tati_re.prediction.run_comparison import compare_runs as compare_runs
    from tati_re.prediction.temperature_study import temperature_study as temperature_study
    from tati_re.report.modules import analyse as analyse
    from tati_re.report.page import write_report as write_report
    from tati_re.runs.compare import compare as compare
    from tati_re.runs.verify import verify as verify
    from tati_re.shipping.predictor import Predictor as Predictor
    from tati_re.simulation.compiled import SamplePosterior as SamplePosterior
    from tati_re.simulation.compiled import sample as sample
    from tati_re.simulation.game import Game as Game
    from tati_re.simulation.game import Player as Player
    from tati_re.simulation.simulation import Simulation as Simulation

open_missing()

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # of TensorFlow, which a script may import next

__getattr__, _lazy = lazy_names(__name__)
__all__ = sorted(
    ["CertificateWarning", "InputError", "SamplingError", "__version__", "help", *_lazy]
)


def help(name: str | None = None) -> None:
    """Prints the meaning, type, range and default of an option.

    Args:
        name: The name of an option, such as `"step_size"`. Default: None, all options, one line
            each.

    Raises:
        InputError: There is no such option; the message suggests the closest name.
    """
    from tati_re.options.make import describe

    print(describe(name))


def __dir__() -> list[str]:
    return __all__
