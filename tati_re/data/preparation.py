"""Preparation of inputs and targets for the network: derived columns, standardization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.data.columns import Column, Columns

_HARDLY = 0.1  # Of the deviation of all series, that of a feature which hardly varies.


def mean_and_deviation(
    values: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of examples, with divisor N.

    Each column has its own, as has each channel of images of shape (N, height, width, channels).
    Images of shape (N, height, width) have one of all pixels. Series of shape (N, times, features)
    have one for each feature if a feature hardly varies compared with the others.

    Args:
        values: Numbers, shape (N, ...).
        weights: Weight of each example, shape (N,). Default: None, 1 each.

    Returns:
        Mean and deviation, float64, broadcastable with the values.
    """
    pooled = values.ndim == 3 and not _series(values)
    axes = tuple(range(3 if pooled else max(1, values.ndim - 1)))
    if weights is None:
        mean = values.mean(axes, dtype=np.float64)
        deviation = values.std(axes, dtype=np.float64)
    else:
        share = (weights / weights.mean()).reshape(-1, *[1] * (values.ndim - 1))
        mean = np.asarray((share * values).mean(axes, dtype=np.float64))
        deviation = np.sqrt((share * (values - mean) ** 2).mean(axes, dtype=np.float64))
    # The mean of equal numbers may differ from them by rounding.
    return np.asarray(mean), np.where(deviation <= 1e-12 * np.abs(mean), 0.0, deviation)


def _series(values: np.ndarray) -> bool:
    """Whether a feature that is mostly not one number, as the border of images is, has a small part
    of all spread.
    """
    varied = (values != np.median(values, (0, 1))).mean((0, 1)) > 0.5
    return bool(
        (
            varied & (values.std((0, 1), dtype=np.float64) < _HARDLY * values.std(dtype=np.float64))
        ).any()
    )


@dataclass(frozen=True, eq=False)
class Standard:
    """Standardizes by (value - mean) / deviation, which is above 0; both float64, broadcastable."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray | None = None) -> Standard:
        """Standardizes by mean and deviation of the training set.

        Args:
            values: Numbers of the training set, shape (N, ...).
            weights: Weight of each example, shape (N,). Default: None, 1 each.

        Returns:
            The standard; numbers that do not vary have deviation 1.

        Raises:
            InputError: Numbers are too large for a standard deviation.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = mean_and_deviation(values, weights)
        if not np.isfinite(deviation).all():
            problem = "data: numbers are too large for a standard deviation."
            raise InputError(
                problem, f"{np.abs(values).max():g}", "numbers whose square is a float64"
            )
        return cls(mean, np.where(deviation == 0, 1.0, deviation))

    @classmethod
    def of_pixels(cls, values: np.ndarray) -> Standard:
        """Divides all numbers by the largest absolute value, such as 255."""
        return cls(
            np.zeros(()), np.asarray(max(abs(float(values.max())), abs(float(values.min()))) or 1.0)
        )

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return ((values - self.mean) / self.deviation).astype(_precision(values))

    def undone(self, values: np.ndarray) -> np.ndarray:
        return (values * self.deviation + self.mean).astype(_precision(values))


@dataclass(frozen=True, eq=False)
class Preparation:
    """The map from the data to the network: first the columns, then standards of the training set;
    None changes nothing. `standardize` is the option that they come from.
    """

    columns: Columns | None = None
    input_standard: Standard | None = None
    target_standard: Standard | None = None
    standardize: str = "none"

    def inputs(self, inputs: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """The network's inputs: float32 for float32 and bytes, else float64.

        Args:
            inputs: Inputs as the data hold them, shape (n, ...).
            scale: Factor of the inputs, applied first. Default: 1.

        Returns:
            Inputs, shape (n, ...).

        Raises:
            InputError: The shape differs from the inputs that were standardized.
        """
        values: np.ndarray = inputs.astype(_precision(inputs))
        if scale != 1.0:
            values = values * values.dtype.type(scale)
        if self.columns is not None:
            values = self.columns(values)
        standard = self.input_standard
        if standard is None:
            return values
        shape = standard.mean.shape
        if values.shape[values.ndim - len(shape) :] != shape:
            problem = "The inputs differ in shape from those that were standardized."
            raise InputError(problem, values.shape, f"(n, ..., {shape[0]}), one row per example")
        return standard(values)

    def targets(self, targets: np.ndarray) -> np.ndarray:
        """Targets in the units of the network's outputs."""
        return targets if self.target_standard is None else self.target_standard(targets)

    def restored(self, outputs: np.ndarray, predicts_noise: bool = False) -> np.ndarray:
        """Outputs of the network in the units of the targets.

        Args:
            outputs: Outputs, shape (..., outputs).
            predicts_noise: Whether the second half of the outputs are logarithms of standard
                deviations. Default: False.
        """
        standard = self.target_standard
        if standard is None or not predicts_noise:
            return outputs if standard is None else standard.undone(outputs)
        mean, log_std = np.split(outputs, 2, axis=-1)
        parts = (
            standard.undone(mean),
            (log_std + np.log(standard.deviation)).astype(_precision(outputs)),
        )
        return np.concatenate(parts, axis=-1)

    def log_unit(self, shape: tuple[int, ...] = ()) -> float:
        """How much larger the log density of an example is in the network's units than in the data's.

        Args:
            shape: Shape of the targets of one example. Default: one number.

        Returns:
            The sum of the logarithms of the targets' standard deviations, in nats; 0 if the targets
            are not standardized.
        """
        if self.target_standard is None:
            return 0.0
        logarithms = np.log(np.asarray(self.target_standard.deviation, np.float64))
        return float(
            np.broadcast_to(logarithms, np.broadcast_shapes(logarithms.shape, shape)).sum()
        )

    def get_config(self) -> dict[str, Any]:
        """The manifest's entry, from which a run can predict without its data."""
        config: dict[str, Any] = {}
        if self.columns is not None:
            config["columns"] = [
                [c.text, c.source, c.function, c.power] for c in self.columns.columns
            ]
            config["names"] = list(self.columns.names)
        for name, standard in (("input", self.input_standard), ("target", self.target_standard)):
            if standard is not None:
                config[name] = {
                    "mean": standard.mean.tolist(),
                    "deviation": standard.deviation.tolist(),
                }
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Preparation:
        column_parts = config.get("columns")
        columns = (
            None
            if column_parts is None
            else Columns(tuple(Column(*parts) for parts in column_parts), tuple(config["names"]))
        )
        standards: dict[str, Any] = {
            f"{name}_standard": Standard(
                *(np.asarray(config[name][key], np.float64) for key in ("mean", "deviation"))
            )
            for name in ("input", "target")
            if name in config
        }
        return cls(columns, **standards)

    def fingerprint(self) -> bytes:
        """Returns bytes that differ between two preparations of the same data."""
        texts = None if self.columns is None else (self.columns.texts, self.columns.names)
        return repr(
            (texts, (self.input_standard is not None, self.target_standard is not None))
        ).encode()


def _precision(values: np.ndarray) -> type:
    """float32 for bytes and float32, which it holds exactly; float64 for everything else."""
    return np.float32 if values.dtype in (np.float32, np.uint8, np.bool_) else np.float64
