"""Built-in data sets: one real, three of which everything is known in closed form."""

from __future__ import annotations

import numpy as np

from tati_re.data.dataset import Dataset
from tati_re.data.streams import GENERATE, GENERATE_TEST, stream
from tati_re.errors import InputError


def digits(test_fraction: float = 0.2, seed: int = 0) -> Dataset:
    """Handwritten digits of scikit-learn: 1,797 images of 8 x 8 pixels, ten classes.

    Args:
        test_fraction: Part kept for testing, in [0, 1). Default 0.2.
        seed: Which images are kept for testing. Default 0.

    Returns:
        Inputs `(N, 64)` uint8 from 0 to 16 with scale 1/16, labels `(N,)` int32. Source: UCI, Alpaydin and
        Kaynak (1998).
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    names = tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8))
    data = Dataset.from_arrays(images.astype(np.uint8), labels, name="digits", input_scale=1 / 16, feature_names=names)
    return data.split(test_fraction, seed)


def two_clusters(num_examples: int = 500, seed: int = 0, std: float = 1.0, test_fraction: float = 0.2) -> Dataset:
    """Two Gaussian clusters in the plane, around (2, 2) with label +1 and around (-2, -2) with label -1.

    The data set of the second experiment of TATi's paper. The two labels alternate. The test part is drawn in addition,
    so that `num_examples` are trained and sampled on.

    Args:
        num_examples: Points of both clusters together, at least 2. Default 500.
        seed: Integer >= 0. Default 0.
        std: Standard deviation of each coordinate around its centre. Default 1.0.
        test_fraction: Test points as a part of all points, in [0, 1). Default 0.2: 125 test points.

    Returns:
        Inputs `(num_examples, 2)` float64, targets `(num_examples,)` float64.
    """
    if num_examples < 2:
        raise InputError("two_clusters needs a point in each cluster.", num_examples, "at least 2")
    if not std > 0:
        raise InputError("std is not positive.", std, "a number above 0")
    if not 0 <= test_fraction < 1:
        raise InputError("test_fraction is out of its range.", test_fraction, "a number in [0, 1)")

    def draw(count: int, purpose: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
        return 2 * labels[:, None] + std * stream(seed, purpose).standard_normal((count, 2)), labels

    count = round(num_examples * test_fraction / (1 - test_fraction))
    test = draw(count, GENERATE_TEST) if count else (None, None)
    return Dataset(*draw(num_examples, GENERATE), *test, "two_clusters", num_classes=2, feature_names=("x1", "x2"))


def harmonic(a: float = 1.0) -> Dataset:
    """The single example (sqrt(a), 0), which makes a linear unit without bias a harmonic oscillator.

    Its mean squared error is a w**2 (no 1/2), so the force constant is 2a. The first experiment of TATi's paper.

    Args:
        a: Above 0. Default 1.0.

    Returns:
        Inputs `(1, 1)` and targets `(1,)`, float64, no test part.
    """
    if not a > 0:
        raise InputError("a is not positive.", a, "a number above 0")
    return Dataset(np.array([[np.sqrt(a)]]), np.zeros(1), name="harmonic", feature_names=("x",))


def gaussian(num_dimensions: int = 10, condition: float = 100.0, seed: int = 0) -> Dataset:
    """Rank-1 data that make the mean squared error of a linear unit without bias a Gaussian's exponent.

    With C = sum_i l_i v_i v_i', eigenvalues l_i spread evenly over [1, condition] and random orthonormal v_i, example i
    is sqrt(l_i) v_i with target 0, so that the mean squared error is w'Cw / n. C is n/2 times the Hessian: the
    direction of eigenvalue 1 is the slow one, with force constant 2/n. The Gaussians of TATi's paper, Fig. 10.

    Args:
        num_dimensions: n, dimensions and examples, at least 1. Default 10.
        condition: Largest eigenvalue of C, at least 1. Default 100.
        seed: Which orthonormal vectors. Default 0.

    Returns:
        Inputs `(n, n)` and targets `(n,)`, float64, no test part; example i belongs to the i-th smallest eigenvalue.
    """
    if num_dimensions < 1:
        raise InputError("num_dimensions is not positive.", num_dimensions, "at least 1")
    if not condition >= 1:
        raise InputError("condition is too small.", condition, "a number of at least 1")
    vectors, triangle = np.linalg.qr(stream(seed, GENERATE).standard_normal((num_dimensions, num_dimensions)))
    # With positive diagonal of R the decomposition is unique, and the vectors are uniform over the orthogonal group.
    vectors *= np.where(np.diag(triangle) < 0, -1.0, 1.0)
    eigenvalues = np.linspace(1.0, condition, num_dimensions)
    names = tuple(f"x{i + 1}" for i in range(num_dimensions))
    inputs = np.sqrt(eigenvalues)[:, None] * vectors.T
    return Dataset(inputs, np.zeros(num_dimensions), name="gaussian", feature_names=names)


BUILT_IN = {
    "digits": lambda test_fraction, seed: digits(test_fraction, seed),
    "two_clusters": lambda test_fraction, seed: two_clusters(seed=seed, test_fraction=test_fraction),
    "harmonic": lambda test_fraction, seed: harmonic(),
    "gaussian": lambda test_fraction, seed: gaussian(seed=seed),
}
"""What a command line can name, each `(test_fraction, seed) -> Dataset`."""
