"""tati_re: sample the posterior of a Keras model as a physical system.

The names below are loaded on first use, so that `import tati_re` is quick and does not start
TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re._version import __version__
from tati_re.core.errors import InputError, SamplingError
from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re import (
        analysis,
        data,
        evidence,
        exchange,
        exploration,
        landscape,
        optimizers,
        plotting,
        prediction,
        samplers,
        testing,
    )
    from tati_re.posterior import priors
    from tati_re.posterior.function import FunctionPotential
    from tati_re.prediction.predict import predict
    from tati_re.prediction.temperature_study import temperature_study
    from tati_re.report.analyse import analyse
    from tati_re.report.page import write_report
    from tati_re.runs.compare import compare
    from tati_re.simulation.run import Run, load
    from tati_re.simulation.simulation import Simulation

__all__ = [
    "FunctionPotential",
    "InputError",
    "Run",
    "SamplingError",
    "Simulation",
    "__version__",
    "analyse",
    "analysis",
    "compare",
    "data",
    "evidence",
    "exchange",
    "exploration",
    "help",
    "landscape",
    "load",
    "optimizers",
    "plotting",
    "predict",
    "prediction",
    "priors",
    "samplers",
    "temperature_study",
    "testing",
    "write_report",
]


def help(name: str | None = None) -> None:
    """Prints what an option means, its type, range and default.

    Args:
        name: The option's name, such as `"step_size"`. Default: all options, one line each.

    Raises:
        InputError: There is no such option; the nearest name is said.
    """
    from tati_re.options.make import describe

    print(describe(name))


__getattr__ = lazy_names(__name__)


def __dir__() -> list[str]:
    return sorted(__all__)
