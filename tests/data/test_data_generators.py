"""Sets of the plane against their geometry, and rank-1 data of a chosen covariance."""

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.data import load_data
from tati_re.data.generators import gaussian
from tati_re.data.plane import spirals, squares, two_circles, two_clusters

PLANE = (two_clusters, two_circles, squares, spirals)


@pytest.mark.parametrize("generate", PLANE)
def test_what_the_sets_of_the_plane_share(generate):
    data = generate(100, seed=3)
    assert (data.num_examples, len(data.test_inputs), data.task) == (100, 25, "signs")
    assert data.feature_names == ("x1", "x2")
    assert data.targets.tolist() == [1.0, -1.0] * 50
    assert (
        generate(100, seed=3).fingerprint()
        == data.fingerprint()
        != generate(100, seed=4).fingerprint()
    )
    np.testing.assert_array_equal(generate(100, seed=3, test_fraction=0).inputs, data.inputs)
    # The test points are others, and not those of another seed.
    assert not set(map(tuple, data.test_inputs)) & set(map(tuple, data.inputs))
    assert load_data(generate.__name__, seed=2).fingerprint() == generate(seed=2).fingerprint()


@pytest.mark.parametrize("generate", PLANE)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_examples": 1}, "needs at least one point of each class"),
        ({"noise": 1.5}, "noise is out"),
        ({"noise": -0.1}, "noise"),
    ],
)
def test_arguments_out_of_range(generate, arguments, words):
    with pytest.raises(InputError, match=words):
        generate(**arguments)


def test_circles_have_their_radii():
    """20,000 points: the radius is uniform in [0, 2.5] and [3.5, 5], its mean within 5.5 standard
    errors.
    """
    data = two_circles(20_000, seed=1)
    radius = np.hypot(*data.inputs.T)
    inner, outer = radius[data.targets > 0], radius[data.targets < 0]
    assert inner.min() >= 0 and inner.max() <= 2.5 and outer.min() >= 3.5 and outer.max() <= 5
    assert abs(inner.mean() - 1.25) < 5.5 * 2.5 / np.sqrt(12 * 10_000)
    assert abs(outer.mean() - 4.25) < 5.5 * 1.5 / np.sqrt(12 * 10_000)
    assert np.abs(data.inputs.mean(0)).max() < 5.5 * 5 / np.sqrt(2 * 20_000)


def test_squares_are_the_quadrants():
    data = squares(20_000, seed=1)
    assert (np.sign(data.inputs[:, 0] * data.inputs[:, 1]) == data.targets).all()
    size = np.abs(data.inputs)
    assert 0.3 <= size.min() < 0.301 and 4.999 < size.max() <= 5
    quadrants = (data.inputs > 0) @ [2, 1]
    assert np.abs(np.bincount(quadrants) / 20_000 - 0.25).max() < 5.5 * np.sqrt(
        0.25 * 0.75 / 20_000
    )


def test_spirals_are_two_arms():
    data = spirals(2000, seed=1)
    radius = np.hypot(*data.inputs.T)
    angle = 3.5 * np.pi * radius / 5
    arm = data.targets * radius
    np.testing.assert_allclose(
        data.inputs, (arm * np.array([np.sin(angle), np.cos(angle)])).T, atol=1e-12
    )
    assert radius.max() <= 5


@pytest.mark.parametrize("generate", [two_circles, squares, spirals])
def test_noise_displaces_and_keeps_labels(generate):
    """The displacement is uniform in [-5 noise, 5 noise]: variance (10 noise)^2 / 12, within 5.5
    standard errors.
    """
    clean, noisy = generate(20_000, seed=2), generate(20_000, seed=2, noise=0.1)
    np.testing.assert_array_equal(clean.targets, noisy.targets)
    displaced = noisy.inputs - clean.inputs
    assert 0.49 < np.abs(displaced).max() <= 0.5
    assert abs(displaced.var() * 12 - 1) < 5.5 * np.sqrt(0.8 / 40_000)
    assert np.abs(displaced.var() * 12 * 1.05 - 1) > 5.5 * np.sqrt(0.8 / 40_000)


def test_width_of_the_clusters():
    """noise 0.1 is a deviation of 1.2; 40,000 coordinates resolve 2 %."""
    data = two_clusters(20_000, seed=5, noise=0.1)
    residual = data.inputs - 2 * data.targets[:, None]
    assert abs(residual.var() / 1.2**2 - 1) < 5.5 * np.sqrt(2 / 40_000)
    assert (
        two_clusters(noise=1 / 14).fingerprint()
        == two_clusters(std=0.5 + 7 * (1 / 14)).fingerprint()
    )


def test_gaussian_of_a_chosen_covariance():
    matrix = np.random.default_rng(1).normal(size=(4, 4))
    covariance = matrix @ matrix.T + np.eye(4)
    data = gaussian(covariance=covariance)
    # exp(-w' C w / n) with C = sum of the outer products of the inputs has the precision 2 C / n.
    np.testing.assert_allclose(
        np.linalg.inv(2 * data.inputs.T @ data.inputs / 4), covariance, rtol=1e-10
    )
    slow = np.linalg.eigvalsh(covariance)[-1]
    np.testing.assert_allclose((data.inputs[0] ** 2).sum(), 4 / 2 / slow, rtol=1e-10)
    np.testing.assert_allclose(gaussian(covariance=[[4.0]]).inputs ** 2, [[1 / 8]])


@pytest.mark.parametrize(
    ("covariance", "words"),
    [
        (np.ones((2, 3)), "not a square matrix"),
        ([[1.0, 0.5], [0.0, 1.0]], "not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite. Received: the eigenvalue -1"),
        (np.ones((2, 2)), "not positive definite"),
    ],
)
def test_matrices_that_are_no_covariance(covariance, words):
    with pytest.raises(InputError, match=words):
        gaussian(covariance=covariance)
