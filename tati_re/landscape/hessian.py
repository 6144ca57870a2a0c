"""Curvature of U at a point: extreme eigenvalues, trace, spectral density, and the whole matrix of
small models.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.user_input import seeded
from tati_re.core.views import viewable

MOST_PARAMETERS = 5_000
"""Of a whole Hessian: 200 MB of float64."""


@viewable
class HessianEigenpairs(NamedTuple):
    """Some eigenvalues of the Hessian with their eigenvectors.

    Attributes:
        values: The eigenvalues, descending, `(k,)`.
        vectors: Orthonormal rows, `(k, parameters)`.
        residuals: |H v - value v|, `(k,)`, a bound on the error of each value.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray


class Trace(NamedTuple):
    """An estimate of the trace of the Hessian.

    Attributes:
        value: The mean over the probes.
        standard_error: Its standard error, from the spread of the probes.
        num_probes: The number of probes.
    """

    value: float
    standard_error: float
    num_probes: int


@front_doors
@viewable
class Density(NamedTuple):
    """The spectral density as quadrature nodes and weights.

    Attributes:
        nodes: Ritz values of each probe, `(probes, steps)`.
        weights: Their weights, `(probes, steps)`; those of a probe sum to 1.
        num_parameters: The number of all eigenvalues.
    """

    nodes: np.ndarray
    weights: np.ndarray
    num_parameters: int

    def on(self, grid: np.ndarray, width: float) -> np.ndarray:
        """Returns the density at the points of a grid, smoothed by a Gaussian; its integral is 1.

        Args:
            grid: The points.
            width: Standard deviation of the Gaussian.

        Returns:
            The density, in the shape of `grid`.
        """
        z = (np.asarray(grid, np.float64)[:, None] - self.nodes.reshape(1, -1)) / width
        return (
            np.exp(-0.5 * z * z)
            / (width * np.sqrt(2 * np.pi))
            @ self.weights.reshape(-1)
            / len(self.nodes)
        )

    def share(self, low: float, high: float) -> tuple[float, float]:
        """Returns the fraction of eigenvalues in an interval.

        Args:
            low: Lower end of the interval, included.
            high: Upper end, included.

        Returns:
            The fraction in [0, 1], and its standard error over the probes; nan for a single probe.
        """
        inside = np.sum(self.weights * ((self.nodes >= low) & (self.nodes <= high)), axis=1)
        error = inside.std(ddof=1) / np.sqrt(len(inside)) if len(inside) > 1 else np.nan
        return float(inside.mean()), float(error)


@front_door
def hessian_matrix(surface, position: np.ndarray, free: np.ndarray | None = None) -> np.ndarray:
    """Computes the Hessian of U at a point, with one Hessian-vector product per parameter.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        position: The parameters, `(parameters,)`.
        free: A mask `(parameters,)` of rows and columns to compute, at most 5,000. Default: None,
            all.

    Returns:
        The symmetric matrix, `(n, n)`, float64.

    Raises:
        InputError: More than 5,000 parameters are free.
    """
    chosen = np.arange(surface.num_parameters) if free is None else np.flatnonzero(free)
    if len(chosen) > MOST_PARAMETERS:
        raise InputError(
            "The whole Hessian is too large.",
            f"{len(chosen)} parameters",
            f"at most {MOST_PARAMETERS}",
        )
    matrix = np.concatenate(
        [rows[:, chosen] for _, rows in hessian_rows(surface, position, chosen)]
    )
    return 0.5 * (matrix + matrix.T)


def hessian_rows(
    surface, position: np.ndarray, chosen: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields rows of the Hessian of U at a point, up to 256 at a time.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        position: The parameters, shape (parameters,).
        chosen: Numbers of the parameters whose rows are computed, shape (n,).

    Yields:
        Numbers of parameters, shape (rows,), and their rows, shape (rows, parameters).
    """
    for start in range(0, len(chosen), 256):
        part = chosen[start : start + 256]
        units = np.zeros((len(part), surface.num_parameters))
        units[np.arange(len(part)), part] = 1.0
        yield part, surface.hessian_product(position, units)


@front_door
def hessian_eigenpairs(
    surface,
    position: np.ndarray,
    num_largest: int = 5,
    num_smallest: int = 1,
    free: np.ndarray | None = None,
    seed: int = 0,
) -> HessianEigenpairs:
    """Computes the largest and the smallest eigenvalues of the Hessian by Lanczos iterations.

    It uses the implicitly restarted Lanczos method of ARPACK (scipy), or the full matrix for at
    most 300 free parameters. The smallest eigenvalues are the most negative ones, below zero at a
    saddle. Errors are relative to the largest eigenvalue.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        position: The parameters, `(parameters,)`.
        num_largest: Number of largest eigenvalues. Default: 5.
        num_smallest: Number of smallest eigenvalues. Default: 1.
        free: A mask of the free parameters, `(parameters,)`. Default: None, all.
        seed: Seed of the starting vector. Default: 0.

    Returns:
        The eigenpairs, descending; all of them if fewer parameters are free than eigenvalues are
        requested.

    Raises:
        InputError: No eigenvalues are requested, or the iteration does not converge.
    """
    if num_largest < 0 or num_smallest < 0 or num_largest + num_smallest < 1:
        raise InputError(
            "num_largest and num_smallest are both 0.", f"{num_largest} and {num_smallest}"
        )
    chosen = np.arange(surface.num_parameters) if free is None else np.flatnonzero(free)
    count = len(chosen)

    def product(vectors):
        rows = np.zeros((vectors.shape[1] if vectors.ndim == 2 else 1, surface.num_parameters))
        rows[:, chosen] = np.atleast_2d(vectors.T)
        return surface.hessian_product(position, rows)[:, chosen].T.reshape(vectors.shape)

    if count <= max(300, num_largest + num_smallest + 1):
        values, vectors = np.linalg.eigh(hessian_matrix(surface, position, free))
        indices = range(count)
        chosen_pairs = sorted(
            {*list(indices)[count - num_largest :], *list(indices)[:num_smallest]}, reverse=True
        )
        values = values[chosen_pairs]
        vectors = vectors[:, chosen_pairs]
    else:
        start = seeded(seed).standard_normal(count)
        tolerance = 1e-9 if surface.dtype == "float64" else 1e-4

        def ends(function, number: int, end: str, within: float):
            operator = LinearOperator(
                (count, count), matvec=function, matmat=function, dtype=np.float64
            )
            basis = min(count, max(3 * number + 2, 30))
            try:
                return eigsh(
                    operator, k=number, which="LA", v0=start, tol=within, ncv=basis, maxiter=100
                )
            except ArpackNoConvergence as error:
                problem, advice = (
                    "The Lanczos iteration did not converge.",
                    "fewer eigenvalues, or dtype float64",
                )
                received = f"{len(error.eigenvalues)} of {number} eigenvalues at the {end} end"
                raise InputError(problem, received, advice) from None

        parts = [ends(product, num_largest, "upper", tolerance)] if num_largest else []
        if num_smallest:
            # ARPACK's tolerance is relative to the eigenvalue: those near 0 are found as those near
            # the largest one.
            top = parts[0][0].max() if parts else ends(product, 1, "upper", 1e-2)[0].max()
            values, vectors = ends(
                lambda rows: top * rows - product(rows), num_smallest, "lower", tolerance
            )
            parts.append((top - values, vectors))
        values = np.concatenate([part[0] for part in parts])
        vectors = np.concatenate([part[1] for part in parts], axis=1)
        order = np.argsort(values)[::-1]
        values = values[order]
        vectors = vectors[:, order]
    rows = np.zeros((len(values), surface.num_parameters))
    rows[:, chosen] = vectors.T
    return HessianEigenpairs(
        values, rows, np.linalg.norm(product(vectors) - vectors * values, axis=0)
    )


@front_door
def hessian_directions(
    surface,
    position: np.ndarray,
    numbers: Sequence[int],
    free: np.ndarray | None = None,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns eigenvectors of the Hessian by number.

    Number 1 is the stiffest direction, -1 the direction of lowest curvature (flat, or downhill at a
    saddle).

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        position: The parameters, `(parameters,)`.
        numbers: Numbers of the eigenvectors, positive or negative, not 0.
        free: A mask of the free parameters, `(parameters,)`. Default: None, all.
        seed: Seed of the starting vector. Default: 0.

    Returns:
        Orthonormal rows, `(len(numbers), parameters)`, and their eigenvalues.

    Raises:
        InputError: A number is out of range, or the iteration does not converge.
    """
    refuse_if(
        0 in numbers or not numbers,
        "Eigenvectors of the Hessian are numbered from 1, or from -1.",
        list(numbers),
    )
    count = surface.num_parameters if free is None else int(np.sum(free))
    largest = max([0, *numbers])
    smallest = max([0, *(-number for number in numbers)])
    if max(largest, smallest) > count:
        raise InputError(
            "There is no eigenvector of that number.", max(largest, smallest), f"at most {count}"
        )
    pairs = hessian_eigenpairs(surface, position, largest, smallest, free, seed)
    indices = [number - 1 if number > 0 else len(pairs.values) + number for number in numbers]
    return pairs.vectors[indices], pairs.values[indices]


@front_door
def hessian_trace(
    surface,
    position: np.ndarray,
    num_probes: int = 64,
    free: np.ndarray | None = None,
    seed: int = 0,
) -> Trace:
    """Estimates the trace of the Hessian by the mean of z'Hz over vectors z of random signs.

    Hutchinson's estimator is unbiased. Its variance is 2 (sum of the squared off-diagonal entries)
    / num_probes, which is 0 for a diagonal Hessian. Source: M. Hutchinson, Communications in
    Statistics 19 (1990).

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        position: The parameters, `(parameters,)`.
        num_probes: Number of random vectors, at least 2. Default: 64.
        free: A mask of the free parameters, `(parameters,)`. Default: None, all.
        seed: Seed of the random signs. Default: 0.

    Returns:
        The trace with its standard error.
    """
    refuse_if(
        num_probes < 2, "num_probes is too small to estimate an error.", num_probes, "at least 2"
    )
    probes = _probes(surface, num_probes, free, seed)
    estimates = np.concatenate(
        [np.sum(signs * surface.hessian_product(position, signs), axis=1) for signs in probes]
    )
    return Trace(
        float(estimates.mean()), float(estimates.std(ddof=1) / np.sqrt(num_probes)), num_probes
    )


@front_door
def hessian_density(
    surface,
    position: np.ndarray,
    num_probes: int = 8,
    num_steps: int = 60,
    free: np.ndarray | None = None,
    seed: int = 0,
) -> Density:
    """Estimates the spectral density of the Hessian by stochastic Lanczos quadrature.

    Lanczos steps with full reorthogonalization from each random vector give a small tridiagonal
    matrix. Its eigenvalues are Gauss quadrature nodes of the density seen by this vector. The
    squared first entries of its eigenvectors are their weights. The mean over vectors is unbiased
    for polynomials up to degree 2 num_steps - 1. Source: G. Golub, G. Meurant, Matrices, Moments
    and Quadrature (1994); B. Ghorbani, S. Krishnan, Y. Xiao, An investigation into neural net
    optimization via Hessian eigenvalue density, ICML 2019, algorithm 1.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        position: The parameters, `(parameters,)`.
        num_probes: Number of random vectors, at least 1. Default: 8.
        num_steps: Lanczos steps per vector, at most the number of free parameters. Default: 60.
        free: A mask of the free parameters, `(parameters,)`. Default: None, all.
        seed: Seed of the random vectors. Default: 0.

    Returns:
        The density.
    """
    count = surface.num_parameters if free is None else int(np.sum(free))
    num_steps = min(num_steps, count)
    if num_probes < 1 or num_steps < 1:
        raise InputError(
            "num_probes and num_steps must be positive.", f"{num_probes} and {num_steps}"
        )
    results = []
    random = seeded(seed, 1)
    for signs in _probes(surface, num_probes, free, seed):
        results.append(
            _quadrature(
                surface, position, signs * random.standard_normal(signs.shape), num_steps, free
            )
        )
    return Density(
        np.concatenate([nodes for nodes, _ in results]),
        np.concatenate([w for _, w in results]),
        count,
    )


def _probes(surface, num_probes: int, free: np.ndarray | None, seed: int):
    """Blocks of random signs `(n, parameters)`, 0 where parameters are held."""
    generator = seeded(seed)
    size = min(surface.points, num_probes)
    for start in range(0, num_probes, size):
        signs = (
            generator.integers(0, 2, (min(size, num_probes - start), surface.num_parameters)) * 2.0
            - 1.0
        )
        yield signs if free is None else signs * free


def _quadrature(
    surface, position, start: np.ndarray, num_steps: int, free
) -> tuple[np.ndarray, np.ndarray]:
    probes = len(start)
    basis = [start / np.linalg.norm(start, axis=1, keepdims=True)]
    diagonal = np.zeros((probes, num_steps))
    off = np.zeros((probes, num_steps - 1))
    for step in range(num_steps):
        image = surface.hessian_product(position, basis[-1])
        image = image if free is None else image * free
        diagonal[:, step] = np.sum(image * basis[-1], axis=1)
        if step == num_steps - 1:
            break
        stack = np.stack(basis, axis=1)  # (probes, vectors, parameters)
        for _ in range(2):
            image = (
                image
                - np.matmul(np.matmul(stack, image[:, :, None])[:, :, 0][:, None], stack)[:, 0]
            )
        length = np.linalg.norm(image, axis=1)
        # An invariant subspace ends a run: nothing couples to what follows, which has weight 0.
        ended = length < 1e-10 * np.maximum(np.abs(diagonal).max(axis=1), 1e-300)
        off[:, step] = np.where(ended, 0.0, length)
        basis.append(np.where(ended[:, None], 0.0, image / np.maximum(length, 1e-300)[:, None]))
    pairs = zip(diagonal, off, strict=True)
    tridiagonal = [
        np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1) for diagonal, beside in pairs
    ]
    nodes, vectors = np.linalg.eigh(tridiagonal)
    return nodes, vectors[:, 0] ** 2
