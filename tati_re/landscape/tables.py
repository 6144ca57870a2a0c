"""Tables of a landscape, written block by block and resumable."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from tati_re.core.errors import AnyPath, InputError
from tati_re.core.files.regular import regular_bytes
from tati_re.core.process.interruption import saying
from tati_re.runs.checked_tables import read_table
from tati_re.runs.csv_table import CsvTable, frame_text
from tati_re.runs.files import PARTIAL
from tati_re.runs.reading import read_csv
from tati_re.runs.specification import first_difference, open_folder
from tati_re.runs.storage import storing, write_whole

SPECIFICATION = "landscape.toml"
EXCESS = "ln_excess_loss"


def digest(parts: Iterable[Any]) -> str:
    """A fingerprint of arrays, numbers and texts."""
    checksum = hashlib.sha256()
    for part in parts:
        array = part if isinstance(part, np.ndarray) else None
        checksum.update(b"|" if array is None else str((array.shape, array.dtype)).encode())
        checksum.update(
            repr(part).encode() if array is None else np.ascontiguousarray(array).tobytes()
        )
    return checksum.hexdigest()[:16]


def prepare(folder: AnyPath, specification: Mapping[str, Any], overwrite: bool = False) -> Path:
    """Makes the folder of a landscape, or opens one with the same specification.

    Args:
        folder: The folder.
        specification: Entries of `landscape.toml`; None values are left out.
        overwrite: Whether to remove the files of another landscape. Default: False.

    Returns:
        The folder.

    Raises:
        InputError: The folder contains something else and `overwrite` is false.
    """
    now = {name: value for name, value in specification.items() if value is not None}
    outdated = [
        f"{name}{end}"
        for name in ("landscape.csv", "trajectory.csv", "hessian.csv")
        for end in ("", PARTIAL)
    ]
    open_folder(
        folder,
        SPECIFICATION,
        now,
        "landscape",
        outdated=outdated,
        overwrite=overwrite,
        difference=_difference,
    )
    return Path(folder)


def _difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    if then.get("digest") == now["digest"]:
        return None
    return (
        first_difference(then, {name: value for name, value in now.items() if name != "digest"})
        or "other data"
    )


def grown(
    path: Path | None,
    columns: Sequence[str],
    num_rows: int,
    size: int,
    rows: Callable[[int, int], np.ndarray],
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """All rows of a table: those in its unfinished file, then the others, appended block by block.

    Args:
        path: The CSV file of the finished table. The unfinished file is `....partial` in the same
            folder. None: rows are only kept in memory.
        columns: Names of the columns.
        num_rows: The number of rows of the finished table.
        size: The number of rows in a block.
        rows: `rows(first, last)` computes the rows from `first` to before `last`, shape (n,
            columns).
        progress: Called after each block with the numbers of finished rows and of all rows.
            Default: None.

    Returns:
        Rows, shape (num_rows, columns).
    """
    if path is None:
        done = 0
        table = None
        blocks_done: list[np.ndarray] = []
    else:
        blocks_done, table = _opened(path.with_name(path.name + PARTIAL), columns)
        done = sum(len(part) for part in blocks_done)

    def stopped() -> str:
        where = (
            "nothing was saved"
            if path is None
            else f"saved in {path.parent}; the same call continues"
        )
        return f"Interrupted after {sum(map(len, blocks_done)):,} of {num_rows:,} points: {where}."

    with saying(stopped):
        for first in range(done, num_rows, size):
            block = rows(first, min(first + size, num_rows))
            blocks_done.append(block)
            if table is not None:
                table.append(block)
                table.flush()
            if progress is not None:
                progress(min(first + size, num_rows), num_rows)
    return np.concatenate(blocks_done)[:num_rows]


def _opened(path: Path, columns: Sequence[str]) -> tuple[list[np.ndarray], CsvTable]:
    """The complete rows of an unfinished file, and the file opened for appending."""
    integers = [name for name in columns if name in ("scale", "step", "walker")]
    if not path.exists() or b"\n" not in regular_bytes(path)[:65536]:
        return [], CsvTable(path, columns, integers)
    frame = read_table(path)
    table = CsvTable.reopen(
        path, columns, regular_bytes(path).rfind(b"\n") + 1, integer_columns=integers
    )
    return ([frame.to_numpy(np.float64)] if len(frame) else []), table


def finish(path: Path, frame: pandas.DataFrame) -> None:
    """Writes the finished table and removes the unfinished file.

    Args:
        path: The CSV file.
        frame: The table.
    """
    write_whole(path, frame_text(frame))
    with storing(path):
        path.with_name(path.name + PARTIAL).unlink(missing_ok=True)


def finished(path: Path | None) -> pandas.DataFrame | None:
    if path is None or not path.exists():
        return None
    expected = "remove this file; it is computed again"
    try:
        frame = read_csv(path)
    except InputError as error:  # it names the file
        raise InputError(str(error), expected=expected) from None
    if any(kind.kind not in "biuf" for kind in frame.dtypes):
        raise InputError(f"{path} contains entries that are not numbers.", expected=expected)
    return frame


def with_excess(frame: pandas.DataFrame, lowest: float) -> pandas.DataFrame:
    """The table with the column ln(L - L0).

    Args:
        frame: A table with the column `loss`, L.
        lowest: L0. The column is nan where L is not above L0.
    """
    excess = frame["loss"].to_numpy(np.float64) - lowest
    positive = excess > 0
    return frame.assign(
        **{EXCESS: np.where(positive, np.log(np.where(positive, excess, 1.0)), np.nan)}
    )
