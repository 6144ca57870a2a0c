"""Mean squared and mean absolute errors: losses of differences, without a density."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tati_re.likelihoods.contract import Objective
from tati_re.likelihoods.gaussian import flat
from tati_re.likelihoods.laws import NormalLaw
from tati_re.likelihoods.outputs import tensorflow


class MeanSquaredError(Objective):
    """The mean of the squares over the outputs.

    As a log likelihood it stands for Gaussian noise of variance k/2 with k outputs, of which
    predictions make use; its constant is not counted.
    """

    name = "mean_squared_error"
    one_output = True
    has_law = True

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        return tf.reduce_mean(tf.square(targets - outputs), axis=-1)

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        return ((flat(targets) - np.asarray(outputs, np.float64)) ** 2).mean(axis=-1)

    def law(self, outputs: np.ndarray, extra: Any = None) -> NormalLaw:
        """Normal laws of the targets with variance k/2 for k outputs.

        Args:
            outputs: Outputs of the network, shape (..., n, k), the means.
            extra: Not used. Default: None.
        """
        return NormalLaw(outputs, self.noise_of(outputs.shape[-1]))

    def noise_of(self, columns: int) -> float:
        """The standard deviation that the error over so many outputs stands for."""
        return math.sqrt(columns / 2)

    def without_constant(self, columns: int) -> str:
        return (
            "The mean squared error as a log likelihood implies Gaussian noise of standard "
            f"deviation {self.noise_of(columns):.4g}. Use loss='gaussian' with noise_std to set it."
        )

    def left_out(self, columns: int) -> float:
        return float(columns / 2 * np.log(np.pi * columns))

    def describe(self) -> str:
        return "the mean squared error"


class MeanAbsoluteError(Objective):
    """The mean of the absolute differences over the outputs."""

    name = "mean_absolute_error"
    one_output = True

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        return tf.reduce_mean(tf.abs(targets - outputs), axis=-1)

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        return np.abs(flat(targets) - np.asarray(outputs, np.float64)).mean(axis=-1)

    def numbers_averaged(self, columns: int) -> int:
        return columns

    def describe(self) -> str:
        return "the mean absolute error"
