"""Built-in data sets: digits, two with potentials in closed form, and classes in the plane."""

from collections.abc import Callable

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.columns import numbered
from tati_re.data.dataset import Dataset
from tati_re.data.plane import spirals, squares, two_circles, two_clusters
from tati_re.data.streams import GENERATE, stream

__all__ = ["digits", "gaussian", "harmonic", "spirals", "squares", "two_circles", "two_clusters"]


def digits(test_fraction: float = 0.2, seed: int = 0) -> Dataset:
    """Loads the handwritten digits of scikit-learn: 1,797 images of 8 x 8 pixels, ten classes.

    Inputs are `(N, 64)` uint8 from 0 to 16 with scale 1/16, labels `(N,)` int32. Source: UCI,
    Alpaydin, Kaynak (1998).

    Args:
        test_fraction: Fraction of the examples for testing, in [0, 1). Default: 0.2.
        seed: Seed for drawing the test set. Default: 0.

    Returns:
        The data set.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    names = tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))
    data = Dataset.from_arrays(
        images.astype(np.uint8), labels, name="digits", input_scale=1 / 16, feature_names=names
    )
    return data.split(test_fraction, seed)


def harmonic(a: float = 1.0) -> Dataset:
    """Returns the single example (sqrt(a), 0), a harmonic oscillator for a linear unit without
    bias.

    The mean squared error is a w**2 (no 1/2), so the force constant is 2a. It is the first
    experiment of TATi's paper. Inputs, `(1, 1)`, and targets, `(1,)`, are float64; there is no test
    set.

    Args:
        a: Half the force constant, above 0. Default: 1.

    Returns:
        The data set.
    """
    refuse_if(not a > 0, "a is not positive.", a, "a number above 0")
    return Dataset(np.array([[np.sqrt(a)]]), np.zeros(1), name="harmonic", feature_names=("x",))


def gaussian(
    num_dimensions: int = 10,
    condition: float = 100.0,
    seed: int = 0,
    covariance: np.ndarray | None = None,
) -> Dataset:
    """Returns rank-1 data for which exp(-mean squared error) of a linear unit without bias is
    Gaussian.

    C = sum_i l_i v_i v_i' has eigenvalues l_i evenly spaced over [1, condition] and random
    orthonormal v_i. Example i is sqrt(l_i) v_i with target 0, so the mean squared error is w'Cw /
    n. C is n/2 times the Hessian. The direction of eigenvalue 1 is the slow one, with force
    constant 2/n. These are the Gaussians of TATi's paper, Fig. 10.

    With a covariance S, C = (n/2) S^-1. Then exp(-mean squared error), the distribution of
    `potential="mean_loss"` at temperature 1, is N(0, S).

    Args:
        num_dimensions: n, the number of dimensions and examples, at least 1. S determines it if
            given. Default: 10.
        condition: Largest eigenvalue of C, at least 1. Default: 100.
        seed: Seed of the orthonormal vectors. Default: 0.
        covariance: S, `(n, n)`, symmetric and positive definite. Default: None.

    Returns:
        Inputs `(n, n)` and targets `(n,)`, float64, without a test set. Example i belongs to the
        i-th smallest eigenvalue.

    Raises:
        InputError: A number is out of range, or the matrix is not a covariance.
    """
    if covariance is not None:
        variances, vectors = np.linalg.eigh(_covariance(covariance))
        num_dimensions = len(variances)
        eigenvalues = num_dimensions / 2 / variances[::-1]
        vectors = vectors[:, ::-1]
    else:
        refuse_if(
            num_dimensions < 1, "num_dimensions is not positive.", num_dimensions, "at least 1"
        )
        refuse_if(
            not condition >= 1, "condition is too small.", condition, "a number of at least 1"
        )
        vectors, triangle = np.linalg.qr(
            stream(seed, GENERATE).standard_normal((num_dimensions, num_dimensions))
        )
        # With positive diagonal of R the decomposition is unique, the vectors uniform over the
        # orthogonal group.
        vectors *= np.where(np.diag(triangle) < 0, -1.0, 1.0)
        eigenvalues = np.linspace(1.0, condition, num_dimensions)
    inputs = np.sqrt(eigenvalues)[:, None] * vectors.T
    return Dataset(
        inputs, np.zeros(num_dimensions), name="gaussian", feature_names=numbered(num_dimensions)
    )


def _covariance(matrix: object) -> np.ndarray:
    matrix = np.asarray(matrix, np.float64)
    expected = "a symmetric, positive definite matrix"
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InputError("covariance is not a square matrix.", f"shape {matrix.shape}", expected)
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * np.abs(matrix).max()):
        raise InputError("covariance is not symmetric.", expected=expected)
    smallest = np.linalg.eigvalsh(matrix)[0]
    if not smallest > 1e-12 * np.trace(matrix):
        raise InputError(
            "covariance is not positive definite.", f"the eigenvalue {smallest:.3g}", expected
        )
    return matrix


_ALL: tuple[Callable[..., Dataset], ...] = (
    digits,
    two_clusters,
    two_circles,
    squares,
    spirals,
    harmonic,
    gaussian,
)
GENERATORS = {generator.__name__: generator for generator in _ALL}
"""The built-in data sets by name; their keyword arguments are the flags of `tati-dataset`."""

FIXED = ("harmonic", "gaussian")
"""Those that are used whole: each example is a part of the potential."""


def built_in(name: str, test_fraction: float, seed: int, shuffle: bool = True) -> Dataset:
    """A built-in data set with default parameters.

    Args:
        name: A name in `GENERATORS`.
        test_fraction: Fraction of the examples for testing, in [0, 1). `harmonic` and `gaussian`
            have no test set.
        seed: Seed of generated examples and of the choice of the test set.
        shuffle: Whether the digits for testing are chosen at random; otherwise they are the last
            ones. Default: True.
    """
    if name == "harmonic":
        return harmonic()
    if name == "gaussian":
        return gaussian(seed=seed)
    if name == "digits" and not shuffle:
        return digits(0.0).split(test_fraction, seed, shuffle=False)
    return GENERATORS[name](test_fraction=test_fraction, seed=seed)
