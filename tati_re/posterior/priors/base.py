"""Common parts of the priors, and the widths of their parameters."""

import math
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.potential import Prior


@front_doors
class ScaleFamily(Prior):
    """Independent distributions of one shape: θ_i = s_i x, with x from a standard distribution.

    Args:
        scale: s, above 0: one number, or one per parameter, (parameters,). Default: 1.
        fan_in: Fan-in k of each parameter, (parameters,); s is divided by sqrt(k). Default: None,
            not divided.
        words: Description of the widths for messages. Default: None, their numbers.

    Attributes:
        scale: s, a float, or shape (parameters,), float64.
        name: The family's name in the option `prior`.
        option: The option that sets s.
        quantity: What s is, in sentences, such as "a standard deviation".
        constant: Integral of exp(-`standard_potential`), which normalizes the density.
        standard_potential: Function of x, entry by entry: -log of the standard density without its
            constant, float64.
        standard_gradient: Its slope, in the type of x.
        standard_from_normal: Maps standard normal numbers to x of equal probability below.
        quantile: The same map on NumPy arrays.
        score: The inverse of `quantile`.
    """

    proper = True
    name: str
    option: str
    quantity: str
    constant: float
    standard_potential: Any
    standard_gradient: Any
    standard_from_normal: Any
    quantile: Any
    score: Any

    def __init__(self, scale=1.0, fan_in=None, words: str | None = None) -> None:
        self.width = Width(self.option, self.quantity, scale, fan_in, words)
        self.scale = self.width.values
        self.num_parameters = self.width.num_parameters

    def log_prob(self, position) -> tf.Tensor:
        standard = self.standard_potential(tf.cast(position, tf.float64) / self.scale)
        return -tf.reduce_sum(standard, axis=-1) - self.width.sum_of_logarithms(
            self.constant, position
        )

    def gradient(self, position) -> tf.Tensor | None:
        inverse = tf.constant(1 / self.scale, position.dtype)
        return inverse * self.standard_gradient(position * inverse)

    def from_normal(self, normal) -> tf.Tensor:
        return tf.constant(self.scale, normal.dtype) * self.standard_from_normal(normal)

    def get_config(self) -> dict:
        return {"prior": self.name, **self.width.config()}


class Width:
    """A finite number above 0 for each parameter, or one for all of them.

    Args:
        option: Name of the option in sentences.
        quantity: What the number is, in sentences, such as "a scale".
        given: One number, or one per parameter, (parameters,).
        fan_in: Fan-in k of each parameter, (parameters,). Default: None, not used.
        words: Description of the widths in sentences. Default: None, their numbers.

    Attributes:
        values: The widths, given/sqrt(k) with fan-ins: a float, or (parameters,), float64.
        num_parameters: Number of parameters; None where one number stands for all.

    Raises:
        InputError: A number is not finite or not above 0, or has more than one axis.
    """

    def __init__(
        self, option: str, quantity: str, given, fan_in=None, words: str | None = None
    ) -> None:
        self.option = option
        self.given = np.asarray(given, np.float64)
        self.fan_in = fan_in is not None
        self.words = words
        wrong = f"{option} is not {quantity}."
        refuse_if(
            self.given.ndim > 1,
            wrong,
            f"shape {self.given.shape}",
            "a number, or one for each parameter",
        )
        if not (self.given.size and np.all((self.given > 0) & np.isfinite(self.given))):
            received = (
                self.given.tolist()
                if self.given.ndim == 0
                else f"the smallest is {self.given.min(initial=np.inf)}"
            )
            raise InputError(wrong, received=received, expected="a finite number above 0")
        values = (
            self.given if fan_in is None else self.given / np.sqrt(np.asarray(fan_in, np.float64))
        )
        self.num_parameters = None if values.ndim == 0 else len(values)
        self.values = float(values) if values.ndim == 0 else values

    def sum_of_logarithms(self, factor: float, position) -> float:
        """Sum over the parameters of log(factor value).

        Args:
            factor: Factor of each width, above 0.
            position: Positions, (walkers, parameters); only the number of parameters counts.
        """
        if self.num_parameters is None:
            return position.shape[-1] * math.log(factor * self.values)
        return float(np.sum(np.log(factor * self.values)))

    def config(self) -> dict:
        """One number, or the least and the greatest of one a parameter, and how they are scaled."""
        number = (
            float(self.given)
            if self.given.ndim == 0
            else [float(self.given.min()), float(self.given.max())]
        )
        return {self.option: number, **({"prior_scaling": "fan_in"} if self.fan_in else {})}

    def __str__(self) -> str:
        scaled = "/sqrt(k), k = fan-in + 1 of its layer" if self.fan_in else ""
        if self.words is not None:
            return f"({self.words}){scaled}" if scaled else self.words
        if self.given.ndim == 0:
            return f"{self.given:g}{scaled}"
        return f"{np.min(self.values):g} to {np.max(self.values):g}, one per parameter"
