"""The supports of parameters by the names that users write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tati_re.core.errors import InputError, abbreviated, nearest
from tati_re.core.front_door import front_door
from tati_re.supports.bounded import AboveBound, BelowBound, BetweenBounds, RealValues
from tati_re.supports.contract import Support
from tati_re.supports.matrices import (
    CholeskyCorrelation,
    CholeskyCovariance,
    Correlation,
    Covariance,
)
from tati_re.supports.vectors import (
    Ordered,
    PositiveOrdered,
    Simplex,
    SumToZero,
    UnitVector,
    VectorSupport,
)


@front_door
def real(*shape: Any) -> Support:
    """Unbounded real values: `real()` is a number, `real(4)` a vector, `real(3, 2)` a matrix.

    Args:
        *shape: The shape of the parameter, as numbers or as one tuple.

    Returns:
        The support.

    Examples:
        >>> real(3, 2).shape
        (3, 2)
    """
    return RealValues(shape)


@front_door
def positive(*shape: Any) -> Support:
    """Values above 0, sampled as their logarithm.

    Args:
        *shape: The shape of the parameter, as numbers or as one tuple.

    Returns:
        The support.

    Examples:
        >>> positive(2)
        <an array of shape (2,), above 0>
    """
    return AboveBound(0.0, shape)


@front_door
def above(lower: Any, shape: Any = None) -> Support:
    """Values above a bound.

    Args:
        lower: The bound, a number or an array that broadcasts to the shape.
        shape: The shape of the parameter. Default: the shape of the bound.

    Returns:
        The support.
    """
    return AboveBound(lower, shape)


@front_door
def below(upper: Any, shape: Any = None) -> Support:
    """Values below a bound.

    Args:
        upper: The bound, a number or an array that broadcasts to the shape.
        shape: The shape of the parameter. Default: the shape of the bound.

    Returns:
        The support.
    """
    return BelowBound(upper, shape)


@front_door
def interval(lower: Any = 0.0, upper: Any = 1.0, shape: Any = None) -> Support:
    """Values between two bounds, sampled as a logit.

    Args:
        lower: The lower bound, a number or an array that broadcasts to the shape. Default: 0.
        upper: The upper bound, a number or an array that broadcasts to the shape. Default: 1.
        shape: The shape of the parameter. Default: None, the shape of the bounds.

    Returns:
        The support.

    Examples:
        >>> interval(0, [1.0, 2.0]).shape
        (2,)
    """
    return BetweenBounds(lower, upper, shape)


@front_door
def simplex(size: Any, shape: Any = ()) -> Support:
    """Positive fractions that sum to 1, sampled by stick breaking.

    Args:
        size: Number of fractions, at least 2.
        shape: Axes before the vector: `simplex(3, shape=(2,))` are two simplexes. Default: none.

    Returns:
        The support.
    """
    return Simplex(size, shape)


@front_door
def ordered(size: Any, shape: Any = ()) -> Support:
    """Vectors with increasing entries, such as cut points.

    Args:
        size: Number of entries, at least 2.
        shape: Axes before the vector. Default: none.

    Returns:
        The support.
    """
    return Ordered(size, shape)


@front_door
def positive_ordered(size: Any, shape: Any = ()) -> Support:
    """Vectors with increasing positive entries.

    Args:
        size: Number of entries, at least 2.
        shape: Axes before the vector. Default: none.

    Returns:
        The support.
    """
    return PositiveOrdered(size, shape)


@front_door
def unit_vector(size: Any, shape: Any = ()) -> Support:
    """Vectors of length 1.

    Args:
        size: The number of entries, at least 2.
        shape: Axes before the vector. Default: none.

    Returns:
        The support.
    """
    return UnitVector(size, shape)


@front_door
def sum_to_zero(size: Any, shape: Any = ()) -> Support:
    """Vectors whose entries sum to 0.

    Args:
        size: Number of entries, at least 2.
        shape: Axes before the vector. Default: none.

    Returns:
        The support.
    """
    return SumToZero(size, shape)


@front_door
def cholesky_corr(size: Any, shape: Any = ()) -> Support:
    """Cholesky factors of correlation matrices.

    Args:
        size: The number of rows, at least 2.
        shape: Axes before the matrix. Default: none.

    Returns:
        The support.
    """
    return CholeskyCorrelation(size, shape)


@front_door
def corr(size: Any, shape: Any = ()) -> Support:
    """Correlation matrices.

    Args:
        size: The number of rows, at least 2.
        shape: Axes before the matrix. Default: none.

    Returns:
        The support.
    """
    return Correlation(size, shape)


@front_door
def cholesky_cov(size: Any, shape: Any = ()) -> Support:
    """Cholesky factors of covariance matrices.

    Args:
        size: The number of rows.
        shape: Axes before the matrix. Default: none.

    Returns:
        The support.
    """
    return CholeskyCovariance(size, shape)


@front_door
def cov(size: Any, shape: Any = ()) -> Support:
    """Covariance matrices.

    Args:
        size: The number of rows.
        shape: Axes before the matrix. Default: none.

    Returns:
        The support.
    """
    return Covariance(size, shape)


_VECTORS: dict[str, type[VectorSupport]] = {
    kind.kind: kind for kind in (Simplex, Ordered, PositiveOrdered, UnitVector, SumToZero)
}
_MATRICES = {
    kind.kind: kind for kind in (CholeskyCorrelation, Correlation, CholeskyCovariance, Covariance)
}


def from_config(config: Mapping[str, Any]) -> Support:
    """The support that a manifest describes.

    Args:
        config: What `Support.get_config` gave.

    Raises:
        InputError: No such support.
    """
    try:
        return _from_config(config)
    except KeyError as error:
        raise InputError(
            f"A support of the kind {abbreviated(config.get('kind'), 60)} lacks {error}.",
            expected="the manifest as the run wrote it",
        ) from None


def _from_config(config: Mapping[str, Any]) -> Support:
    """As `from_config`; `KeyError` for a number that is missing."""
    kind = config["kind"]
    shape = tuple(config["shape"])
    if kind == RealValues.kind:
        return RealValues(shape)
    if kind == AboveBound.kind:
        return AboveBound(config["lower"], shape)
    if kind == BelowBound.kind:
        return BelowBound(config["upper"], shape)
    if kind == BetweenBounds.kind:
        return BetweenBounds(config["lower"], config["upper"], shape)
    if kind in _VECTORS:
        return _VECTORS[kind](shape[-1], shape[:-1])
    if kind in _MATRICES:
        return _MATRICES[kind](shape[-1], shape[:-2])
    known = ["real", "above", "below", "interval", *_VECTORS, *_MATRICES]
    raise InputError(
        f"The support {abbreviated(kind, 60)} is not known.{nearest(str(kind), known)}",
        expected=", ".join(known),
    )
