"""Curvature: eigenvalues, trace and density of Hessians that are known."""

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.landscape import (
    hessian_density,
    hessian_directions,
    hessian_eigenpairs,
    hessian_matrix,
    hessian_trace,
)


class Quadratic:
    """A surface with a given Hessian, in NumPy."""

    dtype, points = "float64", 16

    def __init__(self, matrix):
        self.matrix, self.num_parameters, self.products = matrix, len(matrix), 0

    def hessian_product(self, position, vectors):
        self.products += len(np.atleast_2d(vectors))
        return vectors @ self.matrix


def rotated(eigenvalues, seed=0):
    basis, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(eigenvalues),) * 2))
    matrix = basis * np.asarray(eigenvalues) @ basis.T
    return Quadratic(0.5 * (matrix + matrix.T))


@pytest.fixture(scope="module")
def large():
    """Bulk from 0 to 1, outliers 20, 10 and 5, one negative eigenvalue: the shape of a network's
    Hessian.
    """
    return rotated(np.concatenate([[20.0, 10.0, 5.0, -2.0], np.linspace(0, 1, 396)]))


@pytest.fixture(scope="module")
def small():
    return rotated(np.linspace(-1, 3, 30))


def test_extremes_by_lanczos(large):
    """Against numpy.linalg.eigvalsh to 1e-6, with far fewer products than there are columns."""
    large.products = 0
    found = hessian_eigenpairs(large, np.zeros(400), 3, 1)
    assert large.products < 200
    expected = np.linalg.eigvalsh(large.matrix)[[-1, -2, -3, 0]]
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)
    assert (found.residuals < 1e-6).all()
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(4), atol=1e-6)
    rows, values = hessian_directions(large, np.zeros(400), [1, -1])
    np.testing.assert_allclose(values, [20, -2], rtol=1e-6)
    np.testing.assert_allclose(rows[0] @ large.matrix @ rows[0], 20, rtol=1e-6)


def test_a_flat_floor():
    """Hundreds of zero eigenvalues, as of weights that do nothing: the lowest one is found all the
    same.
    """
    flat = rotated(np.concatenate([[50.0, 3.0], np.zeros(300), np.linspace(0.1, 1, 48)]), 3)
    found = hessian_eigenpairs(flat, np.zeros(350), 1, 1)
    np.testing.assert_allclose(found.values, [50, 0], atol=1e-6)
    below = rotated(np.concatenate([[50.0, -1e-3], np.zeros(300), np.linspace(0.1, 1, 48)]), 3)
    np.testing.assert_allclose(
        hessian_eigenpairs(below, np.zeros(350), 0, 1).values, [-1e-3], atol=1e-6
    )


def test_small_ones_whole(small):
    np.testing.assert_array_equal(hessian_matrix(small, np.zeros(30)), small.matrix)
    found = hessian_eigenpairs(small, np.zeros(30), 2, 2)
    np.testing.assert_allclose(
        found.values, np.linalg.eigvalsh(small.matrix)[[-1, -2, 1, 0]], rtol=1e-9
    )
    everything = hessian_eigenpairs(small, np.zeros(30), 30, 30)
    np.testing.assert_allclose(everything.values, np.linalg.eigvalsh(small.matrix)[::-1], rtol=1e-9)


def test_held_parameters_have_no_rows(small):
    free = np.arange(30) % 3 > 0
    inside = small.matrix[np.ix_(free, free)]
    np.testing.assert_array_equal(hessian_matrix(small, np.zeros(30), free), inside)
    pairs = hessian_eigenpairs(small, np.zeros(30), 1, 1, free)
    np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(inside)[[-1, 0]], rtol=1e-9)
    assert not pairs.vectors[:, ~free].any()
    trace = hessian_trace(small, np.zeros(30), 500, free)
    assert abs(trace.value - np.trace(inside)) < 5.5 * trace.standard_error
    density = hessian_density(small, np.zeros(30), 40, 20, free)
    assert density.num_parameters == 20


def test_hutchinson(large, small):
    for quadratic in (large, small):
        found = hessian_trace(quadratic, None, 400, seed=3)
        exact = np.trace(quadratic.matrix)
        assert abs(found.value - exact) < 5.5 * found.standard_error
        off = quadratic.matrix - np.diag(np.diag(quadratic.matrix))
        # The published variance, 2 sum of off-diagonal squares a probe; 400 values give it to 7 %.
        assert found.standard_error == pytest.approx(np.sqrt(2 * np.sum(off**2) / 400), rel=0.3)
        # Vectors of length 1 in place of random signs would give the mean eigenvalue: far outside.
        assert abs(found.value / quadratic.num_parameters - exact) > 5.5 * found.standard_error
    assert hessian_trace(Quadratic(np.diag([1.0, 2.0, 3.0])), None, 2).value == 6.0


def moments(density, power):
    return (density.weights * density.nodes**power).sum(axis=1)


def test_probes_of_every_block_are_their_own():
    """64 blocks of one probe: of the same normal numbers their means would be alike for a diagonal
    matrix.
    """
    quadratic = Quadratic(np.diag(np.linspace(1.0, 2.0, 20)))
    quadratic.points = 1
    means = moments(hessian_density(quadratic, None, 64, 5), 1)
    assert len(np.unique(np.round(means, 9))) == 64


def test_density(large):
    density = hessian_density(large, None, 80, 30, seed=1)
    np.testing.assert_allclose(density.weights.sum(axis=1), 1)
    eigenvalues = np.linalg.eigvalsh(large.matrix)
    for power in (1, 2, 3):
        found = moments(density, power)
        error = found.std(ddof=1) / np.sqrt(len(found))
        assert abs(found.mean() - np.mean(eigenvalues**power)) < 5.5 * error
    # Weights without the square are the wrong variant: their moments are off.
    wrong = np.sqrt(density.weights)
    wrong /= wrong.sum(axis=1, keepdims=True)
    found = (wrong * density.nodes**2).sum(axis=1)
    assert abs(found.mean() - np.mean(eigenvalues**2)) > 5.5 * found.std(ddof=1) / np.sqrt(
        len(found)
    )
    for low, high in ((-3, -1), (4, 30), (-0.5, 1.5)):
        share, error = density.share(low, high)
        assert (
            abs(share - np.mean((eigenvalues >= low) & (eigenvalues <= high))) < 5.5 * error + 1e-12
        )
    np.testing.assert_allclose(density.nodes.max(axis=1), 20, rtol=1e-9)
    grid = np.linspace(-4, 22, 4001)
    assert np.trapezoid(density.on(grid, 0.1), grid) == pytest.approx(1, rel=1e-6)


def test_all_steps_are_exact_for_each_vector(small):
    """With as many steps as dimensions the quadrature is the spectrum itself; moments of a vector
    are z'H^k z.
    """
    density = hessian_density(small, None, 3, 100)
    assert density.nodes.shape == (3, 30)
    np.testing.assert_allclose(
        density.nodes, np.tile(np.linalg.eigvalsh(small.matrix), (3, 1)), rtol=1e-7, atol=1e-9
    )


def test_few_eigenvalues_end_the_steps_early():
    """Two eigenvalues: after two steps nothing is left, and what follows has no weight."""
    density = hessian_density(rotated([1.0] * 10 + [4.0] * 10), None, 20, 8, seed=2)
    weights = density.weights
    near = np.minimum(np.abs(density.nodes - 1), np.abs(density.nodes - 4)) < 1e-6
    assert weights[~near].max(initial=0) < 1e-9
    share, error = density.share(3, 5)
    assert abs(share - 0.5) < 5.5 * error


def test_refusals(large):
    with pytest.raises(InputError, match="are both 0"):
        hessian_eigenpairs(large, None, 0, 0)
    with pytest.raises(InputError, match="are numbered from 1"):
        hessian_directions(large, None, [0])
    with pytest.raises(InputError, match="no eigenvector of that number"):
        hessian_directions(large, None, [401])
    with pytest.raises(InputError, match="too small to estimate an error"):
        hessian_trace(large, None, 1)
    big = Quadratic(np.zeros((1, 1)))
    big.num_parameters = 6000
    with pytest.raises(InputError, match="whole Hessian is too large"):
        hessian_matrix(big, None)
