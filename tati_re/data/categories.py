"""Columns of text among the inputs: each is a few categories, and one input of 0 and 1 for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.data.columns import IS, Column, Columns
from tati_re.data.frames import is_frame
from tati_re.data.labels import alike, are_category_names

_MOST_SHOWN = 12


@dataclass(frozen=True)
class Categories:
    """The categories of one column of text. The data hold their numbers, from 0 in this order.

    Args:
        column: Name of the column.
        texts: The categories, sorted.
    """

    column: str
    texts: tuple[str, ...]

    @property
    def numbers(self) -> dict[str, float]:
        """The number of each category by its text."""
        return {text: float(number) for number, text in enumerate(self.texts)}

    def codes(self, cells: Sequence[str], where: str) -> np.ndarray:
        """The numbers of the categories of some cells, float64 `(n,)`.

        Args:
            cells: Texts, `(n,)`.
            where: What messages call the column.

        Raises:
            InputError: A text is not one of the categories.
        """
        numbers = self.numbers
        return np.array([self._code(numbers, str(cell).strip(), where) for cell in cells])

    def code(self, cell: str, where: str) -> float:
        """The number of the category of one cell, as `codes`.

        Args:
            cell: The text of the cell.
            where: What messages call the place of the cell.

        Raises:
            InputError: The text is not one of the categories.
        """
        return float(self.codes([cell], where)[0])

    def _code(self, numbers: Mapping[str, float], text: str, where: str) -> float:
        if text not in numbers:
            shown = ", ".join(self.texts[:_MOST_SHOWN])
            more = ", ..." if len(self.texts) > _MOST_SHOWN else ""
            problem = f"{where} holds a category that the training data lack."
            problem += nearest(text, self.texts)
            raise InputError(problem, repr(text), f"one of {shown}{more}")
        return numbers[text]

    def check_codes(self, numbers: np.ndarray, where: str) -> None:
        """Refuses numbers that are not those of categories.

        Args:
            numbers: One number for each example, `(n,)`.
            where: What messages call the column.
        """
        known = np.isin(numbers, np.arange(len(self.texts)))
        if not known.all():
            expected = (
                f"texts such as {self.texts[0]!r}, or their numbers 0 to {len(self.texts) - 1}"
            )
            received = f"{float(numbers[~known][0]):g}"
            raise InputError(f"{where} holds categories.", received, expected)


def stored_categories(entries: Iterable[Any]) -> tuple[Categories, ...]:
    """The categories that a manifest holds.

    Args:
        entries: The manifest's entries, with the attributes `column` and `texts`.
    """
    return tuple(Categories(entry.column, tuple(entry.texts)) for entry in entries)


def categories_of(column: str, texts: Iterable[str], count: int, where: str) -> Categories | None:
    """The categories of a column of text, or None where its texts are not names.

    Texts are names if there are 2 to 100 different ones, most of them repeat, and none looks like a
    number, a date or a missing value.

    Args:
        column: Name of the column.
        texts: The different texts of the column.
        count: Number of rows.
        where: What messages call the column.

    Raises:
        InputError: Some texts differ only in upper and lower case, or in spaces.
    """
    names = sorted({text.strip() for text in texts})
    if not are_category_names(names, count):
        return None
    spellings = alike(names)
    if spellings:
        raise InputError(
            f"{where} holds categories that differ only in upper and lower case, in spaces or in a full stop.",
            ", ".join(map(repr, spellings)),
            "one spelling per category, for example with x.str.strip().str.lower()",
        )
    return Categories(column, tuple(names))


def with_codes(
    values: Any, known: Sequence[Categories] | None, names: Sequence[str], table_name: str
) -> tuple[Any, tuple[Categories, ...]]:
    """A table with columns of text replaced by the numbers of their categories.

    Args:
        values: A data frame, or an array of objects `(n, columns)`; anything else stays as it is.
        known: The categories of the training data; None: those that the columns have.
        names: Names of the columns of an array. Default names are x1, x2, ...
        table_name: What messages call the table.

    Returns:
        The table, and the categories of its columns.
    """
    if known is not None and not known:
        return values, ()
    frame = _framed(values, names)
    if frame is None:
        return values, tuple(known or ())
    categories = _found_in(frame, table_name) if known is None else tuple(known)
    if not categories:
        return values, ()

    coded = frame.copy(deep=False)
    for column_categories in categories:
        if column_categories.column not in frame.columns:
            continue
        cells = frame[column_categories.column]
        if _is_text(cells) and not cells.isna().any():
            where = f"{table_name}: column '{column_categories.column}'"
            coded[column_categories.column] = column_categories.codes(
                np.asarray(cells).tolist(), where
            )
    return coded, categories


def _framed(values: Any, names: Sequence[str]) -> Any:
    """A data frame with texts as names of columns; None for what is no table that may hold text."""
    if is_frame(values):
        return values.set_axis([str(name) for name in values.columns], axis=1)
    array = values if isinstance(values, np.ndarray) else None
    if array is None or array.dtype.kind not in "OU" or array.ndim != 2:
        return None
    if len(names) != array.shape[1]:
        return None
    from pandas import DataFrame

    return DataFrame(array, columns=[str(name) for name in names]).infer_objects()


def _found_in(frame: Any, table_name: str) -> tuple[Categories, ...]:
    all_categories = []
    for place, name in enumerate(frame.columns):
        cells = frame.iloc[:, place]
        if not _is_text(cells) or cells.isna().any():
            continue
        texts = {str(cell) for cell in cells.unique()}
        categories = categories_of(name, texts, len(cells), f"{table_name}: column '{name}'")
        if categories is not None:
            all_categories.append(categories)
    return tuple(all_categories)


def _is_text(cells: Any) -> bool:
    """Whether all cells of a column that are not missing are texts."""
    array = np.asarray(cells[cells.notna()])
    if array.dtype.kind == "U":
        return True
    return array.dtype.kind == "O" and len(array) > 0 and all(isinstance(c, str) for c in array)


def check_codes(values: np.ndarray, known: Sequence[Categories], names: Sequence[str]) -> None:
    """Refuses rows of numbers whose columns of categories hold other numbers than theirs.

    Args:
        values: Inputs, `(n, columns)`.
        known: The categories of the training data.
        names: Names of the columns.
    """
    if values.ndim != 2 or values.shape[1] != len(names):
        return
    for column_categories in known:
        numbers = values[:, list(names).index(column_categories.column)]
        column_categories.check_codes(numbers, f"inputs: column '{column_categories.column}'")


def one_hot_columns(
    columns: Columns | None, names: Sequence[str], known: Sequence[Categories]
) -> Columns | None:
    """The map of columns with one input of 0 and 1 for each category.

    Args:
        columns: The map that the user asked for; None: all columns as they are.
        names: Names of the columns of the data.
        known: Categories of the columns of text.

    Raises:
        InputError: A power, sine or cosine of a column of text.
    """
    if not known:
        return columns
    by_name = {column_categories.column: column_categories for column_categories in known}
    asked = columns or Columns(
        tuple(Column(name, place) for place, name in enumerate(names)), tuple(names)
    )
    one_hot: list[Column] = []
    for column in asked.columns:
        categories = by_name.get(asked.names[column.source])
        one_hot += [column] if categories is None else _indicators(column, categories)
    return Columns(tuple(one_hot), asked.names)


def _indicators(column: Column, categories: Categories) -> list[Column]:
    plain = column.function == "power" and column.power == 1
    problem = f"input_columns: column '{categories.column}' holds text."
    refuse_if(not plain, problem, column.text, f"its name alone: {categories.column}")
    return [
        Column(f"{categories.column}={text}", column.source, IS, number)
        for number, text in enumerate(categories.texts)
    ]


def categories_note(known: Sequence[Categories]) -> str:
    """What the start of a run says about columns of text."""
    if len(known) == 1:
        count = len(known[0].texts)
        return (
            f"Text column {known[0].column} is one-hot encoded: {count} categories, one input each."
        )
    counted = ", ".join(f"{each.column} ({len(each.texts)})" for each in known)
    return f"Text columns are one-hot encoded, one input per category: {counted}."
