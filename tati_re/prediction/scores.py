"""Brier score and area under the ROC curve; CRPS, coverage and intervals of mixtures of normals."""

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.prediction.metrics import paired

_PIECE_VALUES = 4_000_000
_MOST_POINTS = 2000
_FEW_DRAWS = 300
"""Draws up to which the pairs of a mixture are summed."""
_COST_OF_PAIR = 3
"""Evaluations of the normal distribution function that one pair costs."""
_REACH = 8
"""Deviations from the mean within which a normal has its probability, to double precision."""
_NUM_NEAR = 100
"""Points of the grid within that reach, at most."""


@front_door
def brier_score(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean squared distance between class probabilities and the true class.

    The score of an example is the sum over c of (p_c - 1_c)², between 0 (best) and 2. For two
    classes it is twice the mean squared error of one probability. Reference: G. Brier, Monthly
    Weather Review 78 (1950), with all classes.

    Args:
        probabilities: Shape (n, k), or (n,) or (n, 1) for the positive class.
        labels: Integers (n,), -1 and +1, or one-hot rows.

    Returns:
        The mean score, in [0, 2].

    Raises:
        InputError: Shapes or labels do not fit.
    """
    values, right = paired(probabilities, labels)
    return float(((values - np.eye(values.shape[1])[right]) ** 2).sum(axis=1).mean())


@front_door
def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the area under the ROC curve of a score that separates outside from inside inputs.

    This is P(outside > inside) + P(equal)/2: 1 for perfect separation, 0.5 for none.

    Args:
        inside: Scores of inputs like the training data, `(n,)`.
        outside: Scores of other inputs, `(m,)`.

    Returns:
        The area, in [0, 1].

    Raises:
        InputError: A set is empty, or values are not finite.
    """
    from scipy.stats import rankdata

    inside, outside = (np.asarray(part, np.float64).reshape(-1) for part in (inside, outside))
    if not (inside.size and outside.size):
        raise InputError(
            "There are no scores to compare.",
            f"{inside.size} and {outside.size} scores",
            "both above 0",
        )
    refuse_if(
        np.isnan(inside).any() or np.isnan(outside).any(),
        "The scores are not numbers.",
        "nan",
        "numbers",
    )
    ranks = rankdata(np.concatenate([inside, outside]))[inside.size :]
    return float(
        (ranks.sum() - outside.size * (outside.size + 1) / 2) / (inside.size * outside.size)
    )


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Computes quantiles over weighted draws.

    For equal weights they are NumPy's, linear between order statistics. Otherwise they invert the
    weighted distribution function, linear between the middles of its steps.

    Args:
        values: Values, shape (draws, ...).
        weights: Weights above 0, shape (draws,).
        levels: Levels in [0, 1], shape (k,).

    Returns:
        Quantiles, shape (k, ...).
    """
    if np.ptp(weights) == 0:
        return np.quantile(values, levels, axis=0)
    flat = values.reshape(len(values), -1)
    order = np.argsort(flat, axis=0)
    below = np.cumsum(weights[order], axis=0)
    middle = (below - 0.5 * weights[order]) / below[-1]
    ordered = np.take_along_axis(flat, order, axis=0)
    quantiles = [
        np.interp(levels, middle[:, column], ordered[:, column]) for column in range(flat.shape[1])
    ]
    return np.stack(quantiles, axis=1).reshape(len(levels), *values.shape[1:])


def mixture_cdf(
    y: np.ndarray, means: np.ndarray, stds: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Distribution function of a weighted mixture of normals, in the shape of `y`.

    Args:
        y: Values, shape (...,).
        means: Means, shape (draws, ...).
        stds: Standard deviations above 0, broadcastable with `means`.
        weights: Weights of the draws, shape (draws,).
    """
    return np.tensordot(weights / weights.sum(), ndtr((y - means) / stds), axes=1)


def mixture_interval(
    means: np.ndarray, stds: np.ndarray, weights: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Central interval of a weighted mixture of normals, by bisection and Newton steps.

    It is accurate to 1e-9 of spread and tail.

    Args:
        means: Means, shape (draws, n).
        stds: Standard deviations above 0, broadcastable with `means`.
        weights: Weights of the draws, shape (draws,).
        level: Probability of the interval, in (0, 1).

    Returns:
        Lower and upper end, shape (n,) each.
    """
    stds = np.broadcast_to(stds, means.shape)
    share = weights / weights.sum()
    ends = [
        _mixture_quantile(means, stds, share, level_below)
        for level_below in ((1 - level) / 2, (1 + level) / 2)
    ]
    return ends[0], ends[1]


_CLOSE = 1e-9
"""Error of a quantile that is allowed, as a part of the scale and of the tail."""
_LAST_STEP, _LAST_BEND = 1e-4, 1e-3
"""Step, as a part of the scale and of the tail, after which a third-order step is the last one, and
the part of it that the bend of the distribution function may change.
"""
_QUANTILE_VALUES = 1 << 17
"""Draws times rows at a time, which stay in the cache of a core."""
_FEW_VALUES = 1 << 14
"""Draws times rows below which a first guess in single precision saves nothing."""
_ROUGH_STEPS, _ROUGH, _MOST = 8, 1e-3, 0.9
_FAR = 1e30
_SOME, _ORDER = 64, 0x0D3
_HALVINGS = 1100
"""From the largest number to the smallest."""
_TAIL = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
_TAIL_ARGUMENT = 0.2316419


def _mixture_quantile(
    means: np.ndarray, stds: np.ndarray, share: np.ndarray, goal: float
) -> np.ndarray:
    """Where the distribution function of mixtures of normals is `goal`.

    Args:
        means: Means, shape (draws, n).
        stds: Deviations, shape (draws, n).
        share: Weights of the draws with the sum 1, shape (draws,).
        goal: Probability below, in (0, 1).

    Returns:
        Quantiles, shape (n,).
    """
    count = means.shape[1]
    size = max(1, _QUANTILE_VALUES // len(means))
    quantiles = np.empty(count)
    for first in range(0, count, size):
        some_rows = slice(first, first + size)
        columns = np.ascontiguousarray(means[:, some_rows])
        quantiles[some_rows] = _quantile_of_rows(
            columns, np.ascontiguousarray(stds[:, some_rows]), share, goal
        )
    return quantiles


def _quantile_of_rows(
    means: np.ndarray, stds: np.ndarray, share: np.ndarray, goal: float
) -> np.ndarray:
    """The same for a few rows: Newton steps in single precision, then one or two in double."""
    quantiles = means + ndtri(goal) * stds
    low = quantiles.min(axis=0)
    high = quantiles.max(axis=0)
    # Medians of some draws: a single wide normal makes moments as large as it likes.
    some = _evenly(len(means))
    middle = np.median(quantiles[some], axis=0)
    scale = np.median(np.abs(quantiles[some] - middle), axis=0) + np.median(stds[some], axis=0)
    guess = middle
    if means.size > _FEW_VALUES:
        with np.errstate(all="ignore"):
            centers = np.clip((means - middle) / scale, -_FAR, _FAR).astype(np.float32)
            sharpness = np.minimum(scale / stds, _FAR).astype(np.float32)
            rough = middle + scale * _rough_quantile(centers, sharpness, share, goal)
        guess = np.where(np.isfinite(rough), np.clip(rough, low, high), guess)
    return _exact_quantile(means, stds, share, goal, guess, low, high, scale)


def _evenly(count: int) -> np.ndarray:
    """Numbers of some draws, the same at each call."""
    if count <= _SOME:
        return np.arange(count)
    return np.random.default_rng(_ORDER).permutation(count)[:_SOME]


def _rough_quantile(
    centers: np.ndarray, sharpness: np.ndarray, share: np.ndarray, goal: float
) -> np.ndarray:
    """The quantile in single precision, in units of a scale about a first guess.

    The tail of a normal is the polynomial 26.2.17 of Abramowitz and Stegun, with an error below
    7.5e-8, which shares its exponential with the density.

    Args:
        centers: Means, shape (draws, n).
        sharpness: Inverse deviations, shape (draws, n).
        share: Weights of the draws with the sum 1, shape (draws,).
        goal: Probability below, in (0, 1).
    """
    part = share.astype(np.float32)
    guess = np.zeros(centers.shape[1], np.float32)
    low = np.full_like(guess, -np.inf)
    high = np.full_like(guess, np.inf)
    for number in range(_ROUGH_STEPS):
        z = (guess - centers) * sharpness
        below, density = _rough_normal(z)
        density *= sharpness
        error = part @ below - np.float32(goal)
        low = np.where(error < 0, guess, low)
        high = np.where(error < 0, high, guess)
        new = guess - error / (part @ density)
        new = _bracketed(guess, new, error, low, high, 2.0**number)
        moved = np.abs(new - guess)
        guess = new
        # The rest, such as normals that differ by powers of ten, is found in double precision.
        if np.mean(moved < _ROUGH) > _MOST:
            break
    return guess


def _bracketed(
    guess: np.ndarray,
    new: np.ndarray,
    error: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    reach: Any,
) -> np.ndarray:
    """Newton's next point if it lies between known ends and within reach; else a safe one.

    Args:
        guess: The points, shape (n,).
        new: Newton's next points, shape (n,).
        error: Distribution function less the goal at the points, shape (n,).
        low: The largest points known to be too small, or minus infinity, shape (n,).
        high: The smallest points known to be too large, or infinity, shape (n,).
        reach: The longest step towards an end that is not known.
    """
    known = np.isfinite(low) & np.isfinite(high)
    between = (new > low) & (new < high)
    trusted = between & (known | (np.abs(new - guess) <= reach))
    with np.errstate(invalid="ignore", over="ignore"):
        jump = guess - np.sign(error) * reach
        safe = np.where(known, low + 0.5 * (high - low), jump)
    return np.where(trusted | (new == guess), new, safe).astype(guess.dtype)


def _rough_normal(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distribution function and density of the standard normal, of the type of `z`."""
    density = z * z
    density *= -0.5
    np.exp(density, out=density)
    density *= 1 / np.sqrt(2 * np.pi)
    t = np.abs(z)
    t *= _TAIL_ARGUMENT
    t += 1
    np.reciprocal(t, out=t)
    tail = np.full_like(z, _TAIL[-1])
    for coefficient in _TAIL[-2::-1]:
        tail *= t
        tail += coefficient
    tail *= t
    tail *= density
    return np.where(z > 0, 1 - tail, tail), density


def _exact_quantile(
    means: np.ndarray,
    stds: np.ndarray,
    share: np.ndarray,
    goal: float,
    guess: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    scale: np.ndarray,
) -> np.ndarray:
    """The quantile in double precision by Newton and Halley steps.

    Args:
        means: Means, shape (draws, n).
        stds: Deviations, shape (draws, n).
        share: Weights of the draws with the sum 1, shape (draws,).
        goal: Probability below, in (0, 1).
        guess: First guess, shape (n,), as the other arrays below.
        low: The quantile is not below.
        high: The quantile is not above.
        scale: Typical widths of the mixtures.
    """
    quantiles = np.clip(guess, low, high)
    largest_below = np.full_like(quantiles, -np.inf)
    smallest_above = np.full_like(quantiles, np.inf)
    tail = min(goal, 1 - goal)
    todo = np.arange(means.shape[1])
    for number in range(_HALVINGS):
        # The rows that are not done yet are copied once they have become fewer.
        if len(todo) < means.shape[1]:
            m, s = means[:, todo], stds[:, todo]
        else:
            m, s = means, stds
        guess_of_rows = quantiles[todo]
        error, slope, curvature = _errors_at(guess_of_rows, m, s, share, goal)
        largest_below[todo] = np.where(error < 0, guess_of_rows, largest_below[todo])
        smallest_above[todo] = np.where(error < 0, smallest_above[todo], guess_of_rows)
        with np.errstate(all="ignore"):
            step = -error / slope
            bend = 0.5 * step * curvature / slope
            smooth = np.abs(bend) <= _LAST_BEND
            new = guess_of_rows + np.where(smooth, step * (1 - bend), step)
            reach = np.ldexp(scale[todo], number)
        ends = largest_below[todo], smallest_above[todo]
        newton = new
        new = _bracketed(guess_of_rows, new, error, *ends, reach)
        new = np.clip(new, low[todo], high[todo])
        moved = np.abs(new - guess_of_rows)
        # The probability has to be right as well, where one normal is much narrower than others.
        near = (moved <= _CLOSE * scale[todo]) & (np.abs(error) <= _CLOSE * tail)
        last = (moved <= _LAST_STEP * scale[todo]) & (np.abs(error) <= _LAST_STEP * tail)
        last &= smooth & (new == newton)
        # No number is left between the ends, or Newton stays.
        over = (new <= ends[0]) | (new >= ends[1]) | (new == guess_of_rows)
        quantiles[todo] = new
        todo = todo[~(near | last | over)]
        if not len(todo):
            break
    return quantiles


def _errors_at(
    values: np.ndarray, means: np.ndarray, stds: np.ndarray, share: np.ndarray, goal: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distribution function less `goal`, its slope and its curvature, at values (n,)."""
    z = (values - means) / stds
    error = share @ ndtr(z) - goal
    density = z * z
    density *= -0.5
    np.exp(density, out=density)
    density /= stds
    slope = share @ density / np.sqrt(2 * np.pi)
    density *= z
    density /= stds
    curvature = -(share @ density) / np.sqrt(2 * np.pi)
    return error, slope, curvature


@front_door
def crps(y: np.ndarray, means: np.ndarray, stds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the continuous ranked probability score of a mixture of normals; smaller is better.

    The score is E|Y - y| - E|Y - Y'|/2. Up to 300 draws, the second term is summed over pairs of
    draws. For more draws it is the integral of F(1 - F) by the trapezoidal rule, with a step of
    half the smallest standard deviation. If standard deviations differ by large factors, each
    factor of 2 has a step of its own. The relative error is below 1e-12 in each case. References:
    E. Grimit, T. Gneiting, V. Berrocal, N. Johnson, Quart. J. R. Met. Soc. 132 (2006), equation 5;
    T. Gneiting, A. Raftery, J. Am. Stat. Assoc. 102 (2007), equation 21.

    Args:
        y: Observed values, `(n,)`.
        means: Means of the normals, `(draws, n)`.
        stds: Standard deviations, above 0, `(draws, n)` or a shape that broadcasts to it.
        weights: Weights of the draws, `(draws,)`.

    Returns:
        Scores in the units of `y`, `(n,)`.
    """
    share = weights / weights.sum()
    stds = np.broadcast_to(stds, means.shape)
    first = np.tensordot(share, _mean_distance(y - means, stds), 1)
    return first - np.array(
        [_half_spread(means[:, i], stds[:, i], share) for i in range(means.shape[1])]
    )


def normal_crps(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """The CRPS of one normal distribution, in closed form (Gneiting and Raftery 2007, section 4.2).

    Args:
        y: Observed values.
        mean: Means, in the same shape.
        std: Standard deviations above 0, in the same shape.
    """
    return _mean_distance(y - mean, std) - std / np.sqrt(np.pi)


def _mean_distance(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """E|X| for X ~ N(mean, std²)."""
    z = mean / std
    return mean * (2 * ndtr(z) - 1) + 2 * std * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)


def _half_spread(means: np.ndarray, stds: np.ndarray, share: np.ndarray) -> float:
    """E|Y - Y'|/2 for independent Y and Y' of the mixture."""
    if len(means) <= _FEW_DRAWS:
        return 0.5 * _distance_by_pairs(means, stds, share, means, stds, share)
    step = stds.min() / 2
    low, high = _ends(means, stds)
    if (high - low) / step < min(len(means), _MOST_POINTS):
        points = np.arange(low, high + step, step)
        below = _below(points, means, stds, share)
        return float(np.trapezoid(below * (1 - below), points))
    if not (np.isfinite(means).all() and np.isfinite(stds).all()):
        return float("nan")
    return 0.5 * _distance_by_octaves(means, stds, share)


def _distance_by_octaves(means: np.ndarray, stds: np.ndarray, share: np.ndarray) -> float:
    """E|Y - Y'| of a mixture whose deviations differ by large factors.

    Draws whose deviations are within a factor of 2 are paired with each other and with all
    narrower draws. A pair depends on its variances through their sum alone. Half the variance of
    the wider draws is therefore moved to the narrower ones, so that both are smooth on one grid.

    Args:
        means: Means of the normals, shape (draws,).
        stds: Their deviations, above 0, shape (draws,).
        share: Their weights, shape (draws,).
    """
    order = np.argsort(stds)
    means, stds, share = means[order], stds[order], share[order]
    octaves = np.floor(np.log2(stds / stds[0]))
    starts = np.flatnonzero(np.diff(octaves, prepend=-1.0))
    ends = [*starts[1:], len(stds)]
    total = 0.0
    for start, end in zip(starts, ends, strict=True):
        wide = slice(start, end)
        # A pair of different octaves occurs twice, in either order.
        times = np.where(np.arange(end) < start, 2.0, 1.0)
        total += _distance(
            means[wide], stds[wide], share[wide], means[:end], stds[:end], times * share[:end]
        )
    return total


def _distance(
    means: np.ndarray,
    stds: np.ndarray,
    share: np.ndarray,
    narrower_means: np.ndarray,
    narrower_stds: np.ndarray,
    narrower_share: np.ndarray,
) -> float:
    """The sum of E|Y - Y'| over pairs of two sets of normals, by pairs or on a grid, whichever
    takes fewer evaluations.

    Args:
        means: Means of the wider normals, shape (n,).
        stds: Their deviations, within a factor of 2, shape (n,).
        share: Their weights, shape (n,).
        narrower_means: Means of the others, shape (m,).
        narrower_stds: Their deviations, at most twice the smallest in `stds`, shape (m,).
        narrower_share: Their weights, shape (m,).
    """
    moved = 0.5 * stds.min() ** 2
    smooth_stds = np.sqrt(stds**2 - moved)
    smoothed_stds = np.sqrt(narrower_stds**2 + moved)
    low, high = _ends(
        np.concatenate([means, narrower_means]), np.concatenate([smooth_stds, smoothed_stds])
    )
    step = np.sqrt(moved) / 2
    num_points = int((high - low) / step) + 2
    values = num_points + _NUM_NEAR * (len(means) + len(narrower_means))
    if values > _COST_OF_PAIR * len(means) * len(narrower_means):
        return _distance_by_pairs(means, stds, share, narrower_means, narrower_stds, narrower_share)
    grid = (low, step, num_points)
    below = _below_on_grid(grid, means, smooth_stds, share)
    narrower_below = _below_on_grid(grid, narrower_means, smoothed_stds, narrower_share)
    above = share.sum() - below
    narrower_above = narrower_share.sum() - narrower_below
    return step * float(np.sum(below * narrower_above + narrower_below * above))


def _below_on_grid(
    grid: tuple[float, float, int], means: np.ndarray, stds: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """The weighted sum of distribution functions at evenly spaced points, shape (points,).

    Each function is computed within 8 deviations of its mean. It is 0 before, and 1 after.

    Args:
        grid: The first point, the distance of two points, and their number.
        means: Means of the normals, shape (draws,).
        stds: Their deviations, shape (draws,).
        share: Their weights, shape (draws,).
    """
    low, step, num_points = grid
    first = np.floor((means - _REACH * stds - low) / step).astype(np.int64)
    first = np.maximum(first, 0)
    num_near = int(2 * _REACH * stds.max() / step) + 2
    size = max(1, _PIECE_VALUES // num_near)
    below = np.zeros(num_points + num_near)
    for start in range(0, len(means), size):
        part = slice(start, start + size)
        places = first[part, None] + np.arange(num_near)
        z = (low + places * step - means[part, None]) / stds[part, None]
        values = ndtr(z) * share[part, None]
        below += np.bincount(places.ravel(), values.ravel(), len(below))[: len(below)]
    after = np.cumsum(np.bincount(first + num_near, share, len(below)))
    return below[:num_points] + after[:num_points]


def _distance_by_pairs(
    means: np.ndarray,
    stds: np.ndarray,
    share: np.ndarray,
    other_means: np.ndarray,
    other_stds: np.ndarray,
    other_share: np.ndarray,
) -> float:
    """The sum of E|Y - Y'| over pairs of two sets of normals, each pair in closed form."""
    total = 0.0
    size = max(1, _PIECE_VALUES // len(other_means))
    for start in range(0, len(means), size):
        part = slice(start, start + size)
        pairs = _mean_distance(
            means[part, None] - other_means, np.hypot(stds[part, None], other_stds)
        )
        total += float(share[part] @ pairs @ other_share)
    return total


def _below(
    points: np.ndarray, means: np.ndarray, stds: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """The weighted sum of distribution functions at some points, shape (points,)."""
    size = max(1, _PIECE_VALUES // len(means))
    pieces = [points[start : start + size] for start in range(0, len(points), size)]
    return np.concatenate([share @ ndtr((y - means[:, None]) / stds[:, None]) for y in pieces])


def _ends(means: np.ndarray, stds: np.ndarray) -> tuple[float, float]:
    """Between which points a mixture has all of its probability, to double precision."""
    return float((means - _REACH * stds).min()), float((means + _REACH * stds).max())
