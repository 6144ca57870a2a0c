"""Draws from a distribution in one dimension, made of standard normal numbers: z -> x with F(x) =
Φ(z), tabulated.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError

_END = 8.0
_CELLS = 4096
_SPACING = 2 * _END / _CELLS
_PANELS = 400
_DEEPEST = 50.0


class NormalMap:
    """Growing functions of a normal number, tabulated between -8 and 8 and interpolated by cubics.

    Args:
        values: The functions at `nodes`, (maps, nodes).
        which: Number of the function of each parameter, (parameters,). Default: None, the first for
            all.
    """

    nodes = np.linspace(-_END, _END, _CELLS + 1)

    def __init__(self, values: np.ndarray, which: np.ndarray | None = None) -> None:
        self._values = np.ascontiguousarray(values, np.float64)
        self._slopes = np.gradient(self._values, _SPACING, axis=1, edge_order=2)
        self._offset = np.asarray(0 if which is None else which * (_CELLS + 1), np.int32)

    def __call__(self, normal) -> tf.Tensor:
        """The function at each number `(walkers, parameters)`, float64; beyond the nodes that at
        the last one.
        """
        place = (tf.clip_by_value(tf.cast(normal, tf.float64), -_END, _END) + _END) / _SPACING
        cell = tf.minimum(tf.cast(place, tf.int32), _CELLS - 1)
        t = place - tf.cast(cell, tf.float64)
        at = cell + self._offset
        values = tf.constant(self._values.reshape(-1))
        slopes = tf.constant(self._slopes.reshape(-1) * _SPACING)
        low = tf.gather(values, at)
        high = tf.gather(values, at + 1)
        first = tf.gather(slopes, at)
        last = tf.gather(slopes, at + 1)
        rise = high - low
        return low + t * (first + t * (3 * rise - 2 * first - last + t * (first + last - 2 * rise)))


def tabulated(
    log_density: Callable[[np.ndarray], np.ndarray],
    ends: tuple[float, float],
    breaks: Sequence[float],
):
    """Normalizer and quantiles of a distribution in one dimension, by Gauss-Legendre quadrature.

    Args:
        log_density: Log density of points, in their shape, known up to a constant. It is smooth
            between the breaks.
        ends: An interval that holds the distribution.
        breaks: Points where the log density has kinks.

    Returns:
        The log of the integral, and the quantiles at `NormalMap.nodes`, (nodes,).

    Raises:
        InputError: The density underflows to 0 everywhere.
    """
    from scipy.interpolate import CubicHermiteSpline
    from scipy.special import ndtri

    low, high = _support(log_density, ends, breaks)
    inner = [point for point in breaks if low < point < high]
    corners = np.concatenate(
        [np.linspace(a, b, _PANELS + 1)[:-1] for a, b in pairwise([low, *inner, high])] + [[high]]
    )
    x, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(corners)[:, None] / 2
    values = log_density(corners[:-1, None] + half * (x + 1))
    top = values.max()
    masses = (np.exp(values - top) * weights * half).sum(axis=1)
    total = masses.sum()
    below = np.concatenate([[0.0], np.cumsum(masses)]) / total
    above = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]]) / total
    with np.errstate(divide="ignore"):
        scores = np.where(below < 0.5, ndtri(below), -ndtri(above))
    log_total = top + float(np.log(total))
    increasing = np.concatenate(
        [[True], np.diff(np.maximum.accumulate(scores)) > 1e-9]
    ) & np.isfinite(scores)
    scores = scores[increasing]
    nodes = corners[increasing]
    slopes = np.exp(-(scores**2) / 2 - 0.5 * np.log(2 * np.pi) - log_density(nodes) + log_total)
    return log_total, CubicHermiteSpline(scores, nodes, slopes)(
        np.clip(NormalMap.nodes, scores[0], scores[-1])
    )


def _support(log_density, ends, breaks) -> tuple[float, float]:
    """The part of the interval where the density is above exp(-50) of its greatest value."""
    low, high = ends
    for _ in range(3):
        points = np.unique(
            np.concatenate([np.linspace(low, high, 4001), [b for b in breaks if low <= b <= high]])
        )
        values = log_density(points)
        deep = np.flatnonzero(values > values.max() - _DEEPEST)
        if not len(deep):
            raise InputError(
                "prior: its density underflows to 0 everywhere.",
                expected="walls and a width that overlap",
            )
        low = points[max(deep[0] - 1, 0)]
        high = points[min(deep[-1] + 1, len(points) - 1)]
    return low, high
