"""Data from each kind of source: what is trained on, and what is tested on."""

from dataclasses import replace

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.archives import load_keras
from tati_re.data.categories import one_hot_columns
from tati_re.data.columns import Columns
from tati_re.data.contents import Contents
from tati_re.data.frames import in_order
from tati_re.data.from_arrays import derived, from_frame, from_pair
from tati_re.data.from_files import from_files, names_of_table
from tati_re.data.packing import order_of
from tati_re.data.source import ReadOptions, Source
from tati_re.data.tf_datasets import read_tf_dataset


def read_source(source: Source, reading: ReadOptions) -> tuple[Contents, Columns | None]:
    """The contents of a source, and the columns derived from it.

    Args:
        source: Files, a data frame, a stream, arrays, or the name of an image set of Keras.
        reading: Options for reading it.

    Returns:
        The contents, and the map to derived inputs, or None.
    """
    if source.kind == "frame":
        return from_frame(source.data, reading)
    if source.is_named and source.kind != "images":
        return from_files(source, reading)

    contents = load_keras(source.data) if source.kind == "images" else _of_arrays(source, reading)
    columns = derived(contents, reading)
    return contents, one_hot_columns(columns, contents.names, contents.categories)


def _of_arrays(source: Source, reading: ReadOptions) -> Contents:
    """The contents of arrays or of a stream."""
    keys = reading.data_keys
    refuse_if(
        keys is not None,
        "data_keys applies only to NPZ and TFRecord files; arrays are identified by "
        "their positions.",
        ", ".join(keys or ()),
        "no data_keys",
    )
    if source.kind == "stream":
        return read_tf_dataset(source.data, reading.limit)
    return from_pair(source.data)


def read_test_part(
    source: Source, training: Source | None, reading: ReadOptions, contents: Contents
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Inputs, targets and weights (or None) of test data, read in the same way as the training
    data.

    Args:
        source: The test data.
        training: The training data; None where they are a data set.
        reading: How the training data were read.
        contents: Their contents.
    """
    try:
        test = _read_test(source, training, reading, contents)
        if test.layout and (order := order_of(test.layout, contents.layout)) is not None:
            test = replace(test, inputs=test.inputs[:, order])
    except InputError as error:
        text = str(error)
        raise InputError(
            f"test_{text}" if text.startswith(("data ", "data: ")) else f"test_data: {text}"
        ) from None
    if test.input_scale != contents.input_scale:
        received = f"{test.inputs.dtype} and {contents.inputs.dtype}"
        raise InputError(
            "test_data: the inputs differ in type from the training inputs.",
            received,
            "one type",
        )
    return test.inputs, test.targets, test.weights


def _read_test(
    source: Source, training: Source | None, reading: ReadOptions, contents: Contents
) -> Contents:
    """The contents of test data, with the columns and categories of the training data."""
    known = [] if training is None else _names_of(training, reading.encoding)
    if source.is_named:
        return _test_from_files(source, known, reading, contents)
    if source.kind == "frame":
        test_reading = replace(reading, categories=contents.categories)
        return from_frame(in_order(source.data, known, "data"), test_reading)[0]
    if source.kind == "stream":
        return read_tf_dataset(source.data, reading.limit)
    return from_pair(source.data, contents)


def _test_from_files(
    source: Source, known: list[str], reading: ReadOptions, contents: Contents
) -> Contents:
    if known and (other := _names_of(source, reading.encoding)):
        refuse_if(
            known != other,
            "the test file has a different header.",
            ", ".join(other),
            ", ".join(known),
        )
    is_table = source.is_table
    test_reading = replace(
        reading,
        input_columns=reading.input_columns if is_table else None,
        data_keys=reading.data_keys[:2] if reading.data_keys else None,
        weights=reading.weights if is_table else None,
        categories=contents.categories,
    )
    return from_files(source, test_reading)[0]


def _names_of(source: Source, encoding: str | None) -> list[str]:
    """The names of the columns of a file or a data frame, of several files those of the first; else
    none.
    """
    if source.kind == "frame":
        return [str(name) for name in source.data.columns]
    return names_of_table(source, encoding)
