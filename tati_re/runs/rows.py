"""Rows of a table between two flushes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tati_re.core.errors import AnyPath, InputError
from tati_re.runs.digests import Digest
from tati_re.runs.storage import storing

INTEGERS = (
    *("step", "walker", "rung", "replica", "rung_low", "rung_high", "replica_low", "replica_high"),
    *("batch_size", "accepted"),
)
"""Columns of the tables of a run that hold integers."""


class Rows:
    """Base of both formats: the columns, the rows waiting for the next flush, the position on disk."""

    def __init__(self, path: AnyPath, columns: Sequence[str], integer_columns: Sequence[str] = INTEGERS) -> None:
        self.path = Path(path)
        self.columns = tuple(columns)
        if len(set(self.columns)) != len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise InputError("A table cannot have two columns of the same name.", received=twice)
        self.is_integer = np.isin(self.columns, list(integer_columns))
        self.pending: list[np.ndarray] = []
        self.on_disk = 0
        self.digest = Digest()
        self._left: int | None = None

    def append(self, rows: np.ndarray) -> None:
        """Adds rows `(n, columns)`, copied as float64, until `flush`; NaN is "no value", not in integer columns."""
        rows = np.array(rows, dtype=np.float64, ndmin=2)
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise ValueError(f"rows have shape {rows.shape}, the table {self.path} has {len(self.columns)} columns")
        if not np.isfinite(rows[:, self.is_integer]).all():
            raise ValueError(f"an integer column of {self.path} received a number that is not finite")
        if len(rows):
            self.pending.append(rows)

    def flush(self) -> None:
        """Writes the waiting rows and returns when they are on disk.

        Raises:
            StorageError: They could not be written; rows up to `position()` stay readable, the others keep waiting.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Flushes; the file is closed between flushes anyway."""
        self.flush()

    def _check_left(self) -> None:
        """Refuses to write where the file is not as long, in bytes, as the last write left it."""
        with storing(self.path):
            size = self.path.stat().st_size
        if self._left is not None and size != self._left:
            raise InputError(
                f"The file {self.path} was changed while its run wrote it, by another process perhaps; nothing more is "
                "written there.",
                received=f"{size:,} bytes",
                expected=f"{self._left:,} bytes, as the run left it",
            )

    def position(self) -> int:
        return self.on_disk
