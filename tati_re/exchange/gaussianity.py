"""Shapiro-Wilk tests of the Gaussian noise of mini-batches that swap rules and thermostats assume.
Host side, on numpy arrays. Source: Luo et al. 2020, section 2.3 (energy differences) and appendix C
(gradients).
"""

from typing import NamedTuple

import numpy as np
import scipy

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.renamed import renamed_arguments
from tati_re.core.user_input import seeded

LEVEL = 0.05


class GaussianityReport(NamedTuple):
    """The joint result of several Shapiro-Wilk tests.

    Attributes:
        p_values: One p-value per test, `(tests,)`, uniform in (0, 1) for Gaussian noise.
        fraction: Fraction of p-values below 0.05.
        band: Range of the fraction with probability 0.9999, if the noise is Gaussian and the tests
            are independent.
        sentence: What to do if the fraction is above the band, otherwise None.
    """

    p_values: np.ndarray
    fraction: float
    band: tuple[float, float]
    sentence: str | None


@front_door
def difference_p_values(
    differences: np.ndarray,
    batch_size: int,
    num_batches: int = 100,
    num_tests: int = 1,
    seed: int = 0,
) -> np.ndarray:
    """Tests whether mini-batch means of per-example energy differences are Gaussian.

    Each batch is drawn without replacement.

    Args:
        differences: Loss of one replica minus the loss of the other, `(N,)`.
        batch_size: n, from 1 to N - 1.
        num_batches: Number of means per test, 3 to 5000. Default: 100.
        num_tests: Number of tests, each with its own batches. They share the differences, so they
            show the scatter of the test, not of other data. Default: 1.
        seed: Seed of the batches. Default: 0.

    Returns:
        The p-values, `(num_tests,)`.

    Raises:
        InputError: A number is out of range, or all differences are equal.
    """
    differences = np.asarray(differences, float).ravel()
    if not 1 <= batch_size < len(differences):
        raise InputError("batch_size: out of range.", batch_size, f"1 to {len(differences) - 1}")
    _check_batches(num_batches)
    if not np.ptp(differences) > 0:
        raise InputError(
            "All energy differences are equal: there is no noise to test.", differences[0]
        )
    noise = seeded(seed)
    means = np.empty((num_tests, num_batches))
    for place in np.ndindex(means.shape):
        means[place] = differences[noise.choice(len(differences), batch_size, replace=False)].mean()
    return np.array([scipy.stats.shapiro(row).pvalue for row in means])


def gradient_p_values(gradients: np.ndarray, num_vectors: int = 1000, seed: int = 0) -> np.ndarray:
    """Tests mini-batch gradients less their mean, projected on random unit vectors.

    Projections of few parameters, or of noise that lies in few directions, are alike. Their tests
    then scatter more than independent ones.

    Args:
        gradients: Gradients of 3 to 5000 mini-batches at one place, shape (batches, parameters).
        num_vectors: Number of unit vectors. Default: 1000.
        seed: Seed of the vectors. Default: 0.

    Returns:
        The p-values, shape (num_vectors,).

    Raises:
        InputError: The number of mini-batches is out of range, or all gradients are equal.
    """
    gradients = np.asarray(gradients, float)
    _check_batches(len(gradients))
    noise = gradients - gradients.mean(0)
    refuse_if(
        not np.ptp(noise) > 0,
        "All mini-batch gradients are equal: there is no noise to test.",
    )
    vectors = seeded(seed).standard_normal((gradients.shape[1], num_vectors))
    projections = noise @ (vectors / np.linalg.norm(vectors, axis=0))
    return np.array([scipy.stats.shapiro(column).pvalue for column in projections.T])


@renamed_arguments(what="subject")
@front_door
def gaussianity_report(
    p_values: np.ndarray, subject: str = "The noise of mini-batches"
) -> GaussianityReport:
    """Judges the p-values of several tests by the fraction below 0.05.

    Args:
        p_values: The p-values, `(tests,)`.
        subject: The subject of the sentence. Default: "The noise of mini-batches".

    Returns:
        The fraction, its band, and what to do if it is outside.
    """
    p_values = np.asarray(p_values, float)
    tests = len(p_values)
    low, high = (float(scipy.stats.binom.ppf(q, tests, LEVEL)) / tests for q in (5e-5, 1 - 5e-5))
    fraction = float(np.mean(p_values < LEVEL))
    sentence = None
    if fraction > high:
        sentence = (
            f"{subject} is not Gaussian: {fraction:.0%} of {tests} Shapiro-Wilk tests have a "
            f"p-value below 0.05 (at most {high:.0%} expected). Use larger mini-batches, "
            "or 'metropolis' on all data."
        )
    return GaussianityReport(p_values, fraction, (low, high), sentence)


def _check_batches(num_batches: int) -> None:
    if not 3 <= num_batches <= 5000:
        raise InputError(
            "num_batches: out of range for the Shapiro-Wilk test.", num_batches, "3 to 5000"
        )
