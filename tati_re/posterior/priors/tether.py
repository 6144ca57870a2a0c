"""A tether: a Gaussian around one point, which keeps a run near a minimum."""

import math

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.potential import Prior


class Tether(Prior):
    """A Gaussian around one point, V = γ abs(θ - c)²/2 + P/2 log(2π/γ), for runs about one minimum.

    Args:
        center: c, `(parameters,)`, such as `sim.parameters` after a fit, that of a sampled noise included.
        precision: γ, above 0: directions in which the loss is flat have the variance 1/γ. Default: 1.

    Raises:
        InputError: The center is no vector of finite numbers, or γ is not above 0.

    Examples:
        >>> str(tati_re.priors.Tether([1.0, 2.0], 100.0))
        'a tether of precision 100 to a point'
    """

    name = "tether"
    proper = True

    def __init__(self, center, precision: float = 1.0) -> None:
        self.center, self.precision = np.asarray(center, np.float64), float(precision)
        if self.center.ndim != 1 or not np.isfinite(self.center).all():
            raise InputError("tether: the center is no point.", f"shape {self.center.shape}", "a finite vector")
        if not (self.precision > 0 and math.isfinite(self.precision)):
            raise InputError("tether is out of range.", precision, "a finite number above 0")
        self.num_parameters = len(self.center)

    def log_prob(self, position) -> tf.Tensor:
        away = tf.cast(position, tf.float64) - self.center
        normalization = 0.5 * len(self.center) * math.log(self.precision / (2 * math.pi))
        return normalization - 0.5 * self.precision * tf.reduce_sum(away * away, axis=-1)

    def gradient(self, position) -> tf.Tensor:
        return tf.constant(self.precision, position.dtype) * (position - tf.constant(self.center, position.dtype))

    def from_normal(self, normal) -> tf.Tensor:
        return tf.constant(self.center, normal.dtype) + normal / tf.constant(math.sqrt(self.precision), normal.dtype)

    def get_config(self) -> dict:
        return {"prior": self.name, "tether": self.precision}

    def __str__(self) -> str:
        return f"a tether of precision {self.precision:g} to a point"
