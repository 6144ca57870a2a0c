"""Numbers and arrays with bounds, entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import abbreviated, refuse_if
from tati_re.supports.contract import Support, shape_of
from tati_re.supports.sums import sum_event


class RealValues(Support):
    """All real numbers.

    Args:
        shape: The shape of the parameter. Default: a number.
    """

    kind = "real"

    def __init__(self, shape: Any = ()) -> None:
        self.shape = shape_of(self.kind, shape)
        self.free_shape = self.shape

    def constrain(self, free: Any) -> tuple[Any, Any]:
        return free, sum_event(ops.zeros_like(free), len(self.shape))

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return value

    def contains(self, value: np.ndarray) -> bool:
        return True

    def describe(self) -> str:
        return "any real value"


class AboveBound(Support):
    """Values above a bound: x = lower + eᶻ, with log |dx/dz| = z.

    Args:
        lower: The bound, a number or an array that broadcasts to the shape.
        shape: The shape of the parameter. Default: the shape of the bound.

    Raises:
        InputError: A bound that is not finite, or does not fit the shape.
    """

    kind = "above"
    transform = "log"

    def __init__(self, lower: Any = 0.0, shape: Any = None) -> None:
        bound = finite_bound(self.kind, lower)
        self.shape = _joint_shape(self.kind, shape, bound)
        self.free_shape = self.shape
        self.lower = np.broadcast_to(bound, self.shape).copy()

    def constrain(self, free: Any) -> tuple[Any, Any]:
        value = ops.constant(self.lower, free) + ops.exp(free)
        return value, sum_event(free, len(self.shape))

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return np.log(value - self.lower)

    def contains(self, value: np.ndarray) -> bool:
        return bool((value > self.lower).all())

    def describe(self) -> str:
        return f"above {_bound_text(self.lower)}"

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "lower": self.lower.tolist()}


class BelowBound(Support):
    """Values below a bound: x = upper - eᶻ, with log |dx/dz| = z.

    Args:
        upper: The bound, a number or an array that broadcasts to the shape.
        shape: The shape of the parameter. Default: the shape of the bound.

    Raises:
        InputError: A bound that is not finite, or does not fit the shape.
    """

    kind = "below"
    transform = "log"

    def __init__(self, upper: Any = 0.0, shape: Any = None) -> None:
        bound = finite_bound(self.kind, upper)
        self.shape = _joint_shape(self.kind, shape, bound)
        self.free_shape = self.shape
        self.upper = np.broadcast_to(bound, self.shape).copy()

    def constrain(self, free: Any) -> tuple[Any, Any]:
        value = ops.constant(self.upper, free) - ops.exp(free)
        return value, sum_event(free, len(self.shape))

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return np.log(self.upper - value)

    def contains(self, value: np.ndarray) -> bool:
        return bool((value < self.upper).all())

    def describe(self) -> str:
        return f"below {_bound_text(self.upper)}"

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "upper": self.upper.tolist()}


class BetweenBounds(Support):
    """Values between two bounds: x = lower + (upper - lower) logistic(z).

    log |dx/dz| = log(upper - lower) + log logistic(z) + log logistic(-z).

    Args:
        lower: The lower bound, a number or an array that broadcasts to the shape.
        upper: The upper bound, likewise.
        shape: The shape of the parameter. Default: the shape of the bounds.

    Raises:
        InputError: Bounds that are not finite, not in order, or do not fit the shape.
    """

    kind = "interval"
    transform = "logit"

    def __init__(self, lower: Any = 0.0, upper: Any = 1.0, shape: Any = None) -> None:
        bounds = [finite_bound(self.kind, bound) for bound in (lower, upper)]
        self.shape = _joint_shape(self.kind, shape, *bounds)
        self.free_shape = self.shape
        self.lower, self.upper = (np.broadcast_to(bound, self.shape).copy() for bound in bounds)
        received = f"{_bound_text(self.lower)} and {_bound_text(self.upper)}"
        refuse_if(
            not (self.lower < self.upper).all(),
            "interval: the lower bound is not below the upper one.",
            received,
            "lower < upper",
        )

    def constrain(self, free: Any) -> tuple[Any, Any]:
        width = ops.constant(self.upper - self.lower, free)
        value = ops.constant(self.lower, free) + width * ops.logistic(free)
        slope = ops.log(width) + ops.log_logistic(free) + ops.log_logistic(-free)
        return value, sum_event(slope, len(self.shape))

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return np.log(value - self.lower) - np.log(self.upper - value)

    def contains(self, value: np.ndarray) -> bool:
        return bool(((value > self.lower) & (value < self.upper)).all())

    def describe(self) -> str:
        return f"between {_bound_text(self.lower)} and {_bound_text(self.upper)}"

    def get_config(self) -> dict[str, Any]:
        bounds = {"lower": self.lower.tolist(), "upper": self.upper.tolist()}
        return {**super().get_config(), **bounds}


def finite_bound(kind: str, bound: Any) -> np.ndarray:
    """A bound as an array in its own shape.

    Args:
        kind: The name of the support, for messages.
        bound: A number, or an array of numbers.

    Raises:
        InputError: Not numbers, or not all of them finite.
    """
    expected = "finite numbers; real(), above(lower) and below(upper) leave sides open"
    try:
        array = np.asarray(bound)
    except (TypeError, ValueError):
        array = np.asarray(None)
    is_number = array.dtype.kind in "buif"
    refuse_if(not is_number, f"{kind}: a bound is not a number.", abbreviated(bound, 60), expected)
    values = array.astype(np.float64)
    infinite = not np.isfinite(values).all()
    refuse_if(infinite, f"{kind}: a bound is not finite.", abbreviated(bound, 60), expected)
    return values


def _joint_shape(kind: str, shape: Any, *bounds: np.ndarray) -> tuple[int, ...]:
    """The shape of a parameter, from what was given and from its bounds."""
    given = () if shape is None else shape_of(kind, shape)
    try:
        joint = np.broadcast_shapes(given, *(bound.shape for bound in bounds))
        fits = shape is None or joint == given
    except ValueError:
        fits = False
    shapes = ", ".join(str(bound.shape) for bound in bounds)
    expected = "bounds that broadcast to the shape of the parameter"
    refuse_if(not fits, f"{kind}: bounds of another shape.", f"shape {shape}, {shapes}", expected)
    return shape_of(kind, joint)


def _bound_text(bound: np.ndarray) -> str:
    """A bound for messages, such as `0`, or `[0, 1, ...]`."""
    values = np.ravel(bound)
    if (values == values[0]).all():
        return f"{values[0]:g}"
    listed = ", ".join(f"{value:g}" for value in values[:4])
    return f"[{listed}{', ...' if len(values) > 4 else ''}]"
