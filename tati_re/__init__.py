"""tati_re: sample the posterior of a Keras model as a physical system.

The names below are loaded on first use, so that `import tati_re` is quick and does not start
TensorFlow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tati_re._version import __version__
from tati_re.core.errors import InputError, SamplingError

if TYPE_CHECKING:
    from tati_re import evidence, exploration, landscape, samplers, testing
    from tati_re.posterior import priors
    from tati_re.prediction.predict import predict
    from tati_re.prediction.temperature_study import temperature_study
    from tati_re.simulation.run import load
    from tati_re.simulation.simulation import Simulation

__all__ = [
    "InputError",
    "SamplingError",
    "Simulation",
    "__version__",
    "analysis",
    "evidence",
    "exploration",
    "help",
    "landscape",
    "load",
    "predict",
    "priors",
    "samplers",
    "temperature_study",
    "testing",
    "write_report",
]

_LAZY = {
    "Simulation": ("tati_re.simulation.simulation", "Simulation"),
    "analysis": ("tati_re.analysis", None),
    "evidence": ("tati_re.evidence", None),
    "exploration": ("tati_re.exploration", None),
    "load": ("tati_re.simulation.run", "load"),
    "predict": ("tati_re.prediction.predict", "predict"),
    "landscape": ("tati_re.landscape", None),
    "priors": ("tati_re.posterior.priors", None),
    "samplers": ("tati_re.samplers", None),
    "temperature_study": ("tati_re.prediction.temperature_study", "temperature_study"),
    "testing": ("tati_re.testing", None),
    "write_report": ("tati_re.report", "write_report"),
}


def help(name: str | None = None) -> None:
    """Prints what an option means, its type, range and default.

    Args:
        name: The option's name, such as `"step_size"`. Default: all options, one line each.

    Raises:
        InputError: There is no such option; the nearest name is said.
    """
    from tati_re.options.make import describe

    print(describe(name))


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'tati_re' has no attribute '{name}'")
    module, attribute = _LAZY[name]
    loaded = importlib.import_module(module)
    value = loaded if attribute is None else getattr(loaded, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
