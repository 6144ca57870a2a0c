"""Priors of the parameters: V = -log prior, normalisation included, and the walls they put around the walkers."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

from tati_re.errors import InputError
from tati_re.models.backend import tf


@runtime_checkable
class Prior(Protocol):
    """What a prior is; positions have shape `(walkers, parameters)`.

    Attributes:
        proper: The prior can be normalised, so that it confines U in every direction.
    """

    proper: bool

    def log_prob(self, position) -> tf.Tensor:
        """log prior density, `(walkers,)`, float64, normalisation included."""

    def gradient(self, position) -> tf.Tensor | None:
        """∇V = -∇ log prior where it is finite, `(walkers, parameters)`; `None` where it vanishes everywhere."""

    def confine(self, position, momentum):
        """Reflects position and momentum (or `None`) at the walls."""

    def sample(self, shape: tuple[int, int], seed: int):
        """Independent draws from the prior, numpy, `(walkers, parameters)`."""

    def from_normal(self, normal) -> tf.Tensor:
        """Draws from the prior, made of standard normal numbers of the same shape."""

    def get_config(self) -> dict: ...

    def __str__(self) -> str: ...


class Gaussian:
    """Independent Gaussians N(0, std²) for all parameters, V = θ'θ/(2 std²) + P log(std sqrt(2π)).

    Args:
        std: Standard deviation, above 0. Default: 1.

    Example:
        >>> str(Gaussian(2.0))
        'a Gaussian of standard deviation 2'
    """

    proper = True

    def __init__(self, std: float = 1.0) -> None:
        if not (std > 0 and math.isfinite(std)):
            raise InputError("prior_std: not a standard deviation.", received=std, expected="a finite number above 0")
        self.std = float(std)

    def log_prob(self, position) -> tf.Tensor:
        squares = tf.reduce_sum(tf.square(tf.cast(position, tf.float64)), axis=-1)
        normalisation = position.shape[-1] * math.log(self.std * math.sqrt(2 * math.pi))
        return -squares / (2 * self.std**2) - normalisation

    def gradient(self, position) -> tf.Tensor:
        return position * tf.constant(1 / self.std**2, position.dtype)

    def confine(self, position, momentum):
        return position, momentum

    def sample(self, shape: tuple[int, int], seed: int):
        return self.std * _generator(seed).standard_normal(shape)

    def from_normal(self, normal) -> tf.Tensor:
        return normal * tf.constant(self.std, normal.dtype)

    def get_config(self) -> dict:
        return {"prior": "gaussian", "prior_std": self.std}

    def __str__(self) -> str:
        return f"a Gaussian of standard deviation {self.std:g}"


class Box:
    """Uniform on abs(θ_i) < bound, V = P log(2 bound) inside and infinite outside.

    Metropolis methods reject what leaves the box; Langevin methods are reflected at its walls, with the momentum turned
    round.

    Args:
        bound: Half the width of the box, above 0. Default: 1.

    Example:
        >>> str(Box(3.0))
        'uniform between -3 and 3'
    """

    proper = True

    def __init__(self, bound: float = 1.0) -> None:
        if not (bound > 0 and math.isfinite(bound)):
            raise InputError("prior_bound: not a bound.", received=bound, expected="a finite number above 0")
        self.bound = float(bound)

    def log_prob(self, position) -> tf.Tensor:
        inside = tf.reduce_all(tf.abs(position) <= tf.constant(self.bound, position.dtype), axis=-1)
        height = tf.constant(-position.shape[-1] * math.log(2 * self.bound), tf.float64)
        return tf.where(inside, height, tf.constant(-math.inf, tf.float64))

    def gradient(self, position) -> None:
        return None

    def confine(self, position, momentum):
        # Unfolding the reflections makes motion in the box a triangle wave of period 4 bound.
        bound = tf.constant(self.bound, position.dtype)
        phase = tf.math.floormod(position + bound, 4 * bound)
        turned = phase > 2 * bound
        reflected = tf.where(turned, 3 * bound - phase, phase - bound)
        # Rounding may leave it outside by one bit, where the potential is infinite.
        reflected = tf.where(tf.abs(position) <= bound, position, tf.clip_by_value(reflected, -bound, bound))
        return reflected, None if momentum is None else tf.where(turned, -momentum, momentum)

    def sample(self, shape: tuple[int, int], seed: int):
        return _generator(seed).uniform(-self.bound, self.bound, shape)

    def from_normal(self, normal) -> tf.Tensor:
        return tf.math.erf(normal * tf.constant(math.sqrt(0.5), normal.dtype)) * tf.constant(self.bound, normal.dtype)

    def get_config(self) -> dict:
        return {"prior": "box", "prior_bound": self.bound}

    def __str__(self) -> str:
        return f"uniform between {-self.bound:g} and {self.bound:g}"


class Flat:
    """No prior: V = 0. Improper, so that directions in which the loss is flat have no equilibrium.

    Example:
        >>> Flat().proper
        False
    """

    proper = False

    def log_prob(self, position) -> tf.Tensor:
        return tf.zeros(position.shape[:1], tf.float64)

    def gradient(self, position) -> None:
        return None

    def confine(self, position, momentum):
        return position, momentum

    def sample(self, shape: tuple[int, int], seed: int):
        raise InputError("prior: one that is flat cannot be sampled.", received="none", expected="gaussian or box")

    def from_normal(self, normal) -> tf.Tensor:
        return self.sample(normal.shape, 0)

    def get_config(self) -> dict:
        return {"prior": "none"}

    def __str__(self) -> str:
        return "none"


def make_prior(options) -> Prior:
    """The prior that the options `prior`, `prior_std`, `prior_bound` name."""
    if options.prior == "gaussian":
        return Gaussian(options.prior_std)
    if options.prior == "box":
        return Box(options.prior_bound)
    return Flat()


def _generator(seed: int):
    import numpy as np

    return np.random.default_rng([seed, 0x5052])
