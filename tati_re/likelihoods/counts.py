"""Counts: Poisson and negative binomial laws, also with extra zeros."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tati_re.likelihoods.contract import Likelihood
from tati_re.likelihoods.laws import Law, ScipyLaw, ZeroInflated
from tati_re.likelihoods.outputs import parts, refuse_targets, tensorflow


class CountLikelihood(Likelihood):
    """What likelihoods of counts share: whole numbers, and a rate relative to their mean.

    The first output of a target is log(rate / `rate_scale`), where `rate_scale` is the mean of the
    training targets. Log densities are computed in float64: factorials of large counts cancel.
    """

    discrete = True
    constants = ("rate_scale",)

    rate_scale: Any = 1.0

    def check(self, targets: np.ndarray) -> None:
        counts = (targets >= 0) & (targets == np.floor(targets)) & np.isfinite(targets)
        refuse_targets(~counts, targets, self.name, "whole numbers from 0 on")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        mean = np.average(np.asarray(targets, np.float64), axis=0, weights=weights)
        likelihood.rate_scale = np.where(mean > 0, mean, 1.0)
        return likelihood

    def log_rate(self, output: Any) -> Any:
        """The logarithm of the rate in TensorFlow, float64, from the first group of the outputs."""
        tf = tensorflow()
        return tf.cast(output, tf.float64) + tf.math.log(tf.constant(self.rate_scale, tf.float64))

    def rate(self, output: np.ndarray) -> np.ndarray:
        """The rate in NumPy, from the first group of the outputs."""
        return self.rate_scale * np.exp(output)


MOST_LOG_SIZE = 8.0
"""Bound of log(size) of a negative binomial law, both ways. Beyond a size of 3,000 counts are
Poisson for all that data can tell: the posterior would have no end there, and log densities would
cancel.
"""


def bounded_size(output: Any, tanh: Any) -> Any:
    """log(size) of the output of a network: nearly the output itself if it is small.

    Args:
        output: Output of the network, of any shape.
        tanh: The hyperbolic tangent of the output's library.
    """
    return MOST_LOG_SIZE * tanh(output / MOST_LOG_SIZE)


def poisson_log_prob(counts: Any, log_rate: Any) -> Any:
    """Log probability of Poisson counts, in TensorFlow, in the shape of the arguments.

    Args:
        counts: The counts, float64.
        log_rate: Logarithms of their means, float64.
    """
    tf = tensorflow()
    return counts * log_rate - tf.exp(log_rate) - tf.math.lgamma(counts + 1)


def negative_binomial_log_prob(counts: Any, log_mean: Any, log_size: Any) -> Any:
    """Log probability of counts whose variance is mean + mean²/size, in TensorFlow.

    Args:
        counts: The counts, float64, shape (n, targets).
        log_mean: Logarithms of their means, in this shape, float64.
        log_size: Logarithms of the sizes, in this shape, float64.
    """
    tf = tensorflow()
    size = tf.exp(log_size)
    # log of mean + size, and the logarithms of both shares of it.
    log_total = tf.math.log(tf.exp(log_mean) + size)
    density = tf.math.lgamma(counts + size) - tf.math.lgamma(size) - tf.math.lgamma(counts + 1)
    return density + size * (log_size - log_total) + counts * (log_mean - log_total)


def with_zeros(log_prob: Any, counts: Any, logit: Any) -> Any:
    """Log probability of counts of which a share is 0 for another reason, in TensorFlow.

    Args:
        log_prob: Log probability of the counts without these zeros, float64, shape (n, targets).
        counts: The counts, in this shape, float64.
        logit: Logit of the share of extra zeros, in this shape, float64.
    """
    tf = tensorflow()
    log_zero, log_rest = tf.math.log_sigmoid(logit), tf.math.log_sigmoid(-logit)
    highest = tf.maximum(log_zero, log_rest + log_prob)
    both = tf.exp(log_zero - highest) + tf.exp(log_rest + log_prob - highest)
    return tf.where(counts == 0, highest + tf.math.log(both), log_rest + log_prob)


class Poisson(CountLikelihood):
    """Poisson-distributed counts, whose variance is their mean; the network predicts the mean."""

    name = "poisson_count"

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        counts = tf.cast(targets, tf.float64)
        return tf.reduce_sum(poisson_log_prob(counts, self.log_rate(outputs)), axis=-1)

    def law(self, outputs: np.ndarray) -> Law:
        return poisson_law(self.rate(np.asarray(outputs, np.float64)))

    def describe(self) -> str:
        return "a Poisson distribution of counts; the network predicts its mean"


class NegativeBinomial(CountLikelihood):
    """Counts with a larger variance than Poisson counts; the network predicts mean and size.

    The second output of a target is log(size), softly bounded to ±8. The variance is mean +
    mean²/size.
    """

    name = "negative_binomial"
    outputs_per_target = 2

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        output, log_size = tf.split(outputs, 2, axis=-1)
        counts = tf.cast(targets, tf.float64)
        log_size = bounded_size(tf.cast(log_size, tf.float64), tf.tanh)
        density = negative_binomial_log_prob(counts, self.log_rate(output), log_size)
        return tf.reduce_sum(density, axis=-1)

    def law(self, outputs: np.ndarray) -> Law:
        output, log_size = parts(outputs, 2)
        return negative_binomial_law(self.rate(output), np.exp(bounded_size(log_size, np.tanh)))

    def describe(self) -> str:
        return "a negative binomial distribution of counts; the network predicts its mean and size"


class ZeroInflatedPoisson(CountLikelihood):
    """Poisson counts with extra zeros; the network predicts the rate and the fraction of extra
    zeros.

    The second output of a target is the logit of this fraction.
    """

    name = "zero_inflated_poisson"
    outputs_per_target = 2

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        output, logit = tf.split(outputs, 2, axis=-1)
        counts, logit = tf.cast(targets, tf.float64), tf.cast(logit, tf.float64)
        counted = poisson_log_prob(counts, self.log_rate(output))
        return tf.reduce_sum(with_zeros(counted, counts, logit), axis=-1)

    def law(self, outputs: np.ndarray) -> Law:
        from scipy import special

        output, logit = parts(outputs, 2)
        return ZeroInflated(special.expit(logit), poisson_law(self.rate(output)))

    def describe(self) -> str:
        return (
            "a zero-inflated Poisson distribution of counts; the network predicts both parameters"
        )


class ZeroInflatedNegativeBinomial(CountLikelihood):
    """Negative binomial counts with extra zeros; the network predicts mean, size and zero fraction.

    The second and third outputs of a target are log(size) and the logit of the fraction of extra
    zeros.
    """

    name = "zero_inflated_negative_binomial"
    outputs_per_target = 3

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        output, log_size, logit = tf.split(outputs, 3, axis=-1)
        counts, logit = tf.cast(targets, tf.float64), tf.cast(logit, tf.float64)
        log_size = bounded_size(tf.cast(log_size, tf.float64), tf.tanh)
        counted = negative_binomial_log_prob(counts, self.log_rate(output), log_size)
        return tf.reduce_sum(with_zeros(counted, counts, logit), axis=-1)

    def law(self, outputs: np.ndarray) -> Law:
        from scipy import special

        output, log_size, logit = parts(outputs, 3)
        counts = negative_binomial_law(self.rate(output), np.exp(bounded_size(log_size, np.tanh)))
        return ZeroInflated(special.expit(logit), counts)

    def describe(self) -> str:
        return (
            "a zero-inflated negative binomial distribution of counts; the network predicts "
            "all three parameters"
        )


def poisson_law(rate: np.ndarray) -> ScipyLaw:
    """Poisson laws of these rates."""
    from scipy import stats

    return ScipyLaw(stats.poisson, {"mu": rate}, discrete=True)


def negative_binomial_law(mean: np.ndarray, size: np.ndarray) -> ScipyLaw:
    """Negative binomial laws with variance mean + mean²/size.

    Args:
        mean: Means, shape (draws, n, targets).
        size: Sizes, above 0, in this shape.
    """
    from scipy import stats

    return ScipyLaw(stats.nbinom, {"n": size, "p": size / (size + mean)}, discrete=True)
