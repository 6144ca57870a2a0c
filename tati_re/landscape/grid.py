"""Points of lines, planes and grids."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.options.representable import LARGEST

MOST_POINTS = 10_000_000
FORM = "LOW:HIGH:POINTS"


class Axis(NamedTuple):
    """Equally spaced coordinates, including both ends.

    Attributes:
        low: The first coordinate.
        high: The last coordinate, above `low`.
        num_points: Number of coordinates, at least 2; an odd number includes the middle.
    """

    low: float
    high: float
    num_points: int

    @property
    def values(self) -> np.ndarray:
        """The points of the axis, `(num_points,)`, float64."""
        return np.linspace(self.low, self.high, self.num_points)

    @property
    def text(self) -> str:
        """The form that `parse_axis` reads."""
        return f"{self.low:g}:{self.high:g}:{self.num_points}"


@front_door
def parse_axis(text: str, name: str = "range") -> Axis:
    """Reads an axis from text such as `-1:1:41`.

    Args:
        text: The lowest and the highest coordinate and the number of points.
        name: What messages call it. Default: "range".

    Returns:
        The axis.

    Raises:
        InputError: Another form, an empty interval, or fewer than 2 points.
    """
    try:
        low, high, count = text.split(":")
        axis = Axis(float(low), float(high), int(count))
    except ValueError:
        axis = Axis(0.0, 0.0, 0)
    return _checked(axis, text, name)


def _checked(axis: Axis, received: str, name: str = "range") -> Axis:
    right = (
        axis.low < axis.high
        and axis.num_points > 1
        and max(map(abs, axis[:2])) <= LARGEST["float32"]
    )
    refuse_if(
        not right,
        f"{name} has the wrong form.",
        received,
        f"{FORM}, such as -1:1:41, rising, at least 2 points",
    )
    return axis


def axes_of(ranges: Sequence[Axis | str] | Axis | str, item: str, count: int | None) -> list[Axis]:
    """The axis of each direction or input.

    Args:
        ranges: An axis or its text for each, or one for all.
        item: What messages call a direction or input.
        count: The number of directions or inputs; None: as many as there are ranges.

    Raises:
        InputError: The number of ranges is neither 1 nor `count`.
    """
    listed = [ranges] if isinstance(ranges, str | Axis) else ranges
    axes = [
        parse_axis(axis) if isinstance(axis, str) else _checked(Axis(*axis), Axis(*axis).text)
        for axis in listed
    ]
    axes = axes * (count or 1) if len(axes) == 1 else axes
    if count is not None and len(axes) != count:
        raise InputError(
            f"range: one for each {item} is needed.",
            f"{len(axes)}",
            "1" if count == 1 else f"1, or {count}",
        )
    return axes


@front_door
def parse_scales(text: str) -> tuple[int, ...]:
    """Reads scales from text such as `1,0,-1,-2`.

    Args:
        text: Exponents of the powers of 10 that multiply a range.

    Returns:
        The exponents.

    Raises:
        InputError: An exponent is not an integer, or occurs twice.
    """
    try:
        scales = tuple(int(part) for part in text.split(","))
    except ValueError:
        scales = ()
    if not scales or len(set(scales)) != len(scales) or max(map(abs, scales)) > 30:
        raise InputError(
            "scales has the wrong form.", text, "different powers of 10, such as 1,0,-1,-2"
        )
    return scales


@front_doors
class Grid:
    """The points center + 10^scale * sum over axes of c_k d_k.

    The last axis varies fastest, and the scales follow one another.

    Args:
        centre: The center, `(parameters,)`.
        directions: The directions d_k, `(axes, parameters)`.
        axes: One axis per direction.
        scales: Exponents of 10. Default: 0 alone.

    Raises:
        InputError: Shapes do not fit, or there are more than ten million points.
    """

    @front_door
    def __init__(
        self,
        centre: np.ndarray,
        directions: np.ndarray,
        axes: Sequence[Axis],
        scales: Sequence[int] = (0,),
    ) -> None:
        self.centre = np.asarray(centre, np.float64)
        self.directions = np.atleast_2d(np.asarray(directions, np.float64))
        self.axes = [Axis(*axis) for axis in axes]
        self.scales = tuple(scales)
        if self.directions.shape != (len(self.axes), len(self.centre)):
            expected = f"({len(self.axes)}, {len(self.centre)})"
            raise InputError(
                "Directions do not match ranges and parameters.", self.directions.shape, expected
            )
        self.shape = tuple(axis.num_points for axis in self.axes)
        total = float(np.prod([float(count) for count in self.shape])) * len(self.scales)
        refuse_if(
            total > MOST_POINTS,
            "The grid has too many points.",
            f"{total:.3g}",
            f"at most {MOST_POINTS:,}",
        )
        self.num_points = int(total)

    def coordinates(self, first: int, last: int) -> np.ndarray:
        """Returns scale and coordinates of consecutive points; coordinates include the scale.

        Args:
            first: Number of the first point, from 0.
            last: Number after the last point.

        Returns:
            One row per point, shape (last - first, 1 + axes).
        """
        scale, inside = np.divmod(np.arange(first, last), int(np.prod(self.shape)))
        scales = np.asarray(self.scales)[scale]
        indices = np.unravel_index(inside, self.shape)
        columns = [axis.values[place] for axis, place in zip(self.axes, indices, strict=True)]
        # A power of ten by division is the number that is written: 0.1, not 10.0**-1 times
        # something.
        factor = np.where(scales >= 0, 10.0 ** np.abs(scales), 1.0) / np.where(
            scales < 0, 10.0 ** np.abs(scales), 1.0
        )
        return np.column_stack([scales, *(column * factor for column in columns)])

    def positions(self, coordinates: np.ndarray) -> np.ndarray:
        """Returns the points of coordinates.

        Args:
            coordinates: Coordinates along the axes, shape (n, axes).

        Returns:
            Points, shape (n, parameters).
        """
        return self.centre + coordinates @ self.directions


@front_door
def project(
    positions: np.ndarray, centre: np.ndarray, directions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns coordinates of the orthogonal projection onto a plane.

    It is a least-squares fit, so directions need not be orthogonal or normalized. Positions that
    are center + c D have the coordinates c.

    Args:
        positions: Positions, `(n, parameters)`.
        centre: The center of the plane, `(parameters,)`.
        directions: Directions of the plane, `(axes, parameters)`.

    Returns:
        Coordinates `(n, axes)`, and the distance of each position from the plane, `(n,)`.

    Raises:
        InputError: The directions are linearly dependent.
    """
    away = np.asarray(positions, np.float64) - centre
    gram = directions @ directions.T
    lengths = np.sqrt(np.diag(gram))
    if np.linalg.cond(gram / np.outer(lengths, lengths)) > 1e12:
        raise InputError("The directions are linearly dependent: they span no plane.")
    coordinates = np.linalg.solve(gram, directions @ away.T).T
    return coordinates, np.linalg.norm(away - coordinates @ directions, axis=1)
