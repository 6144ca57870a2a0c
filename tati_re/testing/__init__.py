"""Tests that any implementation must pass, for samplers that users write.

`check_sampler(MySampler)` tries everything that the engine relies on, and the law. Nothing of the package imports this
module: it is for tests.
"""

from __future__ import annotations

from tati_re.testing.numpy_parts import NumpyEvaluate, NumpyNoise, quartic, rung_of
from tati_re.testing.sampler import CHECKS, check_sampler
from tati_re.testing.sampler_law import check_law

__all__ = ["CHECKS", "NumpyEvaluate", "NumpyNoise", "check_law", "check_sampler", "quartic", "rung_of"]
