"""Gaussian noise: of a standard deviation that is given, sampled, or predicted by the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.likelihoods.contract import StandardizedLikelihood
from tati_re.likelihoods.extra_parameters import (
    BY_TARGET,
    SAMPLED,
    ExtraParameter,
    noise_parameters,
    stacked,
)
from tati_re.likelihoods.laws import NormalLaw
from tati_re.likelihoods.outputs import tensorflow
from tati_re.likelihoods.rounding import log_hypot

LEAST_LOG_STD = -15.0
"""Smaller ones count as this, 3e-7, about where float32 no longer tells standardized targets
apart.
"""
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class GaussianNoise(StandardizedLikelihood):
    """Gaussian noise of a standard deviation that is given, or a parameter.

    Args:
        noise_std: The standard deviation above 0; "sampled": one parameter for all targets;
            "by_target": one for each. Default: 1.
        target_names: Names of the targets, for a noise of each. Default: none.
    """

    name = "gaussian"
    one_output = True
    scale_free = True
    settings = ("noise_std", "target_names")

    def __init__(self, noise_std: float | str = 1.0, target_names: Sequence[str] = ()) -> None:
        problem = "noise_std: under gaussian all rows have the same noise."
        known = not isinstance(noise_std, str) or noise_std in (SAMPLED, BY_TARGET)
        expected = "loss heteroscedastic_gaussian, or a number, sampled or by_target"
        refuse_if(not known, problem, noise_std, expected)
        self.noise_std = noise_std if isinstance(noise_std, str) else float(noise_std)
        self.target_names = list(target_names)

    @property
    def extra_parameters(self) -> tuple[ExtraParameter, ...]:
        return noise_parameters(self.noise_std, self.target_names)

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        if isinstance(self.noise_std, str):
            log_noise = stacked(extra)
            scaled = (targets - outputs) * tf.exp(-log_noise)
            values = tf.square(scaled) / 2 + (log_noise + _HALF_LOG_2PI)
        else:
            constant = _HALF_LOG_2PI + math.log(self.noise_std)
            values = tf.square((targets - outputs) / self.noise_std) / 2 + constant
        return tf.reduce_sum(values, axis=-1)

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        away = flat(targets) - np.asarray(outputs, np.float64)
        return normal_losses(away, self._noise(extra))

    def law(self, outputs: np.ndarray, extra: Any = None) -> NormalLaw:
        return NormalLaw(outputs, self._noise(extra))

    def _noise(self, extra: Any) -> Any:
        """The standard deviation in NumPy, a number or of shape (draws, 1, 1 or outputs)."""
        if not isinstance(self.noise_std, str):
            return self.noise_std
        noise = np.exp(extra)
        return np.tile(noise, self.places) if noise.shape[-1] > 1 else noise

    def named(self, names: Sequence[str]) -> GaussianNoise:
        return GaussianNoise(self.noise_std, names if self.noise_std == BY_TARGET else ())

    def describe(self) -> str:
        if self.noise_std == SAMPLED:
            return "Gaussian noise with a sampled standard deviation"
        if self.noise_std == BY_TARGET:
            return "Gaussian noise with a sampled standard deviation for each target"
        return f"Gaussian noise of standard deviation {self.noise_std:g}"


class PredictedGaussian(StandardizedLikelihood):
    """Gaussian noise whose standard deviation the network predicts.

    The outputs are the means and, behind them, the logarithms of the standard deviations. The
    variance of rounded targets is larger by the variance of the rounding.

    Args:
        least_std: Standard deviation of the rounding of each target, in the units of the network.
            Default: none, targets are not rounded.
    """

    name = "heteroscedastic_gaussian"
    settings = ("least_std",)
    outputs_per_target = 2
    one_output = True
    scale_free = True
    predicts_noise = True
    numbers_are_values = True

    def __init__(self, least_std: Sequence[float] = ()) -> None:
        self.least_std = [float(value) for value in least_std]

    @property
    def includes_rounding(self) -> bool:
        return bool(np.any(self.least_std))

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        tf = tensorflow()
        mean, log_std = tf.split(outputs, 2, axis=-1)
        log_std = tf.maximum(log_std, tf.constant(LEAST_LOG_STD, log_std.dtype))
        log_std = log_hypot(log_std, self.least_std)
        scaled = (targets - mean) * tf.exp(-log_std)
        return tf.reduce_sum(tf.square(scaled) / 2 + (log_std + _HALF_LOG_2PI), axis=-1)

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        law = self.law(outputs)
        return normal_losses(flat(targets) - law.center, law.width)

    def predicted(self, outputs: np.ndarray) -> np.ndarray:
        return self._halves(outputs)[0]

    def law(self, outputs: np.ndarray, extra: Any = None) -> NormalLaw:
        mean, log_std = self._halves(outputs)
        std = np.exp(np.maximum(log_std, LEAST_LOG_STD))
        if self.least_std:
            std = np.hypot(std, np.tile(self.least_std, self.places))
        return NormalLaw(mean, std)

    def _halves(self, outputs: np.ndarray) -> list[np.ndarray]:
        """Means and log deviations, shape (..., n, targets) each."""
        values = np.asarray(outputs, np.float64)
        by_place = values.reshape(*values.shape[:-1], self.places, -1)
        parts = np.split(by_place, 2, axis=-1)
        return [part.reshape(*values.shape[:-1], -1) for part in parts]

    def check_fit(self, outputs: tuple, targets: tuple, num_classes: int | None) -> None:
        if num_classes is None and tuple(outputs) == (*targets[:-1], 2 * targets[-1]):
            return
        problem = f"loss: {self.name} needs two outputs for each target of a regression."
        last = outputs[-1] if outputs else 1
        received = f"{last} outputs" if num_classes is None else f"{num_classes} classes"
        expected = "the means, followed by the logarithms of their standard deviations"
        raise InputError(problem, received, expected)

    def describe(self) -> str:
        return "Gaussian noise whose standard deviation the network predicts"


def flat(targets: np.ndarray) -> np.ndarray:
    """Targets (n, ...) as rows, (n, numbers), float64."""
    return np.asarray(targets, np.float64).reshape(len(targets), -1)


def normal_losses(away: np.ndarray, noise: Any) -> np.ndarray:
    """Minus the log density of differences under Gaussian noise, summed over the last axis.

    Args:
        away: Differences of targets and means, shape (..., n, targets).
        noise: Standard deviation: a number, or an array that broadcasts to this shape.
    """
    by_target = away**2 / (2 * noise**2) + np.log(noise * math.sqrt(2 * math.pi))
    return by_target.sum(axis=-1)
