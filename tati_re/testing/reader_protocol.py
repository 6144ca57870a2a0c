"""Checks of every reader: its suffixes, what it reads, its columns, and damaged files."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tati_re.core.front_door import front_door
from tati_re.data.contents import Contents
from tati_re.data.readers.contract import UNREADABLE, Reader, ReadRequest, TableReader
from tati_re.data.readers.registry import suffix_of
from tati_re.testing.sampler_protocol import require

_CUTS = (0.0, 0.25, 0.5, 0.75)
"""Parts of a file that are left after its end was lost."""


@front_door
def check_reader(
    reader: Reader, path: str | Path, inputs: np.ndarray, targets: Sequence[object] | np.ndarray
) -> None:
    """Tests a reader on a sample file and reports the first failure.

    Args:
        reader: The reader.
        path: A file with one of its suffixes and at least four examples. The last column of a table
            has the labels.
        inputs: The inputs in the file, shape (N, ...). A table has at least two columns, all
            different.
        targets: The labels in the file, shape (N,): numbers, or names of classes.

    Raises:
        AssertionError: A sentence on the first check that failed.
    """
    path = Path(path)
    _check_suffixes(reader, path)
    request = _request_of(reader, path)
    contents = reader.read(path, request)
    _check_values(contents, np.asarray(inputs), np.asarray(targets))
    _check_repetition(reader, path, request, contents)
    if isinstance(reader, TableReader):
        _check_columns(reader, path, request, contents)
    _check_damaged_files(reader, path, request, len(contents.inputs))


def _check_suffixes(reader: Reader, path: Path) -> None:
    require(reader.suffixes, "suffixes is empty.")
    for suffix in reader.suffixes:
        written = suffix.startswith(".") and suffix == suffix.lower()
        require(written, f"The suffix {suffix!r} lacks its dot or is not in lower case.")
    text = f"{path.name} has the suffix {suffix_of(path)}. Expected: one of {reader.suffixes}."
    require(suffix_of(path) in reader.suffixes, text)


def _request_of(reader: Reader, path: Path) -> ReadRequest:
    """All columns, the last one as labels; of other files whatever the reader finds."""
    if not isinstance(reader, TableReader):
        return ReadRequest()
    names = reader.column_names(path, ReadRequest())
    text = f"column_names gives {names!r}. Expected: a list of at least three different names."
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    require(listed and len(names) >= 3 and len(set(names)) == len(names), text)
    return ReadRequest(inputs=tuple(names[:-1]), labels=(names[-1],))


def _check_values(contents: Contents, inputs: np.ndarray, targets: np.ndarray) -> None:
    require(contents.inputs.dtype.kind in "buif", "The inputs are not an array of numbers.")
    shapes = f"The inputs have the shape {contents.inputs.shape}. Expected: {inputs.shape}."
    require(contents.inputs.shape == inputs.shape, shapes)
    equal = np.array_equal(contents.inputs, inputs.astype(contents.inputs.dtype))
    require(equal, "The inputs differ from the file.")
    labels = np.asarray(contents.targets).reshape(-1)
    counts = f"There are {len(labels)} labels. Expected: {len(targets)}."
    require(len(labels) == len(targets), counts)
    require(np.array_equal(labels, targets), "The labels differ from the file.")


def _check_repetition(reader: Reader, path: Path, request: ReadRequest, first: Contents) -> None:
    """A second time, and with a memory limit of one byte, the reader gives the same."""
    again = reader.read(path, request)
    require(_are_equal(again, first), "Reading the file a second time gives other values.")
    limited = reader.read(path, replace(request, limit=1.0))
    require(_are_equal(limited, first), "A limit on the memory changes the values.")


def _are_equal(first: Contents, other: Contents) -> bool:
    inputs = np.array_equal(first.inputs, other.inputs)
    return inputs and np.array_equal(first.targets, other.targets)


def _check_columns(
    reader: TableReader, path: Path, request: ReadRequest, contents: Contents
) -> None:
    backwards = reader.read(path, replace(request, inputs=request.inputs[::-1]))
    equal = np.array_equal(backwards.inputs, contents.inputs[:, ::-1])
    require(equal, "The inputs are not in the order of request.inputs.")
    require(backwards.names == request.inputs[::-1], "Contents.names is not request.inputs.")

    single = reader.read(path, replace(request, inputs=request.inputs[-1:]))
    require(
        np.array_equal(single.inputs, contents.inputs[:, -1:]),
        "A single column cannot be read alone.",
    )

    first, *others = request.inputs
    weighted = reader.read(path, replace(request, inputs=tuple(others), weights=first))
    weights = weighted.weights
    equal = weights is not None and np.array_equal(weights, contents.inputs[:, 0])
    require(equal, "The sample weights are not the column request.weights.")

    blank = reader.is_blank(path, request.labels, ReadRequest())
    require(not blank, "is_blank says that the labels are empty, but they have values.")
    num_blank = reader.num_blank(path, request.labels, ReadRequest())
    require(num_blank == 0, f"num_blank counts {num_blank} rows without labels, but all have some.")


def _check_damaged_files(reader: Reader, path: Path, request: ReadRequest, count: int) -> None:
    """A file without its end raises what becomes a sentence, or has fewer examples."""
    content = path.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        for part in _CUTS:
            damaged = Path(folder) / path.name
            damaged.write_bytes(content[: int(part * len(content))])
            _check_damaged(reader, damaged, request, count, f"{part:.0%} of the file")


def _check_damaged(
    reader: Reader, path: Path, request: ReadRequest, count: int, description: str
) -> None:
    try:
        if isinstance(reader, TableReader):
            reader.column_names(path, ReadRequest())
        num_read = len(reader.read(path, request).inputs)
    except UNREADABLE:
        return
    except Exception as error:
        text = f"{description} raises {type(error).__name__}: {error}. Expected: OSError or ValueError."
        raise AssertionError(text) from error
    require(
        0 < num_read < count,
        f"{description} gives {num_read} of {count} examples. Expected: an error.",
    )
