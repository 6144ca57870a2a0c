"""Correlation and covariance matrices, and their Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.supports.contract import Support, order_of, shape_of
from tati_re.supports.sums import exclusive, sum_event

_TOLERANCE = 1e-8


class MatrixSupport(Support):
    """Square matrices, or arrays of such matrices.

    Args:
        size: The number of rows.
        shape: Axes before the matrix. Default: none.
    """

    least = 1
    """The smallest number of rows."""
    with_diagonal = False
    """Whether the diagonal has free coordinates."""

    def __init__(self, size: Any, shape: Any = ()) -> None:
        self.order = order_of(self.kind, size, self.least)
        before = shape_of(self.kind, shape)
        rows, columns = np.tril_indices(self.order, 0 if self.with_diagonal else -1)
        self._places = rows * self.order + columns
        self.shape = (*before, self.order, self.order)
        self.free_shape = (*before, len(rows))

    @property
    def outer(self) -> int:
        """The number of axes before the matrix."""
        return len(self.shape) - 2

    def _in_matrices(self, free: Any) -> Any:
        """Free coordinates `(..., n)` in the lower triangle of matrices `(..., K, K)`, row by row."""
        rows = []
        first = 0
        for row in range(self.order):
            number = row + 1 if self.with_diagonal else row
            zeros = ops.zeros_like(free[..., :1])
            part = [free[..., first : first + number]] if number else []
            rows.append(ops.join_last([*part, *[zeros] * (self.order - number)])[..., None])
            first += number
        return ops.transpose(ops.join_last(rows))

    def triangle_entries(self, matrix: np.ndarray) -> np.ndarray:
        """The entries of the lower triangle `(..., n)` of matrices `(..., K, K)`, row by row."""
        flat = matrix.reshape(*matrix.shape[:-2], self.order**2)
        return flat[..., self._places]

    def _diagonal(self, matrix: Any) -> Any:
        """The diagonals `(..., K)` of matrices `(..., K, K)`."""
        return ops.sum_over(matrix * ops.constant(np.eye(self.order), matrix), -1)[..., 0]


class CholeskyCorrelation(MatrixSupport):
    """Cholesky factors of correlation matrices: lower triangular, with rows of length 1.

    With u = tanh(z) the entry is L_ij = u_ij √(1 - L_i1² - ... - L_i(j-1)²) for j < i, and the
    diagonal takes what is left. The density is with respect to the entries below the diagonal. The
    Jacobian determinant is Π_(j<i) (1 - u_ij²) √(1 - L_i1² - ... - L_i(j-1)²) (Lewandowski,
    Kurowicka, Joe 2009, by canonical partial correlations).

    Args:
        size: The number K of rows, at least 2.
        shape: Axes before the matrix. Default: none.
    """

    kind = "cholesky_corr"
    transform = "atanh"
    least = 2

    def constrain(self, free: Any) -> tuple[Any, Any]:
        factor, log_jacobian, _ = self._factor(free)
        return factor, log_jacobian

    def _factor(self, free: Any) -> tuple[Any, Any, Any]:
        """The factor, the log of its Jacobian determinant, and the logs of its diagonal."""
        placed = self._in_matrices(free)
        partial = ops.tanh(placed)
        shrinking = _log_one_minus_square_of_tanh(placed)
        left = 0.5 * exclusive(shrinking)  # logs of what is left of each row
        identity = ops.constant(np.eye(self.order), free)
        below = ops.constant(np.tril(np.ones((self.order, self.order)), -1), free)
        factor = (partial * below + identity) * ops.exp(left)
        log_jacobian = sum_event((shrinking + left) * below, self.outer + 2)
        return factor, log_jacobian, self._diagonal(left)

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        left = 1 - np.cumsum(value**2, axis=-1) + value**2
        inside = np.tril(np.ones((self.order, self.order)), -1) > 0
        partial = np.where(inside, value / np.sqrt(np.where(inside, left, 1.0)), 0.0)
        return np.arctanh(self.triangle_entries(partial))

    def contains(self, value: np.ndarray) -> bool:
        triangular = (np.triu(value, 1) == 0).all()
        diagonal = np.diagonal(value, axis1=-2, axis2=-1)
        long = np.abs((value**2).sum(axis=-1) - 1) < _TOLERANCE
        return bool(triangular and (diagonal > 0).all() and long.all())

    def describe(self) -> str:
        return "the Cholesky factor of a correlation matrix"


class Correlation(CholeskyCorrelation):
    """Correlation matrices R = L L', L a Cholesky factor as of `CholeskyCorrelation`.

    The determinant of the map from L to the entries of R below the diagonal is Π_j L_jj^(K-j).

    Args:
        size: The number K of rows, at least 2.
        shape: Axes before the matrix. Default: none.
    """

    kind = "corr"

    def constrain(self, free: Any) -> tuple[Any, Any]:
        factor, log_jacobian, log_diagonal = self._factor(free)
        powers = ops.constant(np.arange(self.order - 1, -1, -1.0), free)
        of_product = sum_event(log_diagonal * powers, self.outer + 1)
        return ops.product(factor, ops.transpose(factor)), log_jacobian + of_product

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return super().unconstrain(np.linalg.cholesky(value))

    def contains(self, value: np.ndarray) -> bool:
        diagonal = np.diagonal(value, axis1=-2, axis2=-1)
        ones = (np.abs(diagonal - 1) < _TOLERANCE).all()
        return bool(ones) and _is_positive_definite(value)

    def describe(self) -> str:
        return "a correlation matrix"


class CholeskyCovariance(MatrixSupport):
    """Cholesky factors of covariance matrices: lower triangular, with a diagonal exp(z) above 0.

    log |dL/dz| is the sum of the diagonal's z.

    Args:
        size: The number K of rows, at least 1.
        shape: Axes before the matrix. Default: none.
    """

    kind = "cholesky_cov"
    transform = "log_diagonal"
    with_diagonal = True

    def constrain(self, free: Any) -> tuple[Any, Any]:
        factor, log_diagonal = self._factor(free)
        return factor, sum_event(log_diagonal, self.outer + 1)

    def _factor(self, free: Any) -> tuple[Any, Any]:
        """The factor, and the logs of its diagonal."""
        placed = self._in_matrices(free)
        log_diagonal = self._diagonal(placed)
        identity = ops.constant(np.eye(self.order), free)
        off = ops.constant(1 - np.eye(self.order), free)
        return placed * off + identity * ops.exp(log_diagonal)[..., None], log_diagonal

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        inside = np.eye(self.order) > 0
        return self.triangle_entries(np.where(inside, np.log(np.where(inside, value, 1.0)), value))

    def contains(self, value: np.ndarray) -> bool:
        diagonal = np.diagonal(value, axis1=-2, axis2=-1)
        return bool((np.triu(value, 1) == 0).all() and (diagonal > 0).all())

    def describe(self) -> str:
        return "the Cholesky factor of a covariance matrix"


class Covariance(CholeskyCovariance):
    """Covariance matrices Σ = L L', L a Cholesky factor as of `CholeskyCovariance`.

    The determinant of the map from L to the lower triangle of Σ is 2^K Π_j L_jj^(K-j+1).

    Args:
        size: The number K of rows, at least 1.
        shape: Axes before the matrix. Default: none.
    """

    kind = "cov"

    def constrain(self, free: Any) -> tuple[Any, Any]:
        factor, log_diagonal = self._factor(free)
        powers = ops.constant(np.arange(self.order + 1, 1, -1.0), free)
        constant = self.order * math.log(2.0)
        terms = log_diagonal * powers + constant / self.order
        return ops.product(factor, ops.transpose(factor)), sum_event(terms, self.outer + 1)

    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        return super().unconstrain(np.linalg.cholesky(value))

    def contains(self, value: np.ndarray) -> bool:
        return _is_positive_definite(value)

    def describe(self) -> str:
        return "a covariance matrix"


def _log_one_minus_square_of_tanh(free: Any) -> Any:
    """log(1 - tanh²(z)) = log 4 + log logistic(2z) + log logistic(-2z), without cancellation."""
    return math.log(4.0) + ops.log_logistic(2.0 * free) + ops.log_logistic(-2.0 * free)


def _is_positive_definite(matrices: np.ndarray) -> bool:
    """Whether matrices `(..., K, K)` are symmetric with eigenvalues above 0."""
    size = np.abs(matrices).max() + 1e-300
    transposed = np.swapaxes(matrices, -1, -2)
    symmetric = np.abs(matrices - transposed).max() < _TOLERANCE * size
    return bool(symmetric and (np.linalg.eigvalsh(matrices) > 0).all())
