"""Priors without walls: Gaussian, Laplace, Student-t, and none."""

import math

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.potential import Prior
from tati_re.posterior.priors.base import ScaleFamily
from tati_re.posterior.priors.quantiles import NormalMap


@front_doors
class Gaussian(ScaleFamily):
    """Independent Gaussians N(0, s_i²), V = sum of θ_i²/(2 s_i²) + log(s_i sqrt(2π)).

    Args:
        std: s, above 0: one number, or one per parameter, `(parameters,)`. Default: 1.
        fan_in: Fan-in k of each parameter, `(parameters,)`, for s_i = std/sqrt(k_i). Default: None,
            not divided.
        words: Description of the widths for messages. Default: None, their numbers.

    Examples:
        >>> str(Gaussian(2.0))
        'a Gaussian of standard deviation 2'
    """

    name = "gaussian"
    option = "prior_std"
    quantity = "a standard deviation"
    constant = math.sqrt(2 * math.pi)

    @front_door
    def __init__(self, std=1.0, fan_in=None, words: str | None = None) -> None:
        super().__init__(std, fan_in, words)
        self.std = self.scale

    def standard_potential(self, x):
        return tf.square(x) / 2

    def gradient(self, position) -> tf.Tensor:
        return position * tf.constant(1 / self.scale**2, position.dtype)

    def standard_from_normal(self, normal):
        return normal

    def quantile(self, score):
        return score

    def score(self, x):
        return x

    def __str__(self) -> str:
        return f"a Gaussian of standard deviation {self.width}"


@front_doors
class Laplace(ScaleFamily):
    """Independent Laplace distributions, V = sum of abs(θ_i)/b_i + log(2 b_i).

    The variance is 2 b². The slope of V jumps at 0. Schemes with a Metropolis test remain exact.
    Splittings keep their order elsewhere, but see a kink of height 2/b at 0. Its effect is small if
    h/b is small compared with the width of the posterior.

    Args:
        scale: b, above 0: one number, or one per parameter, `(parameters,)`. Default: 1.
        fan_in: Fan-in k of each parameter, `(parameters,)`; its width is divided by sqrt(k).
            Default: None, not divided.
        words: Description of the widths for messages. Default: None, their numbers.

    Examples:
        >>> str(Laplace(0.5))
        'a Laplace distribution of scale 0.5'
    """

    name = "laplace"
    option = "prior_scale"
    quantity = "a scale"
    constant = 2.0

    def standard_potential(self, x):
        return tf.abs(x)

    def standard_gradient(self, x):
        return tf.sign(x)

    def standard_from_normal(self, normal):
        tail = tf.math.erfc(tf.abs(normal) * tf.constant(math.sqrt(0.5), normal.dtype))
        return -tf.sign(normal) * tf.math.log(tf.maximum(tail, tf.constant(1e-37, normal.dtype)))

    def quantile(self, score):
        from scipy.special import log_ndtr

        return np.sign(score) * -(log_ndtr(-np.abs(score)) + math.log(2))

    def score(self, x):
        from scipy.special import ndtri_exp

        return -np.sign(x) * ndtri_exp(-np.abs(x) - math.log(2))

    def __str__(self) -> str:
        return f"a Laplace distribution of scale {self.width}"


@front_doors
class StudentT(ScaleFamily):
    """Independent Student-t distributions, V = sum of (ν + 1)/2 log(1 + θ_i²/(ν s_i²)) + a
    constant.

    The variance is s² ν/(ν - 2) for ν above 2, otherwise infinite; ν = 1 is the Cauchy
    distribution. At temperature T the prior alone, exp(-V/T), can be normalized if T is below ν +
    1.

    Args:
        scale: s, above 0: one number, or one per parameter, `(parameters,)`. Default: 1.
        degrees: ν, degrees of freedom, above 0. Default: 3.
        fan_in: Fan-in k of each parameter, `(parameters,)`; its width is divided by sqrt(k).
            Default: None, not divided.
        words: Description of the widths for messages. Default: None, their numbers.

    Examples:
        >>> str(StudentT(0.5, 4.0))
        'a Student-t distribution of 4 degrees of freedom and scale 0.5'
    """

    name = "student_t"
    option = "prior_scale"
    quantity = "a scale"

    @front_door
    def __init__(
        self, scale=1.0, degrees: float = 3.0, fan_in=None, words: str | None = None
    ) -> None:
        if not (degrees > 0 and math.isfinite(degrees)):
            raise InputError("prior_degrees: out of range.", degrees, "a finite number above 0")
        super().__init__(scale, fan_in, words)
        self.degrees = nu = float(degrees)
        self.hottest = nu + 1
        self.constant = math.exp(math.lgamma(nu / 2) - math.lgamma((nu + 1) / 2)) * math.sqrt(
            nu * math.pi
        )
        self._map: NormalMap | None = None

    def standard_potential(self, x):
        return (self.degrees + 1) / 2 * tf.math.log1p(tf.square(x) / self.degrees)

    def standard_gradient(self, x):
        return (self.degrees + 1) * x / (self.degrees + tf.square(x))

    def standard_from_normal(self, normal):
        if self._map is None:
            # Interpolated in asinh x, which grows no faster than the logarithm of the tails.
            self._map = NormalMap(np.arcsinh(self.quantile(NormalMap.nodes))[None])
        return tf.cast(tf.sinh(self._map(normal)), normal.dtype)

    def quantile(self, score):
        from scipy.special import ndtr, stdtrit

        # Of a probability near 1e-300 it gives infinity with the wrong sign; none beyond 1e-197
        # counts.
        return np.sign(score) * -stdtrit(self.degrees, ndtr(-np.minimum(np.abs(score), 30.0)))

    def score(self, x):
        from scipy.special import ndtri, stdtr

        return -np.sign(x) * ndtri(stdtr(self.degrees, -np.abs(x)))

    def get_config(self) -> dict:
        return {**super().get_config(), "prior_degrees": self.degrees}

    def __str__(self) -> str:
        return (
            f"a Student-t distribution of {self.degrees:g} degrees of freedom and scale "
            f"{self.width}"
        )


@front_doors
class Flat(Prior):
    """No prior: V = 0.

    It is improper, so directions in which the loss is flat have no equilibrium distribution.

    Examples:
        >>> Flat().proper
        False
    """

    name = "none"
    proper = False

    def log_prob(self, position) -> tf.Tensor:
        return tf.zeros(position.shape[:1], tf.float64)

    def gradient(self, position) -> None:
        return None

    def from_normal(self, normal) -> tf.Tensor:
        raise InputError(
            "prior: draws from a flat prior are not possible.",
            received="none",
            expected="such as gaussian",
        )

    def get_config(self) -> dict:
        return {"prior": "none"}

    def __str__(self) -> str:
        return "none"
