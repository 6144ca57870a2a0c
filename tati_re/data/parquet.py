"""Parquet files, by the package pyarrow, which the extra `parquet` installs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.unpacking import check_size
from tati_re.data.contents import Contents
from tati_re.data.frames import COLUMNS, DATES, MISSING, labels_of
from tati_re.data.tables import Choice


def read_parquet_names(path: Path) -> list[str]:
    """Returns the names of the columns."""
    return list(_opened(path).schema_arrow.names)


def read_parquet(path: Path, names: Sequence[str], choice: Choice) -> Contents:
    """Inputs `(N, columns)`, float32 where all of them are, else float64; targets `(N, labels)` in their own type,
    names of classes as texts, `(N,)`."""
    used = (*choice.inputs, *choice.labels, *((choice.weights,) if choice.weights else ()))
    opened = _opened(path)
    try:
        # A column of one number in all rows is a few bytes, however many rows a header claims.
        check_size(opened.metadata.num_rows * 8 * len(used), path.stat().st_size, choice.limit)
        for name in used:
            _check_kind(path, name, opened.schema_arrow.field(name).type, (name,) == choice.labels)
        table = opened.read(columns=list(used))
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).split("\n")[0].rstrip(".")
        raise InputError(f"{path} cannot be read as a parquet file: {reason}.") from None
    refuse_if(table.num_rows == 0, f"{path.name} has no examples.", path, "at least one row")
    columns = {name: _column(path, name, table.column(name)) for name in used}
    inputs = np.stack([columns[name] for name in choice.inputs], axis=1)
    if inputs.dtype not in (np.float32, np.float64):
        inputs = inputs.astype(np.float64)
    targets = labels_of(np.stack([columns[name] for name in choice.labels], axis=1))
    weights = columns[choice.weights] if choice.weights else None
    return Contents(inputs, targets, (), path.name, choice.inputs, weights=weights)


def _opened(path: Path):
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        what = f"{path.name}: parquet files need the package pyarrow, which is not installed."
        raise InputError(what, expected="pip install 'tati_re[parquet]', or a .csv or .npz file") from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as a parquet file.", str(error).split("\n")[0].rstrip(".")) from None


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
        raise InputError(f"{path.name}, column '{name}' does not hold numbers.", kind, DATES if dates else COLUMNS)
