"""A quantile of the target: the pinball loss, which has no density."""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.likelihoods.contract import Objective
from tati_re.likelihoods.gaussian import flat
from tati_re.likelihoods.outputs import tensorflow


class Pinball(Objective):
    """The mean of max(q (y - f), (q - 1) (y - f)), least where f is the quantile q of the target.

    It says nothing of the law of a target, so that its predictions are of the quantile alone.

    Source: R. Koenker and G. Bassett, Econometrica 46 (1978).

    Args:
        quantile_level: q, the probability below the quantile, between 0 and 1. Default: 0.5, the
            median.

    Raises:
        InputError: A level that is no probability.
    """

    name = "pinball"
    one_output = True
    numbers_are_values = True
    settings = ("quantile_level",)

    def __init__(self, quantile_level: float = 0.5) -> None:
        problem = "quantile_level is out of range."
        refuse_if(not 0 < quantile_level < 1, problem, quantile_level, "a number between 0 and 1")
        self.quantile_level = float(quantile_level)

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        away = targets - outputs
        level = tf.constant(self.quantile_level, away.dtype)
        return tf.reduce_mean(tf.maximum(level * away, (level - 1) * away), axis=-1)

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        away = flat(targets) - np.asarray(outputs, np.float64)
        level = self.quantile_level
        return np.maximum(level * away, (level - 1) * away).mean(axis=-1)

    def numbers_averaged(self, columns: int) -> int:
        return columns

    def describe(self) -> str:
        return f"the pinball loss of the quantile {self.quantile_level:g}, which has no density"
