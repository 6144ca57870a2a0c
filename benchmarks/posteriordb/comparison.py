"""Draws against the reference draws of a posterior."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

import tati_re

LEVELS = (0.05, 0.5, 0.95)


def entries_of_reference(draws: Mapping[str, np.ndarray], names: list[str]) -> np.ndarray:
    """Draws of the reference's quantities, `(quantities, chains, draws)`; they count from 1."""
    entries = []
    for name in names:
        base, _, places = name.partition("[")
        place = tuple(int(number) - 1 for number in re.findall(r"\d+", places))
        entries.append(draws[base][(..., *place)])
    return np.stack(entries)


def least_effective_size(values: np.ndarray) -> float:
    """The least effective sample size of the reference's quantities, of their bulk.

    Args:
        values: Draws, `(quantities, chains, draws)`.
    """
    return min(float(tati_re.analysis.effective_sample_size(chains)) for chains in values)


def compared(values: np.ndarray, reference: Mapping[str, Any]) -> dict[str, Any]:
    """How far means and quantiles are off, in combined errors and in standard deviations.

    Args:
        values: Draws, `(quantities, chains, draws)`.
        reference: The file of the posterior.
    """
    deviation = np.sqrt(reference["var"])
    mean_errors = []
    quantile_errors = []
    quantile_shifts = []
    for k, chains in enumerate(values):
        error = tati_re.analysis.monte_carlo_error(chains)
        shift = chains.mean() - reference["mean"][k]
        mean_errors.append(shift / np.hypot(error, reference["mcse_mean"][k]))
        size = tati_re.analysis.effective_sample_size(chains, "tail")
        reference_size = (deviation[k] / reference["mcse_mean"][k]) ** 2
        for row, level in enumerate(LEVELS):
            shift = (np.quantile(chains, level) - reference["quantiles"][row][k]) / deviation[k]
            height = stats.norm.pdf(stats.norm.ppf(level))
            one = np.sqrt(level * (1 - level) * (1 / size + 1 / reference_size)) / height
            quantile_errors.append(shift / one)
            quantile_shifts.append(abs(shift))
    worst = int(np.abs(mean_errors).argmax())
    return {
        "worst_mean": float(np.abs(mean_errors).max()),
        "worst_mean_of": f"{reference['names'][worst]} {mean_errors[worst]:+.1f}",
        "worst_quantile": float(np.abs(quantile_errors).max()),
        "median_quantile_shift": float(np.median(quantile_shifts)),
    }
