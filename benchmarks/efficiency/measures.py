"""Errors and effective draws of chains, the same for every sampler.

b² of an average f is (mean of f over what a chain has drawn so far - truth)² / Var f, the worst
over the coordinates; the number of gradients to b² < .01 is where the median over the chains goes
below .01 for good, as in sampler-benchmarks (its evaluation/ess.py: `jnp.median` over chains, the
last crossing). Tuning is not counted in it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from benchmarks.efficiency.targets import Target

LOW_ERROR = 0.01


class Draws(NamedTuple):
    """What a sampler gives after its tuning.

    Attributes:
        positions: `(chains, draws, d)`, every one or evenly thinned.
        gradients: Of each chain up to each draw, `(chains, draws)`, tuning not counted.
        tuning_gradients: Before, of a chain, the mean.
        seconds: Of all chains after tuning.
        tuning_seconds: Of all chains, compiling not counted.
        compile_seconds: The rest of the call.
        eevpd: Mean of ΔE²/d over the steps after tuning, nan where nothing is measured.
        note: In words.
    """

    positions: np.ndarray
    gradients: np.ndarray
    tuning_gradients: float
    seconds: float
    tuning_seconds: float
    compile_seconds: float
    eevpd: float = math.nan
    note: str = ""


class Result(NamedTuple):
    """A line of results.csv: gradients to b² < .01 (of a chain; inf: not reached), and effective
    draws of all chains per 1,000 gradients of all chains and per second: the least over what is
    judged and its squares about the mean, and of U.
    """

    target: str
    method: str
    round: int
    to_mean: float
    to_square: float
    seconds_to_square: float
    ess_1000: float
    ess_u_1000: float
    ess_second: float
    tuning_gradients: float
    tuning_seconds: float
    compile_seconds: float
    eevpd: float
    note: str


def worst_error(values: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """b² of the running means of one chain, the worst over coordinates, `(draws,)`."""
    running = np.cumsum(values, axis=0, dtype=np.float64) / np.arange(1, len(values) + 1)[:, None]
    return ((running - mean) ** 2 / variance).max(axis=1)


def low_for_good(errors: np.ndarray, gradients: np.ndarray, bound: float = LOW_ERROR) -> float:
    """Gradients of a chain until the median of the chains' errors stays below the bound; inf where
    it ends above.
    """
    above = np.flatnonzero(np.median(errors, axis=0) >= bound)
    last = above[-1] + 1 if len(above) else 0
    return float(gradients.mean(axis=0)[last]) if last < errors.shape[1] else math.inf


def least_ess(values: np.ndarray) -> float:
    """Least bulk effective sample size over k and over x and (x - mean)², by arviz-stats."""
    from arviz_stats.base import array_stats

    values = np.asarray(values, np.float64)
    both = np.concatenate([values, (values - values.mean(axis=(0, 1))) ** 2], axis=-1)
    found = array_stats.ess(both, chain_axis=0, draw_axis=1, method="bulk")
    return float(np.min(found))


def judged(target: Target, method: str, number: int, draws: Draws) -> Result:
    """The line of one sampler on one target."""
    positions = draws.positions
    flat = positions.reshape(-1, positions.shape[-1])
    parts = np.array_split(
        flat, max(1, len(flat) // 1_000)
    )  # a network on all data at 1,000 positions at a time
    values = np.concatenate([target.observed(np, part) for part in parts]).reshape(
        *positions.shape[:2], -1
    )
    energies = np.concatenate([target.potential(np, part) for part in parts]).reshape(
        *positions.shape[:2], 1
    )
    to_mean = to_square = math.nan
    if (truth := target.truth) is not None:
        to_mean = low_for_good(
            np.array([worst_error(chain, truth.mean, truth.variance) for chain in values]),
            draws.gradients,
        )
        to_square = low_for_good(
            np.array(
                [
                    worst_error(chain**2, truth.mean_of_square, truth.variance_of_square)
                    for chain in values
                ]
            ),
            draws.gradients,
        )
    total, finite = float(draws.gradients[:, -1].sum()), np.isfinite(energies).all()
    ess = least_ess(values) if finite else math.nan
    per_gradient = draws.seconds / float(draws.gradients[:, -1].mean())
    return Result(
        target.name,
        method,
        number,
        to_mean,
        to_square,
        to_square * per_gradient,
        1e3 * ess / total,
        1e3 * least_ess(energies) / total if finite else math.nan,
        ess / draws.seconds,
        draws.tuning_gradients,
        draws.tuning_seconds,
        draws.compile_seconds,
        draws.eevpd,
        draws.note,
    )
