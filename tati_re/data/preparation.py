"""Preparation of inputs and targets for the network: derived columns, standardization."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.columns import Column, Columns
from tati_re.data.on_disk import on_disk

if TYPE_CHECKING:
    from tati_re.data.dataset import Dataset

_SKEWED = 2.0
"""Skewness of an exponential law, from which on logarithms are thought of."""
_NEAR = math.sqrt(10)  # Means up to this, and deviations within this factor of 1, are of order 1.
_SMALL, _LARGE, _PIXELS = 0.1, 10.0, 64
STANDARDIZE = ("none", "inputs", "all", "pixels")


def mean_and_deviation(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (with divisor N) of examples, each counting by its weight `(N,)`. Each column has its own, as
    has each channel of images `(N, height, width, channels)`, and each feature of series `(N, times, features)` where
    one would hardly vary beside the others; images `(N, height, width)` have one of all pixels."""
    pooled = values.ndim == 3 and not _series(values)
    axes = tuple(range(3 if pooled else max(1, values.ndim - 1)))
    if weights is None:
        mean, deviation = values.mean(axes, dtype=np.float64), values.std(axes, dtype=np.float64)
    else:
        share = (weights / weights.mean()).reshape(-1, *[1] * (values.ndim - 1))
        mean = np.asarray((share * values).mean(axes, dtype=np.float64))
        deviation = np.sqrt((share * (values - mean) ** 2).mean(axes, dtype=np.float64))
    # The mean of equal numbers may differ from them by rounding.
    return np.asarray(mean), np.where(deviation <= 1e-12 * np.abs(mean), 0.0, deviation)


def _series(values: np.ndarray) -> bool:
    """Whether a feature that is mostly not one number, as the border of images is, has a small part of all spread."""
    varied = (values != np.median(values, (0, 1))).mean((0, 1)) > 0.5
    return bool((varied & (_LARGE * values.std((0, 1), dtype=np.float64) < values.std(dtype=np.float64))).any())


@dataclass(frozen=True, eq=False)
class Standard:
    """Standardizes by (value - mean) / deviation, which is above 0; both float64, broadcastable."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray | None = None) -> Standard:
        """That of the training part, or of examples that count by `weights` `(N,)`; what does not vary keeps 1."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = mean_and_deviation(values, weights)
        if not np.isfinite(deviation).all():
            what = "data: numbers are too large for a standard deviation."
            raise InputError(what, f"{np.abs(values).max():g}", "numbers whose square is a float64")
        return cls(mean, np.where(deviation == 0, 1.0, deviation))

    @classmethod
    def of_pixels(cls, values: np.ndarray) -> Standard:
        """Divides all numbers by the largest absolute value, such as 255."""
        return cls(np.zeros(()), np.asarray(max(abs(float(values.max())), abs(float(values.min()))) or 1.0))

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return ((values - self.mean) / self.deviation).astype(_precision(values))

    def undone(self, values: np.ndarray) -> np.ndarray:
        return (values * self.deviation + self.mean).astype(_precision(values))


@dataclass(frozen=True, eq=False)
class Preparation:
    """The map from the data to the network: first the columns, then standards of the training part; None changes
    nothing. `standardize` is the option that they come from."""

    columns: Columns | None = None
    input_standard: Standard | None = None
    target_standard: Standard | None = None
    standardize: str = "none"

    def inputs(self, inputs: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """The network's inputs, `(n, ...)`: float32 for float32 and bytes, else float64."""
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
            what = "The inputs do not fit those that were standardized."
            raise InputError(what, values.shape, f"(n, ..., {shape[0]}), one row an example")
        return standard(values)

    def targets(self, targets: np.ndarray) -> np.ndarray:
        """Targets in the units of the network's outputs."""
        return targets if self.target_standard is None else self.target_standard(targets)

    def restored(self, outputs: np.ndarray, predicts_noise: bool = False) -> np.ndarray:
        """Outputs of the network in the units of the targets, with `predicts_noise` means and log deviations."""
        standard = self.target_standard
        if standard is None or not predicts_noise:
            return outputs if standard is None else standard.undone(outputs)
        mean, log_std = np.split(outputs, 2, axis=-1)
        parts = standard.undone(mean), (log_std + np.log(standard.deviation)).astype(_precision(outputs))
        return np.concatenate(parts, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """The manifest's entry, from which a run can predict without its data."""
        config: dict[str, Any] = {}
        if self.columns is not None:
            config["columns"] = [[c.text, c.source, c.function, c.power] for c in self.columns.columns]
            config["names"] = list(self.columns.names)
        for name, standard in (("input", self.input_standard), ("target", self.target_standard)):
            if standard is not None:
                config[name] = {"mean": standard.mean.tolist(), "deviation": standard.deviation.tolist()}
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Preparation:
        said = config.get("columns")
        columns = None if said is None else Columns(tuple(Column(*parts) for parts in said), tuple(config["names"]))
        standards: dict[str, Any] = {
            f"{name}_standard": Standard(*(np.asarray(config[name][key], np.float64) for key in ("mean", "deviation")))
            for name in ("input", "target")
            if name in config
        }
        return cls(columns, **standards)

    def fingerprint(self) -> bytes:
        """Returns bytes that differ between two preparations of the same data."""
        texts = None if self.columns is None else (self.columns.texts, self.columns.names)
        return repr((texts, (self.input_standard is not None, self.target_standard is not None))).encode()


def prepare(dataset: Any, columns: Columns | None, standardize: str) -> Preparation | None:
    """The preparation of a data set that is already split, fitted on its training part; None where nothing happens.
    `standardize` is "none", "inputs", "all" for the targets of a regression too (those of classes stay), or "pixels",
    inputs divided by the largest of them."""
    modes = "'none', 'inputs', 'all' or 'pixels'"
    refuse_if(standardize not in STANDARDIZE, "standardize is not known.", standardize, modes)
    if columns is not None and columns.plain:
        columns = None
    if columns is None and standardize == "none":
        return None
    what = "standardize, input_columns: data larger than memory_limit are read as they are."
    expected = "a larger memory_limit, or inputs prepared beforehand"
    refuse_if(on_disk(dataset.inputs), what, f"inputs of {dataset.inputs.nbytes / 1e6:,.3g} megabytes", expected)
    inputs = Preparation(columns).inputs(dataset.inputs, dataset.input_scale)
    if not np.isfinite(inputs).all():
        raise InputError("input_columns give values that are not finite.", ", ".join(columns.texts if columns else ()))
    standard = Standard.of_pixels(inputs) if standardize == "pixels" else None
    standard = Standard.of(inputs, dataset.weights) if standardize in ("inputs", "all") else standard
    both = standardize == "all" and dataset.task == "regression"
    targets = Standard.of(dataset.targets, dataset.weights) if both else None
    return Preparation(columns, standard, targets, standardize)


def standardized(dataset: Dataset, standardize: str) -> Dataset:
    """The data set, columns derived, with inputs ("inputs") or targets as well ("all") standardized behind them."""
    columns = None if dataset.preparation is None else dataset.preparation.columns
    preparation = prepare(dataset, columns, standardize)
    return dataset if preparation is None else replace(dataset, preparation=preparation)


def standardized_as(dataset: Dataset, said: dict[str, Any], standardize: str) -> Dataset:
    """The same by the numbers that a run's manifest says (`get_config`), whatever data they were measured on."""
    columns = None if dataset.preparation is None else dataset.preparation.columns
    found = replace(Preparation.from_config(said), columns=columns, standardize=standardize)
    return replace(dataset, preparation=found)


def of_order_one(values: np.ndarray) -> bool:
    """Whether each column, or all pixels of images, has a mean of at most √10 and a standard deviation between 1/√10
    and √10; of a column that is constant, or 0 and 1 alone, the mean only. Numbers without a finite deviation stay."""
    columns = values.reshape(len(values), -1) if values.ndim < 3 else values.reshape(-1, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = columns.mean(0, dtype=np.float64), columns.std(0, dtype=np.float64)
    if not np.isfinite(deviation).all():
        return True
    free = deviation <= 1e-12 * np.abs(mean)
    free |= (deviation == 0) | ((columns == 0) | (columns == 1)).all(0)
    near = (deviation >= 1 / _NEAR) & (deviation <= _NEAR)
    return bool(((np.abs(mean) <= _NEAR) & (free | near)).all())


def automatic(dataset: Dataset, given: bool, kept: str, memory_limit: float | None = None) -> tuple[str, str | None]:
    """What standardize "auto" means for a data set, one of `STANDARDIZE`, and a sentence for the start of a run.
    `given`: the network was not made for these data; `kept`: why targets stay in their units, or empty."""
    inputs, prepared, told = dataset.inputs, dataset.preparation, "standardize auto leaves the data as they are, for"
    if dataset.input_scale != 1.0 or (prepared is not None and (prepared.input_standard or prepared.target_standard)):
        return "none", None
    if on_disk(inputs):
        return "none", f"{told} they are on the disk." if inputs.dtype.kind == "f" else None
    # What the network would see.
    seen = inputs if prepared is None else prepared.inputs(inputs)
    pixels, why = _are_pixels(seen), "they are several" if dataset.layout else ""
    largest = float(Standard.of_pixels(seen).deviation)
    if inputs.size * 4 > (memory_limit or math.inf) and inputs.dtype == np.uint8:
        why = "as numbers they are larger than memory_limit"
    near = True, dataset.task != "regression" or of_order_one(dataset.targets)
    # Rows of scaled pixels have columns that hardly vary, which a deviation of their own would blow up.
    scaled = seen.ndim == 2 and seen.shape[1] >= _PIXELS and _SMALL <= largest <= _LARGE
    scaled = scaled and bool(2 * np.median(np.abs(seen).max(0)) >= largest)
    if inputs.ndim < 3 and inputs.dtype.kind == "f" and not (why or pixels or scaled):
        near = of_order_one(seen), near[1]
    elif inputs.dtype.kind == "f" or (pixels and inputs.dtype == np.uint8) or not given:
        # Other whole numbers, of words and classes, are for a model that is made for them.
        near = largest <= _LARGE, near[1]
    if all(near):
        return "none", None
    parts = [name for name, of_order in zip(("inputs", "targets"), near, strict=True) if not of_order]
    if why or given:
        why = "the model is given, which may expect them so or scale them itself" if given else why
        fixed = dataset.layout or (inputs.dtype.kind != "f" and not (given and pixels))
        cure = "scale them before" if fixed else f"standardize {'pixels, ' * pixels}inputs, or all, does it"
        cure = f"; for one that does neither, {cure}" if given else f": {cure}"
        return "none", f"{told} {why}; the {' and '.join(parts)} are far from order 1{cure}."
    if kept and "targets" in parts:
        parts.remove("targets")
    else:
        kept = ""
    if not parts:
        return "none", f"The targets, far from order 1, stay in the units of {kept}." if kept else None
    stay = f"; the targets stay in the units of {kept}" if kept else ""
    if parts == ["inputs"] and pixels:
        return "pixels", f"The inputs, pixels, are divided by {largest:g}{stay}; standardize none leaves them."
    mode, words = ("all", "inputs and targets") if "targets" in parts else ("inputs", "inputs")
    return mode, (
        f"The {words} are standardized (mean 0, deviation 1 on the training set): the {' and '.join(parts)} are far "
        f"from order 1{stay}. Predictions are in the units of the data; standardize none leaves them."
    )


def said_of_skewed(targets: np.ndarray) -> tuple[str, ...]:
    """A sentence for the start of a run, where positive targets are much more skewed than their logarithms."""
    for column in targets.reshape(len(targets), -1).T.astype(np.float64):
        plain, of_log = _skewness(column), abs(_skewness(np.log(np.where(column > 0, column, np.nan))))
        if 2 * of_log < plain > _SKEWED:
            return (
                f"The targets have a skewness of {plain:.1f}, their logarithms of {of_log:.1f}: under Gaussian noise "
                "of one width a few large ones rule the fit; log(y) as the target may describe them better.",
            )
    return ()


def _skewness(values: np.ndarray) -> float:
    deviation = (values - values.mean()) / (np.ptp(values) or 1.0)
    return float((deviation**3).mean() / max((deviation**2).mean() ** 1.5, 1e-300))


def _are_pixels(inputs: np.ndarray) -> bool:
    """Whether they are whole numbers from 0 to 255, in images or in rows of as many as 8 x 8 pixels at least."""
    if inputs.ndim == 2 and inputs.shape[1] < _PIXELS:
        return False
    low, high = inputs.min() >= 0, inputs.max() <= 255
    return bool(low and high and (inputs.dtype.kind != "f" or (inputs == np.floor(inputs)).all()))


def _precision(values: np.ndarray) -> type:
    """float32 for bytes and float32, which it holds exactly; float64 for everything else."""
    return np.float32 if values.dtype in (np.float32, np.uint8, np.bool_) else np.float64
