"""Data from arrays and data frames, and the columns that the network takes of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.categories import Categories, one_hot_columns, with_codes
from tati_re.data.columns import Columns, numbered, parse_columns
from tati_re.data.contents import Contents
from tati_re.data.frames import as_frame, check_order, in_order, is_frame, labels_of, numbers_of
from tati_re.data.packing import is_several, packed
from tati_re.data.source import ReadOptions
from tati_re.data.tables import choose_columns

FORMS = "(x, y), (x, y, weights), ((x, y), (x_test, y_test)), a pandas.DataFrame, Dataset, tf.data.Dataset, name or file"


def from_frame(source: Any, reading: ReadOptions) -> tuple[Contents, Columns | None]:
    """The contents of a data frame, whose label columns are chosen as in a file.

    Args:
        source: A data frame of pandas.
        reading: Options that choose columns of inputs, labels and weights.

    Returns:
        The contents, whose name lists the label columns, and the map to derived inputs, or None.
    """
    frame = source.set_axis([str(name) for name in source.columns], axis=1)
    labels = reading.label_columns
    file = "the data frame"
    choice = choose_columns(
        list(frame.columns), labels, reading.input_columns, file, reading.weights
    )
    coded, categories = with_codes(
        frame[list(choice.inputs)], reading.categories, choice.inputs, "data"
    )
    inputs = numbers_of(coded, "data")
    targets = labels_of(frame[list(choice.labels)])
    weights = (
        None if choice.weights is None else numbers_of(frame[choice.weights], "sample_weights")
    )
    name = f"a data frame with labels {', '.join(choice.labels)}"
    parts = Contents(
        inputs,
        targets,
        (),
        name,
        choice.inputs,
        choice.labels,
        weights=weights,
        categories=categories,
    )
    return parts, one_hot_columns(choice.derived, choice.inputs, categories)


def derived(contents: Contents, reading: ReadOptions) -> Columns | None:
    """The map to derived inputs, or None if `input_columns` is not given.

    Args:
        contents: The data, with inputs of shape (N, columns).
        reading: Options with `input_columns`.

    Raises:
        InputError: The inputs are not in columns.
    """
    if reading.input_columns is None:
        return None
    if contents.inputs.ndim > 2:
        received = f"examples of shape {contents.inputs.shape[1:]}"
        raise InputError(
            "input_columns needs inputs in columns.", received, "a table, or arrays (N, columns)"
        )
    return parse_columns(
        reading.input_columns, contents.names or numbered(math.prod(contents.inputs.shape[1:]))
    )


def from_pair(source: object, first: Contents | None = None) -> Contents:
    """The contents of arrays; columns of data frames are taken by their names.

    Args:
        source: (x, y), (x, y, weights), or a pair of such tuples, the second for the test set.
        first: Contents of the training set, whose column order a separate test set takes. Default:
            None, the source is the training set.

    Raises:
        InputError: The source has another form.
    """
    if isinstance(source, (tuple, list)) and source and isinstance(source[0], Mapping):
        keys = {str(key) for key in source[0]}
        is_table = all(isinstance(row, Mapping) and {*map(str, row)} == keys for row in source)
        rows = f"{len(source)} rows as dicts"
        problem = "data has the wrong form."
        refuse_if(is_table and isinstance(source, list), problem, rows, "pandas.DataFrame(data)")
    if not isinstance(source, (tuple, list)) or len(source) not in (2, 3):
        raise InputError("data has the wrong form.", type(source).__name__, FORMS)
    # As Keras' own data sets come: only tuples are pairs, so that nested lists of numbers stay
    # arrays.
    if len(source) == 2 and all(isinstance(part, tuple) and len(part) in (2, 3) for part in source):
        train = _pair(source[0], first)
        test = _pair(source[1], train)
        other = test.layout or "one"
        layout = train.layout or "one"
        refuse_if(
            layout != other,
            "data: the inputs of the test set differ in shape or type.",
            other,
            layout,
        )
        return replace(train, test=(test.inputs, test.targets), test_weights=test.weights)
    return _pair(source, first)


def _pair(source: Sequence[Any], first: Contents | None) -> Contents:
    x, y = map(as_frame, source[:2])
    for part, called in zip((y, *source[2:]), ("labels", "weights"), strict=False):
        check_order(x, part, f"data: the {called}")
    x = in_order(x, first.names if first else (), "data")
    y = in_order(y, first.label_names if first else (), "data")
    names, label_names = (
        tuple(str(name) for name in part.columns)
        if is_frame(part) and part.columns.is_unique
        else ()
        for part in (x, y)
    )
    try:
        count = len(y)
    except TypeError:
        count = None
    categories: tuple[Categories, ...] = ()
    if is_several(x, count):
        inputs, layout = packed(x)
    else:
        known = None if first is None else first.categories
        coded, categories = with_codes(x, known, names, "data")
        inputs, layout = numbers_of(coded, "data"), ()
    weights = numbers_of(source[2], "data") if len(source) == 3 else None
    return Contents(
        inputs,
        labels_of(y),
        (),
        names=names,
        label_names=label_names,
        weights=weights,
        layout=layout,
        categories=categories,
    )
