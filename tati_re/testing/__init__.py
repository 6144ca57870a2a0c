"""Tests that any implementation must pass, for samplers that users write.

`check_sampler(MySampler)` tries everything that the engine relies on, and the law. `run_ladder` runs replica exchange
on a potential that is a function. Nothing of the package imports this module: it is for tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.testing.ladders import LadderRun, NoisyEnergies, NoisyPotential, five_gaussians, harmonic, run_ladder
    from tati_re.testing.numpy_parts import NumpyEvaluate, NumpyNoise, quartic, rung_of
    from tati_re.testing.sampler import CHECKS, check_sampler
    from tati_re.testing.sampler_law import check_law

__all__ = [
    "CHECKS",
    "LadderRun",
    "NoisyEnergies",
    "NoisyPotential",
    "NumpyEvaluate",
    "NumpyNoise",
    "check_law",
    "check_sampler",
    "five_gaussians",
    "harmonic",
    "quartic",
    "run_ladder",
    "rung_of",
]

__getattr__ = lazy_names(__name__)
