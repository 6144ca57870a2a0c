"""Comparison of two runs, table by table and column by column, to a tolerance."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tati_re.core.errors import AnyPath, InputError, nearest
from tati_re.core.front_door import front_door, front_doors
from tati_re.runs import files, manifest, reading


@front_doors
class Tolerance(NamedTuple):
    """The largest accepted difference of two numbers.

    Attributes:
        value: The difference, at least 0.
        kind: "absolute": abs(a - b) <= value; "relative": abs(a - b) <= value * max(abs(a),
            abs(b)). Default: "absolute".
    """

    value: float
    kind: str = "absolute"

    def exceeded(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Finds the numbers that differ by more than the tolerance.

        Args:
            a: Numbers of the first table.
            b: Numbers of the second, in the same shape.

        Returns:
            A mask in this shape. Two NaN agree, and so do equal infinities.
        """
        with np.errstate(invalid="ignore"):
            allowed = self.value * (
                np.maximum(np.abs(a), np.abs(b)) if self.kind == "relative" else 1.0
            )
            near = (np.abs(a - b) <= allowed) & np.isfinite(a - b)
        return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))


DEFAULT = Tolerance(1e-8)


class Difference(NamedTuple):
    """A disagreement between two runs: the table, its column, and how, in words. `column` may be
    empty.
    """

    table: str
    column: str
    sentence: str


@front_door
def compare(
    first: AnyPath,
    second: AnyPath,
    tolerance: Tolerance = DEFAULT,
    columns: Mapping[str, Tolerance] | None = None,
    drop: Collection[str] = (),
    ignore_sign: Collection[str] = (),
) -> list[Difference]:
    """Compares two run folders table by table, or two CSV or HDF5 files.

    Args:
        first: A run folder or a file.
        second: Another one of the same kind.
        tolerance: Tolerance for columns that `columns` does not name. Default: 1e-8, absolute.
        columns: Tolerances by column. Default: None.
        drop: Columns to leave out of the comparison. A name ending in `*` selects all columns with
            this beginning. Default: none.
        ignore_sign: Columns whose absolute values are compared, named as in `drop`. Default: none.

    Returns:
        The differences; an empty list if everything agrees.

    Raises:
        InputError: There is no such file or folder, nothing can be compared, or neither has a named
            column.
    """
    pairs = _pairs(Path(first), Path(second))
    columns = dict(columns or {})
    limits = {**columns, "*": columns.get("*", tolerance)}
    differences = []
    seen = set()
    for name, a, b in pairs:
        if not (a.exists() and b.exists()):
            differences.append(
                Difference(name, "", f"only {first if a.exists() else second} exists")
            )
            continue
        tables = _read(a), _read(b)
        seen |= {column for table in tables for column in table.columns}
        differences += _compare_tables(name, *tables, limits, drop, ignore_sign)
    for name in (*columns, *drop, *ignore_sign):
        if not any(_stands_for(name, column) for column in seen):
            raise InputError(
                f"There is no column {name}.{nearest(name, seen)}",
                expected="a column of the tables",
            )
    return differences


def _pairs(first: Path, second: Path) -> list[tuple[str, Path, Path]]:
    """Names of the tables that either has, and their paths in both."""
    for path in (first, second):
        if not path.exists():
            beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
            raise InputError(
                f"{path} does not exist.{nearest(path.name, beside)}",
                expected="a run folder or a table",
            )
    if first.is_dir() != second.is_dir():
        raise InputError(
            "A folder cannot be compared with a file.",
            f"{first} and {second}",
            "two folders or two files",
        )
    if not first.is_dir():
        return [
            (
                first.name if first.name == second.name else f"{first.name} and {second.name}",
                first,
                second,
            )
        ]
    for folder in (first, second):
        manifest.read(folder)
    pairs = [
        (file.name, first / file.name, second / file.name)
        for file in files.FILES
        if file.repeatable
    ]
    return [pair for pair in pairs if pair[1].exists() or pair[2].exists()]


def _read(path: Path) -> pd.DataFrame:
    try:
        return reading.read_h5(path) if path.suffix in (".h5", ".hdf5") else reading.read_csv(path)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(
            f"{path} cannot be read as a table: {reason}.", expected="a .csv or .h5 file"
        ) from None


def _stands_for(name: str, column: str) -> bool:
    return column.startswith(name[:-1]) if name.endswith("*") else column == name


def _compare_tables(
    name: str,
    a: pd.DataFrame,
    b: pd.DataFrame,
    limits: dict[str, Tolerance],
    drop: Any,
    ignore_sign: Any,
) -> list[Difference]:
    """What differs, each column by the first limit that stands for it."""

    def is_one_of(column: str, names: Collection[str]) -> bool:
        return any(_stands_for(name, column) for name in names)

    differences = []
    for column in dict.fromkeys([*a.columns, *b.columns]):
        if is_one_of(column, drop):
            continue
        if column not in a or column not in b:
            differences.append(
                Difference(
                    name, column, f"only the {'first' if column in a else 'second'} has this column"
                )
            )
    if len(a) != len(b):
        return [*differences, Difference(name, "", f"{len(a)} rows and {len(b)} rows")]
    for column in a.columns:
        if column not in b or is_one_of(column, drop):
            continue
        limit = next(value for named, value in limits.items() if _stands_for(named, column))
        sentence = _difference(a, b, column, limit, is_one_of(column, ignore_sign))
        if sentence:
            differences.append(Difference(name, column, sentence))
    return differences


def _difference(
    a: pd.DataFrame, b: pd.DataFrame, column: str, limit: Tolerance, ignore_sign: bool
) -> str | None:
    try:
        x, y = (np.asarray(table[column], dtype=np.float64) for table in (a, b))
    except (TypeError, ValueError):
        unlike = np.flatnonzero((a[column].astype(str) != b[column].astype(str)).to_numpy())
        if not len(unlike):
            return None
        row = int(unlike[0])
        return f"{a[column].iloc[row]} and {b[column].iloc[row]} {_place(a, row)}"
    if ignore_sign:
        x = np.abs(x)
        y = np.abs(y)
    exceeds = limit.exceeded(x, y)
    if not exceeds.any():
        return None
    with np.errstate(invalid="ignore"):
        distance = np.where(exceeds, np.nan_to_num(np.abs(x - y), nan=np.inf), -1.0)
    row = int(np.argmax(distance))
    return (
        f"{x[row]:.10g} and {y[row]:.10g} {_place(a, row)}, the largest of "
        f"{int(exceeds.sum())} differences beyond {limit.value:g} {limit.kind}"
    )


def _place(table: pd.DataFrame, row: int) -> str:
    known = [
        f"{name} {table[name].iloc[row]}" for name in ("step", "walker", "id") if name in table
    ]
    return f"at {', '.join(known)}" if known else f"in row {row + 1}"
