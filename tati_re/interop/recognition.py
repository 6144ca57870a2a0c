"""Which of the package's supports is the transform of another library, by comparing values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from tati_re.supports import (
    above,
    below,
    cholesky_corr,
    corr,
    interval,
    ordered,
    positive,
    positive_ordered,
    real,
    simplex,
)
from tati_re.supports.contract import Support

_FAR = 700.0
"""A free coordinate at which exp is near the smallest or largest number."""
_FINITE = 1e100
_TINY = 1e-200
_ROWS = 7
_TOLERANCE = 1e-9


def recognized(
    constrain: Callable[[np.ndarray], np.ndarray], free_shape: tuple[int, ...]
) -> Support | None:
    """Returns the support whose map agrees with a transform, or None.

    Args:
        constrain: The transform, from free coordinates `(n, *free_shape)` to values `(n, *shape)`.
        free_shape: The shape of the free coordinates.
    """
    free = np.random.default_rng(0x494F).standard_normal((_ROWS, *free_shape))
    values = constrain(free)
    for support in _candidates(constrain, free_shape, values.shape[1:]):
        if support.free_shape != free_shape or support.shape != values.shape[1:]:
            continue
        constrained = np.asarray(support.constrain(free)[0])
        if np.allclose(constrained, values, rtol=_TOLERANCE, atol=_TOLERANCE):
            return support
    return None


def _candidates(
    constrain: Callable[[np.ndarray], np.ndarray],
    free_shape: tuple[int, ...],
    shape: tuple[int, ...],
) -> Iterator[Support]:
    """Supports with values of this shape."""
    yield real(*shape)
    if free_shape == shape:
        yield positive(*shape)
        yield from _bounded(constrain, shape)
    if not shape or shape[-1] == 1:
        return
    for vector in (simplex, ordered, positive_ordered):
        yield vector(shape[-1], shape=shape[:-1])
    if shape[-2:-1] == shape[-1:]:
        for matrix in (cholesky_corr, corr):
            yield matrix(shape[-1], shape=shape[:-2])


def _bounded(
    constrain: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]
) -> Iterator[Support]:
    """Supports with the limits of the transform far out as their bounds."""
    with np.errstate(all="ignore"):
        ends = constrain(np.stack([np.full(shape, -_FAR), np.full(shape, _FAR)]))
    first, last = (_rounded(end) for end in ends)
    if not (np.abs(first) < _FINITE).all():
        return
    if (np.abs(last) < _FINITE).all():
        if (first < last).all():
            yield interval(first, last, shape=shape)
    elif (last > 0).all():
        yield above(first, shape=shape)
    elif (last < 0).all():
        yield below(first, shape=shape)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Numbers to 12 digits: libraries keep a rounding error away from a bound."""
    array = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        digits = 12 - np.ceil(np.log10(np.abs(array) + _TINY))
    pairs = zip(array.ravel(), digits.ravel(), strict=True)
    return np.array([_number(value, place) for value, place in pairs]).reshape(array.shape)


def _number(value: float, digits: float) -> float:
    if not math.isfinite(value) or abs(value) > _FINITE:
        return math.copysign(math.inf, value)
    return 0.0 if abs(value) < _TINY else round(value, int(min(digits, 300)))
