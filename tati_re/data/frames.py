"""Arrays of numbers from data frames and other tables in Python, and what to do with columns that
hold none.
"""

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.user_input import as_array
from tati_re.data.columns import numbered
from tati_re.data.numerals import (
    DATES,
    FINITE,
    MISSING,
    MISSING_TEXT,
    is_missing,
    is_number,
    is_placeholder,
    numeral_of,
)

_ENCODED = (
    "numbers: convert text to columns of 0 and 1 with pandas.get_dummies or OneHotEncoder of "
    "scikit-learn"
)
_CATEGORIES = "2 to 100 categories, most of which repeat"
TEXT = f"{_ENCODED}; a named column of {_CATEGORIES}, needs no conversion"
COLUMNS = (
    f"numbers, or {_CATEGORIES}; input_columns leaves other columns out, label_columns names the "
    "labels, pandas.get_dummies converts text to columns of 0 and 1"
)
SENTENCES = (
    f"{_ENCODED}; convert sentences to numbers with TextVectorization of Keras before the "
    "model, not inside it"
)
CLASSES = "a number, or a class name in all rows"
_NUMERAL = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.I)
INPUTS = "inputs"
"""What messages call rows to predict."""
AS_TRAINED = "numbers, as in the training data"


def is_frame(values: Any) -> bool:
    loaded = sys.modules.get("pandas")
    return loaded is not None and isinstance(values, loaded.DataFrame)


@runtime_checkable
class _OutsideTable(Protocol):
    """A table of another library."""

    @property
    def columns(self) -> Any:
        """The columns or their names."""

    def to_pandas(self) -> Any:
        """The same table as a data frame of pandas."""


@runtime_checkable
class _NamedTuple(Protocol):
    """A row whose numbers are fields."""

    @property
    def _fields(self) -> tuple[str, ...]:
        """Names of the numbers."""

    def _asdict(self) -> dict[str, Any]:
        """The numbers by name."""


def as_frame(values: Any) -> Any:
    """Tables of other libraries and arrays of records as a data frame; anything else as it is.

    Their columns have names, which an array of their numbers would lose.

    Args:
        values: A table that pandas can take over, such as one of pyarrow or polars, or an array of
            NumPy with named fields.
    """
    if isinstance(values, np.ndarray) and values.dtype.names and values.ndim == 1:
        from pandas import DataFrame

        return DataFrame({name: values[name] for name in values.dtype.names})
    return values.to_pandas() if isinstance(values, _OutsideTable) else values


def in_order(values: Any, names: Sequence[str], argument: str) -> Any:
    """The columns of a data frame that have some names, in the order of the names.

    A frame with none of these names is unchanged if its names, or the given ones, are mere numbers:
    then the names are defaults.

    Args:
        values: A data frame; anything else is unchanged.
        names: Names of the columns. Empty: all columns as they are.
        argument: What messages call the frame.

    Raises:
        InputError: The frame lacks a column, or has it twice.
    """
    if not names or not is_frame(values):
        return values
    columns = [str(name) for name in values.columns]
    known = list(names)
    if known == list(values.columns) and len({*known}) == len(known):
        return values
    counted = columns == [str(i) for i in range(len(columns))] or known == list(
        numbered(len(known))
    )
    if counted and not {*columns} & {*known}:
        return values
    counts = Counter(columns)
    for name in known:
        if counts[name] == 1:
            continue
        problem = f"{argument}: the data frame has {counts[name]} columns '{name}'."
        if not counts[name]:
            problem = f"{argument}: the data frame has no column '{name}'.{nearest(name, columns)}"
        raise InputError(problem, ", ".join(columns), ", ".join(known))
    return values.set_axis(columns, axis=1)[known]


def rows_by_name(values: Any, names: Sequence[str], argument: str) -> Any:
    """Rows whose numbers have names as a data frame; anything else as it is.

    Args:
        values: A mapping of names to numbers or columns; one row as a named tuple, or as a series
            of pandas whose index are names; a list of such rows; or a table as `as_frame` takes it.
        names: The columns that rows have to have.
        argument: What the values are, for a message.

    Raises:
        InputError: The columns have no names, a row lacks one, or columns have the same index in
            different orders.
    """
    rows = _mappings(values, names)
    if rows is None:
        return as_frame(values)
    if not names:
        expected = "an array of shape (n, ...), in the order of the columns"
        raise InputError(
            f"{argument}: the columns of the data have no names.", type(values).__name__, expected
        )
    for number, row in enumerate(rows):
        known = [str(name) for name in row]
        for name in names:
            place = argument if len(rows) == 1 else f"{argument}: row {number}"
            missing = f"{place} lacks the column '{name}'.{nearest(name, known)}"
            refuse_if(name not in known, missing, ", ".join(known), ", ".join(names))
    from pandas import DataFrame

    if len(rows) == 1 and not all(np.ndim(value) == 0 for value in rows[0].values()):
        _check_indices(rows[0], names, argument)
        try:
            return DataFrame({str(name): np.asarray(value) for name, value in rows[0].items()})
        except ValueError as error:
            expected = "one number per column, or equally many numbers as in the other columns"
            raise InputError(
                f"{argument}: the columns cannot be combined.", error, expected
            ) from None
    return DataFrame([{str(name): value for name, value in row.items()} for row in rows])


def _mappings(values: Any, names: Sequence[str]) -> list[Mapping[Any, Any]] | None:
    """The rows of values by name; None for other values."""
    if isinstance(values, Mapping) or _is_series(values) or isinstance(values, _NamedTuple):
        row = _mapping(values, names)
        return None if row is None else [row]
    if not isinstance(values, list | tuple) or not values:
        return None
    if not names and not isinstance(values[0], Mapping):
        return None
    rows = []
    for value in values:
        row = _mapping(value, names)
        if row is None:
            return None
        rows.append(row)
    return rows


def _mapping(row: Any, names: Sequence[str]) -> Mapping[Any, Any] | None:
    """One row by name; None for numbers without names."""
    if isinstance(row, Mapping):
        return row
    if isinstance(row, _NamedTuple):
        return row._asdict() if {*row._fields} & {*names} else None
    if not _is_series(row):
        return None
    named = len(row) and all(isinstance(name, str) for name in row.index)
    return row.to_dict() if named and row.index.is_unique else None


def _is_series(values: Any) -> bool:
    loaded = sys.modules.get("pandas")
    return loaded is not None and isinstance(values, loaded.Series)


def _check_indices(columns: Mapping[Any, Any], names: Sequence[str], argument: str) -> None:
    """Refuses columns with the same index in different orders, which position would mix up."""
    first, *others = (value for name, value in columns.items() if str(name) in names)
    for other in others:
        refuse_if(
            _are_shuffled(first, other),
            f"{argument}: the columns have the same index, but in different orders.",
            expected="a pandas.DataFrame, or columns in one order",
        )


def check_order(inputs: Any, values: Any, argument: str) -> None:
    """Refuses values whose index is the index of the inputs in another order.

    Rows are paired by position.

    Args:
        inputs: Inputs; only data frames and series have an index.
        values: What belongs to the rows of the inputs, such as labels or weights.
        argument: What messages call the values.

    Raises:
        InputError: Both indices have the same entries in different orders.
    """
    refuse_if(
        _are_shuffled(inputs, values),
        f"{argument} have the same index as the inputs, but in another order.",
        expected="y.loc[x.index]",
    )


def _are_shuffled(part: Any, other: Any) -> bool:
    """Whether two frames or series have the same index in different orders."""
    rows, others = (cast(Any, getattr(each, "index", None)) for each in (part, other))
    if not (hasattr(rows, "equals") and hasattr(others, "equals")) or rows.equals(others):
        return False
    return len(rows) == len(others) and {*rows} == {*others}


def labels_of(values: Any, name: str = "data") -> np.ndarray:
    """Labels as numbers as `numbers_of` does, or texts, which are names of classes.

    Args:
        values: Labels: an array, a series or a data frame, shape (n,) or (n, columns).
        name: What messages call them. Default: "data".

    Returns:
        One column of texts, shape (n,), or numbers in the shape of the values.
    """
    texts = as_array(values, name).reshape(-1)
    texts = np.char.decode(texts, "utf-8", "backslashreplace") if texts.dtype.kind == "S" else texts
    named = (
        len(texts)
        and np.shape(values) in {(len(texts),), (len(texts), 1)}
        and all(isinstance(t, str) for t in texts)
    )
    if named:
        return texts.astype(str)
    numbers = numbers_of(values, name)
    return numbers.astype(np.int64) if numbers.dtype.kind == "f" and _whole(values) else numbers


def _whole(values: Any) -> bool:
    """Whether a frame, a series or an array of objects holds integers of Python or of pandas."""
    from pandas import DataFrame, Series
    from pandas.api import types

    array = np.asarray(values)
    framed = isinstance(values, DataFrame | Series | np.ndarray)
    if array.ndim > 2 or not framed or (array.dtype.kind != "O" and isinstance(values, np.ndarray)):
        return False
    return all(map(types.is_integer_dtype, DataFrame(values).infer_objects().dtypes))


def numbers_of(values: Any, name: str) -> np.ndarray:
    """An array of numbers from anything that NumPy or pandas can convert.

    Data frames and series of pandas, and arrays of objects, become arrays of integers or floats.

    Args:
        values: An array, a data frame, a series, or nested lists.
        name: What messages call the values; "inputs" for rows to predict.

    Raises:
        InputError: A column has text, dates or missing values; the message gives its name or
            position.
    """
    loaded = sys.modules.get("pandas")
    array = as_array(values, name)
    framed = loaded is not None and isinstance(values, (loaded.DataFrame, loaded.Series))
    if array.dtype.kind in "OMmUST" and array.ndim == 0:
        expected = (
            "an array, such as toarray() of a sparse matrix, or a pandas.DataFrame made from "
            "a dict or a file"
        )
        raise InputError(
            f"{name} cannot be converted to an array of numbers.", type(values).__name__, expected
        )
    if not framed and (array.dtype.kind not in "OMmUST" or array.ndim > 2):
        return array
    if framed and array.dtype.kind in "buif" and np.isfinite(array).all():
        return array  # no column can have text or missing values
    import pandas

    frame = pandas.DataFrame(values if framed else array).infer_objects()
    for place, column in enumerate(frame.columns):
        _check(frame.iloc[:, place], f"{name}: column '{column}'", is_predicted=name == INPUTS)
    return array if array.dtype.kind in "buif" else frame.to_numpy(np.float64).reshape(array.shape)


def _check(column: Any, where: str, is_predicted: bool) -> None:
    from pandas import CategoricalDtype, Series
    from pandas.api import types

    column = Series(np.asarray(column)) if isinstance(column.dtype, CategoricalDtype) else column
    missing = np.flatnonzero(column.isna())
    if len(missing):
        others = column[column.notna()]
        of_text = len(others) and all(isinstance(cell, str) for cell in others)
        raise InputError(
            f"{where} has missing values.",
            f"{len(missing)}, the first in row {missing[0]}, counting from 0",
            MISSING_TEXT if of_text else MISSING,
        )
    check_finite(column, where)
    number = types.is_numeric_dtype(column.dtype) or types.is_bool_dtype(column.dtype)
    if len(column) and (not number or types.is_complex_dtype(column.dtype)):
        value = next(
            (entry for entry in column if not isinstance(entry, int | float)), column.iloc[0]
        )
        text = value if isinstance(value, str) else "text"
        problem = f"{where} contains text."
        is_numeral = _NUMERAL.fullmatch(text)
        instead = (
            "numbers: x.astype(float) converts text to numbers" if is_numeral else advice(text)
        )
        if instead == COLUMNS:
            of_training = SENTENCES if " " in text else TEXT
            instead = AS_TRAINED if is_predicted else of_training
        instead = MISSING if is_placeholder(text) and any(map(_counts, column)) else instead
        refuse_if(isinstance(value, str | bytes), problem, repr(value), instead)
        raise _unlike_numbers(column, value, where)


def _unlike_numbers(column: Any, value: Any, where: str) -> InputError:
    """What is wrong with a column that holds neither numbers of one type nor text."""
    if all(isinstance(entry, int | float) for entry in column):
        of_truth = [entry for entry in column if isinstance(entry, bool)]
        if of_truth:
            expected = "numbers in all rows, or True and False in all rows"
            return InputError(
                f"{where} contains truth values and numbers.", repr(of_truth[0]), expected
            )
        largest = max(column, key=abs)
        expected = "x.astype(float), if the numbers need not be exact"
        return InputError(f"{where} contains integers of more than 64 bits.", largest, expected)
    kind = "dates" if isinstance(value, date) else type(value).__name__
    expected = "integers or floats"
    if isinstance(value, Decimal):
        expected = "integers or floats: x.astype(float) converts them"
    if isinstance(value, Mapping):
        expected = "integers or floats: pandas.DataFrame(rows) makes columns of rows as dicts"
    if isinstance(value, date | timedelta):
        expected = DATES
    return InputError(f"{where} contains {kind}.", repr(value), expected)


def check_finite(column: Any, where: str) -> None:
    """Refuses a column with numbers that are not finite, by its name and the first row.

    Args:
        column: The column, a series of pandas or an array `(n,)`; only floats are looked at.
        where: What the message calls it.

    Raises:
        InputError: A number is infinite or NaN.
    """
    values = np.asarray(column)
    if values.dtype.kind != "f":
        return
    odd = np.flatnonzero(~np.isfinite(values))
    if len(odd):
        received = f"{values[odd[0]]} in row {odd[0]}, counting from 0"
        raise InputError(f"{where} has values that are not finite.", received, FINITE)


def _counts(cell: Any) -> bool:
    """Whether a cell is a number, or a text of one."""
    return is_number(cell) if isinstance(cell, str) else isinstance(cell, int | float)


def advice(cell: str, among_numbers: bool = False) -> str:
    """What a cell of a table that is no number should have been.

    Args:
        cell: The text of the cell.
        among_numbers: Whether other cells of the column are numbers. Default: not known.
    """
    if is_missing(cell) or (among_numbers and is_placeholder(cell)):
        return MISSING
    if is_number(cell):
        return FINITE
    numeral = numeral_of(cell)
    if numeral is None:
        return COLUMNS
    return f"{COLUMNS}; or {numeral.advice}" if numeral.may_name else numeral.advice
