"""What a likelihood is: the law of a target given the outputs of the network."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.preparation import Standard
from tati_re.likelihoods.laws import Law

VALUES, CLASSES = "regression", "classification"
"""What a likelihood predicts: numbers, or one of several classes."""


class Likelihood(ABC):
    """The law of a target given the outputs of the network, one independent law for each target.

    A class answers two questions, once in TensorFlow and once in NumPy: `log_prob` is the log
    density that is sampled, and `law` is the same law with mean, quantiles and draws for
    predictions. Training, sampling, predictions, intervals, PIT, leave-one-out, evidence and the
    report follow from these two.

    The outputs of an example come in `outputs_per_target` groups, one number for each target in
    each group; `parts` splits them. They are relative to the constants that `fitted` takes from the
    training targets, such as their mean, so that outputs of order 1 describe targets of any unit.

    Attributes:
        name: What users type, as in `loss="student_t"`.
        kind: `VALUES` or `CLASSES`.
        outputs_per_target: Numbers that the network gives for one target, at least 1.
        target_columns: Columns of the labels for one target; 2 where a column says whether the
            other is censored.
        discrete: Whether targets are whole numbers, so that the law has probabilities in place of
            a density.
        settings: Names of the constructor's parameters, which `get_config` gives back.
        constants: Names of the attributes that `fitted` sets; the configuration holds them too.
    """

    name: ClassVar[str] = ""
    kind: ClassVar[str] = VALUES
    outputs_per_target: ClassVar[int] = 1
    target_columns: ClassVar[int] = 1
    discrete: ClassVar[bool] = False
    settings: ClassVar[tuple[str, ...]] = ()
    constants: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def log_prob(self, targets: Any, outputs: Any) -> Any:
        """Log density of each example, in TensorFlow.

        Args:
            targets: Labels in the units of the data, shape (n, targets * target_columns), floats of
                the outputs' type.
            outputs: Outputs of the network, shape (n, targets * outputs_per_target).

        Returns:
            Log densities summed over the targets of an example, constants included, shape (n,).
        """

    @abstractmethod
    def law(self, outputs: np.ndarray) -> Law:
        """The law of the targets in the units of the data, in NumPy.

        Args:
            outputs: Outputs of the network, shape (draws, n, targets * outputs_per_target),
                float64.

        Returns:
            The laws of all targets, of shape (draws, n, targets).
        """

    @abstractmethod
    def describe(self) -> str:
        """The law in a few words, as they stand in the first lines of a run."""

    def check(self, targets: np.ndarray) -> None:
        """Refuses labels that the law cannot have produced.

        Args:
            targets: Labels of the data, shape (n, columns), float64.

        Raises:
            InputError: Labels outside of the support, with the first of them. Default: numbers
                that are not finite.
        """
        refuse_targets(~np.isfinite(targets), targets, self.name, "finite numbers")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """The likelihood with its constants taken from the training targets.

        Args:
            targets: Labels, shape (n, columns), float64.
            weights: Weights of the examples, shape (n,). Default: all count alike.

        Returns:
            A copy with `constants` set; the original is unchanged.
        """
        del weights
        self.check(targets)
        return copy.copy(self)

    def num_outputs(self, columns: int) -> int:
        """Outputs that the network needs for labels of so many columns."""
        return self.num_targets(columns) * self.outputs_per_target

    def num_targets(self, columns: int) -> int:
        """Targets that labels of so many columns hold.

        Raises:
            InputError: Columns that cannot be grouped into targets.
        """
        what = f"loss: {self.name} needs {self.target_columns} columns of labels for each target."
        refuse_if(
            columns % self.target_columns,
            what,
            f"{columns} columns",
            f"a multiple of {self.target_columns}",
        )
        return columns // self.target_columns

    def log_likelihood(self, targets: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Log density of each example under each draw, in NumPy.

        Args:
            targets: Labels in the units of the data, shape (n, columns), float64.
            outputs: Outputs of the network, shape (draws, n, outputs), float64.

        Returns:
            Log densities summed over the targets of an example, shape (draws, n).
        """
        return self.law(outputs).log_prob(targets).sum(axis=-1)

    def class_log_probs(self, outputs: Any) -> Any:
        """log p of each class, in TensorFlow, of likelihoods of classes.

        Args:
            outputs: Outputs of the network, shape (n, outputs).

        Returns:
            Logarithms, shape (n, classes).
        """
        raise NotImplementedError(f"{self.name} describes values, not classes.")

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """log p of each class, in NumPy, of likelihoods of classes.

        Args:
            outputs: Outputs of the network, shape (..., outputs), float64.

        Returns:
            Logarithms, shape (..., classes).
        """
        raise NotImplementedError(f"{self.name} describes values, not classes.")

    def get_config(self) -> dict[str, Any]:
        """Name, settings and constants as plain numbers, from which `from_config` makes it again."""
        config: dict[str, Any] = {"name": self.name}
        for key in self.settings:
            config[key] = attrgetter(key)(self)
        for key in self.constants:
            config[key] = np.asarray(attrgetter(key)(self), np.float64).tolist()
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """A likelihood from what `get_config` gave.

        Raises:
            InputError: A configuration that lacks a setting or a constant.
        """
        needed = (*cls.settings, *cls.constants)
        if missing := [key for key in needed if key not in config]:
            what = f"The likelihood {cls.name} lacks {', '.join(missing)}."
            raise InputError(what, ", ".join(config), ", ".join(needed))
        likelihood = cls(**{key: config[key] for key in cls.settings})
        for key in cls.constants:
            setattr(likelihood, key, np.asarray(config[key], np.float64))
        return likelihood

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={attrgetter(key)(self)!r}" for key in self.settings)
        return f"{type(self).__name__}({settings})"


class LocationScale(Likelihood):
    """A likelihood of values y = location + scale * (m + exp(s) z), whose z has a fixed law.

    The outputs are m, the standardized center, and s, the logarithm of the standardized width.
    `location` and `scale` are mean and standard deviation of the training targets.
    """

    outputs_per_target = 2
    constants = ("location", "scale")

    location: Any = 0.0
    scale: Any = 1.0

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        likelihood.location, likelihood.scale = moments_of(targets, weights)
        return likelihood

    def center_and_width(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Center and width of the laws in the units of the data, each (draws, n, targets)."""
        center, log_width = parts(outputs, 2)
        return self.location + self.scale * center, self.scale * np.exp(log_width)

    def standardized(self, targets: Any, outputs: Any) -> tuple[Any, Any]:
        """z and log(scale * exp(s)) of targets, in TensorFlow, each of shape (n, targets)."""
        tf = tensorflow()
        center, log_width = tf.split(outputs, 2, axis=-1)
        scale = tf.constant(self.scale, outputs.dtype)
        location = tf.constant(self.location, outputs.dtype)
        z = ((targets - location) / scale - center) * tf.exp(-log_width)
        return z, log_width + tf.math.log(scale)


def tensorflow() -> Any:
    """TensorFlow, imported by the first log density, so that predictions of runs do without it."""
    from tati_re.core.backend import tf

    return tf


def parts(outputs: np.ndarray, count: int) -> list[np.ndarray]:
    """The groups of the outputs, `count` arrays of shape (..., targets)."""
    return np.split(np.asarray(outputs, np.float64), count, axis=-1)


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


def refuse_targets(wrong: np.ndarray, targets: np.ndarray, name: str, expected: str) -> None:
    """Refuses labels where `wrong`, of their shape, says so, with the first of them.

    Raises:
        InputError: A label is wrong.
    """
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
    first = np.asarray(targets)[wrong][0]
    what = f"loss: {name} cannot describe these labels."
    raise InputError(what, f"{first:g} in row {row + 1}", expected)


LOG_2PI = math.log(2 * math.pi)
