"""Likelihoods: the law of a target given the outputs of the network, one family a file.

Each is a `Likelihood` with a log density in TensorFlow and the same law in NumPy. Adding one touches
one new file (copy `skeleton.py`) and one line of `registry.py`.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.likelihoods import log_prob as log_prob
    from tati_re.likelihoods.censored import CensoredLogNormal as CensoredLogNormal
    from tati_re.likelihoods.censored import CensoredNormal as CensoredNormal
    from tati_re.likelihoods.censored import CensoredWeibull as CensoredWeibull
    from tati_re.likelihoods.contract import Likelihood as Likelihood
    from tati_re.likelihoods.counts import NegativeBinomial as NegativeBinomial
    from tati_re.likelihoods.counts import Poisson as Poisson
    from tati_re.likelihoods.counts import (
        ZeroInflatedNegativeBinomial as ZeroInflatedNegativeBinomial,
    )
    from tati_re.likelihoods.counts import ZeroInflatedPoisson as ZeroInflatedPoisson
    from tati_re.likelihoods.extra_parameters import ExtraParameter as ExtraParameter
    from tati_re.likelihoods.laws import Law as Law
    from tati_re.likelihoods.laws import ScipyLaw as ScipyLaw
    from tati_re.likelihoods.location_scale import LocationScale as LocationScale
    from tati_re.likelihoods.ordinal import Ordinal as Ordinal
    from tati_re.likelihoods.positive import Beta as Beta
    from tati_re.likelihoods.positive import Gamma as Gamma
    from tati_re.likelihoods.positive import LogNormal as LogNormal
    from tati_re.likelihoods.registry import likelihoods as likelihoods
    from tati_re.likelihoods.student_t import LaplaceNoise as LaplaceNoise
    from tati_re.likelihoods.student_t import StudentTNoise as StudentTNoise

__getattr__, __all__ = lazy_names(__name__)
