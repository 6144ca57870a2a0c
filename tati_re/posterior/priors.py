"""Priors of the parameters: V = -log prior, normalisation included, and the walls they put around the walkers."""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import numpy as np

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
    """Independent Gaussians N(0, s_i²), V = sum of θ_i²/(2 s_i²) + log(s_i sqrt(2π)).

    Args:
        std: s, above 0: a number for all parameters, or one for each, `(parameters,)`. Default: 1.
        fan_in: k of each parameter, `(parameters,)`: s_i = std/sqrt(k_i). Default: none.

    Raises:
        InputError: A standard deviation is not above 0.

    Example:
        >>> str(Gaussian(2.0))
        'a Gaussian of standard deviation 2'
    """

    proper = True

    def __init__(self, std=1.0, fan_in=None) -> None:
        self._width = _Width("prior_std", "a standard deviation", std, fan_in)
        self.std = self._width.values
        self.num_parameters = self._width.num_parameters

    def log_prob(self, position) -> tf.Tensor:
        squares = tf.reduce_sum(tf.square(tf.cast(position, tf.float64)) / (2 * self.std**2), axis=-1)
        return -squares - self._width.sum_of_logarithms(math.sqrt(2 * math.pi), position)

    def gradient(self, position) -> tf.Tensor:
        return position * tf.constant(1 / self.std**2, position.dtype)

    def confine(self, position, momentum):
        return position, momentum

    def sample(self, shape: tuple[int, int], seed: int):
        return self.std * _generator(seed).standard_normal(shape)

    def from_normal(self, normal) -> tf.Tensor:
        return normal * tf.constant(self.std, normal.dtype)

    def get_config(self) -> dict:
        return {"prior": "gaussian", **self._width.config()}

    def __str__(self) -> str:
        return f"a Gaussian of standard deviation {self._width}"


class Box:
    """Uniform on abs(θ_i) < bound_i, V = sum of log(2 bound_i) inside and infinite outside.

    Metropolis methods reject what leaves the box; Langevin methods are reflected at its walls, with the momentum turned
    round.

    Source: bounds by fan-in, f/sqrt(k_i): Baldock and Marzari (2019), with f = 50.

    Args:
        bound: Half the width of the box, above 0: a number for all parameters, or one for each, `(parameters,)`.
            Default: 1.
        fan_in: k of each parameter, `(parameters,)`: bound_i = bound/sqrt(k_i). Default: none.

    Raises:
        InputError: A bound is not above 0.

    Example:
        >>> str(Box(3.0))
        'uniform between -3 and 3'
    """

    proper = True

    def __init__(self, bound=1.0, fan_in=None) -> None:
        self._width = _Width("prior_bound", "a bound", bound, fan_in)
        self.bound = self._width.values
        self.num_parameters = self._width.num_parameters

    def log_prob(self, position) -> tf.Tensor:
        inside = tf.reduce_all(tf.abs(position) <= tf.constant(self.bound, position.dtype), axis=-1)
        height = tf.constant(-self._width.sum_of_logarithms(2.0, position), tf.float64)
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
        return {"prior": "box", **self._width.config()}

    def __str__(self) -> str:
        return f"uniform between {self._width.both_sides()}"


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


def make_prior(options, fan_in=None) -> Prior:
    """The prior that options name.

    Args:
        options: `prior`, `prior_std`, `prior_bound`, `prior_scaling`.
        fan_in: k of each parameter (:func:`tati_re.models.fan_in.fan_in_plus_one`), for `prior_scaling` fan_in.

    Raises:
        InputError: There is nothing to scale.
    """
    scaled = options.prior_scaling == "fan_in"
    if scaled and options.prior == "none":
        raise InputError("prior_scaling: there is no prior to scale.", "prior none", "prior gaussian or box")
    given = fan_in if scaled else None
    if options.prior == "gaussian":
        return Gaussian(options.prior_std, given)
    if options.prior == "box":
        return Box(options.prior_bound, given)
    return Flat()


def check_prior(prior: Prior, num_parameters: int) -> None:
    """Refuses a prior with one number a parameter that was made for another model.

    Raises:
        InputError: It has another number of parameters.
    """
    has = getattr(prior, "num_parameters", None)
    if has not in (None, num_parameters):
        raise InputError("prior: made for another number of parameters.", received=has, expected=num_parameters)


class _Width:
    """A number above 0 for each parameter, or one for all of them.

    Attributes:
        values: A float, or `(parameters,)`, float64.
        num_parameters: P, or `None` where one number stands for all.
    """

    def __init__(self, option: str, what: str, given, fan_in) -> None:
        self.option, self.given, self.fan_in = option, np.asarray(given, np.float64), fan_in is not None
        wrong = f"{option}: not {what}."
        if self.given.ndim > 1:
            raise InputError(wrong, f"shape {self.given.shape}", "a number, or one for each parameter")
        if not (self.given.size and np.all((self.given > 0) & np.isfinite(self.given))):
            found = self.given.tolist() if self.given.ndim == 0 else f"{self.given.min(initial=np.inf)} among them"
            raise InputError(wrong, received=found, expected="a finite number above 0")
        values = self.given if fan_in is None else self.given / np.sqrt(np.asarray(fan_in, np.float64))
        self.num_parameters = None if values.ndim == 0 else len(values)
        self.values = float(values) if values.ndim == 0 else values

    def sum_of_logarithms(self, factor: float, position) -> float:
        """Sum over the parameters of log(factor value)."""
        if self.num_parameters is None:
            return position.shape[-1] * math.log(factor * self.values)
        return float(np.sum(np.log(factor * self.values)))

    def config(self) -> dict:
        """One number, or the least and the greatest of one a parameter, and how they are scaled."""
        number = float(self.given) if self.given.ndim == 0 else [float(self.given.min()), float(self.given.max())]
        return {self.option: number, **({"prior_scaling": "fan_in"} if self.fan_in else {})}

    def __str__(self) -> str:
        if self.given.ndim == 0:
            return f"{self.given:g}/sqrt(k), k = fan-in + 1 of its layer" if self.fan_in else f"{self.given:g}"
        return f"of its own for each parameter, {self.values.min():g} to {self.values.max():g}"

    def both_sides(self) -> str:
        """The lower and the upper wall."""
        if self.given.ndim:
            return f"bounds {self}"
        return f"-{self.given:g}{'/sqrt(k)' if self.fan_in else ''} and {self}"


def _generator(seed: int):
    return np.random.default_rng([seed, 0x5052])
