"""Tests that any implementation must pass, for samplers, likelihoods and readers that users write.

`check_sampler(MySampler)` tries everything that the engine relies on, and the distribution;
`check_likelihood(MyLikelihood(), targets)` compares a density with its law;
`check_reader(MyReader(), path, inputs, targets)` reads a file, in parts and damaged;
`calibrate(simulate, log_density, parameters)` checks a model of named parameters on data simulated
from it. Nothing of the package imports this module: it is for tests.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.testing.likelihood_protocol import check_likelihood as check_likelihood
    from tati_re.testing.numpy_parts import NumpyEvaluate as NumpyEvaluate
    from tati_re.testing.numpy_parts import NumpyNoise as NumpyNoise
    from tati_re.testing.numpy_parts import quartic as quartic
    from tati_re.testing.numpy_parts import rung_of as rung_of
    from tati_re.testing.reader_protocol import check_reader as check_reader
    from tati_re.testing.sampler_law import CHECKS as CHECKS
    from tati_re.testing.sampler_law import check_law as check_law
    from tati_re.testing.sampler_law import check_sampler as check_sampler
    from tati_re.testing.simulated_ranks import RankCalibration as RankCalibration
    from tati_re.testing.simulated_ranks import calibrate as calibrate

__getattr__, __all__ = lazy_names(__name__)
