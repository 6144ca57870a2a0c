"""Log densities for models of users against those of SciPy, constants included."""

import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tati_re.likelihoods import log_prob
from tati_re.supports import cholesky_corr

X = np.array([0.2, 0.7, 1.9])
UNIT = np.array([0.1, 0.5, 0.93])
COUNTS = np.array([0, 2, 7])
CASES = {
    "normal": (log_prob.normal(X, 0.3, 1.7), stats.norm(0.3, 1.7).logpdf(X)),
    "student_t": (log_prob.student_t(X, 3, 0.3, 1.7), stats.t(3, 0.3, 1.7).logpdf(X)),
    "cauchy": (log_prob.cauchy(X, 0.3, 1.7), stats.cauchy(0.3, 1.7).logpdf(X)),
    "half_normal": (log_prob.half_normal(X, 1.7), stats.halfnorm(0, 1.7).logpdf(X)),
    "half_cauchy": (log_prob.half_cauchy(X, 1.7), stats.halfcauchy(0, 1.7).logpdf(X)),
    "half_student_t": (
        log_prob.half_student_t(X, 3, 1.7),
        stats.t(3, 0, 1.7).logpdf(X) + math.log(2),
    ),
    "exponential": (log_prob.exponential(X, 2.5), stats.expon(0, 0.4).logpdf(X)),
    "laplace": (log_prob.laplace(X, 0.3, 1.7), stats.laplace(0.3, 1.7).logpdf(X)),
    "logistic": (log_prob.logistic(X, 0.3, 1.7), stats.logistic(0.3, 1.7).logpdf(X)),
    "gamma": (log_prob.gamma(X, 2.5, 3.0), stats.gamma(2.5, scale=1 / 3).logpdf(X)),
    "inverse_gamma": (log_prob.inverse_gamma(X, 2.5, 3.0), stats.invgamma(2.5, scale=3).logpdf(X)),
    "log_normal": (
        log_prob.log_normal(X, 0.3, 1.7),
        stats.lognorm(1.7, scale=math.exp(0.3)).logpdf(X),
    ),
    "beta": (log_prob.beta(UNIT, 2.5, 0.7), stats.beta(2.5, 0.7).logpdf(UNIT)),
    "uniform": (log_prob.uniform(UNIT, -1, 2), stats.uniform(-1, 3).logpdf(UNIT)),
    "poisson": (log_prob.poisson(COUNTS, 2.5), stats.poisson(2.5).logpmf(COUNTS)),
    "poisson_log": (log_prob.poisson_log(COUNTS, 0.4), stats.poisson(np.exp(0.4)).logpmf(COUNTS)),
    "negative_binomial": (
        log_prob.negative_binomial(COUNTS, 2.5, 1.3),
        stats.nbinom(1.3, 1.3 / (1.3 + 2.5)).logpmf(COUNTS),
    ),
    "bernoulli_logit": (
        log_prob.bernoulli_logit([0, 1], 0.4),
        stats.bernoulli(1 / (1 + math.exp(-0.4))).logpmf([0, 1]),
    ),
    "binomial_logit": (
        log_prob.binomial_logit(COUNTS, 9, 0.4),
        stats.binom(9, 1 / (1 + math.exp(-0.4))).logpmf(COUNTS),
    ),
    "dirichlet": (
        log_prob.dirichlet([0.2, 0.3, 0.5], [2.0, 3.0, 4.0]),
        stats.dirichlet([2, 3, 4]).logpdf([0.2, 0.3, 0.5]),
    ),
    "normal_cholesky": (
        log_prob.normal_cholesky([[1.0, 2.0], [0.0, 1.0]], [0.5, 0.5], [[2.0, 0.0], [0.3, 1.1]]),
        stats.multivariate_normal([0.5, 0.5], [[4, 0.6], [0.6, 1.3]]).logpdf([[1, 2], [0, 1]]),
    ),
    "mixture": (
        log_prob.mixture(np.log([0.3, 0.7]), np.array([[0.1, 0.2]])),
        np.log([0.3 * np.exp(0.1) + 0.7 * np.exp(0.2)]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_scipy(name):
    found, expected = CASES[name]
    assert found.numpy() == pytest.approx(expected, abs=1e-12)


def test_categories_have_probabilities_of_sum_1():
    logits = tf.constant([[0.1, -2.0, 1.0]], tf.float64)
    shares = [float(log_prob.categorical_logit([k], logits)[0]) for k in range(3)]
    assert np.exp(shares).sum() == pytest.approx(1)
    cuts = tf.constant([-1.0, 0.5, 2.0], tf.float64)
    logs = [float(log_prob.ordered_logit(k, tf.constant(0.3, tf.float64), cuts)) for k in range(4)]
    expected = np.diff([0, *(1 / (1 + np.exp(-(cuts.numpy() - 0.3)))), 1])
    assert np.exp(logs) == pytest.approx(expected)
    assert np.exp(logs).sum() == pytest.approx(1)


def test_what_cannot_be_has_no_probability():
    """Categories counted from 1, and classes 1 and 2 for 0 and 1, are no silent mistakes."""
    logits = tf.constant([0.1, -2.0, -np.inf], tf.float64)
    found = log_prob.categorical_logit([0, 1, 2, 3, -1], logits).numpy()
    assert found[:2] == pytest.approx(np.array([0.1, -2.0]) - np.logaddexp(0.1, -2.0))
    assert (found[2:] == -np.inf).all()
    cuts = tf.constant([-1.0, 0.5], tf.float64)
    found = log_prob.ordered_logit(np.array([0.0, 2.0, 3.0, 1.5]), np.zeros(4), cuts).numpy()
    assert np.isfinite(found).tolist() == [True, True, False, False]
    found = log_prob.bernoulli_logit([0, 1, 2, -1], 0.4).numpy()
    assert np.isfinite(found).tolist() == [True, True, False, False]
    assert log_prob.binomial_logit([3, -1], 2, 0.4).numpy().tolist() == [-np.inf, -np.inf]
    assert log_prob.poisson(-1, 2.0).numpy() == -np.inf


@pytest.mark.parametrize("shape", [1.0, 2.5])
def test_lkj_has_the_marginal_law_of_one_correlation(shape):
    """Of K rows, (r + 1)/2 of one correlation r has a Beta law of both parameters η - 1 + K/2."""
    support = cholesky_corr(3)
    grid, weights = np.polynomial.legendre.leggauss(80)
    z = np.stack(np.meshgrid(*[7.0 * grid] * 3, indexing="ij"), -1).reshape(-1, 3)
    weight = np.prod(np.stack(np.meshgrid(*[weights] * 3, indexing="ij"), -1).reshape(-1, 3), -1)
    factor, log_jacobian = support.constrain(z)
    density = weight * np.exp(log_prob.lkj_cholesky(factor, shape).numpy() + log_jacobian)
    correlation = factor[:, 2, 0]
    found = density @ correlation**2 / density.sum()
    law = stats.beta(shape - 1 + 1.5, shape - 1 + 1.5)
    assert found == pytest.approx(4 * law.var(), rel=2e-3)


def test_lists_may_hold_tensors():
    """As tensors in graphs, which NumPy cannot convert, with their gradients."""

    @tf.function(autograph=False)
    def slopes(mean, other):
        with tf.GradientTape() as tape:
            tape.watch([mean, other])
            listed = log_prob.mixture([mean, 0.0], [[mean, other], [1, 2.5]])
            value = log_prob.total([listed, listed], (mean, other))
        return value, tape.gradient(value, [mean, other])

    mean, other = (tf.constant(number, tf.float64) for number in (0.3, -1.2))
    value, (of_mean, of_other) = slopes(mean, other)
    mixture = np.logaddexp([0.6, 1.3], [-1.2, 2.5])
    assert float(value) == pytest.approx(2 * mixture.sum() + 0.3 - 1.2)
    shares = np.exp([0.6, 1.3] - mixture)
    assert float(of_mean) == pytest.approx(2 * (2 * shares[0] + shares[1]) + 1)
    assert float(of_other) == pytest.approx(2 * (1 - shares[0]) + 1)
    assert log_prob.normal([0.1]).numpy() == pytest.approx(stats.norm.logpdf([0.1]), abs=1e-12)


def test_total_adds_everything_and_keeps_the_type():
    one = tf.constant([1.0, 2.0], tf.float32)
    found = log_prob.total(one, 3, log_prob.normal(one))
    assert found.dtype == tf.float32
    assert float(found) == pytest.approx(6 + stats.norm.logpdf([1, 2]).sum(), rel=1e-6)
