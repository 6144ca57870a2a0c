"""Brier score and area under the ROC curve; CRPS, coverage and intervals of mixtures of normals."""

import numpy as np
from scipy.special import ndtr, ndtri

from tati_re.core.errors import InputError, refuse_if
from tati_re.prediction.metrics import paired

_PIECE_VALUES = 4_000_000
_MOST_POINTS = 2000


def brier_score(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean squared distance between class probabilities and the true class.

    The score of an example is the sum over c of (p_c - 1_c)², between 0 (best) and 2. For two
    classes it is twice the mean squared error of one probability. Reference: G. Brier, Monthly
    Weather Review 78 (1950), with all classes.

    Args:
        probabilities: Shape (n, k), or (n,) or (n, 1) for the positive class.
        labels: Integers (n,), -1 and +1, or one-hot rows.

    Raises:
        InputError: Shapes or labels do not fit.
    """
    values, right = paired(probabilities, labels)
    return float(((values - np.eye(values.shape[1])[right]) ** 2).sum(axis=1).mean())


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the area under the ROC curve of a score that separates outside from inside inputs.

    This is P(outside > inside) + P(equal)/2: 1 for perfect separation, 0.5 for none.

    Args:
        inside: Scores of inputs like the training data, `(n,)`.
        outside: Scores of other inputs, `(m,)`.

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
    """Quantiles `(k, ...)` of values `(draws, ...)` with weights `(draws,)` above 0, at levels
    `(k,)` in 0..1: NumPy's (linear between order statistics) for equal weights, else the inverse of
    the weighted distribution function, linear between the middles of its steps.
    """
    if np.ptp(weights) == 0:
        return np.quantile(values, levels, axis=0)
    flat = values.reshape(len(values), -1)
    order = np.argsort(flat, axis=0)
    below = np.cumsum(weights[order], axis=0)
    middle = (below - 0.5 * weights[order]) / below[-1]
    ordered = np.take_along_axis(flat, order, axis=0)
    found = [
        np.interp(levels, middle[:, column], ordered[:, column]) for column in range(flat.shape[1])
    ]
    return np.stack(found, axis=1).reshape(len(levels), *values.shape[1:])


def mixture_cdf(
    y: np.ndarray, means: np.ndarray, stds: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Distribution function of a mixture of normals at `y`, `(...,)`, and of its shape; `means` is
    `(draws, ...)`, `stds` > 0 fits it, `weights` is `(draws,)`.
    """
    return np.tensordot(weights / weights.sum(), ndtr((y - means) / stds), axes=1)


def mixture_interval(
    means: np.ndarray, stds: np.ndarray, weights: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper end, `(n,)` each, of the central interval with probability `level` of a
    mixture of normals, by bisection and Newton steps to 1e-9 of spread and tail; `means` `(draws,
    n)`, `stds` that fit, `weights`.
    """
    stds = np.broadcast_to(stds, means.shape)
    share = weights / weights.sum()
    ends = [
        _mixture_quantile(means, stds, share, level_below)
        for level_below in ((1 - level) / 2, (1 + level) / 2)
    ]
    return ends[0], ends[1]


_THINNED = 16
_MANY = 256
_ORDER = 0x0D3


def _mixture_quantile(
    means: np.ndarray, stds: np.ndarray, share: np.ndarray, goal: float, close: float = 1e-9
) -> np.ndarray:
    """Where the distribution function of mixtures of normals is `goal`.

    Of many draws a few say where to begin.

    Args:
        means: Means, shape (draws, n).
        stds: Deviations, shape (draws, n).
        share: Weights of the draws with the sum 1, shape (draws,).
        goal: Probability below, in (0, 1).
        close: Errors that are allowed, as parts of the spread and of the tail.

    Returns:
        Quantiles, shape (n,).
    """
    reach = ndtri(goal)
    each = means + reach * stds
    low = each.min(axis=0)
    high = each.max(axis=0)
    middle = share @ means
    spread = np.sqrt(share @ (stds**2 + (means - middle) ** 2))
    if len(means) > _MANY:
        some = np.random.default_rng(_ORDER).permutation(len(means))[::_THINNED]
        thinned = share[some] / share[some].sum()
        guess = _mixture_quantile(means[some], stds[some], thinned, goal, 1e-3)
    else:
        guess = middle + reach * spread
    guess = np.clip(guess, low, high)
    todo = np.arange(means.shape[1])
    # Halvings from the largest number to the smallest; a few steps do for most mixtures.
    for _ in range(1100):
        # The rows that are not done yet are copied once they have become much fewer.
        if len(todo) < means.shape[1]:
            m, s = means[:, todo], stds[:, todo]
        else:
            m, s = means, stds
        here = guess[todo]
        z = (here - m) / s
        error = share @ ndtr(z) - goal
        low[todo] = np.where(error < 0, here, low[todo])
        high[todo] = np.where(error < 0, high[todo], here)
        z *= z
        z *= -0.5
        slope = share @ (np.exp(z, out=z) / s) / np.sqrt(2 * np.pi)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = here - error / slope
        inside = (new >= low[todo]) & (new <= high[todo])
        new = np.where(inside, new, 0.5 * (low[todo] + high[todo]))
        # One wide normal makes the spread as large as it likes: the probability has to be right as
        # well.
        far = np.abs(new - here) > close * spread[todo]
        wrong = far | (np.abs(error) > close * min(goal, 1 - goal))
        further = wrong & (new != here)
        guess[todo] = np.where(further | inside, new, here)
        todo = todo[further]
        if not len(todo):
            break
    return guess


def crps(y: np.ndarray, means: np.ndarray, stds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the continuous ranked probability score of a mixture of normals; smaller is better.

    The score is E|Y - y| - E|Y - Y'|/2. It is exact for few draws. For many draws, the second term
    is the integral of F(1 - F) by the trapezoidal rule. A step of half the smallest standard
    deviation has a relative error below 1e-15. If that needs 2,000 points or more, for standard
    deviations that differ by large factors, 2,800 points are used. For factors of 10,000 the
    relative error is then about 1e-4. References: E. Grimit, T. Gneiting, V. Berrocal, N. Johnson,
    Quart. J. R. Met. Soc. 132 (2006), equation 5; T. Gneiting, A. Raftery, J. Am. Stat. Assoc. 102
    (2007), equation 21.

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
    """The CRPS of one normal distribution, in closed form (Gneiting and Raftery 2007, section
    4.2).
    """
    return _mean_distance(y - mean, std) - std / np.sqrt(np.pi)


def _mean_distance(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """E|X| for X ~ N(mean, std²)."""
    z = mean / std
    return mean * (2 * ndtr(z) - 1) + 2 * std * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)


def _half_spread(means: np.ndarray, stds: np.ndarray, share: np.ndarray) -> float:
    """E|Y - Y'|/2 for independent Y and Y' of the mixture."""
    low = (means - 8 * stds).min()
    high = (means + 8 * stds).max()
    step = stds.min() / 2
    fine = np.arange(low, high + step, step) if (high - low) / step < _MOST_POINTS else None
    if len(means) <= (_MOST_POINTS if fine is None else len(fine)):
        total = 0.0
        size = max(1, _PIECE_VALUES // len(means))
        for start in range(0, len(means), size):
            part = slice(start, start + size)
            pairs = _mean_distance(means[part, None] - means, np.hypot(stds[part, None], stds))
            total += float(share[part] @ pairs @ share)
        return 0.5 * total
    if fine is None:
        # Everywhere, and where the draws are: deviations that differ by powers of ten leave most
        # points nothing to see.
        some = np.linspace(0, len(means) - 1, _MOST_POINTS // 10).astype(int)
        near = means[some, None] + stds[some, None] * np.linspace(-4, 4, 9)
        fine = np.sort(np.concatenate([np.linspace(low, high, _MOST_POINTS // 2), near.ravel()]))
    size = max(1, _PIECE_VALUES // len(means))
    pieces = [fine[start : start + size] for start in range(0, len(fine), size)]
    below = np.concatenate([share @ ndtr((y - means[:, None]) / stds[:, None]) for y in pieces])
    return float(np.trapezoid(below * (1 - below), fine))
