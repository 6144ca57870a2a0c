"""Parquet files, by the package pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.files.unpacking import check_size, check_texts
from tati_re.data.categories import Categories, with_codes
from tati_re.data.contents import Contents
from tati_re.data.frames import COLUMNS, check_finite, labels_of, numbers_of
from tati_re.data.numerals import DATES, MISSING, MISSING_TEXT, TIMES
from tati_re.data.readers.contract import ReadRequest, TableReader


class ParquetReader(TableReader):
    """Columns of a Parquet file."""

    suffixes = (".parquet",)
    title = "parquet"

    def column_names(self, path: Path, request: ReadRequest) -> list[str]:
        return _names(path)

    def read(self, path: Path, request: ReadRequest) -> Contents:
        return _contents(path, request)

    def is_blank(self, path: Path, columns: Sequence[str], request: ReadRequest) -> bool:
        parts = (column for part in _parts(path, columns) for column in part.columns)
        return all(column.null_count == len(column) for column in parts)

    def num_blank(self, path: Path, columns: Sequence[str], request: ReadRequest) -> int:
        count = 0
        for part in _parts(path, columns):
            blank = [column.is_null().to_numpy(zero_copy_only=False) for column in part.columns]
            count += int(np.any(blank, axis=0).sum())
        return count


def _parts(path: Path, columns: Sequence[str]) -> Iterator[Any]:
    """Some columns of a file, some rows at a time."""
    opened = _opened(path, columns)
    with _readable(path):
        _check_parquet(path, opened, columns)
    return opened.iter_batches(columns=list(columns), use_threads=False)


def _names(path: Path) -> list[str]:
    """The column names, first those of pandas' index, which stand last in the file and first in one
    of text.
    """
    schema = _opened(path).schema_arrow
    index = [
        name
        for name in (schema.pandas_metadata or {}).get("index_columns", ())
        if isinstance(name, str)
    ]
    return [*index, *(name for name in schema.names if name not in index)]


def _contents(path: Path, request: ReadRequest) -> Contents:
    """Inputs `(N, columns)`, float32 where all of them are, else float64, with the numbers of
    categories in columns of text; targets `(N, labels)` in their own type, names of classes as
    texts, `(N,)`.
    """
    used = (*request.inputs, *request.labels, *((request.weights,) if request.weights else ()))
    plain = _opened(path)
    of_text = _columns_of_text(plain, request.inputs)
    opened = _opened(path, (*request.labels, *of_text), plain.metadata)
    with _readable(path):
        _check_parquet(path, opened, used, request.limit)
        for name in used:
            may_be_text = (name,) == request.labels or name in of_text
            _check_kind(path, name, opened.schema_arrow.field(name).type, may_be_text)
        table = opened.read(columns=list(used), use_threads=False)
        for name in (*request.labels, *of_text):
            _check_dictionaries(path, table.column(name), request.limit)
    refuse_if(table.num_rows == 0, f"{path.name} has no examples.", path, "at least one row")
    columns = {name: _column(path, name, table.column(name)) for name in used}
    categories = _categories(path, of_text, columns, request)
    inputs = np.stack([columns[name] for name in request.inputs], axis=1)
    if inputs.dtype not in (np.float32, np.float64):
        inputs = inputs.astype(np.float64)
    targets = labels_of(
        np.array([columns[name] for name in request.labels]).reshape(-1, table.num_rows).T
    )
    weights = columns[request.weights] if request.weights else None
    return Contents(
        inputs,
        targets,
        (),
        path.name,
        request.inputs,
        request.labels,
        weights=weights,
        categories=categories,
    )


def _columns_of_text(opened: Any, names: Sequence[str]) -> list[str]:
    """Those of some columns of an open file that hold text."""
    schema = opened.schema_arrow
    known = [name for name in names if name in schema.names]
    return [name for name in known if _holds_text(schema.field(name).type)]


def _categories(
    path: Path, of_text: Sequence[str], columns: dict[str, np.ndarray], request: ReadRequest
) -> tuple[Categories, ...]:
    """The categories of the columns of text, whose numbers take the place of the texts.

    Raises:
        InputError: The texts of a column are not names of categories.
    """
    if not of_text:
        return ()
    from pandas import DataFrame

    frame = DataFrame({name: columns[name] for name in of_text})
    coded, categories = with_codes(frame, request.categories, of_text, path.name)
    numbers = numbers_of(coded, path.name).astype(np.float64)
    for place, name in enumerate(of_text):
        columns[name] = numbers[:, place]
    return categories


def _check_parquet(
    path: Path, opened: Any, used: Sequence[str], limit: float | None = None
) -> None:
    """A `ValueError` for columns that would take more memory than a file of this size may: a column
    of one number in all rows is a few bytes, however many rows a header claims. Texts come as
    numbers of the texts in a dictionary.
    """
    about, packed = opened.metadata, path.stat().st_size
    groups = [about.row_group(place) for place in range(about.num_row_groups)]
    rows = max(about.num_rows, sum(group.num_rows for group in groups))
    check_size(rows * 8.0 * len(used), packed, limit)
    unpacked = 0.0
    for group in groups:
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema.split(".")[0] in used:
                check_size(8.0 * column.num_values, packed, limit)
                unpacked += column.total_uncompressed_size
    check_size(unpacked, packed, limit)


def _check_dictionaries(path: Path, column: Any, limit: float | None) -> None:
    """A `ValueError` where the names of classes would take too much as texts, one in each row."""
    import pyarrow
    import pyarrow.compute as compute

    texts = [
        part.dictionary
        for part in column.chunks
        if pyarrow.types.is_dictionary(part.type)
        and "string" in str(part.type.value_type)
        and len(part.dictionary)
    ]
    longest = max(
        (compute.max(compute.utf8_length(dictionary)).as_py() or 0 for dictionary in texts),
        default=0,
    )
    check_texts(len(column), longest, path.stat().st_size, limit)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Makes a sentence of what is wrong with a Parquet file."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise InputError(f"{path} cannot be read as a parquet file: {reason}.") from None


def _opened(path: Path, texts: Sequence[str] = (), metadata: Any = None):
    """A Parquet file; columns of `texts` are read as numbers into a dictionary of their texts.
    `metadata` of the file that was opened before is not read again.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        problem = f"{path.name}: parquet files need the package pyarrow, which is not installed."
        raise InputError(
            problem, expected="pip install 'tati_re[parquet]', or a .csv or .npz file"
        ) from None
    try:
        return pyarrow.parquet.ParquetFile(path, read_dictionary=[*texts], metadata=metadata)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(
            f"{path} cannot be read as a parquet file.", str(error).split("\n")[0].rstrip(".")
        ) from None


def _column(path: Path, name: str, column) -> np.ndarray:
    import pyarrow.types as types

    place = f"{path.name}, column '{name}'"
    if column.null_count:
        row = next(i for i, value in enumerate(column) if not value.is_valid)
        instead = MISSING_TEXT if _holds_text(column.type) else MISSING
        raise InputError(f"{place} has an empty cell.", f"row {row}, counting from 0", instead)
    if types.is_decimal(column.type):
        column = column.cast("float64")
    values = column.to_numpy()
    check_finite(values, place)
    return values


def _holds_text(kind: Any) -> bool:
    import pyarrow.types as types

    return "string" in str(kind.value_type if types.is_dictionary(kind) else kind)


def _check_kind(path: Path, name: str, kind: Any, names_classes: bool) -> None:
    import pyarrow.types as types

    if names_classes and _holds_text(kind):
        return
    kind = kind.value_type if types.is_dictionary(kind) else kind
    are_numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if not any(is_one(kind) for is_one in are_numbers):
        problem = f"{path.name}, column '{name}' does not hold numbers."
        raise InputError(problem, kind, _instead(kind))


def _instead(kind: Any) -> str:
    """What a column of another type than numbers should hold."""
    import pyarrow.types as types

    if types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind):
        return DATES
    if types.is_time(kind):
        return TIMES
    return MISSING if types.is_null(kind) else COLUMNS
