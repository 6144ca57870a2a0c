"""Derived inputs: columns of the data, their powers, sines and cosines, as a map applied before the
network.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if

FORMS = "x1, x1^2, sin(x1) or cos(x1), where x1, x2, ... may also be column names"

_POWER = re.compile(r"(.+?)\s*\^\s*([0-9]+)")
_CALL = re.compile(r"(sin|cos)\(\s*(.+?)\s*\)")


IS = "is"
"""Function of a column of categories: 1 where the number of the category is `power`, else 0."""


@dataclass(frozen=True)
class Column:
    """One derived input as the user wrote it: a power, the sine or the cosine of column number
    `source`, from 0; or `IS`, whether that column holds category number `power`.
    """

    text: str
    source: int
    function: str = "power"
    power: int = 1


@dataclass(frozen=True)
class Columns:
    """The map from the columns of the data, called `names`, to the inputs of a network."""

    columns: tuple[Column, ...]
    names: tuple[str, ...]

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """The derived inputs `(N, number of columns)`, float32 if the inputs are float32, else
        float64.
        """
        if inputs.ndim != 2 or inputs.shape[1] != len(self.names):
            expected = f"{len(self.names)} columns: {', '.join(self.names)}"
            raise InputError(
                "input_columns do not fit the inputs.",
                f"inputs of shape {inputs.shape[1:]}",
                expected,
            )
        values = inputs.astype(np.float32 if inputs.dtype == np.float32 else np.float64)
        return np.stack([_derived(c, values[:, c.source]) for c in self.columns], axis=1)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns as the user wrote them."""
        return tuple(column.text for column in self.columns)

    @property
    def plain(self) -> bool:
        """Whether the map changes nothing: every column as it is, in order."""
        plain = tuple(Column(c.text, i) for i, c in enumerate(self.columns))
        return self.columns == plain and len(plain) == len(self.names)

    def of_used(self) -> "Columns":
        """The same map from only the columns that it uses, in order of first mention."""
        used = list(dict.fromkeys(column.source for column in self.columns))
        moved = tuple(
            Column(c.text, used.index(c.source), c.function, c.power) for c in self.columns
        )
        return Columns(moved, tuple(self.names[source] for source in used))


def parse_columns(texts: Sequence[str], names: Sequence[str]) -> Columns:
    """Reads derived inputs as a user writes them: `x1`, `x1^2`, `sin(x1)`, `cos(x2)`.

    Args:
        texts: The derived inputs, at least one. Exponents are positive whole numbers. A column is
            called by its name. `x2` is the second column if no column has this name, as is `2`.
        names: Names of the columns of the data.

    Raises:
        InputError: There are no texts, or one cannot be read.
    """
    refuse_if(not texts, "input_columns are empty.", expected=f"at least one of {FORMS}")
    return Columns(tuple(_column(text, names) for text in texts), tuple(names))


def _derived(column: Column, values: np.ndarray) -> np.ndarray:
    """One derived input, `(N,)`, in the type of the values."""
    if column.function == "sin":
        return np.sin(values)
    if column.function == "cos":
        return np.cos(values)
    if column.function == IS:
        return (values == column.power).astype(values.dtype)
    return values**column.power


def numbered(count: int) -> tuple[str, ...]:
    """Returns default names for columns: x1, x2, ..."""
    return tuple(f"x{i + 1}" for i in range(count))


def _column(text: str, names: Sequence[str]) -> Column:
    plain = text.strip()
    if plain in names:
        return Column(text, list(names).index(plain))
    if call := _CALL.fullmatch(plain):
        return Column(text, _source(call[2], text, names), call[1])
    if (power := _POWER.fullmatch(plain)) and int(power[2]) > 0:
        return Column(text, _source(power[1], text, names), "power", int(power[2]))
    return Column(text, _source(plain, text, names))


def _source(variable: str, text: str, names: Sequence[str]) -> int:
    if variable in names:
        return list(names).index(variable)
    number = re.fullmatch(r"x?([1-9][0-9]*)", variable)
    if number and int(number[1]) <= len(names):
        return int(number[1]) - 1
    refuse_if(
        "," in text,
        "input_columns: there are several columns in one entry.",
        text,
        "an entry for each column: with spaces between them on the command line, a list elsewhere",
    )
    refuse_if(
        re.search(r"[()^*+/]", variable), "input_columns: one entry cannot be parsed.", text, FORMS
    )
    problem = f"input_columns: there is no column '{variable}'.{nearest(variable, names)}"
    listed = ", ".join(names) if len(names) <= 10 else f"{', '.join(names[:9])}, ..., {names[-1]}"
    raise InputError(problem, text, f"columns of {listed}")
