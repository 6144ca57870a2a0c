"""Replica exchange: ladders of temperatures, rules that accept swaps, schedules, and the bias of
the energies. An argument out of the range that its line names is an `InputError`.
"""

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.exchange.advice import Advice as Advice
    from tati_re.exchange.advice import ExchangeAdvice as ExchangeAdvice
    from tati_re.exchange.advice import exchange_advice as exchange_advice
    from tati_re.exchange.advice import harmonic_acceptance as harmonic_acceptance
    from tati_re.exchange.advice import ladder_advice as ladder_advice
    from tati_re.exchange.advice import spaced_evenly as spaced_evenly
    from tati_re.exchange.advice import spacing as spacing
    from tati_re.exchange.compensation import LARGEST_NOISE_VARIANCE as LARGEST_NOISE_VARIANCE
    from tati_re.exchange.compensation import CompensationTable as CompensationTable
    from tati_re.exchange.compensation import Cut as Cut
    from tati_re.exchange.compensation import best_cut as best_cut
    from tati_re.exchange.compensation import compensation_table as compensation_table
    from tati_re.exchange.compensation import cumulative_after_noise as cumulative_after_noise
    from tati_re.exchange.compensation import log_spectrum as log_spectrum
    from tati_re.exchange.compensation import quantile as quantile
    from tati_re.exchange.compensation import series_weights as series_weights
    from tati_re.exchange.correction import Correction as Correction
    from tati_re.exchange.differences import sample_size as sample_size
    from tati_re.exchange.gaussianity import GaussianityReport as GaussianityReport
    from tati_re.exchange.gaussianity import difference_p_values as difference_p_values
    from tati_re.exchange.gaussianity import gaussianity_report as gaussianity_report
    from tati_re.exchange.ladder import Ladder as Ladder
    from tati_re.exchange.ladder import barrier as barrier
    from tati_re.exchange.ladder import explicit as explicit
    from tati_re.exchange.ladder import geometric as geometric
    from tati_re.exchange.ladder import likelihood as likelihood
    from tati_re.exchange.ladder import make_ladder as make_ladder
    from tati_re.exchange.ladder import round_trip_rate as round_trip_rate
    from tati_re.exchange.replicas import ReplicaExchange as ReplicaExchange
    from tati_re.exchange.schedule import AllPairs as AllPairs
    from tati_re.exchange.schedule import EvenOdd as EvenOdd
    from tati_re.exchange.schedule import RandomNeighbours as RandomNeighbours
    from tati_re.exchange.schedule import gibbs as gibbs
    from tati_re.exchange.schedule import make_swap_schedule as make_swap_schedule
    from tati_re.exchange.subsets import NUM_KEYS as NUM_KEYS
    from tati_re.exchange.subsets import permuted as permuted
    from tati_re.exchange.swap_rules import Barker as Barker
    from tati_re.exchange.swap_rules import BarkerCompensated as BarkerCompensated
    from tati_re.exchange.swap_rules import Corrected as Corrected
    from tati_re.exchange.swap_rules import Metropolis as Metropolis
    from tati_re.exchange.swap_rules import Naive as Naive
    from tati_re.exchange.swap_rules import Penalty as Penalty
    from tati_re.exchange.swap_rules import SwapRule as SwapRule
    from tati_re.exchange.swap_rules import make_swap_rule as make_swap_rule
    from tati_re.exchange.swap_rules import mean_acceptance as mean_acceptance
    from tati_re.exchange.well_tempered import Bias as Bias
    from tati_re.exchange.well_tempered import WellTempered as WellTempered
    from tati_re.exchange.well_tempered import bias_value as bias_value
    from tati_re.exchange.well_tempered import force_factor as force_factor

__getattr__, __all__ = lazy_names(__name__)
