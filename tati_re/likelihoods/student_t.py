"""Values with heavy tails: Student's t and Laplace noise whose width the network predicts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.likelihoods.contract import LocationScale, tensorflow
from tati_re.likelihoods.laws import ScipyLaw


class StudentTNoise(LocationScale):
    """Student's t noise whose center and width the network predicts.

    Robust against outliers: a row 10 widths away costs 10 nats where Gaussian noise costs 50.

    Args:
        degrees_of_freedom: ν above 2, so that the variance is finite; large values approach
            Gaussian noise. Default: 4.

    Raises:
        InputError: Degrees of freedom of 2 or less.
    """

    name = "student_t"
    settings = ("degrees_of_freedom",)

    def __init__(self, degrees_of_freedom: float = 4.0) -> None:
        what = "degrees_of_freedom: the variance of the noise is not finite."
        refuse_if(
            not 2 < degrees_of_freedom < math.inf,
            what,
            degrees_of_freedom,
            "a number above 2, such as 4",
        )
        self.degrees_of_freedom = float(degrees_of_freedom)

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        z, log_width = self.standardized(targets, outputs)
        freedom = self.degrees_of_freedom
        constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
        constant -= 0.5 * math.log(freedom * math.pi)
        tail = (freedom + 1) / 2 * tf.math.log1p(tf.square(z) / freedom)
        return tf.reduce_sum(constant - log_width - tail, axis=-1)

    def law(self, outputs: np.ndarray) -> ScipyLaw:
        from scipy import stats

        center, width = self.center_and_width(outputs)
        parameters = {"df": self.degrees_of_freedom, "loc": center, "scale": width}
        return ScipyLaw(stats.t, parameters)

    def describe(self) -> str:
        freedom = self.degrees_of_freedom
        return (
            f"Student's t noise with {freedom:g} degrees of freedom; the network predicts its width"
        )


class LaplaceNoise(LocationScale):
    """Laplace noise whose median and width the network predicts."""

    name = "laplace"

    def log_prob(self, targets: Any, outputs: Any) -> Any:
        tf = tensorflow()
        z, log_width = self.standardized(targets, outputs)
        return tf.reduce_sum(-math.log(2) - log_width - tf.abs(z), axis=-1)

    def law(self, outputs: np.ndarray) -> ScipyLaw:
        from scipy import stats

        center, width = self.center_and_width(outputs)
        return ScipyLaw(stats.laplace, {"loc": center, "scale": width})

    def describe(self) -> str:
        return "Laplace noise whose width the network predicts"
