"""The ends of the spectrum of a symmetric matrix that is known by its products with vectors."""

from collections.abc import Callable

import numpy as np


def lanczos(
    product: Callable[[np.ndarray], np.ndarray],
    size: int,
    num_steps: int,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ritz values of a fixed number of Lanczos steps, with their vectors.

    There are at least as many negative eigenvalues as negative Ritz values (Cauchy's interlacing).
    All vectors are orthogonalized, which keeps copies out. Source: Golub and Van Loan, Matrix
    Computations, section 10.1.

    Args:
        product: Multiplies the matrix by a vector of shape (size,).
        size: Number of rows of the matrix.
        num_steps: Largest number of steps, 1 to `size`. The steps end earlier if the vectors span
            an invariant subspace.
        start: The first vector, shape (size,), of any length above 0. Default: None, normal random
            numbers of a fixed seed.

    Returns:
        Ritz values in ascending order, shape (k,); the coordinates of their vectors in its columns,
        shape (k, k); and the basis that these refer to, shape (k, size). The vector of the lowest
        value is `coordinates[:, 0] @ basis`. If a product is not finite, the only Ritz value is
        nan.
    """
    from scipy.linalg import eigh_tridiagonal

    basis = np.zeros((num_steps, size))
    vector = np.random.default_rng(0).standard_normal(size) if start is None else start
    length = float(np.linalg.norm(vector))
    diagonal: list[float] = []
    beside: list[float] = []
    for k in range(num_steps):
        basis[k] = vector / length
        vector = np.asarray(product(basis[k]), np.float64)
        diagonal.append(float(vector @ basis[k]))
        for _ in range(2):
            vector = vector - basis[: k + 1].T @ (basis[: k + 1] @ vector)
        length = float(np.linalg.norm(vector))
        if length <= 1e-10 * np.abs(diagonal).max():
            break
        beside.append(length)
    if not np.isfinite([*diagonal, *beside]).all():
        return np.array([np.nan]), np.ones((1, 1)), basis[:1]
    values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(beside[: len(diagonal) - 1]))
    return values, vectors, basis[: len(diagonal)]
