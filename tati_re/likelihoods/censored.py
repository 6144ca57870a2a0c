"""Times until an event that was not always observed: censored normal, log-normal and Weibull laws."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np

from tati_re.likelihoods.laws import Law, ScipyLaw
from tati_re.likelihoods.location_scale import ScaledLikelihood, moments_of
from tati_re.likelihoods.outputs import LOG_2PI, parts, refuse_targets, tensorflow
from tati_re.likelihoods.rounding import log_hypot

LEFT, RIGHT, OBSERVED = -1, 0, 1
"""Values of the second column: the event came before the time, after it, or at it."""


class Censored(ScaledLikelihood):
    """What likelihoods of censored values share: two columns of labels, value and event.

    The event is 1 where the value was observed, 0 where the true one is larger (right-censored),
    and -1 where it is smaller (left-censored). Columns of several targets come as all values, then
    all events. Predictions are of the true value, as if it had been observed.

    With u the value, or its logarithm where `of_logarithms`, z = (u - location - scale m) / (scale
    exp(s)) has a fixed law; m and s are the outputs of the network. `location` and `scale` are mean
    and deviation of u over the training set, whether observed or not. The width of rounded values is
    scale √(exp(2s) + `least_width`²); for a logarithm the largest value gives `least_width`.

    Args:
        rounding: "auto" or "none": whether the width includes the rounding of the values. Default:
            auto.
    """

    outputs_per_target = 2
    target_columns = 2
    of_logarithms = False

    @abstractmethod
    def standard_log_prob(self, z: Any) -> tuple[Any, Any, Any]:
        """Computes the logarithms of the standard law, in TensorFlow.

        Args:
            z: Standardized values, (u - center) / width.

        Returns:
            Log density, log P(Z > z) and log P(Z < z), in the shape of `z`.
        """

    @abstractmethod
    def standard_law(self, center: np.ndarray, width: np.ndarray) -> Law:
        """Returns the law of u = center + width z, or of its exponential, in NumPy.

        Args:
            center: Centers, shape (draws, n, targets).
            width: Widths, same shape.

        Returns:
            The distributions.
        """

    def check(self, targets: np.ndarray) -> None:
        self.num_targets(targets.shape[-1])
        values, events = np.split(np.asarray(targets, np.float64), 2, axis=-1)
        unknown = ~np.isin(events, (LEFT, RIGHT, OBSERVED))
        expected = (
            "events 1 (observed), 0 (right-censored) or -1 (left-censored), in the columns "
            "after the values"
        )
        refuse_targets(unknown, events, self.name, expected)
        if self.of_logarithms:
            refuse_targets(~(values > 0), values, self.name, "values above 0")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        values, _ = np.split(np.asarray(targets, np.float64), 2, axis=-1)
        least = self.least_std(values)
        if self.of_logarithms:
            least = least / values.max(axis=0)
            values = np.log(values)
        likelihood.location, likelihood.scale = moments_of(values, weights)
        likelihood.least_width = least / likelihood.scale
        return likelihood

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        values, events = tf.split(tf.cast(targets, tf.float64), 2, axis=-1)
        center, log_width = tf.split(tf.cast(outputs, tf.float64), 2, axis=-1)
        log_width = log_hypot(log_width, self.least_width)
        u = tf.math.log(values) if self.of_logarithms else values
        z = ((u - self.location) / self.scale - center) * tf.exp(-log_width)
        density, above, below = self.standard_log_prob(z)
        density -= log_width + tf.math.log(tf.constant(self.scale, tf.float64))
        if self.of_logarithms:
            density -= u
        censored = tf.where(events == RIGHT, above, below)
        return tf.reduce_sum(tf.where(events == OBSERVED, density, censored), axis=-1)

    def law(self, outputs: np.ndarray) -> Law:
        center, log_width = parts(outputs, 2)
        center = self.location + self.scale * center
        width = np.hypot(np.exp(log_width), self.least_width)
        return self.standard_law(center, self.scale * width)

    def log_likelihood(
        self, targets: np.ndarray, outputs: np.ndarray, extra: Any = None
    ) -> np.ndarray:
        values, events = np.split(np.asarray(targets, np.float64), 2, axis=-1)
        law = self.law(outputs)
        with np.errstate(divide="ignore"):
            below = law.cdf(values)
            censored = np.where(events == RIGHT, np.log1p(-below), np.log(below))
        return np.where(events == OBSERVED, law.log_prob(values), censored).sum(axis=-1)


class CensoredNormal(Censored):
    """A Gaussian value, observed or censored; the network predicts mean and standard deviation."""

    name = "censored_normal"

    def standard_log_prob(self, z: Any) -> tuple[Any, Any, Any]:
        tf = tensorflow()
        return -0.5 * tf.square(z) - 0.5 * LOG_2PI, log_normal_cdf(-z), log_normal_cdf(z)

    def standard_law(self, center: np.ndarray, width: np.ndarray) -> Law:
        from scipy import stats

        return ScipyLaw(stats.norm, {"loc": center, "scale": width})

    def describe(self) -> str:
        return (
            "Gaussian values, observed or censored; the network predicts mean and standard "
            "deviation"
        )


class CensoredLogNormal(CensoredNormal):
    """A positive value with a Gaussian logarithm, observed or censored."""

    name = "censored_log_normal"
    of_logarithms = True

    def standard_law(self, center: np.ndarray, width: np.ndarray) -> Law:
        from scipy import stats

        return ScipyLaw(stats.lognorm, {"s": width, "scale": np.exp(center)})

    def describe(self) -> str:
        return "log-normal values, observed or censored; the network predicts both parameters"


class CensoredWeibull(Censored):
    """A Weibull-distributed time, observed or censored; the network predicts scale and shape.

    log(time) = center + width z, where z has the standard distribution of the smallest extreme
    value. The shape of the Weibull distribution is 1 / width and its scale is exp(center).
    """

    name = "censored_weibull"
    of_logarithms = True

    def standard_log_prob(self, z: Any) -> tuple[Any, Any, Any]:
        tf = tensorflow()
        hazard = tf.exp(z)
        # log(1 - exp(-h)) by expm1: its argument is above 0.
        return z - hazard, -hazard, tf.math.log(-tf.math.expm1(-hazard))

    def standard_law(self, center: np.ndarray, width: np.ndarray) -> Law:
        from scipy import stats

        return ScipyLaw(stats.weibull_min, {"c": 1 / width, "scale": np.exp(center)})

    def describe(self) -> str:
        return "Weibull times, observed or censored; the network predicts scale and shape"


def log_normal_cdf(z: Any) -> Any:
    """log Φ(z) in TensorFlow, float64, also far in the lower tail.

    Below -30 by the asymptotic series of Mills' ratio, whose relative error there is 2e-12.
    """
    tf = tensorflow()
    far = z < -30
    near_z = tf.where(far, tf.zeros_like(z), z)
    far_z = tf.where(far, z, -30 * tf.ones_like(z))
    near = tf.math.log(0.5 * tf.math.erfc(-near_z / math.sqrt(2)))
    square = 1 / tf.square(far_z)
    series = 1 - square * (1 - square * (3 - square * (15 - 105 * square)))
    tail = -0.5 * tf.square(far_z) - tf.math.log(-far_z) - 0.5 * LOG_2PI + tf.math.log(series)
    return tf.where(far, tail, near)
