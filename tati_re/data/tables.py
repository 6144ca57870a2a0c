"""Tables of text, between commas, semicolons, tabs or white space, and Parquet files, by the
package pyarrow.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.memory import check_free
from tati_re.core.unpacking import check_size, check_texts
from tati_re.data.columns import Columns, parse_columns
from tati_re.data.contents import Contents
from tati_re.data.frames import CLASSES, COLUMNS, advice, labels_of
from tati_re.data.labels import MAX_CLASSES, check_spellings
from tati_re.data.numerals import (
    DATES,
    MISSING,
    UNKNOWN,
    is_missing,
    is_number,
    number_in,
    numeral_of,
)
from tati_re.data.text_files import TextTable


@dataclass(frozen=True)
class Choice:
    """The roles of a table's columns, by name: those read as inputs, as labels and as sample
    weights. `derived` are the inputs of the network, made from `inputs`; None where they are taken
    as they are. A compressed table may unpack to `limit` bytes; None: to as many as any file.
    `named`: the user says that texts among the labels are names of classes, however they look.
    `encoding`: how characters of a text table are stored; None: UTF-8.
    """

    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    derived: Columns | None = None
    weights: str | None = None
    limit: float | None = None
    named: bool = False
    encoding: str | None = None


def choose_columns(
    names: Sequence[str],
    label_columns: Sequence[str] | None,
    input_columns: Sequence[str] | None,
    file: str,
    weights: str | None = None,
) -> Choice:
    """Assigns roles to the columns of a table.

    Args:
        names: The names of all columns.
        label_columns: The labels; None: those that `label_names` finds, else the last.
        input_columns: The inputs, as `parse_columns` reads them; None: all others.
        file: What messages call the table.
        weights: The column of weights; None: there is none.

    Returns:
        The columns.

    Raises:
        InputError: A name is missing, or there twice, or no column is left for inputs or labels.
    """
    _check_names(names, file, inputs_are_named=input_columns is not None)
    if weights is not None and weights not in names:
        what = f"sample_weights: {file} has no column '{weights}'.{nearest(weights, names)}"
        raise InputError(what, weights, f"one of {', '.join(names)}")

    names = [n for n in names if n != weights]
    labels = _labels_of(names, label_columns, file)
    others = [n for n in names if n not in labels]
    derived = None
    if input_columns is not None and others:
        derived = parse_columns(input_columns, others).of_used()
        others = list(derived.names)

    received = f"inputs {', '.join(others) or 'none'}, labels {', '.join(labels) or 'none'}"
    refuse_if(
        not labels or not others, f"{file} needs a column of inputs and one of labels.", received
    )
    if derived is not None and derived.plain:
        derived = None
    return Choice(tuple(others), tuple(labels), derived, weights)


def _check_names(names: Sequence[str], file: str, inputs_are_named: bool) -> None:
    """Refuses columns of one name, and columns without a name unless the inputs are named."""
    doubled = sorted({name for name in names if name and names.count(name) > 1})
    refuse_if(
        doubled, f"{file} has several columns of one name.", ", ".join(doubled), "different names"
    )

    nameless = [
        place
        for place, name in enumerate(names, 1)
        if re.fullmatch(r"|Unnamed: \d+|__index_level_\d+__", name)
    ]
    if nameless and not inputs_are_named:
        expected = "a name each, or input_columns; pandas leaves out its index by index=False"
        raise InputError(
            f"{file} has a column without a name.",
            ", ".join(names)[:80],
            f"{expected}; column {nameless[0]} has none and is not empty",
        )


def _labels_of(names: Sequence[str], label_columns: Sequence[str] | None, file: str) -> list[str]:
    """The columns of the labels: those that were named, those whose names say so, or the last."""
    if label_columns is None:
        labels = label_names(names) or [name for name in names if name][-1:]
    else:
        labels = [str(name) for name in label_columns]

    for name in labels:
        what = f"label_columns: {file} has no column '{name}'.{nearest(name, names)}"
        refuse_if(name not in names, what, name, f"one of {', '.join(names)}")
    return labels


def label_names(names: Sequence[str]) -> list[str]:
    """The columns that are labels by their names: all that start with `label`, else `target`."""
    return [n for n in names if n.lower().startswith("label")] or [
        n for n in names if n.lower() == "target"
    ]


def read_header(path: Path, encoding: str | None = None) -> list[str]:
    """The column names of a text table; without a header line x1, x2, ... The line 0, 1, 2, ... is
    one where it has three columns or more: names that nobody gave.

    Args:
        path: The file.
        encoding: How characters are stored. Default: UTF-8.
    """
    file = TextTable(path, encoding)
    file.size()
    names = file.header
    counted = len(names) > 2 and names == [str(i) for i in range(len(names))]
    line = next((text for _, text in file.lines()), "").strip()[:80]
    if not counted and names and all(map(is_number, names)):
        expected = "names of columns, separated by commas"
        raise InputError(f"{path.name} has no header line.", line, expected)
    if len(names) < 2:
        by = "white space" if file.separator is None else "commas, semicolons or tabs"
        raise InputError(
            f"{path.name} has a single column.", line, f"at least two, separated by {by}"
        )
    return names


def read_table(path: Path, names: Sequence[str], choice: Choice) -> Contents:
    """Inputs `(N, columns)` and targets `(N, labels)` of a text table, float64; names of classes as
    texts, `(N,)`. Lines that start with `#` are skipped; columns that are not chosen may hold
    text.
    """
    texts = None
    file = TextTable(path, choice.encoding)
    if len(choice.labels) == 1:
        texts = _texts(file, list(names), choice.labels[0], choice.named)
    labels = choice.labels if texts is None else ()
    table = _numbers(
        file,
        names,
        [*choice.inputs, *labels, *([choice.weights] if choice.weights else [])],
        labels,
    )
    count = len(choice.inputs)
    end = len(choice.inputs) + len(labels)
    inputs = np.ascontiguousarray(table[:, :count])
    targets = table[:, count:end] if texts is None else texts
    weights = table[:, end] if choice.weights else None
    by_value = texts is None and len(labels) == 1 and _are_integers(file, names, labels[0], targets)
    return Contents(
        inputs,
        targets,
        (),
        path.name,
        choice.inputs,
        choice.labels,
        by_value=by_value,
        weights=weights,
    )


def _are_integers(file: TextTable, names: Sequence[str], label: str, values: np.ndarray) -> bool:
    """Whether labels, the numbers `values`, are written without decimal points and exponents."""
    if not (values == np.floor(values)).all() or len(np.unique(values)) > MAX_CLASSES:
        return False
    place = list(names).index(label)
    return not any(
        {*cells[place].lower()} & {*".,ed"} and cells[place].lower() not in ("true", "false")
        for _, cells in file.rows()
    )


def _texts(file: TextTable, names: list[str], label: str, named: bool) -> np.ndarray | None:
    """The column of labels as texts, `(N,)`, where its first cell is the name of a class; else
    None. `named`: whatever is no number is a name.
    """
    path = file.path
    place = names.index(label)
    found = list[str]()
    lines = list[int]()
    for number, cells in file.rows():
        first = cells[place].replace(",", ".") if file.separator == ";" else cells[place]
        if not found and (is_number(first) or is_missing(first)):
            return None
        if not found and not named and _is_numeral(first):
            raise InputError(
                f"{path.name}, line {number}, column '{label}' is not a finite number.",
                cells[place],
                f"{advice(first)}; num_classes takes texts of any form as names of classes",
            )
        found.append(cells[place])
        lines.append(number)
    spellings = {*found}
    if len(spellings) > 2 and {text.lower() for text in spellings} <= {"true", "false"}:
        return None
    no_header = label in found and sum(map(is_number, names)) == len(names) - 1
    refuse_if(
        no_header,
        f"{path.name} has no header line.",
        ", ".join(names)[:80],
        "names of columns, then examples",
    )
    check_spellings(found, named, lambda i: f"{path.name}, line {lines[i]}, column '{label}'")
    if not found:
        return None
    try:
        check_texts(len(found), max(map(len, found)), file.size())
    except ValueError as error:
        raise InputError(f"{path.name}, column '{label}' is too large: {error}.") from None
    return np.array(found)


def _is_numeral(cell: str) -> bool:
    """Whether a cell is a number that is written as no class is called."""
    numeral = numeral_of(cell)
    return numeral is not None and not numeral.may_name


def unlabeled(
    path: Path, names: list[str], labels: Sequence[str], encoding: str | None = None
) -> bool:
    """Whether all cells of these columns are empty, as in a table to predict."""
    if path.suffix.lower() == ".parquet":
        opened = _opened(path, labels)
        with _readable(path):
            _check_parquet(path, opened, labels)
        columns = (
            column
            for part in opened.iter_batches(columns=list(labels), use_threads=False)
            for column in part.columns
        )
        return all(column.null_count == len(column) for column in columns)
    return all(
        row[names.index(name)].lower() in UNKNOWN
        for _, row in TextTable(path, encoding).rows()
        for name in labels
    )


def _numbers(
    file: TextTable, names: Sequence[str], used: Sequence[str], labels: Sequence[str]
) -> np.ndarray:
    """The columns `used`, in this order."""
    path = file.path
    columns = [file.places[list(names).index(name)] for name in used]
    separator = file.separator
    everything = sorted(columns) == list(range(file.width))
    # A table grows by half when it is full, and the copy stands beside it.
    examples = file.size() / len(next((line for _, line in file.body()), " "))
    check_free("data", path, 20.0 * examples * len(columns), f"{examples:,.0f} examples")
    table = None
    chosen = None if everything else columns
    for reader in (None, _reader(path, separator)):
        with warnings.catch_warnings(), suppress(ValueError):
            warnings.simplefilter("ignore", UserWarning)
            lines = (line for _, line in file.even_lines())
            how: dict[str, Any] = {"usecols": chosen, "converters": reader}
            table = np.loadtxt(
                lines, delimiter=separator, comments=None, quotechar='"', ndmin=2, **how
            )
            break
    if table is not None and table.size == 0:
        raise InputError(
            f"{path.name} has no examples.", path, "one line an example below the header"
        )
    if table is not None and table.shape[1] == len(columns) and np.isfinite(table).all():
        return table[:, columns] if everything else table
    raise _bad_cell(file, names, used, labels)


def _bad_cell(
    file: TextTable, names: Sequence[str], used: Sequence[str], labels: Sequence[str]
) -> InputError:
    """Finds the first bad line and what is wrong with it, in terms of the file."""
    path = file.path
    read = _reader(path, file.separator)
    for number, cells in file.rows():
        for name, cell in zip(names, cells, strict=True):
            if name in used and not (_is_number(cell, read) and np.isfinite(read(cell))):
                place = f"{path.name}, line {number}, column '{name}'"
                told = advice(cell)
                if name in labels and not is_missing(cell):
                    numeral = numeral_of(cell)
                    told = CLASSES if numeral is None else numeral.advice
                return InputError(f"{place} is not a finite number.", cell or "an empty cell", told)
    return InputError(
        f"{path.name} cannot be read as a table of numbers.", path, "numbers separated by commas"
    )


def _reader(path: Path, separator: str | None) -> Callable[[str], float]:
    """Reads numbers that Python does not: True and False, as pandas and R write them, exponents of
    Fortran, and decimal commas between semicolons, where no number has a point: 1,234 beside 1.5 would be a thousand.
    """
    marks = set[str]()

    def read(cell: str) -> float:
        if separator == ";":
            marks.update({",", "."} & {*cell})
            refuse_if(
                len(marks) > 1,
                f"{path.name} has numbers with commas and with points.",
                cell,
                "decimal commas",
            )
            cell = cell.replace(",", ".")
        return number_in({"true": "1", "false": "0"}.get(cell.strip().lower(), cell))

    return read


def _is_number(cell: str, read: Callable[[str], float] = number_in) -> bool:
    try:
        read(cell)
    except InputError:
        raise
    except ValueError:
        return False
    return True


def read_parquet_names(path: Path, encoding: str | None = None) -> list[str]:
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


def read_parquet(path: Path, names: Sequence[str], choice: Choice) -> Contents:
    """Inputs `(N, columns)`, float32 where all of them are, else float64; targets `(N, labels)` in
    their own type, names of classes as texts, `(N,)`.
    """
    used = (*choice.inputs, *choice.labels, *((choice.weights,) if choice.weights else ()))
    opened = _opened(path, choice.labels)
    with _readable(path):
        _check_parquet(path, opened, used, choice.limit)
        for name in used:
            _check_kind(path, name, opened.schema_arrow.field(name).type, (name,) == choice.labels)
        table = opened.read(columns=list(used), use_threads=False)
        for name in choice.labels:
            _check_dictionaries(path, table.column(name), choice.limit)
    refuse_if(table.num_rows == 0, f"{path.name} has no examples.", path, "at least one row")
    columns = {name: _column(path, name, table.column(name)) for name in used}
    inputs = np.stack([columns[name] for name in choice.inputs], axis=1)
    if inputs.dtype not in (np.float32, np.float64):
        inputs = inputs.astype(np.float64)
    targets = labels_of(
        np.array([columns[name] for name in choice.labels]).reshape(-1, table.num_rows).T
    )
    weights = columns[choice.weights] if choice.weights else None
    return Contents(inputs, targets, (), path.name, choice.inputs, choice.labels, weights=weights)


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
        (compute.max(compute.utf8_length(each)).as_py() or 0 for each in texts), default=0
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


def _opened(path: Path, texts: Sequence[str] = ()):
    """A Parquet file; columns of `texts` are read as numbers into a dictionary of their texts."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        what = f"{path.name}: parquet files need the package pyarrow, which is not installed."
        raise InputError(
            what, expected="pip install 'tati_re[parquet]', or a .csv or .npz file"
        ) from None
    try:
        return pyarrow.parquet.ParquetFile(path, read_dictionary=[*texts])
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(
            f"{path} cannot be read as a parquet file.", str(error).split("\n")[0].rstrip(".")
        ) from None


def _column(path: Path, name: str, column) -> np.ndarray:
    place = f"{path.name}, column '{name}'"
    if column.null_count:
        row = next(i for i, value in enumerate(column) if not value.is_valid)
        raise InputError(f"{place} has an empty cell.", f"row {row}, counted from 0", MISSING)
    return column.to_numpy()


def _check_kind(path: Path, name: str, kind: Any, names_classes: bool) -> None:
    import pyarrow.types as types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    if names_classes and "string" in str(kind):
        return
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        dates = types.is_date(kind) or types.is_timestamp(kind)
        raise InputError(
            f"{path.name}, column '{name}' does not hold numbers.",
            kind,
            DATES if dates else COLUMNS,
        )
