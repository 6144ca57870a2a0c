"""The roles of columns, and tables of text between commas, semicolons, tabs or white space."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.files.unpacking import check_texts
from tati_re.core.process.memory import check_free
from tati_re.data.categories import Categories, categories_of
from tati_re.data.columns import Columns, parse_columns
from tati_re.data.contents import Contents
from tati_re.data.frames import AS_TRAINED, CLASSES, COLUMNS, advice
from tati_re.data.labels import MAX_CLASSES, check_spellings
from tati_re.data.numerals import (
    FINITE,
    MISSING,
    MISSING_TEXT,
    UNKNOWN,
    is_missing,
    is_number,
    is_placeholder,
    number_in,
    numeral_of,
)
from tati_re.data.readers.contract import ReadRequest
from tati_re.data.text_files import TextTable

_TRUTH = {"true": "1", "false": "0"}


@dataclass(frozen=True)
class Choice:
    """The roles of a table's columns, by name: those read as inputs, as labels and as sample
    weights. `derived` are the inputs of the network, made from `inputs`; None where they are taken
    as they are.
    """

    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    derived: Columns | None = None
    weights: str | None = None


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
        problem = f"sample_weights: {file} has no column '{weights}'.{nearest(weights, names)}"
        raise InputError(problem, weights, f"one of {', '.join(names)}")

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
    doubled = sorted(name for name, count in Counter(names).items() if name and count > 1)
    refuse_if(
        doubled,
        f"{file} has several columns with the same name.",
        ", ".join(doubled),
        "different names",
    )

    nameless = [
        place
        for place, name in enumerate(names, 1)
        if re.fullmatch(r"|Unnamed: \d+|__index_level_\d+__", name)
    ]
    if nameless and not inputs_are_named:
        expected = (
            "a name for each column, or input_columns; index=False keeps pandas from writing "
            "its index"
        )
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
        problem = f"label_columns: {file} has no column '{name}'.{nearest(name, names)}"
        refuse_if(name not in names, problem, name, f"one of {', '.join(names)}")
    refuse_if(
        len({*labels}) < len(labels),
        "label_columns names a column twice.",
        ", ".join(labels),
        "each column once",
    )
    return labels


def label_names(names: Sequence[str]) -> list[str]:
    """The columns that are labels by their names: all that start with `label`, else `target`."""
    return [n for n in names if n.lower().startswith("label")] or [
        n for n in names if n.lower() == "target"
    ]


def read_header(path: Path, encoding: str | None = None, fewest_columns: int = 2) -> list[str]:
    """The column names of a text table; without a header line x1, x2, ... The line 0, 1, 2, ... is
    one where it has three columns or more: names that nobody gave.

    Args:
        path: The file.
        encoding: How characters are stored. Default: UTF-8.
        fewest_columns: Columns that the table must have. Default: 2, inputs and labels.
    """
    file = TextTable(path, encoding)
    file.size()
    names = file.header
    counted = len(names) > 2 and names == [str(i) for i in range(len(names))]
    line = next((text for _, text in file.lines()), "").strip()[:80]
    if not counted and names and all(map(is_number, names)):
        expected = "column names separated by commas"
        raise InputError(f"{path.name} has no header line.", line, expected)
    if len(names) < fewest_columns:
        by = "white space" if file.separator is None else "commas, semicolons, tabs or |"
        raise InputError(
            f"{path.name} has a single column.", line, f"at least two, separated by {by}"
        )
    return names


def read_table(path: Path, request: ReadRequest) -> Contents:
    """The inputs and labels of a text table.

    Lines that start with `#` are skipped. Columns that are not chosen may hold other text.

    Args:
        path: The file.
        request: The columns to read and the encoding.

    Returns:
        Inputs (N, columns), float64, with the numbers of categories in columns of text. Targets (N,
        labels), float64, or names of classes as texts (N,).

    Raises:
        InputError: A cell of a chosen column is not a number.
    """
    texts = None
    file = TextTable(path, request.encoding)
    names = file.header
    if len(request.labels) == 1:
        texts = _texts(file, names, request.labels[0], request.named)
    labels = request.labels if texts is None else ()
    used = [*request.inputs, *labels, *([request.weights] if request.weights else [])]
    categories = request.categories or ()
    table = _numbers(file, names, used, categories)
    if table is None and request.categories is None:
        categories = _categories_in(file, names, request.inputs)
        table = _numbers(file, names, used, categories) if categories else None
    if table is None:
        raise _bad_cell(file, names, used, labels, categories, request.categories is not None)
    count = len(request.inputs)
    end = len(request.inputs) + len(labels)
    inputs = np.ascontiguousarray(table[:, :count])
    targets = table[:, count:end] if texts is None else texts
    weights = table[:, end] if request.weights else None
    by_value = texts is None and len(labels) == 1 and _are_integers(file, names, labels[0], targets)
    return Contents(
        inputs,
        targets,
        (),
        path.name,
        request.inputs,
        request.labels,
        by_value=by_value,
        weights=weights,
        categories=categories,
    )


def _categories_in(
    file: TextTable, names: Sequence[str], inputs: Sequence[str]
) -> tuple[Categories, ...]:
    """The categories of those input columns that hold the names of some; True and False alone are
    numbers.
    """
    known = {name: place for place, name in enumerate(names)}
    column_of = {name: known[name] for name in inputs}
    texts_of: dict[str, set[str]] = {name: set() for name in inputs}
    count = 0
    for _, cells in file.rows():
        count += 1
        for name, texts in [*texts_of.items()]:
            cell = cells[column_of[name]]
            if cell in texts or is_missing(cell):
                continue
            number = cell.replace(",", ".") if file.separator == ";" else cell
            if is_number(number) or len(texts) == MAX_CLASSES:
                del texts_of[name]
            else:
                texts.add(cell)
    categories = (
        categories_of(name, texts, count, f"{file.path.name}: column '{name}'")
        for name, texts in texts_of.items()
        if not {text.lower() for text in texts} <= {*_TRUTH}
    )
    return tuple(
        column_categories for column_categories in categories if column_categories is not None
    )


def _are_integers(file: TextTable, names: Sequence[str], label: str, values: np.ndarray) -> bool:
    """Whether labels, the numbers `values`, are written without decimal points and exponents."""
    if not (values == np.floor(values)).all() or len(np.unique(values)) > MAX_CLASSES:
        return False
    place = list(names).index(label)
    return not any(
        {*cells[place].lower()} & {*".,ed"} and cells[place].lower() not in _TRUTH
        for _, cells in file.rows()
    )


def _texts(file: TextTable, names: list[str], label: str, named: bool) -> np.ndarray | None:
    """The column of labels as texts, `(N,)`, where its first cell is the name of a class; else
    None. `named`: whatever is no number is a name.
    """
    path = file.path
    place = names.index(label)
    texts = list[str]()
    lines = list[int]()
    for number, cells in file.rows():
        first = cells[place].replace(",", ".") if file.separator == ";" else cells[place]
        if not texts and (is_number(first) or is_missing(first)):
            return None
        if not texts and not named and _is_numeral(first):
            raise InputError(
                f"{_cell(path, number, label)} is not a finite number.",
                cells[place],
                f"{advice(first)}; with num_classes, texts of any form are class names",
            )
        texts.append(cells[place])
        lines.append(number)
    spellings = {*texts}
    if len(spellings) > 2 and {text.lower() for text in spellings} <= {*_TRUTH}:
        return None
    no_header = label in texts and sum(map(is_number, names)) == len(names) - 1
    refuse_if(
        no_header,
        f"{path.name} has no header line.",
        ", ".join(names)[:80],
        "column names, then examples",
    )
    check_spellings(texts, named, lambda i: f"{path.name}, line {lines[i]}, column '{label}'")
    if not texts:
        return None
    try:
        check_texts(len(texts), max(map(len, texts)), file.size())
    except ValueError as error:
        raise InputError(f"{path.name}, column '{label}' is too large: {error}.") from None
    return np.array(texts)


def _is_numeral(cell: str) -> bool:
    """Whether a cell is a number that is written as no class is called."""
    numeral = numeral_of(cell)
    return numeral is not None and not numeral.may_name


def are_unknown(path: Path, columns: Sequence[str], encoding: str | None = None) -> bool:
    """Whether all cells of some columns are empty, as in a table to predict.

    Args:
        path: A text table.
        columns: Names of the columns.
        encoding: Character encoding. Default: None, UTF-8.
    """
    return all(all(cells) for cells in _unknown_cells(path, columns, encoding))


def num_unknown(path: Path, columns: Sequence[str], encoding: str | None = None) -> int:
    """The number of rows with an empty cell in some columns.

    Args:
        path: A text table.
        columns: Names of the columns.
        encoding: Character encoding. Default: None, UTF-8.
    """
    return sum(any(cells) for cells in _unknown_cells(path, columns, encoding))


def _unknown_cells(
    path: Path, columns: Sequence[str], encoding: str | None
) -> Iterator[list[bool]]:
    """Row by row, which cells of some columns are empty."""
    file = TextTable(path, encoding)
    column_numbers = [file.header.index(name) for name in columns]
    for _, row in file.rows():
        yield [row[place].lower() in UNKNOWN for place in column_numbers]


def _numbers(
    file: TextTable,
    names: Sequence[str],
    used: Sequence[str],
    categories: Sequence[Categories] = (),
) -> np.ndarray | None:
    """The columns `used`, in this order, with the numbers of categories; None where a cell is no
    finite number.
    """
    path = file.path
    place_of = dict(zip(names, file.column_numbers, strict=True))
    columns = [place_of[name] for name in used]
    separator = file.separator
    everything = sorted(columns) == list(range(file.width))
    # A table grows by half when it is full, and the copy stands beside it.
    examples = file.size() / len(next((line for _, line in file.body()), " "))
    check_free("data", path, 20.0 * examples * len(columns), f"{examples:,.0f} examples")
    table = None
    chosen = None if everything else columns
    truths = set[str]()
    cell_readers: list[Any] = [None, _reader(path, separator, truths)]
    if categories:
        cell_readers = [_readers_by_column(file, names, used, categories, truths)]
    for reader in cell_readers:
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
            f"{path} has no examples.", expected="one line per example below the header"
        )
    if table is not None and table.shape[1] == len(columns) and np.isfinite(table).all():
        table = table[:, columns] if everything else table
        if truths:
            _refuse_truth_among_numbers(file, names, used, table)
        return table
    return None


def _readers_by_column(
    file: TextTable,
    names: Sequence[str],
    used: Sequence[str],
    categories: Sequence[Categories],
    truths: set[str],
) -> dict[int, Callable[[str], float]]:
    """How the cells of each used column are read, by its place in the file."""
    read = _reader(file.path, file.separator, truths)
    place_of = dict(zip(names, file.column_numbers, strict=True))
    readers = {place_of[name]: read for name in used}
    for column_categories in categories:
        if column_categories.column in used:
            readers[place_of[column_categories.column]] = _code_reader(column_categories)
    return readers


def _code_reader(categories: Categories) -> Callable[[str], float]:
    """Reads the number of a category, or nan for what is none."""
    known = categories.numbers
    return lambda cell: known.get(cell.strip(), float("nan"))


def _bad_cell(
    file: TextTable,
    names: Sequence[str],
    used: Sequence[str],
    labels: Sequence[str],
    categories: Sequence[Categories],
    are_trained: bool,
) -> InputError:
    """Finds the first bad line and what is wrong with it, in terms of the file.

    A run that was trained on the columns (`are_trained`) expects numbers as in its data.
    """
    path = file.path
    read = _reader(path, file.separator, set())
    of_text = {column_categories.column: column_categories for column_categories in categories}
    for number, cells in file.rows():
        for name, cell in zip(names, cells, strict=True):
            place = _cell(path, number, name)
            received = cell or "an empty cell"
            if name in of_text:
                if is_missing(cell):
                    return InputError(f"{place} has no category.", received, MISSING_TEXT)
                of_text[name].code(cell, place)
                continue
            if name in used and not (_is_number(cell, read) and np.isfinite(read(cell))):
                among_numbers = is_placeholder(cell) and _has_numbers(file, names, name)
                instead = advice(cell, among_numbers)
                instead = AS_TRAINED if are_trained and instead == COLUMNS else instead
                if name in labels and instead not in (MISSING, FINITE):
                    numeral = numeral_of(cell)
                    instead = CLASSES if numeral is None else numeral.advice
                return InputError(f"{place} is not a finite number.", received, instead)
    return InputError(
        f"{path.name} cannot be read as a table of numbers.", path, "numbers separated by commas"
    )


def _cell(path: Path, line: int, column: str) -> str:
    """What messages call a cell of a file."""
    return f"{path.name}, line {line}: the cell in column '{column}'"


def _has_numbers(file: TextTable, names: Sequence[str], column: str) -> bool:
    """Whether some cells of a column are numbers."""
    place = list(names).index(column)
    return any(is_number(cells[place].replace(",", ".")) for _, cells in file.rows())


def _refuse_truth_among_numbers(
    file: TextTable, names: Sequence[str], used: Sequence[str], table: np.ndarray
) -> None:
    """Refuses True and False in a column with numbers other than 0 and 1, where they mean neither."""
    plain = np.asarray(np.isin(table, (0.0, 1.0)).all(axis=0)).tolist()
    mixed = {name for name, both in zip(used, plain, strict=True) if not both}
    mixed_columns = [(place, name) for place, name in enumerate(names) if name in mixed]
    for number, cells in file.rows() if mixed_columns else ():
        for place, name in mixed_columns:
            refuse_if(
                cells[place].strip().lower() in _TRUTH,
                f"{_cell(file.path, number, name)} is not a number, although others are.",
                cells[place],
                "numbers in all rows, or True and False in all rows",
            )


def _reader(path: Path, separator: str | None, truths: set[str]) -> Callable[[str], float]:
    """Reads numbers that Python does not: True and False, as pandas and R write them, which it adds
    to `truths`, exponents of Fortran, and decimal commas between semicolons, where no number has a
    point: 1,234 beside 1.5 would be a thousand.
    """
    marks = set[str]()

    def read(cell: str) -> float:
        if separator == ";":
            marks.update({",", "."} & {*cell})
            refuse_if(
                len(marks) > 1,
                f"{path.name} has numbers with commas and numbers with points.",
                cell,
                "decimal commas",
            )
            cell = cell.replace(",", ".")
        word = cell.strip().lower()
        if word not in _TRUTH:
            return number_in(cell)
        truths.add(word)
        return float(_TRUTH[word])

    return read


def _is_number(cell: str, read: Callable[[str], float] = number_in) -> bool:
    try:
        read(cell)
    except InputError:
        raise
    except ValueError:
        return False
    return True
