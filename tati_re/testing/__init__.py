"""Tests that any implementation must pass, for samplers that users write.

`check_sampler(MySampler)` tries everything that the engine relies on, and the distribution. `run_ladder` runs replica
exchange on a potential that is a function. Nothing of the package imports this module: it is for tests."""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.testing.ladders import LadderRun as LadderRun
    from tati_re.testing.ladders import NoisyEnergies as NoisyEnergies
    from tati_re.testing.ladders import NoisyPotential as NoisyPotential
    from tati_re.testing.ladders import five_gaussians as five_gaussians
    from tati_re.testing.ladders import harmonic as harmonic
    from tati_re.testing.ladders import run_ladder as run_ladder
    from tati_re.testing.numpy_parts import NumpyEvaluate as NumpyEvaluate
    from tati_re.testing.numpy_parts import NumpyNoise as NumpyNoise
    from tati_re.testing.numpy_parts import quartic as quartic
    from tati_re.testing.numpy_parts import rung_of as rung_of
    from tati_re.testing.sampler import CHECKS as CHECKS
    from tati_re.testing.sampler import check_sampler as check_sampler
    from tati_re.testing.sampler_law import check_law as check_law

__getattr__, __all__ = lazy_names(__name__)
