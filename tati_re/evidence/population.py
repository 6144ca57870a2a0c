"""Weighting, resampling and cooling of populations in sequential Monte Carlo.

Source: Del Moral, Doucet and Jasra, J. R. Statist. Soc. B 68 (2006); steps chosen by the effective sample size: Jasra,
Stephens, Doucet and Tsagaris, Scand. J. Stat. 38 (2011).
"""

import numpy as np
from scipy.special import logsumexp

_HALVINGS = 60


def effective_fraction(log_weights) -> np.ndarray:
    """1/(n Σ w²) of normalized weights along the last axis, between 1/n and 1."""
    log_weights = np.asarray(log_weights, np.float64)
    log_squares = logsumexp(2 * log_weights, axis=-1) - 2 * logsumexp(log_weights, axis=-1)
    return np.exp(-log_squares) / log_weights.shape[-1]


def next_point(now: float, energies, fraction: float = 0.5) -> float:
    """The next λ, at most 1, at which the smallest effective fraction of populations at λ = `now` falls to `fraction`,
    by bisection; `energies` are E of their members, `(populations, members)`."""
    energies = np.asarray(energies, np.float64)

    def enough(point: float) -> bool:
        return bool(effective_fraction(-(point - now) * energies).min() >= fraction)

    if enough(1.0):
        return 1.0
    # In powers of ten first: from the prior the first step may be 1e-6.
    low, high = 0.0, 1.0 - now
    while high > 1e-300 and not enough(now + high):
        low, high = 0.0, high / 10
    low, high = high, min(10 * high, 1.0 - now)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(now + middle) else (low, middle)
    return now + low


def log_increments(step: float, energies) -> np.ndarray:
    """log of the mean weight of each population, `(populations,)`: its share of log Z."""
    energies = np.asarray(energies, np.float64)
    return logsumexp(-step * energies, axis=-1) - np.log(energies.shape[-1])


def systematic(log_weights, uniform: float, count: int | None = None) -> np.ndarray:
    """Indices of the `count` surviving members (None: as many as there are), rising, int64, from log weights
    `(members,)` by systematic resampling with one uniform number."""
    log_weights = np.asarray(log_weights, np.float64)
    members = len(log_weights)
    count = members if count is None else count
    summed = np.cumsum(np.exp(log_weights - logsumexp(log_weights)))
    return np.searchsorted(summed / summed[-1], (np.arange(count) + uniform) / count, side="right").clip(0, members - 1)


def combined(log_z) -> tuple[float, float]:
    """The log of the mean of Z over independent populations, and its standard error. Each population's Z is unbiased,
    its logarithm is not; where the logarithms spread by more than about 1 both the mean and its error are dominated by
    the largest."""
    log_z = np.asarray(log_z, np.float64)
    count = len(log_z)
    mean = float(logsumexp(log_z) - np.log(count))
    if count < 2:
        return mean, float("nan")
    relative = np.exp(log_z - mean)
    return mean, float(relative.std(ddof=1) / np.sqrt(count))
