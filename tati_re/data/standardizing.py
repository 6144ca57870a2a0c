"""Which preparation a data set gets: what `standardize` asks for, and what "auto" finds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.columns import Columns
from tati_re.data.dataset import Dataset
from tati_re.data.disk_arrays import on_disk
from tati_re.data.preparation import Preparation, Standard

_SKEWED = 2.0
"""Skewness of an exponential law, from which on logarithms are thought of."""
_NEAR = math.sqrt(10)  # Means up to this, and deviations within this factor of 1, are of order 1.
_SMALL = 0.1
_LARGE = 10.0
_PIXELS = 64
STANDARDIZE = ("none", "inputs", "targets", "all", "pixels")


def prepare(dataset: Dataset, columns: Columns | None, standardize: str) -> Preparation | None:
    """The preparation of a data set that is already split, fitted on its training set.

    Args:
        dataset: The data set.
        columns: The map to derived inputs, or None.
        standardize: "none"; "inputs"; "targets", which changes only values of a regression; "all"
            for both; or "pixels", inputs divided by the largest of them.

    Returns:
        The preparation, or None if it changes nothing.

    Raises:
        InputError: `standardize` is unknown, the inputs are on the disk, or derived inputs are not
            finite.
    """
    modes = "'none', 'inputs', 'targets', 'all' or 'pixels'"
    refuse_if(
        standardize not in STANDARDIZE, "standardize has an unknown value.", standardize, modes
    )
    if columns is not None and columns.plain:
        columns = None
    if columns is None and standardize == "none":
        return None
    problem = "standardize, input_columns: data larger than memory_limit cannot be transformed."
    expected = "a larger memory_limit, or inputs prepared beforehand"
    refuse_if(
        on_disk(dataset.inputs),
        problem,
        f"inputs of {dataset.inputs.nbytes / 1e6:,.3g} megabytes",
        expected,
    )
    inputs = Preparation(columns).inputs(dataset.inputs, dataset.input_scale)
    if not np.isfinite(inputs).all():
        raise InputError(
            "input_columns give values that are not finite.",
            ", ".join(columns.texts if columns else ()),
        )
    standard = Standard.of_pixels(inputs) if standardize == "pixels" else None
    standard = (
        Standard.of(inputs, dataset.weights) if standardize in ("inputs", "all") else standard
    )
    values = standardize in ("targets", "all") and dataset.task == "regression"
    targets = Standard.of(dataset.targets, dataset.weights) if values else None
    return Preparation(columns, standard, targets, standardize)


def standardized(dataset: Dataset, standardize: str) -> Dataset:
    """The data set with inputs or targets standardized after columns are derived.

    Args:
        dataset: The data set, already split.
        standardize: What to standardize, as in `prepare`.
    """
    columns = None if dataset.preparation is None else dataset.preparation.columns
    preparation = prepare(dataset, columns, standardize)
    return dataset if preparation is None else replace(dataset, preparation=preparation)


def standardized_as(dataset: Dataset, config: Mapping[str, Any], standardize: str) -> Dataset:
    """The data set standardized with the numbers of a manifest.

    Args:
        dataset: The data set, whose derived columns stay.
        config: The manifest entry of a preparation, as `Preparation.get_config` writes it, whatever
            data its numbers were measured on.
        standardize: The option that the preparation records.
    """
    columns = None if dataset.preparation is None else dataset.preparation.columns
    preparation = replace(Preparation.from_config(config), columns=columns, standardize=standardize)
    return replace(dataset, preparation=preparation)


def of_order_one(values: np.ndarray) -> bool:
    """Whether each column, or all pixels of images, has a mean of at most √10 and a standard
    deviation between 1/√10 and √10; of a column that is constant, or 0 and 1 alone, the mean only.
    Numbers without a finite deviation stay.
    """
    columns = values.reshape(len(values), -1) if values.ndim < 3 else values.reshape(-1, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = columns.mean(0, dtype=np.float64)
        deviation = columns.std(0, dtype=np.float64)
    if not np.isfinite(deviation).all():
        return True
    free = deviation <= 1e-12 * np.abs(mean)
    free |= (deviation == 0) | ((columns == 0) | (columns == 1)).all(0)
    near = (deviation >= 1 / _NEAR) & (deviation <= _NEAR)
    return bool(((np.abs(mean) <= _NEAR) & (free | near)).all())


def automatic(
    dataset: Dataset,
    is_explicit: bool,
    kept: str,
    memory_limit: float | None = None,
    in_units: Callable[[], bool] = lambda: True,
    scales_pixels: bool = False,
) -> tuple[str, str | None]:
    """What standardize "auto" means for a data set.

    Args:
        dataset: The data set.
        is_explicit: Whether the network was given, so that it may not be made for these data.
        kept: Why targets stay in their units, or empty.
        memory_limit: Bytes for the data. Default: no limit.
        in_units: Whether a given network predicts in the units of the targets.
        scales_pixels: Whether a given network has a layer that scales pixels. Default: no.

    Returns:
        One of `STANDARDIZE`, and a sentence for the start of a run, or None.
    """
    inputs = dataset.inputs
    if _is_scaled(dataset):
        return "none", None
    if on_disk(inputs):
        return "none", f"{_LEFT} they are on disk." if inputs.dtype.kind == "f" else None

    # What the network would see.
    prepared = dataset.preparation
    seen = inputs if prepared is None else prepared.inputs(inputs)
    pixels = _are_pixels(seen)
    largest = float(Standard.of_pixels(seen).deviation)

    why = _why_not(dataset, memory_limit)
    by_column = inputs.ndim < 3 and not (why or pixels or _are_scaled_pixels(seen, largest))
    far = _far_parts(dataset, seen, largest, by_column, pixels, is_explicit)
    if not far:
        return "none", None

    free = is_explicit and not (why or kept) and "targets" in far
    if free and not in_units():
        return "targets", _of_given_model(far)
    if is_explicit and pixels and far == ["inputs"]:
        return "none", None if scales_pixels else _of_unscaled_pixels(largest)
    if why or is_explicit:
        return "none", _left_alone(dataset, far, why, is_explicit, pixels)
    return _standardized(far, kept, pixels, largest)


_LEFT = "standardize auto does not change the data, because"


def _is_scaled(dataset: Dataset) -> bool:
    """Whether the inputs have a factor already, or a part of the data is standardized."""
    prepared = dataset.preparation
    if dataset.input_scale != 1.0:
        return True
    return prepared is not None and bool(prepared.input_standard or prepared.target_standard)


def _why_not(dataset: Dataset, memory_limit: float | None) -> str:
    """Why inputs cannot be standardized; empty if they can."""
    inputs = dataset.inputs
    if inputs.size * 4 > (memory_limit or math.inf) and inputs.dtype == np.uint8:
        return "as numbers they exceed memory_limit"
    return "there are several inputs" if dataset.layout else ""


def _are_scaled_pixels(seen: np.ndarray, largest: float) -> bool:
    """Whether rows are pixels that were scaled: some columns of them hardly vary, which a deviation
    of their own would blow up.
    """
    if seen.ndim != 2 or seen.shape[1] < _PIXELS or not _SMALL <= largest <= _LARGE:
        return False
    return bool(2 * np.median(np.abs(seen).max(0)) >= largest)


def _far_parts(
    dataset: Dataset,
    seen: np.ndarray,
    largest: float,
    by_column: bool,
    pixels: bool,
    has_model: bool,
) -> list[str]:
    """Which of inputs and targets are far from order 1."""
    kind = dataset.inputs.dtype.kind
    bytes_of_pixels = pixels and dataset.inputs.dtype == np.uint8
    near = True
    if kind == "f" and by_column:
        near = of_order_one(seen)
    elif kind == "f" or bytes_of_pixels or not has_model:
        # Other whole numbers, of words and classes, are for a model that is made for them.
        near = largest <= _LARGE

    far = [] if near else ["inputs"]
    if dataset.task == "regression" and not of_order_one(dataset.targets):
        far.append("targets")
    return far


def _of_unscaled_pixels(largest: float) -> str:
    """What to do about pixels for a given network that has no layer that scales them."""
    return (
        f"The inputs are pixels from 0 to {largest:g}, and the given model has no Rescaling layer. "
        f'Set standardize="pixels" to divide them by {largest:g}, as bytes of a file are, unless the '
        "model expects them as they are."
    )


def _left_alone(dataset: Dataset, far: list[str], why: str, has_model: bool, pixels: bool) -> str:
    """Why data that are far from order 1 stay as they are, and what helps."""
    holds_integers = dataset.inputs.dtype.kind != "f" and not (has_model and pixels)
    cure = "scale them before"
    if not (dataset.layout or holds_integers):
        modes = "pixels, inputs" if pixels else "inputs"
        cure = f"standardize {modes}, or all, scales them"

    if has_model:
        why = "the given model may expect them unscaled or scale them itself"
        cure = f"; if it does neither, {cure}"
    else:
        cure = f": {cure}"
    return f"{_LEFT} {why}; the {' and '.join(far)} are far from order 1{cure}."


def _standardized(
    far: list[str], fixed_units: str, pixels: bool, largest: float
) -> tuple[str, str | None]:
    """What is standardized of data that are far from order 1."""
    parts = list(far)
    stay = ""
    if fixed_units and "targets" in parts:
        parts.remove("targets")
        stay = f"; the targets keep their units under {fixed_units}"
    if not parts:
        return "none", f"The targets, far from order 1, keep their units under {fixed_units}."

    if parts == ["inputs"] and pixels:
        return (
            "pixels",
            f"The inputs are pixels and are divided by {largest:g}{stay}; "
            "standardize='none' turns this off.",
        )
    mode, words = ("all", "inputs and targets") if "targets" in parts else ("inputs", "inputs")
    reason = " and ".join(parts)
    subject = "they" if reason == words else f"the {reason}"
    return mode, (
        f"The {words} are standardized (mean 0, standard deviation 1 on the training "
        f"set), because {subject} are far from order 1{stay}. Predictions "
        "are in the units of the data; standardize='none' turns this off."
    )


def _of_given_model(parts: list[str]) -> str:
    """Says that the targets of a given model are standardized, and its inputs are not."""
    sentence = (
        "The targets are standardized (mean 0, standard deviation 1 on the training "
        "set), because the model does not scale its outputs. Predictions are in the "
        "units of the data; standardize='none' turns this off."
    )
    inputs = (
        " The inputs are also far from order 1 but are not changed; standardize='all' scales both."
    )
    return sentence + inputs if "inputs" in parts else sentence


def skewed_targets_notes(targets: np.ndarray) -> tuple[str, ...]:
    """A sentence for the start of a run, where positive targets are much more skewed than their
    logarithms.
    """
    for column in targets.reshape(len(targets), -1).T.astype(np.float64):
        plain = _skewness(column)
        of_log = abs(_skewness(np.log(np.where(column > 0, column, np.nan))))
        if 2 * of_log < plain > _SKEWED:
            return (
                f"The targets have a skewness of {plain:.1f}, their logarithms of "
                f"{of_log:.1f}. With Gaussian noise of constant width, a few large "
                "targets dominate the fit; log(y) may be a better target.",
            )
    return ()


def _skewness(values: np.ndarray) -> float:
    deviation = (values - values.mean()) / (np.ptp(values) or 1.0)
    return float((deviation**3).mean() / max((deviation**2).mean() ** 1.5, 1e-300))


def _are_pixels(inputs: np.ndarray) -> bool:
    """Whether they are whole numbers from 0 to 255, in images or in rows of as many as 8 x 8 pixels
    at least.
    """
    if inputs.ndim == 2 and inputs.shape[1] < _PIXELS:
        return False
    low = inputs.min() >= 0
    high = inputs.max() <= 255
    return bool(low and high and (inputs.dtype.kind != "f" or (inputs == np.floor(inputs)).all()))
