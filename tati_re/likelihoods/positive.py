"""Positive values and shares: log-normal, Gamma and Beta laws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tati_re.core.front_door import front_door
from tati_re.likelihoods.laws import ScipyLaw
from tati_re.likelihoods.location_scale import LocationScale, RoundedLikelihood, moments_of
from tati_re.likelihoods.outputs import LOG_2PI, parts, refuse_targets, tensorflow
from tati_re.likelihoods.rounding import AUTO, bounded


class LogNormal(LocationScale):
    """A positive value with a Gaussian logarithm; the network predicts its mean and standard
    deviation.

    `location` and `scale` are the mean and standard deviation of the logarithms of the training
    targets.

    Args:
        rounding: "auto" or "none": whether the predicted standard deviation includes the rounding of
            the targets, at least as for the largest one. Default: auto.
    """

    name = "log_normal"
    settings = ("rounding",)

    @front_door
    def __init__(self, rounding: str = AUTO) -> None:
        super().__init__(rounding=rounding)

    def check(self, targets: np.ndarray) -> None:
        refuse_targets(~(targets > 0), targets, self.name, "numbers above 0")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        self.check(targets)
        likelihood = super().fitted(targets, weights)
        likelihood.location, likelihood.scale = moments_of(np.log(targets), weights)
        relative = self.least_std(targets) / targets.max(axis=0)
        likelihood.least_width = relative / likelihood.scale
        return likelihood

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        logarithms = tf.math.log(targets)
        z, log_width = self.standardized(logarithms, outputs)
        density = -0.5 * tf.square(z) - log_width - 0.5 * LOG_2PI
        density -= tf.cast(logarithms, outputs.dtype)
        return tf.reduce_sum(density, axis=-1)

    def law(self, outputs: np.ndarray) -> ScipyLaw:
        from scipy import stats

        center, width = self.center_and_width(outputs)
        return ScipyLaw(stats.lognorm, {"s": width, "scale": np.exp(center)})

    def describe(self) -> str:
        return "log-normal noise; the network predicts mean and standard deviation of the logarithm"


class BoundedLikelihood(RoundedLikelihood):
    """A likelihood whose second output is a shape or precision, which rounded targets bound.

    Attributes:
        least_variance: c of the bound a / (1 + a c) for a predicted a, shape (targets,).
    """

    outputs_per_target = 2
    later_settings: ClassVar[Mapping[str, Any]] = {
        **RoundedLikelihood.later_settings,
        "least_variance": 0.0,
    }

    least_variance: Any = 0.0

    @property
    def includes_rounding(self) -> bool:
        return bool(np.any(self.least_variance))


class Gamma(BoundedLikelihood):
    """A Gamma-distributed positive value; the network predicts its mean and its shape.

    The outputs are log(mean / `mean_scale`) and log(shape / `shape_scale`). `mean_scale` is the
    mean of the training targets. `shape_scale` is the shape of the Gamma distribution with their
    mean and standard deviation. With `least_variance` c, the shape is a / (1 + a c) for a predicted a.
    c is the variance of the rounding of the targets, relative to the square of the largest one.

    Args:
        rounding: "auto" or "none": whether the shape has this bound. Default: auto.
    """

    name = "gamma"
    constants = ("mean_scale", "shape_scale", "least_variance")

    mean_scale: Any = 1.0
    shape_scale: Any = 1.0

    def check(self, targets: np.ndarray) -> None:
        refuse_targets(~(targets > 0), targets, self.name, "numbers above 0")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        mean, deviation = moments_of(targets, weights)
        likelihood.mean_scale, likelihood.shape_scale = mean, (mean / deviation) ** 2
        likelihood.least_variance = (self.least_std(targets) / targets.max(axis=0)) ** 2
        return likelihood

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        log_mean, log_shape = tf.split(tf.cast(outputs, tf.float64), 2, axis=-1)
        values = tf.cast(targets, tf.float64)
        shape = bounded(self.shape_scale * tf.exp(log_shape), self.least_variance)
        log_rate = tf.math.log(shape) - tf.math.log(tf.constant(self.mean_scale)) - log_mean
        density = shape * log_rate - tf.math.lgamma(shape)
        density += (shape - 1) * tf.math.log(values) - tf.exp(log_rate) * values
        return tf.reduce_sum(density, axis=-1)

    def law(self, outputs: np.ndarray) -> ScipyLaw:
        from scipy import stats

        log_mean, log_shape = parts(outputs, 2)
        mean = self.mean_scale * np.exp(log_mean)
        shape = bounded(self.shape_scale * np.exp(log_shape), self.least_variance)
        return ScipyLaw(stats.gamma, {"a": shape, "scale": mean / shape})

    def describe(self) -> str:
        return "a Gamma distribution; the network predicts its mean and shape"


class Beta(BoundedLikelihood):
    """A Beta-distributed fraction between 0 and 1; the network predicts its mean and its precision.

    The outputs are logit(mean) - `mean_logit` and log(precision / `precision_scale`). The precision
    is the sum of the two shape parameters. The constants match the moments of the training targets.
    With `least_variance` c, the precision is a / (1 + a c) for a predicted a. c is four times the
    variance of the rounding of the targets, so that the variance of the distribution is never smaller
    than this variance where the mean is 1/2.

    Args:
        rounding: "auto" or "none": whether the precision has this bound. Default: auto.

    Source: Ferrari and Cribari-Neto, J. Appl. Stat. 31 (2004).
    """

    name = "beta"
    constants = ("mean_logit", "precision_scale", "least_variance")

    mean_logit: Any = 0.0
    precision_scale: Any = 1.0

    def check(self, targets: np.ndarray) -> None:
        inside = (targets > 0) & (targets < 1)
        refuse_targets(~inside, targets, self.name, "numbers between 0 and 1, excluding both")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        mean, deviation = moments_of(targets, weights)
        likelihood.mean_logit = np.log(mean) - np.log1p(-mean)
        likelihood.precision_scale = np.maximum(mean * (1 - mean) / deviation**2 - 1, 1.0)
        likelihood.least_variance = 4 * self.least_std(targets) ** 2
        return likelihood

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        logit, log_precision = tf.split(tf.cast(outputs, tf.float64), 2, axis=-1)
        values = tf.cast(targets, tf.float64)
        logit += self.mean_logit
        precision = bounded(self.precision_scale * tf.exp(log_precision), self.least_variance)
        first, second = precision * tf.sigmoid(logit), precision * tf.sigmoid(-logit)
        density = tf.math.lgamma(precision) - tf.math.lgamma(first) - tf.math.lgamma(second)
        density += (first - 1) * tf.math.log(values) + (second - 1) * tf.math.log1p(-values)
        return tf.reduce_sum(density, axis=-1)

    def law(self, outputs: np.ndarray) -> ScipyLaw:
        from scipy import special, stats

        logit, log_precision = parts(outputs, 2)
        logit = logit + self.mean_logit
        precision = bounded(self.precision_scale * np.exp(log_precision), self.least_variance)
        shapes = {"a": precision * special.expit(logit), "b": precision * special.expit(-logit)}
        return ScipyLaw(stats.beta, shapes)

    def describe(self) -> str:
        return "a Beta distribution; the network predicts its mean and precision"
