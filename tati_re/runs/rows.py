"""Rows of a table between two flushes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import AnyPath, InputError
from tati_re.runs.digests import Digest
from tati_re.runs.storage import storing

INTEGERS = ["step", "walker", "rung", "replica"]
"""Columns of the tables of a run that hold integers."""
OF_SWAPS = [
    *INTEGERS,
    "rung_low",
    "rung_high",
    "replica_low",
    "replica_high",
    "batch_size",
    "accepted",
]
"""Those of exchange.csv; elsewhere other numbers may have these names."""


class Rows:
    """Base of both formats: columns, rows that wait for the next flush, and position on disk.

    Args:
        path: The file.
        columns: Names of the columns, all different.
        integer_columns: Names of columns that hold integers. Names that the table lacks have no
            effect. Default: `INTEGERS`.
    """

    def __init__(
        self, path: AnyPath, columns: Sequence[str], integer_columns: Sequence[str] = INTEGERS
    ) -> None:
        self.path = Path(path)
        self.columns = tuple(columns)
        if len(set(self.columns)) != len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise InputError("A table cannot have two columns of the same name.", received=twice)
        self.is_integer = np.isin(self.columns, list(integer_columns))
        self.pending: list[Any] = []
        self.on_disk = 0
        self.digest = Digest()
        self._left: int | None = None

    def append(self, *parts: np.ndarray) -> None:
        """Adds rows `(n, columns)`, perhaps in parts, left alone until `flush`; NaN is no value,
        nor an integer.
        """
        blocks = [np.atleast_2d(part) for part in parts]
        shape = len(blocks[0]), sum(block.shape[1] for block in blocks)
        if any(block.ndim != 2 for block in blocks) or shape[1] != len(self.columns):
            raise ValueError(
                f"rows have shape {shape}, the table {self.path} has {len(self.columns)} columns"
            )
        integer_columns = np.split(
            self.is_integer, np.cumsum([block.shape[1] for block in blocks[:-1]])
        )
        index = np.concatenate(
            [block[:, is_index] for block, is_index in zip(blocks, integer_columns, strict=True)],
            axis=1,
        )
        if not np.isfinite(index).all():
            raise ValueError(
                f"an integer column of {self.path} received a number that is not finite"
            )
        if shape[0]:
            self.pending.append(self._kept(blocks, integer_columns, index))

    def _kept(
        self, blocks: list[np.ndarray], integer_columns: list[np.ndarray], index: np.ndarray
    ) -> Any:
        """What waits for a flush, of parts of rows; of each part, which columns are integers; those
        of all.
        """
        return np.concatenate(blocks, axis=1, dtype=np.float64)

    def flush(self) -> None:
        """Writes the waiting rows and returns when they are on disk; a `StorageError` where they
        could not be written: rows up to `on_disk` stay readable, the others keep waiting.
        """
        raise NotImplementedError

    def _check_left(self) -> None:
        """Refuses to write where the file is not as long, in bytes, as the last write left it."""
        with storing(self.path):
            size = self.path.stat().st_size
        if self._left is not None and size != self._left:
            raise InputError(
                f"The file {self.path} was changed during the run, perhaps by another "
                "process; the run stops writing to it.",
                received=f"{size:,} bytes",
                expected=f"{self._left:,} bytes, as written by the run",
            )
