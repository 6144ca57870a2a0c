"""Covariance of a trajectory: its leading eigenpairs without the P x P matrix, in passes over
stored positions.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tati_re.analysis.averages import time_or_note
from tati_re.analysis.convergence import rows_on_grid
from tati_re.core.errors import refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.views import viewable
from tati_re.runs.positions import Positions
from tati_re.runs.run import AnyRun, degrees_of_freedom
from tati_re.runs.selection import as_run

DENSE_LIMIT = 1024
"""Up to so many parameters the matrix is formed, and all its eigenpairs are exact."""

OVERSAMPLING = 10
"""Directions carried along beyond those asked for."""

Blocks = Callable[[], Iterable[tuple[np.ndarray, np.ndarray | None]]]
"""Starts a pass: yields positions `(n, P)` and their weights `(n,)`, or None where all count the
same.
"""


@viewable
class Eigenpairs(NamedTuple):
    """Leading eigenpairs of a covariance matrix.

    Attributes:
        values: Eigenvalues in falling order, `(k,)`.
        vectors: Orthonormal eigenvectors, one per row, `(k, P)`. The largest entry of each is
            positive.
        mean: Mean of the positions, `(P,)`.
        residuals: Norm of C v - λ v for each pair, `(k,)`. Some eigenvalue of C lies within this
            distance.
        total_variance: Trace of C, the sum of all P eigenvalues.
        num_rows: Number of positions used.
        num_passes: Number of times the positions were read.
    """

    values: np.ndarray
    vectors: np.ndarray
    mean: np.ndarray
    residuals: np.ndarray
    total_variance: float
    num_rows: int
    num_passes: int


@front_door
def leading_eigenpairs(
    blocks: Blocks,
    num_eigenpairs: int = 16,
    tolerance: float = 1e-3,
    max_passes: int = 12,
    dense_limit: int = DENSE_LIMIT,
) -> Eigenpairs:
    """Computes leading eigenpairs of the covariance of positions by a block Krylov method.

    The covariance is C = Σ w (x - mean)(x - mean)' / (Σw - Σw²/Σw). The first pass computes the
    mean, the trace and Y = C Ω, with a random P x l matrix Ω and l = k + 10. It starts the basis
    with Q = qr(Y). Each further pass applies C to one block, orthogonalizes the result against all
    earlier blocks, and adds it to the basis. The eigenpairs of C within the basis are returned.
    This is subspace iteration that keeps all blocks, and needs far fewer passes for spectra without
    gaps.

    The iteration ends when all k residuals are below `tolerance` times their eigenvalue. The error
    of an eigenvalue is smaller still: the squared residual over the gap. The cost is 4 n P l
    operations per pass, with memory for l (passes + 2) vectors and a block of positions.
    References: N. Halko, P.-G. Martinsson, J. Tropp, SIAM Review 53 (2011), section 4.5; C. Musco,
    C. Musco, NeurIPS 2015, algorithm 2.

    Args:
        blocks: Function that starts a pass over the positions.
        num_eigenpairs: k, at least 1. Fewer are returned if there are fewer positions or
            parameters. Default: 16.
        tolerance: Limit of the residuals, relative to each eigenvalue. Default: 1e-3.
        max_passes: Largest number of passes, at least 2. Default: 12.
        dense_limit: Largest number of parameters for which the full matrix is formed in one pass,
            with exact pairs. Default: 1,024.

    Returns:
        The eigenpairs. If `max_passes` ended the iteration, check `residuals`.

    Raises:
        InputError: There are fewer than two positions, numbers are not finite, or arguments are out
            of range.
    """
    refuse_if(num_eigenpairs < 1, "num_eigenpairs is too small.", num_eigenpairs, "at least 1")
    refuse_if(max_passes < 2, "max_passes is too small.", max_passes, "at least 2")
    pass_over = _Passes(blocks)
    num_parameters = pass_over.num_parameters
    if num_parameters <= dense_limit:
        product = pass_over.first(np.eye(num_parameters))
        matrix = 0.5 * (product + product.T)
        values, vectors = np.linalg.eigh(matrix)
        values = values[::-1][:num_eigenpairs]
        vectors = signed(vectors.T[::-1][:num_eigenpairs])
        residuals = np.linalg.norm(matrix @ vectors.T - vectors.T * values, axis=0)
        return _result(pass_over, np.maximum(values, 0.0), vectors, residuals)
    width = min(num_eigenpairs + OVERSAMPLING, num_parameters)
    start = pass_over.first(np.random.default_rng(0).standard_normal((num_parameters, width)))
    num_wanted = min(num_eigenpairs, pass_over.num_rows - 1)
    scale = np.linalg.norm(start, axis=0).max()
    refuse_if(scale == 0, "The positions never change, so their covariance is zero.")
    basis = [_orthonormal(start, scale)]
    projected = np.zeros((0, 0))
    while True:
        product = pass_over(basis[-1])
        above, corner = np.split(
            np.concatenate([block.T @ product for block in basis]), [len(projected)]
        )
        projected = np.block([[projected, above], [above.T, corner]])
        projected = 0.5 * (projected + projected.T)  # symmetric but for rounding
        for _ in range(2):  # the second time takes what rounding left
            for block in basis:
                product -= block @ (block.T @ product)
        values, inner = np.linalg.eigh(projected)
        values = values[::-1][:num_wanted]
        inner = inner[:, ::-1][:, :num_wanted]
        following, factor = np.linalg.qr(product)
        residuals = np.linalg.norm(factor @ inner[-basis[-1].shape[1] :], axis=0)
        independent = np.abs(np.diag(factor)) > 1e-12 * scale
        done = len(values) == num_wanted and (residuals <= tolerance * values).all()
        if done or not independent.any() or pass_over.number >= max_passes:
            break
        basis.append(_orthonormal(product, scale) if not independent.all() else following)
    return _result(pass_over, values, signed((np.concatenate(basis, axis=1) @ inner).T), residuals)


@front_door
def covariance_eigenpairs(
    run: AnyRun,
    num_eigenpairs: int = 16,
    walker: int | None = None,
    burnin: int | None = None,
    thin: int = 1,
    tolerance: float = 1e-3,
    max_passes: int = 12,
) -> Eigenpairs:
    """Computes leading eigenpairs of the covariance of a run's stored positions.

    Args:
        run: The run, or its folder. Its trajectory may exceed the memory.
        num_eigenpairs: Number of eigenpairs, at least 1. Default: 16.
        walker: One walker, counted from 0. Default: None, all walkers, pooled about their common
            mean.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions. Default: 1.
        tolerance: Limit of the residuals, relative to each eigenvalue. Default: 1e-3.
        max_passes: Largest number of passes over the positions, at least 2. Default: 12.

    Returns:
        The eigenpairs.

    Raises:
        InputError: No positions are stored or left.
    """
    positions = Positions(run, burnin, thin, walker)
    # Products in float32 of numbers stored in float32 lose nothing that was there, and take half
    # the time.
    positions.keep_type = positions.num_parameters > DENSE_LIMIT
    blocks: Blocks = lambda: ((block.values, block.weight) for block in positions.blocks())  # noqa: E731
    return leading_eigenpairs(blocks, num_eigenpairs, tolerance, max_passes)


@front_door
def covariance_table(
    run: AnyRun,
    eigenpairs: Eigenpairs,
    walker: int | None = None,
    burnin: int | None = None,
    thin: int = 1,
) -> pd.DataFrame:
    """Returns the width, stiffness and autocorrelation time along each eigenvector.

    In a quadratic potential C = T K⁻¹. A direction of large variance is flat and slow, a direction
    of small variance is stiff and fast. (The matrix C in TATi's equation 21 is half the precision
    matrix, for which the opposite holds.) The autocorrelation time is measured along each vector,
    in one more pass.

    Args:
        run: The run, or its folder.
        eigenpairs: Eigenpairs from `covariance_eigenpairs`, called with the same arguments.
        walker: One walker, counted from 0. Default: None, all walkers, pooled about their common
            mean.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions. Default: 1.

    Returns:
        Columns `number` (from 1), `eigenvalue`, `share` of the total variance, `curvature` T/λ of
        the equivalent quadratic potential, `direction` in words, `residual`,
        `autocorrelation_steps`, and `note`.

    Raises:
        InputError: No positions are stored or left.
    """
    run = as_run(run)
    times, notes = _times_along(Positions(run, burnin, thin, walker), eigenpairs)
    values = eigenpairs.values
    mean = eigenpairs.total_variance / len(eigenpairs.mean)
    temperature = np.nan if run.manifest.temperature is None else run.manifest.temperature
    with np.errstate(divide="ignore"):
        curvature = temperature / np.where(values > 0, values, np.nan)
    columns: dict[str, Any] = {"number": np.arange(1, len(values) + 1), "eigenvalue": values}
    columns |= {"share": values / (eigenpairs.total_variance or np.nan), "curvature": curvature}
    words = ["stiff, fast", "as the mean direction", "flat, slow"]
    kinds = [words[1 + int(value > 1.5 * mean) - int(value < mean / 1.5)] for value in values]
    columns |= {"direction": kinds, "residual": eigenpairs.residuals}
    return pd.DataFrame(columns | {"autocorrelation_steps": times, "note": notes})


def _times_along(positions: Positions, eigenpairs: Eigenpairs) -> tuple[list[float], list[str]]:
    parts = [
        (b.step, b.walker, (b.values - eigenpairs.mean) @ eigenpairs.vectors.T)
        for b in positions.blocks()
    ]
    steps, walkers, along = map(np.concatenate, zip(*parts, strict=True))
    rows, there = rows_on_grid(steps, walkers)
    if there.sum(axis=1).max() < 8:
        return [np.nan] * len(eigenpairs.values), ["fewer than 8 positions per walker"] * len(
            eigenpairs.values
        )
    # What each adds to the error of the mean: nothing where a walker is at another temperature.
    first = np.unique(steps)
    stacked = along[rows] * there[:, :, None]
    between = (first[-1] - first[0]) / (len(first) - 1)
    estimates = [time_or_note(stacked[:, :, number]) for number in range(stacked.shape[2])]
    return [time * between for time, _ in estimates], [note for _, note in estimates]


class _Passes:
    """Products of the covariance with blocks of vectors, one pass over the positions each, summed
    in float64.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._start = blocks
        self.number = 0
        problem = "blocks returns nothing to iterate over."
        refuse_if(not isinstance(blocks(), Iterable), problem, expected="pairs of arrays")
        first, _ = next(iter(self.blocks()), (np.zeros((0, 0)), None))
        refuse_if(not first.size, "There are no positions.")
        self.num_parameters = first.shape[1]
        # Deviations from about the mean: where it is far from zero, digits would be lost in
        # differences of squares.
        self.origin = first.mean(axis=0, dtype=np.float64)
        self.num_rows = 0
        self.total = 0.0
        self.trace = 0.0
        self.shift = np.zeros(self.num_parameters)

    def blocks(self) -> Iterable[tuple[np.ndarray, np.ndarray | None]]:
        """Starts a pass; integers become float64."""
        for values, weight in self._start():
            values = np.asarray(values)
            yield values if values.dtype.kind == "f" else values.astype(np.float64), weight

    def first(self, matrix: np.ndarray) -> np.ndarray:
        """C times a matrix, and with it the mean, the trace, and the number of rows."""
        self.number += 1
        product = np.zeros(matrix.shape[::-1])
        shift = np.zeros(self.num_parameters)
        squares = 0.0
        of_weights = 0.0
        for values, weight in self.blocks():
            deviation = values - self.origin.astype(values.dtype)
            weighted = (
                deviation if weight is None else deviation * weight[:, None].astype(values.dtype)
            )
            squares += float(np.einsum("ij,ij->i", deviation, weighted).sum(dtype=np.float64))
            shift += weighted.sum(axis=0, dtype=np.float64)
            product += (deviation @ matrix.astype(values.dtype, copy=False)).T @ weighted
            self.num_rows += len(values)
            self.total += len(values) if weight is None else float(weight.sum())
            of_weights += len(values) if weight is None else float(weight @ weight)
        refuse_if(
            not (np.isfinite(squares) and np.isfinite(shift).all()),
            "Some positions are not finite.",
        )
        received = f"{self.num_rows} positions with a total weight of {self.total:g}"
        self.divisor = degrees_of_freedom(self.total, of_weights) if self.total > 0 else np.nan
        refuse_if(np.isnan(self.divisor), "A covariance needs at least two positions.", received)
        self.shift = shift / self.total
        self.trace = max(0.0, squares - self.total * float(self.shift @ self.shift)) / self.divisor
        return (product.T - self.total * np.outer(self.shift, self.shift @ matrix)) / self.divisor

    def __call__(self, matrix: np.ndarray) -> np.ndarray:
        self.number += 1
        mean = self.origin + self.shift
        product = np.zeros(matrix.shape[::-1])
        for values, weight in self.blocks():
            deviation = values - mean.astype(values.dtype)
            inner = deviation @ matrix.astype(values.dtype, copy=False)
            weighted = inner if weight is None else inner * weight[:, None].astype(values.dtype)
            product += weighted.T @ deviation
        return product.T / self.divisor


def _result(
    pass_over: _Passes, values: np.ndarray, vectors: np.ndarray, residuals: np.ndarray
) -> Eigenpairs:
    mean = pass_over.origin + pass_over.shift
    return Eigenpairs(
        values, vectors, mean, residuals, pass_over.trace, pass_over.num_rows, pass_over.number
    )


def _orthonormal(matrix: np.ndarray, scale: float) -> np.ndarray:
    left, singular, _ = np.linalg.svd(matrix, full_matrices=False)
    return left[:, singular > 1e-12 * scale]


def signed(vectors: np.ndarray) -> np.ndarray:
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
    return vectors * np.where(largest < 0, -1.0, 1.0)
