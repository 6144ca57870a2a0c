"""Shapiro-Wilk on mini-batch noise: Gaussian noise passes at the right rate, heavy tails fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from tati_re.core.errors import InputError
from tati_re.exchange.gaussianity import difference_p_values, gaussianity_report, gradient_p_values


@pytest.fixture
def noise() -> np.random.Generator:
    return np.random.default_rng(0)


def test_p_values_of_gaussian_gradients_are_uniform(noise):
    """500 tests: 1 to 9 % below 0.05 with probability 0.9999; and below 1/2 as often."""
    p = gradient_p_values(noise.standard_normal((60, 2000)), num_vectors=500)
    report = gaussianity_report(p)
    assert p.shape == (500,) and report.sentence is None
    assert report.band[0] <= report.fraction <= report.band[1]
    assert binom.ppf(5e-5, 500, 0.5) <= (p < 0.5).sum() <= binom.ppf(1 - 5e-5, 500, 0.5)


def test_heavy_tails_of_gradients_are_told(noise):
    """A common random scale of all parameters, as of one odd example in a batch: projections are
    Student's t.
    """
    heavy = noise.standard_normal((60, 2000)) / np.sqrt(noise.chisquare(2, (60, 1)) / 2)
    report = gaussianity_report(gradient_p_values(heavy, num_vectors=200), "The gradient noise")
    assert report.fraction > 0.5
    assert (
        report.sentence.startswith("The gradient noise is not Gaussian:")
        and "larger mini-batches" in report.sentence
    )


def test_large_batches_pass_and_small_batches_of_heavy_tails_fail(noise):
    gaussian = noise.standard_normal(5000)
    report = gaussianity_report(difference_p_values(gaussian, 250, num_tests=200))
    assert report.sentence is None and report.fraction <= report.band[1]
    heavy = noise.standard_t(2, 5000)
    assert gaussianity_report(difference_p_values(heavy, 10, num_tests=50)).sentence is not None
    skewed = noise.exponential(size=5000)
    assert np.median(difference_p_values(skewed, 2, num_tests=20)) < 1e-3
    assert gaussianity_report(difference_p_values(skewed, 1000, num_tests=50)).sentence is None


def test_seeds_decide(noise):
    values = noise.standard_normal(200)
    np.testing.assert_array_equal(
        difference_p_values(values, 20, seed=4), difference_p_values(values, 20, seed=4)
    )
    assert difference_p_values(values, 20, seed=4) != difference_p_values(values, 20, seed=5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: difference_p_values(np.arange(10.0), 10),
        lambda: difference_p_values(np.arange(10.0), 3, num_batches=2),
        lambda: difference_p_values(np.ones(10), 3),
        lambda: gradient_p_values(np.ones((2, 5))),
        lambda: gradient_p_values(np.ones((20, 5))),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(InputError):
        call()
