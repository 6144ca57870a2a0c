"""Vectors with a constraint on all of their entries together."""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.supports.contract import Support, order_of, shape_of
from tati_re.supports.sums import exclusive, sum_event

_TOLERANCE = 1e-8


class VectorSupport(Support):
    """Vectors of one length, or arrays of such vectors.

    Args:
        size: The number of entries of a vector.
        shape: Axes before the vector. Default: none.
    """

    least = 2
    """The shortest vector."""
    fewer = 0
    """How many free coordinates are missing to the length of a vector."""

    def __init__(self, size: Any, shape: Any = ()) -> None:
        self.order = order_of(self.kind, size, self.least)
        before = shape_of(self.kind, shape)
        self.shape = (*before, self.order)
        self.free_shape = (*before, self.order - self.fewer)

    @property
    def outer(self) -> int:
        """The number of axes before the vector."""
        return len(self.shape) - 1


class Simplex(VectorSupport):
    """Shares above 0 whose sum is 1, by stick breaking.

    With u_k = logistic(z_k - log(K - k)) the share is x_k = u_k (1 - x_1 - ... - x_(k-1)). z = 0 is
    the center. The Jacobian determinant is Π u_k (1 - u_k) (1 - x_1 - ... - x_(k-1)).

    Args:
        size: The number K of shares, at least 2.
        shape: Axes before the vector. Default: none.
    """

    kind = "simplex"
    transform = "stick"
    fewer = 1

    def constrain(self, free: Any) -> tuple[Any, Any]:
        shifted = free - ops.constant(self._offsets, free)
        log_fraction = ops.log_logistic(shifted)
        left = ops.log_logistic(-shifted)
        before = exclusive(left)  # log of what is left of the stick before each break
        last = ops.sum_over(left, -1)
        value = ops.exp(ops.join_last([log_fraction + before, last]))
        return value, sum_event(log_fraction + left + before, self.outer + 1)

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        behind = np.flip(np.cumsum(np.flip(value, -1), axis=-1), -1)[..., 1:]
        return np.log(value[..., :-1]) - np.log(behind) + self._offsets

    def contains(self, value: np.ndarray) -> bool:
        summed = np.abs(value.sum(axis=-1) - 1) < _TOLERANCE
        return bool((value > 0).all() and summed.all())

    def describe(self) -> str:
        return "shares above 0 with the sum 1"

    @property
    def _offsets(self) -> np.ndarray:
        return np.log(np.arange(self.order - 1, 0, -1.0))


class Ordered(VectorSupport):
    """Rising vectors: x_1 = z_1 and x_k = x_(k-1) + exp(z_k), with log |dx/dz| = z_2 + ... + z_K.

    Args:
        size: The number K of entries, at least 2.
        shape: Axes before the vector. Default: none.
    """

    kind = "ordered"
    transform = "steps"

    def constrain(self, free: Any) -> tuple[Any, Any]:
        first = free[..., :1]
        later = free[..., 1:]
        value = ops.cumulative_sum(ops.join_last([first, ops.exp(later)]))
        return value, sum_event(later, self.outer + 1)

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return np.concatenate([value[..., :1], np.log(np.diff(value, axis=-1))], axis=-1)

    def contains(self, value: np.ndarray) -> bool:
        return bool((np.diff(value, axis=-1) > 0).all())

    def describe(self) -> str:
        return "entries in rising order"


class PositiveOrdered(VectorSupport):
    """Rising vectors above 0: x_k = exp(z_1) + ... + exp(z_k), with log |dx/dz| = z_1 + ... + z_K.

    Args:
        size: The number K of entries, at least 2.
        shape: Axes before the vector. Default: none.
    """

    kind = "positive_ordered"
    transform = "steps"

    def constrain(self, free: Any) -> tuple[Any, Any]:
        return ops.cumulative_sum(ops.exp(free)), sum_event(free, self.outer + 1)

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return np.log(np.diff(value, axis=-1, prepend=0.0))

    def contains(self, value: np.ndarray) -> bool:
        return bool((np.diff(value, axis=-1, prepend=0.0) > 0).all())

    def describe(self) -> str:
        return "entries above 0 in rising order"


class UnitVector(VectorSupport):
    """Vectors of length 1: x = z / |z|.

    z has one coordinate more than the sphere. Its length gets the density exp(-|z|²/2) of a normal
    vector, so that the term of the Jacobian is -|z|²/2, and x alone has the density of the user.

    Args:
        size: The number of entries, at least 2.
        shape: Axes before the vector. Default: none.
    """

    kind = "unit_vector"
    transform = "direction"

    def constrain(self, free: Any) -> tuple[Any, Any]:
        squares = ops.sum_over(free * free, -1)
        return free / ops.sqrt(squares), sum_event(-0.5 * squares, self.outer + 1)

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return value

    def contains(self, value: np.ndarray) -> bool:
        return bool((np.abs((value**2).sum(axis=-1) - 1) < _TOLERANCE).all())

    def describe(self) -> str:
        return "a vector of length 1"


class SumToZero(VectorSupport):
    """Vectors whose sum is 0: x = H z, with the orthonormal columns of a Helmert matrix H.

    Lengths stay, so that log |dx/dz| = 0.

    Args:
        size: The number of entries, at least 2.
        shape: Axes before the vector. Default: none.
    """

    kind = "sum_to_zero"
    transform = "contrasts"
    fewer = 1

    def constrain(self, free: Any) -> tuple[Any, Any]:
        contrasts = ops.constant(self._contrasts.T, free)
        value = ops.product(free[..., None, :], contrasts)[..., 0, :]
        return value, sum_event(ops.zeros_like(free), self.outer + 1)

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return value @ self._contrasts

    def contains(self, value: np.ndarray) -> bool:
        size = np.abs(value).max(axis=-1) + 1
        return bool((np.abs(value.sum(axis=-1)) < _TOLERANCE * size).all())

    def describe(self) -> str:
        return "entries with the sum 0"

    @property
    def _contrasts(self) -> np.ndarray:
        """Columns 1, ..., 1, -k, 0, ..., each of length 1."""
        columns = np.triu(np.ones((self.order, self.order)))[:, : self.order - 1]
        number = np.arange(1, self.order)
        columns[number, number - 1] = -number
        return columns / np.sqrt(number * (number + 1.0))
