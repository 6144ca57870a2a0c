"""Averages of laws over the draws of a posterior: distribution function, quantiles, PIT, CRPS."""

from __future__ import annotations

import numpy as np
from scipy.optimize import elementwise

from tati_re.likelihoods.laws import Law

_POINTS = 2_000
_LEAST_LEVELS = 4
_TOLERANCE = 1e-9


def shares_of(weights: np.ndarray) -> np.ndarray:
    """Weights of the draws, shape (draws,), scaled to the sum 1."""
    values = np.asarray(weights, np.float64)
    return values / values.sum()


def mixture_cdf(law: Law, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """P(Y <= values) under the weighted mixture of the draws.

    Args:
        law: Laws of shape (draws, ...).
        values: Shape (...).
        weights: Weights of the draws, shape (draws,).
    """
    return np.tensordot(shares_of(weights), law.cdf(values), axes=1)


def mixture_pit(
    law: Law, values: np.ndarray, weights: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """The probability below each target: uniform where the predictions are calibrated.

    Of whole numbers it is drawn evenly between P(Y < y) and P(Y <= y) (Czado, Gneiting and Held,
    Biometrics 65, 2009).

    Args:
        law: Laws of shape (draws, n, targets).
        values: Targets, shape (n, targets).
        weights: Weights of the draws, shape (draws,).
        random: For the place between the two probabilities.

    Returns:
        Numbers in [0, 1], shape (n, targets).
    """
    share = shares_of(weights)
    upper = np.tensordot(share, law.cdf(values), axes=1)
    lower = np.tensordot(share, law.below(values), axes=1)
    return lower + random.random(upper.shape) * (upper - lower)


def mixture_quantile(
    law: Law, level: float, weights: np.ndarray, num_targets: int, discrete: bool = False
) -> np.ndarray:
    """The quantile of the weighted mixture of the draws, in every example and target.

    Args:
        law: Laws of shape (draws, n, targets).
        level: Probability below, in (0, 1).
        weights: Weights of the draws, shape (draws,).
        num_targets: Targets of an example.
        discrete: Whether values are whole numbers; then the smallest one with that probability.

    Returns:
        Quantiles, shape (n, targets).
    """
    share = shares_of(weights)
    quantiles = law.quantile(level)
    find = _whole_quantile if discrete else _root
    columns = [find(law, level, share, quantiles[..., k], k) for k in range(num_targets)]
    return np.stack(columns, axis=-1)


def _root(
    law: Law, level: float, share: np.ndarray, quantiles: np.ndarray, column: int
) -> np.ndarray:
    """Where the mixture's distribution function is `level`, between the quantiles of the draws."""
    low, high = quantiles.min(axis=0), quantiles.max(axis=0)
    quantile = low.copy()
    rows = np.flatnonzero(high > low)
    if not len(rows):
        return quantile

    def excess(values: np.ndarray, row: np.ndarray) -> np.ndarray:
        return share @ law.at(row.astype(int), column).cdf(values) - level

    # Rounding may leave the ends of the bracket on the wrong side of the level.
    margin = 1e-9 * (high - low)[rows]
    bracket = (low[rows] - margin, high[rows] + margin)
    root = elementwise.find_root(excess, bracket, args=(rows,), tolerances={"xrtol": _TOLERANCE})
    middle = 0.5 * (low + high)[rows]
    quantile[rows] = np.where(np.isfinite(root.x), root.x, middle)
    return quantile


def _whole_quantile(
    law: Law, level: float, share: np.ndarray, quantiles: np.ndarray, column: int
) -> np.ndarray:
    """The smallest whole number whose probability up to it is at least `level`, by bisection."""
    # Below `low` the probability is too small, at `high` it is enough.
    low, high = quantiles.min(axis=0) - 1, quantiles.max(axis=0)
    while len(rows := np.flatnonzero(high - low > 1)):
        middle = np.floor(0.5 * (low + high))[rows]
        enough = share @ law.at(rows, column).cdf(middle) >= level - 1e-12
        high[rows] = np.where(enough, middle, high[rows])
        low[rows] = np.where(enough, low[rows], middle)
    return high


def mixture_crps(law: Law, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score, E|Y - y| - E|Y - Y'|/2, of the mixture of the draws.

    Each law is replaced by its quantiles in the middles of equal shares of probability, at least
    2,000 points for all draws together; the score of these points is exact.

    Source: Gneiting and Raftery, J. Am. Stat. Assoc. 102 (2007), equation 21.

    Args:
        law: Laws of shape (draws, n, targets).
        values: What came true, shape (n, targets).
        weights: Weights of the draws, shape (draws,).

    Returns:
        Scores in the units of the targets, shape (n, targets); smaller is better.
    """
    share = shares_of(weights)
    points, count = quantile_points(law, len(share))
    point_share = np.tile(share, count) / count
    return empirical_crps(points, np.asarray(values, np.float64), point_share)


def quantile_points(law: Law, num_draws: int) -> tuple[np.ndarray, int]:
    """Quantiles of each law in the middles of equal shares of probability.

    Args:
        law: Laws of shape (draws, n, targets).
        num_draws: How many draws.

    Returns:
        Points, at least 2,000 for all draws together, shape (points a draw x draws, n, targets),
        and how many a draw has.
    """
    count = max(_LEAST_LEVELS, -(-_POINTS // num_draws))
    points = law.quantiles((np.arange(count) + 0.5) / count)
    return points.reshape(-1, *points.shape[2:]), count


def empirical_crps(points: np.ndarray, values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The score of the law that has weighted points at some values.

    Args:
        points: Points of each law, shape (points, ...).
        values: What came true, shape (...).
        share: Weights of the points with the sum 1, shape (points,), or of the shape of `points`
            where each law has its own.

    Returns:
        Scores, shape (...).
    """
    order = np.argsort(points, axis=0)
    ordered = np.take_along_axis(points, order, axis=0)
    if share.ndim == 1:
        distance = np.tensordot(share, np.abs(points - values), axes=1)
        ordered_share = share[order]
    else:
        distance = np.sum(share * np.abs(points - values), axis=0)
        ordered_share = np.take_along_axis(share, order, axis=0)
    below = np.cumsum(ordered_share, axis=0)[:-1]
    # E|Y - Y'|/2 is the integral of F (1 - F), and F is constant between neighboring points.
    half_spread = np.sum(np.diff(ordered, axis=0) * below * (1 - below), axis=0)
    return distance - half_spread
