"""Replica exchange: ladders of temperatures, rules that accept swaps, schedules, and the bias of the energies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tati_re.core.lazy import lazy_names

if TYPE_CHECKING:
    from tati_re.exchange.acceptance import mean_acceptance
    from tati_re.exchange.advice import Advice, harmonic_acceptance, ladder_advice, spaced_evenly, spacing
    from tati_re.exchange.compensation import (
        LARGEST_NOISE_VARIANCE,
        Cut,
        best_cut,
        compensation_table,
        cumulative_after_noise,
        log_spectrum,
        quantile,
        series_weights,
    )
    from tati_re.exchange.compensation import Table as CompensationTable
    from tati_re.exchange.correction import Correction
    from tati_re.exchange.gaussianity import GaussianityReport, difference_p_values, gaussianity_report
    from tati_re.exchange.ladder import Ladder, barrier, explicit, geometric, likelihood, make_ladder, round_trip_rate
    from tati_re.exchange.replicas import ReplicaExchange
    from tati_re.exchange.schedule import AllPairs, EvenOdd, RandomNeighbours, gibbs, make_swap_schedule
    from tati_re.exchange.subsets import NUM_KEYS, permuted
    from tati_re.exchange.swap_rules import (
        Barker,
        BarkerCompensated,
        Corrected,
        Metropolis,
        Naive,
        Penalty,
        SwapRule,
        make_swap_rule,
    )
    from tati_re.exchange.variance import sample_size
    from tati_re.exchange.well_tempered import Bias, WellTempered, force_factor
    from tati_re.exchange.well_tempered import value as bias_value

__all__ = [
    "LARGEST_NOISE_VARIANCE",
    "NUM_KEYS",
    "Advice",
    "AllPairs",
    "Barker",
    "BarkerCompensated",
    "Bias",
    "CompensationTable",
    "Corrected",
    "Correction",
    "Cut",
    "EvenOdd",
    "GaussianityReport",
    "Ladder",
    "Metropolis",
    "Naive",
    "Penalty",
    "RandomNeighbours",
    "ReplicaExchange",
    "SwapRule",
    "WellTempered",
    "barrier",
    "best_cut",
    "bias_value",
    "compensation_table",
    "cumulative_after_noise",
    "difference_p_values",
    "explicit",
    "force_factor",
    "gaussianity_report",
    "geometric",
    "gibbs",
    "harmonic_acceptance",
    "ladder_advice",
    "likelihood",
    "log_spectrum",
    "make_ladder",
    "make_swap_rule",
    "make_swap_schedule",
    "mean_acceptance",
    "permuted",
    "quantile",
    "round_trip_rate",
    "sample_size",
    "series_weights",
    "spaced_evenly",
    "spacing",
]

__getattr__ = lazy_names(__name__)
