"""Values with heavy tails: Student's t and Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.core.front_door import front_door
from tati_re.likelihoods.extra_parameters import PREDICTED, SAMPLED, ExtraParameter
from tati_re.likelihoods.laws import ScipyLaw
from tati_re.likelihoods.location_scale import LocationScale
from tati_re.likelihoods.outputs import tensorflow
from tati_re.likelihoods.rounding import AUTO


class StudentTNoise(LocationScale):
    """Student's t noise around a center that the network predicts.

    It is robust against outliers: a row 10 widths away costs 13 nats, compared with 50 for Gaussian
    noise; with 4 degrees of freedom 8 nats.

    Args:
        degrees_of_freedom: ν, above 2 for a finite variance; large values approach Gaussian noise.
            "sampled": ν is a parameter, and ν - 2 has a Gamma prior of shape 2 and mean 20.
            Default: 10.
        noise_std: The width: "predicted" by the network, "sampled", "by_target", or a number in the
            units of the targets. Default: predicted.
        target_names: Names of the targets, for one width each. Default: none.
        rounding: "auto" or "none": whether a predicted width includes the rounding of the targets.
            Default: auto.

    Raises:
        InputError: The degrees of freedom are 2 or less, or the width is invalid.

    Examples:
        >>> from tati_re.likelihoods import StudentTNoise
        >>> StudentTNoise(degrees_of_freedom=5.0).discrete
        False
    """

    name = "student_t"
    settings = ("degrees_of_freedom", "noise_std", "target_names", "rounding")

    @front_door
    def __init__(
        self,
        degrees_of_freedom: float | str = 10.0,
        noise_std: float | str = PREDICTED,
        target_names: Sequence[str] = (),
        rounding: str = AUTO,
    ) -> None:
        super().__init__(noise_std, target_names, rounding)
        if degrees_of_freedom != SAMPLED:
            problem = "degrees_of_freedom: the variance of the noise is not finite."
            wrong = isinstance(degrees_of_freedom, str) or not 2 < degrees_of_freedom < math.inf
            expected = "a number above 2, such as 4, or sampled"
            refuse_if(wrong, problem, degrees_of_freedom, expected)
            degrees_of_freedom = float(degrees_of_freedom)
        self.degrees_of_freedom = degrees_of_freedom

    @property
    def extra_parameters(self) -> tuple[ExtraParameter, ...]:
        of_width = super().extra_parameters
        if self.degrees_of_freedom != SAMPLED:
            return of_width
        return (*of_width, _DEGREES)

    def log_prob(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        of_width, freedom = self._split(extra)
        z, log_width = self.standardized(targets, outputs, of_width)
        constant: Any
        if freedom is None:
            freedom = float(self.degrees_of_freedom)
            constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
            constant -= 0.5 * math.log(freedom * math.pi)
        else:
            freedom = _DEGREES.value(freedom[0], exp=tf.exp)
            constant = _log_constant(freedom)
        tail = (freedom + 1) / 2 * tf.math.log1p(tf.square(z) / freedom)
        return tf.reduce_sum(constant - log_width - tail, axis=-1)

    def law(self, outputs: np.ndarray, extra: Any = None) -> ScipyLaw:
        from scipy import stats

        of_width, freedom = self._split(extra)
        center, width = self.center_and_width(outputs, of_width)
        degrees = self.degrees_of_freedom if freedom is None else _DEGREES.value(freedom)
        return ScipyLaw(stats.t, {"df": degrees, "loc": center, "scale": width})

    def _split(self, extra: Any) -> tuple[Any, Any]:
        """The parameters of the width, and those of the degrees of freedom, or None."""
        if self.degrees_of_freedom != SAMPLED:
            return extra, None
        if isinstance(extra, np.ndarray):
            return extra[..., :-1], extra[..., -1:]
        return extra[:-1], extra[-1:]

    def describe(self) -> str:
        freedom = f"{self.degrees_of_freedom:g}" if self._given() else "sampled"
        return f"Student's t noise with {freedom} degrees of freedom; {self.width_text()}"

    def _given(self) -> bool:
        return not isinstance(self.degrees_of_freedom, str)


_SHIFTS = 4
_SERIES = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336)
"""Coefficients of 1/x, 1/x³, 1/x⁵ and 1/x⁷ of log Γ(x + 1/2) - log Γ(x) - log(x)/2."""


def _log_constant(freedom: Any) -> Any:
    """The logarithm of the density at 0 for width 1, from its series for large arguments.

    A difference of two log Gamma functions has few digits in single precision, and its derivative
    takes XLA half a minute to compile. Γ(x + 1) = x Γ(x) carries the argument to 5 or more, where
    the series is off by 1e-9 at most.

    Source: NIST Digital Library of Mathematical Functions, 5.11.13.

    Args:
        freedom: Degrees of freedom above 2, a tensor.

    Returns:
        log Γ((ν + 1)/2) - log Γ(ν/2) - log(ν π)/2, of the same shape.
    """
    tf = tensorflow()
    half = 0.5 * freedom
    inverse = 1.0 / (half + _SHIFTS)
    series: Any = 0.0
    for coefficient in reversed(_SERIES):
        series = coefficient + tf.square(inverse) * series
    carried = 0.5 * tf.math.log1p(_SHIFTS / half)
    for shift in range(_SHIFTS):
        carried -= tf.math.log1p(0.5 / (half + shift))
    return inverse * series + carried - 0.5 * math.log(2 * math.pi)


_DEGREES = ExtraParameter(
    "log_degrees_of_freedom",
    "degrees_of_freedom",
    law="gamma",
    scale=10.0,
    shape=2.0,
    start=8.0,
    least=2.0,
)
"""The prior of ν of M. Juárez and M. Steel, J. Bus. Econ. Stat. 28 (2010), moved by 2."""


class LaplaceNoise(LocationScale):
    """Laplace noise around a median that the network predicts.

    Args:
        noise_std: The width, E|y - median|: "predicted" by the network, "sampled", "by_target", or
            a number in the units of the targets. Default: predicted.
        target_names: Names of the targets, for one width each. Default: none.
        rounding: "auto" or "none": whether a predicted width includes the rounding of the targets.
            Default: auto.
    """

    name = "laplace"
    settings = ("noise_std", "target_names", "rounding")

    def log_prob(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        z, log_width = self.standardized(targets, outputs, extra)
        return tf.reduce_sum(-math.log(2) - log_width - tf.abs(z), axis=-1)

    def law(self, outputs: np.ndarray, extra: Any = None) -> ScipyLaw:
        from scipy import stats

        center, width = self.center_and_width(outputs, extra)
        return ScipyLaw(stats.laplace, {"loc": center, "scale": width})

    def describe(self) -> str:
        if self.noise_std == PREDICTED:
            return "Laplace noise whose width the network predicts"
        return f"Laplace noise; {self.width_text()}"
