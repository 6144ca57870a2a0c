"""Writes data sets to CSV and NPZ files that `load_data` reads."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.files.cells import as_cell
from tati_re.data.columns import numbered
from tati_re.data.dataset import Dataset

ENDINGS = (".csv", ".npz")


def files_of(dataset: Dataset, path: Path) -> list[Path]:
    """The paths that `write_dataset` writes.

    Args:
        dataset: The data set.
        path: The file to write, `.csv` or `.npz`. `-test` is added to its name for the CSV file of
            the test set.

    Raises:
        InputError: The file has another ending.
    """
    if path.suffix.lower() not in ENDINGS:
        raise InputError(
            "output: the data can only be written as .csv or .npz.",
            path,
            "a file with one of these endings",
        )
    both = dataset.test_inputs is not None and path.suffix.lower() == ".csv"
    return [path, path.with_name(f"{path.stem}-test{path.suffix}")] if both else [path]


def write_dataset(dataset: Dataset, path: Path) -> list[Path]:
    """Writes one NPZ file, or one CSV file each for training and test set; returns the paths.

    The NPZ file has x_train, y_train and perhaps x_test, y_test. Numbers are read back exactly.
    Inputs are multiplied by their scale. Bytes with the scale 1/255 stay bytes in an NPZ file,
    because reading gives them this scale. Images become rows of a CSV file.

    Args:
        dataset: The data set.
        path: The file, `.csv` or `.npz`. An existing file is replaced.

    Raises:
        InputError: The file has another ending, or cannot be written.
    """
    files = files_of(dataset, path)
    parts: list[Any] = [(dataset.inputs, dataset.targets)]
    if dataset.test_inputs is not None:
        parts.append((dataset.test_inputs, dataset.test_targets))
    if dataset.class_names:
        parts = [(inputs, np.array(dataset.class_names)[targets]) for inputs, targets in parts]
    try:
        if path.suffix.lower() == ".npz":
            _write_npz(dataset, path, parts)
        else:
            for file, (inputs, targets) in zip(files, parts, strict=True):
                _write_csv(dataset, file, inputs, targets)
    except OSError as error:
        raise InputError(f"output: {path} cannot be written: {error.strerror}.") from None
    return files


def _scaled(inputs: np.ndarray, scale: float) -> np.ndarray:
    return inputs if scale == 1.0 else inputs * scale


def _write_npz(dataset: Dataset, path: Path, parts: list) -> None:
    keep = dataset.inputs.dtype == np.uint8 and dataset.input_scale == 1 / 255
    arrays: dict[str, Any] = {}
    for name, (inputs, targets) in zip(("train", "test"), parts, strict=False):
        arrays[f"x_{name}"] = inputs if keep else _scaled(inputs, dataset.input_scale)
        arrays[f"y_{name}"] = targets
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _write_csv(dataset: Dataset, path: Path, inputs: np.ndarray, targets: np.ndarray) -> None:
    inputs = _scaled(inputs, dataset.input_scale).reshape(len(inputs), -1)
    if dataset.task != "regression" and not dataset.class_names:
        targets = targets.astype(np.int64)
    targets = targets.reshape(len(targets), -1)
    labels = (
        ["label"] if targets.shape[1] == 1 else [f"label{i + 1}" for i in range(targets.shape[1])]
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            [
                as_cell(name)
                for name in (*(dataset.feature_names or numbered(inputs.shape[1])), *labels)
            ]
        )
        for row, label in zip(inputs, targets, strict=True):
            writer.writerow(row.tolist() + label.tolist())
