"""Parameters from the rows of a trajectory, ours or TATi's."""

import csv
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.files.cells import from_cell
from tati_re.core.files.regular import check_regular
from tati_re.core.files.text_lines import check_cells, numbered_lines
from tati_re.runs import files, reading

KINDS = "a trajectory (.csv, .h5), an .npz, a .keras file or a run folder"
"""Files that hold parameters, in words."""
_WEIGHTS = re.compile(r"w(?:eight)?(\d+)")
_BIASES = re.compile(r"b(?:ias)?(\d+)")
_WALKER = ("walker", "id")


def steps_between(every: int, fewest: int, drawn: np.ndarray | int) -> np.ndarray:
    """Steps between stored positions of a walker.

    The spacing is `every`, halved while it is even and leaves fewer positions than `fewest`.

    Args:
        every: The largest spacing, in steps; 0: no positions are stored.
        fewest: The least number of positions. If it is 0, or `every` is below 8, the spacing is
            always `every`.
        drawn: Steps after the burn-in so far, a number or an array.

    Returns:
        The spacing, int64, with the shape of `drawn`.
    """
    halvings = (every & -every).bit_length() - 1 if fewest and every > 7 else 0
    least = every >> halvings
    doublings = np.clip(np.frexp(drawn / max(1, fewest * least))[1] - 1, 0, halvings)
    return np.int64(least) * np.int64(2) ** doublings.astype(np.int64)


class ExpectedParameters(NamedTuple):
    """The names of a model's parameters, and of fixed ones, which keep their values: a file may
    have them too.
    """

    names: list[str]
    fixed: Collection[str] = ()

    def column_numbers(self, path: Path, columns: list[str]) -> list[int]:
        """Returns the column of each parameter of the model, from 0.

        Args:
            path: The file, for messages.
            columns: Names of the parameter columns, in the order of the file.

        Raises:
            InputError: The names, without the fixed ones, differ from the model's.
        """
        self.check(path, [name for name in columns if name not in self.fixed])
        place = {name: k for k, name in enumerate(columns)}
        return [place[name] for name in self.names]

    def check(self, path: Path, names: list[str]) -> None:
        """Refuses names of parameters that differ from the model's.

        Args:
            path: The file, for messages.
            names: The names in the file, in order.

        Raises:
            InputError: The number or a name differs.
        """
        if names == self.names:
            return
        received = f"{len(names)} parameters"
        expected = f"{len(self.names)} parameters"
        refuse_if(
            len(names) != len(self.names),
            f"parameters: {path} does not match the model.",
            received,
            expected,
        )
        first = next(pair for pair in zip(names, self.names, strict=True) if pair[0] != pair[1])
        raise InputError(
            f"parameters: {path} is from another model.", f"a parameter {first[0]}", first[1]
        )

    def checked(self, path: Path, values: np.ndarray) -> np.ndarray:
        """Returns values as float64, after a check that they are parameters of the model.

        Args:
            path: The file, for messages.
            values: Values, shape (rows, parameters), at least one row.

        Raises:
            InputError: The shape does not fit, or a value is not a finite real number.
        """
        values = np.asarray(values)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            received = (
                f"{values.shape[-1]} parameters"
                if values.ndim == 2
                else f"an array of shape {values.shape}"
            )
            raise InputError(
                f"parameters: {path} does not match the model.",
                received,
                f"{len(self.names)} parameters",
            )
        refuse_if(
            values.dtype.kind not in "fiu",
            f"parameters: {path} does not contain real numbers.",
            f"values of the type {values.dtype}",
            "finite numbers",
        )
        refuse_if(not len(values), f"parameters: {path} contains no rows.", expected=KINDS)
        refuse_if(
            not np.isfinite(values).all(),
            f"parameters: {path} contains values that are not finite.",
            expected="finite numbers",
        )
        return values.astype(np.float64)


def csv_rows(path: Path, step: int | None, expected: ExpectedParameters) -> tuple[np.ndarray, int]:
    """Reads the parameters at a step from a CSV file; on a ladder only rung 0 counts.

    Args:
        path: The CSV file, from this package or TATi.
        step: The step. None: the last one.
        expected: The parameters of the model.

    Returns:
        Parameters, shape (walkers, parameters), in the walkers' order, and the step. Without a
        column `step` a row's number, from 0, is its step.

    Raises:
        InputError: The file has another model's parameters, a cell that is not a number, or no such
            step.
    """
    check_regular(path, "parameters")
    lines = numbered_lines(path, reading.table_bytes(path))
    columns = [from_cell(name.strip()) for name in next(csv.reader([lines[0][1]]))]
    chosen, step_column, walker_column = columns_of(path, columns, expected)
    rung = columns.index("rung") if "rung" in columns else None

    index: list[list[int]] = []
    rows: list[tuple[int, str]] = []
    for number, line in lines[1:]:
        cells = line.split(",")
        check_cells(path, number, len(cells), len(columns))
        if rung is not None and _number(path, number, cells[rung]) != 0:
            continue
        step_here = len(rows) if step_column is None else _whole(path, number, cells[step_column])
        walker_here = 0 if walker_column is None else _whole(path, number, cells[walker_column])
        index.append([step_here, walker_here])
        rows.append((number, line))

    at_step, actual_step = _rows_at(path, np.array(index, dtype=np.int64).reshape(-1, 2), step)
    values = []
    for number, line in (rows[row] for row in at_step):
        cells = line.split(",")
        values.append([_number(path, number, cells[k]) for k in chosen])
    return np.array(values), actual_step


def _number(path: Path, line: int, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(
            f"parameters: {path}, line {line} has a cell that is not a number.",
            repr(cell.strip()),
        ) from None


def _whole(path: Path, line: int, cell: str) -> int:
    value = _number(path, line, cell)
    if not abs(value) < 2**62:
        raise InputError(
            f"parameters: {path}, line {line} has a step or walker that is not an integer.",
            cell.strip(),
        )
    return int(value)


def h5_rows(path: Path, step: int | None, expected: ExpectedParameters) -> tuple[np.ndarray, int]:
    """Reads the parameters at a step from an HDF5 trajectory; on a ladder only rung 0 counts.

    Args:
        path: The HDF5 file.
        step: The step. None: the last one.
        expected: The parameters of the model.

    Returns:
        Parameters, shape (walkers, parameters), in the walkers' order, and the step.

    Raises:
        InputError: The file has another model's parameters, or no such step.
    """
    with reading.open_h5(path) as file:
        index_columns, columns = reading.h5_columns(file)
        chosen, _, _ = columns_of(path, [*index_columns, *columns], expected)
        where = index_columns[:2]
        refuse_if(
            where != [*files.INDEX],
            f"parameters: {path} is not a table of a run.",
            where,
            "step and walker first",
        )
        index = file["index"][: reading.h5_length(file)]
        selected = np.arange(len(index))
        if "rung" in index_columns:
            selected = selected[index[:, index_columns.index("rung")] == 0]
        rows, actual_step = _rows_at(path, index[selected][:, :2], step)
        value_columns = np.array(chosen) - len(index_columns)
        return np.array(
            [file["rows"][int(selected[row])][value_columns] for row in rows]
        ), actual_step


def columns_of(
    path: Path, columns: list[str], expected: ExpectedParameters
) -> tuple[list[int], int | None, int | None]:
    """Finds the columns of the parameters, the step and the walker in a table.

    Args:
        path: The file, for messages.
        columns: Names of all columns, in the order of the file, from this package or TATi.
        expected: The parameters of the model.

    Returns:
        Column of each parameter, in the model's order; column of the step; column of the walker.
        Numbers are from 0; None for a step or a walker without a column.

    Raises:
        InputError: The table has no parameters, or another model's.
    """
    numbers = {name: k for k, name in enumerate(columns)}
    step = numbers.get("step")
    walker = next((numbers[name] for name in _WALKER if name in numbers), None)
    names = expected.names
    if all(name in numbers for name in names):
        known = set(names)
        expected.column_numbers(path, [name for name in columns if name in known or "/" in name])
        return [numbers[name] for name in names], step, walker
    weights = _numbered(_WEIGHTS, numbers)
    biases = _numbered(_BIASES, numbers)
    if weights or biases:
        return _of_tati(path, weights, biases, names), step, walker
    if any(re.fullmatch(r"c\d+", name) for name in columns):
        raise InputError(
            f"parameters: {path} contains projections on directions, not parameters.",
            expected=KINDS,
        )
    if parameter_columns := [name for name in columns if "[" in name or "/" in name]:
        expected.check(path, parameter_columns)
    raise InputError(
        f"parameters: {path} has no parameter columns.",
        received=", ".join(columns[:4]) + ", ...",
    )


def named_columns(columns: Sequence[str], names: Sequence[str]) -> list[int] | None:
    """Finds the columns of parameters in a table that holds nothing else.

    Args:
        columns: Names of the columns, in the order of the file, from this package or TATi.
        names: Names of the model's parameters, in order.

    Returns:
        Column of each parameter, from 0; None if the columns do not name all parameters.
    """
    numbers = {name: k for k, name in enumerate(columns)}
    weights, biases = _numbered(_WEIGHTS, numbers), _numbered(_BIASES, numbers)
    if len(columns) != len(names):
        return None
    if {*numbers} == {*names}:
        return [numbers[name] for name in names]
    num_biases = sum(map(_is_bias, names))
    if (len(weights), len(biases)) != (len(names) - num_biases, num_biases):
        return None
    return _of_tati(Path(), weights, biases, [*names])


def _is_bias(name: str) -> bool:
    return name.split("[")[0].rsplit("/", 1)[-1] == "bias"


def _numbered(kind: re.Pattern, numbers: dict[str, int]) -> list[int]:
    numbered = [
        (int(match[1]), place) for name, place in numbers.items() if (match := kind.fullmatch(name))
    ]
    return [place for _, place in sorted(numbered)]


def _of_tati(path: Path, weights: list[int], biases: list[int], names: list[str]) -> list[int]:
    """Places of the model's parameters among TATi's columns: its weights and its biases are
    numbered apart.
    """
    is_bias = [_is_bias(name) for name in names]
    expected_counts = (len(names) - sum(is_bias), sum(is_bias))
    if (len(weights), len(biases)) != expected_counts:
        received = f"{len(weights)} weights and {len(biases)} biases"
        expected = f"{expected_counts[0]} weights and {expected_counts[1]} biases"
        raise InputError(f"parameters: {path} does not match the model.", received, expected)
    left = {False: iter(weights), True: iter(biases)}
    return [next(left[bias]) for bias in is_bias]


def _rows_at(path: Path, index: np.ndarray, step: int | None) -> tuple[list[int], int]:
    """The rows of a step, one a walker in the walkers' order, and the step; the last step where
    none is asked for.
    """
    refuse_if(not len(index), f"parameters: {path} has no rows.", expected="at least one")
    if step is None:
        step = int(index[:, 0].max())
    if not (rows := rows_of_step(index, step)):
        raise InputError(
            f"parameters_step: {path} has no such step.", step, stored_steps(index, step)
        )
    return rows, step


def rows_of_step(index: np.ndarray, step: int) -> list[int]:
    """The first row of each walker at a step, in the walkers' order.

    Args:
        index: Step and walker of each row, shape (rows, 2).
        step: The step.

    Returns:
        Row numbers from 0; none if the step is not stored.
    """
    at_step = np.flatnonzero(index[:, 0] == np.float64(step))  # which any integer fits
    return at_step[np.unique(index[at_step, 1], return_index=True)[1]].tolist()


def stored_steps(index: np.ndarray, step: int) -> str:
    """Says in words which steps are stored, and which of them is the nearest.

    Args:
        index: Step and walker of each row, shape (rows, 2); at least one row.
        step: The step that was asked for.
    """
    steps = np.unique(index[:, 0])
    near = steps[np.argmin(np.abs(steps - np.float64(step)))]
    return (
        f"one of the {len(steps)} stored steps from {steps[0]} to {steps[-1]}; the nearest is "
        f"{near}"
    )
