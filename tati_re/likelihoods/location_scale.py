"""Likelihoods that know location, scale and rounding of the training targets."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.renamed import renamed_attribute
from tati_re.data.preparation import Standard
from tati_re.likelihoods.contract import Likelihood
from tati_re.likelihoods.extra_parameters import (
    BY_TARGET,
    PREDICTED,
    SAMPLED,
    ExtraParameter,
    noise_parameters,
    stacked,
)
from tati_re.likelihoods.outputs import parts, tensorflow
from tati_re.likelihoods.rounding import AUTO, NONE, check_rounding, least_std, log_hypot

_FAR = 1e3
"""Spreads from 0 beyond which float32 holds targets with fewer than four digits of their spread."""


class RoundedLikelihood(Likelihood):
    """A likelihood whose predicted spread includes the rounding of the targets.

    Args:
        rounding: "auto": a predicted spread includes the rounding of the targets, where at least half
            of them occur more than once. "none": it may come down to 0. Default: auto.
    """

    settings: ClassVar[tuple[str, ...]] = ("rounding",)
    later_settings: ClassVar[Mapping[str, Any]] = {"rounding": NONE}

    rounding: str = AUTO

    @front_door
    def __init__(self, rounding: str = AUTO) -> None:
        self.rounding = check_rounding(rounding)

    @property
    def is_far(self) -> bool:
        """Whether targets are so far from 0, in units of their spread, that float32 does not hold
        them.
        """
        return False

    def stored(self, targets: np.ndarray, dtype: type) -> np.ndarray:
        return super().stored(targets, np.float64 if self.is_far else dtype)

    def least_std(self, targets: np.ndarray) -> np.ndarray:
        """Returns the standard deviation of the rounding of training targets.

        Args:
            targets: Values in the units of the data, shape (n, targets).

        Returns:
            Deviations, shape (targets,); 0 where the rounding does not count.
        """
        if self.rounding == NONE:
            return np.zeros(np.shape(targets)[-1])
        return least_std(targets)


class ScaledLikelihood(RoundedLikelihood):
    """A likelihood with the location and scale of the training targets, or of their logarithms.

    Attributes:
        location: Mean of the targets, shape (targets,).
        scale: Their standard deviation, shape (targets,).
        least_width: Standard deviation of their rounding in units of `scale`, shape (targets,).
    """

    constants = ("location", "scale", "least_width")
    later_settings: ClassVar[Mapping[str, Any]] = {
        **RoundedLikelihood.later_settings,
        "least_width": 0.0,
    }

    location: Any = 0.0
    scale: Any = 1.0
    least_width: Any = 0.0

    @property
    def includes_rounding(self) -> bool:
        return bool(np.any(self.least_width))

    @property
    def is_far(self) -> bool:
        return bool(np.any(np.abs(self.location) > _FAR * np.asarray(self.scale)))


class LocationScale(ScaledLikelihood):
    """A likelihood of values y = location + scale * (m + exp(s) z), where z has a fixed
    distribution.

    The network outputs are m, the standardized center, and s, the logarithm of the standardized
    width. `location` and `scale` are the mean and standard deviation of the training targets. The
    width of rounded targets is √(exp(2s) + `least_width`²), where `least_width` is the standardized
    deviation of the rounding.

    A subclass that passes `noise_std` to this constructor, and forwards `extra`, also supports
    fixed and sampled widths. Then m is the only output.

    Args:
        noise_std: "predicted": s is an output. "sampled": s is one parameter for all targets.
            "by_target": s is one parameter per target. A number: the width in the units of the
            targets. Default: predicted.
        target_names: Names of the targets, for one width each. Default: none.
        rounding: "auto": a predicted width includes the rounding of the targets, where at least half
            of them occur more than once. "none": it may come down to 0. Default: auto.
    """

    outputs_per_target = 2
    settings: ClassVar[tuple[str, ...]] = ()
    later_settings: ClassVar[Mapping[str, Any]] = {
        **ScaledLikelihood.later_settings,
        "noise_std": PREDICTED,
        "target_names": [],
    }

    noise_std: float | str = PREDICTED
    target_names: Sequence[str] = ()

    @front_door
    def __init__(
        self,
        noise_std: float | str = PREDICTED,
        target_names: Sequence[str] = (),
        rounding: str = AUTO,
    ) -> None:
        super().__init__(rounding)
        words = (PREDICTED, SAMPLED, BY_TARGET)
        number = not isinstance(noise_std, str) and 0 < noise_std < math.inf
        expected = f"a number above 0, {', '.join(words)}"
        problem = f"noise_std: the noise of {self.name} is unknown."
        refuse_if(noise_std not in words and not number, problem, noise_std, expected)
        fixed = noise_std != PREDICTED and "noise_std" not in self.settings
        problem = f"noise_std: the network predicts the width of {self.name}."
        refuse_if(fixed, problem, noise_std, "no noise_std")
        self.noise_std = noise_std if isinstance(noise_std, str) else float(noise_std)
        self.target_names = list(target_names)
        self.outputs_per_target = 2 if noise_std == PREDICTED else 1

    @property
    def extra_parameters(self) -> tuple[ExtraParameter, ...]:
        units = np.atleast_1d(np.asarray(self.scale, np.float64)).tolist()
        return noise_parameters(self.noise_std, self.target_names, units)

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        likelihood.location, likelihood.scale = moments_of(targets, weights)
        if self.noise_std == PREDICTED:
            likelihood.least_width = self.least_std(targets) / likelihood.scale
        return likelihood

    def named(self, names: Sequence[str]) -> Self:
        likelihood = copy.copy(self)
        likelihood.target_names = list(names) if self.noise_std == BY_TARGET else []
        return likelihood

    def center_and_width(
        self, outputs: np.ndarray, extra: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns center and width of the distributions in the units of the data, each (draws, n,
        targets).

        Args:
            outputs: Outputs of the network, shape (draws, n, outputs).
            extra: Widths that are parameters, shape (draws, 1, 1 or targets). Default: None.

        Returns:
            Centers and widths.
        """
        if self.noise_std == PREDICTED:
            center, log_width = parts(outputs, 2)
            width = np.hypot(np.exp(log_width), self.least_width)
            return self.location + self.scale * center, self.scale * width
        center = self.location + self.scale * np.asarray(outputs, np.float64)
        if isinstance(self.noise_std, str):
            return center, np.broadcast_to(self.scale * np.exp(extra), center.shape)
        return center, np.full(center.shape, self.noise_std)

    def standardized(self, targets: Any, outputs: Any, extra: Any = None) -> tuple[Any, Any]:
        """Returns z and log(scale * exp(s)) of targets, in TensorFlow, each of shape (n, targets).

        Args:
            targets: Labels in the units of the data, shape (n, targets); float64 if they are far
                from 0.
            outputs: Outputs of the network, shape (n, outputs).
            extra: Widths that are parameters, one number each. Default: None.

        Returns:
            z and the logarithm.
        """
        tf = tensorflow()
        scale = tf.constant(self.scale, outputs.dtype)
        away = targets - tf.constant(self.location, targets.dtype)
        values = tf.cast(away / tf.constant(self.scale, targets.dtype), outputs.dtype)
        if self.noise_std == PREDICTED:
            center, log_width = tf.split(outputs, 2, axis=-1)
            log_width = log_hypot(log_width, self.least_width)
        else:
            center, log_width = outputs, self._log_width(outputs, extra)
        z = (values - center) * tf.exp(-log_width)
        return z, log_width + tf.math.log(scale)

    def _log_width(self, outputs: Any, extra: Any) -> Any:
        """s of shape (n, targets) where the network does not predict it."""
        tf = tensorflow()
        if isinstance(self.noise_std, str):
            return stacked(extra) + tf.zeros_like(outputs)
        log_width = np.log(self.noise_std) - np.log(np.asarray(self.scale, np.float64))
        return tf.constant(log_width, outputs.dtype) + tf.zeros_like(outputs)

    def width_text(self) -> str:
        """Describes how the width is determined, in a few words.

        Returns:
            A few words.
        """
        if self.noise_std == PREDICTED:
            return "the network predicts its width"
        if isinstance(self.noise_std, str):
            of = " of each target" if self.noise_std == BY_TARGET else ""
            return f"its width{of} is sampled"
        return f"its width is {self.noise_std:g}"

    width_said = renamed_attribute("width_said", "width_text")


def moments_of(
    targets: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; a column that does not vary has deviation 1.

    Args:
        targets: Numbers, shape (n, columns).
        weights: Weights of the rows, shape (n,). Default: all count alike.
    """
    standard = Standard.of(np.asarray(targets, np.float64), weights)
    return standard.mean, standard.deviation
