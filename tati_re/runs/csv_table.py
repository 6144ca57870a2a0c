"""CSV tables of a run."""

import contextlib
import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.cells import as_cell
from tati_re.core.files.regular import open_regular
from tati_re.runs.checked_tables import csv_digest
from tati_re.runs.digests import Digest, Known
from tati_re.runs.rows import INTEGERS, Rows
from tati_re.runs.storage import open_existing, open_new, storing, sync_file

BLOCK_VALUES = 1 << 14
"""Numbers turned into text at a time: bounds the memory, not the size of a table."""


class CsvTable(Rows):
    """A CSV file with a header line and complete rows only, readable by any program while it grows.

    float64 numbers are written with the fewest digits that give the same number back, NaN as an
    empty cell. Names with a comma are quoted.

    Args:
        path: The file, in an existing folder. An existing file is replaced.
        columns: Names of the columns.
        integer_columns: Names of columns that hold integers. Names that the table lacks have no
            effect. Default: `INTEGERS`.
        float32_columns: Names of columns whose numbers are written with nine digits. Default: none.
        _position: Only for `reopen`: position in the existing file, in bytes. Default: None, a new
            file.
        _digest: Only for `reopen`: digest of the file up to `_position`. Default: None.
    """

    def __init__(
        self,
        path: AnyPath,
        columns: Sequence[str],
        integer_columns: Sequence[str] = INTEGERS,
        float32_columns: Sequence[str] = (),
        *,
        _position: int | None = None,
        _digest: Digest | None = None,
    ) -> None:
        super().__init__(path, columns, integer_columns)
        single = np.isin(self.columns, list(float32_columns))
        self._template = None
        if single.any():
            self._template = (
                ",".join(np.where(self.is_integer, "%d", np.where(single, "%.9g", "%r"))) + "\n"
            )
        if _position is None:
            with storing(self.path), open_new(self.path):
                pass
            self._write(_header(self.columns))
            with storing(self.path):
                sync_file(self.path.parent)
        else:
            self.on_disk = _position
            self.digest = _digest or self.digest
            self._write(b"")

    @classmethod
    def reopen(
        cls,
        path: AnyPath,
        columns: Sequence[str],
        position: int,
        digest: str | None = None,
        **options: Any,
    ) -> "CsvTable":
        """Opens an existing file to continue at a position, and drops what follows it.

        Args:
            path: The file.
            columns: Names of the columns.
            position: The position in bytes, as `on_disk` gave it when the checkpoint was written.
            digest: Digest of the file up to `position`. Default: None, not compared.
            **options: `integer_columns` and `float32_columns`, as for a new table.

        Returns:
            The table, open for writing at `position`.

        Raises:
            InputError: The file is missing, has other columns or a different digest, or no row ends
                at `position`.
        """
        path = Path(path)
        headers = (_header(columns), _header(columns, str))
        refuse_if(not path.exists(), f"The file {path} of the run is missing.")
        with open_regular(path) as file:
            header = file.readline()
            file.seek(max(position - 1, 0))
            last = file.read(1)
        problem = f"The columns of {path} differ from the run's."
        expected = headers[0].decode().rstrip()
        refuse_if(
            header not in headers, problem, header.decode(errors="replace").rstrip(), expected
        )
        size = path.stat().st_size
        if position < len(header) or size < position or last != b"\n":
            problem = f"The file {path} does not match the checkpoint; was it edited?"
            raise InputError(
                problem, f"{size} bytes", f"at least {position} bytes, with the end of a row there"
            )
        return cls(
            path,
            columns,
            **options,
            _position=position,
            _digest=csv_digest(path, Known(position, digest)),
        )

    def flush(self) -> None:
        if self.pending:
            step = max(1, BLOCK_VALUES // len(self.columns))
            blocks = (
                rows[first : first + step]
                for rows in self.pending
                for first in range(0, len(rows), step)
            )
            self._write(b"".join(map(self._block, blocks)))
            self.pending.clear()

    def _write(self, text: bytes) -> None:
        """Writes at the position, truncates the file there, and returns when all is on disk."""
        self._check_left()
        with storing(self.path), open_existing(self.path) as file:
            file.seek(self.on_disk)
            view = memoryview(text)
            try:
                while view:
                    view = view[file.write(view) :]
                file.truncate()
                os.fsync(file.fileno())
            except BaseException:
                # Where even this fails the next write starts at the position all the same; readers
                # skip half a line.
                self._left = None
                with contextlib.suppress(OSError):
                    file.truncate(self.on_disk)
                raise
        self.on_disk += len(text)
        self._left = self.on_disk
        self.digest.update(text)

    def _block(self, rows: np.ndarray) -> bytes:
        values = rows.tolist()
        for column in np.flatnonzero(self.is_integer).tolist():
            for row, number in zip(values, rows[:, column].astype(np.int64).tolist(), strict=True):
                row[column] = number
        if self._template is not None:
            template = self._template
            text = "".join([template % tuple(row) for row in values]).encode()
        else:
            # A JSON list of lists is a CSV text but for brackets, and this encoder is 4 times
            # faster than repr.
            from pydantic_core import to_json

            text = to_json(values, inf_nan_mode="constants")[2:-2].replace(b"],[", b"\n") + b"\n"
            text = text.replace(b"Infinity", b"inf").replace(b"NaN", b"nan")
        return text.replace(b"nan", b"")


def frame_text(columns: "pandas.DataFrame | Mapping[str, np.ndarray]") -> bytes:
    """Columns as CSV text without an index, with names and texts that no spreadsheet takes for
    formulas.
    """
    frame = pandas.DataFrame(columns).set_axis([as_cell(name) for name in columns], axis=1)
    for place, kind in enumerate(frame.dtypes):
        if kind.kind not in "biufcmM":
            frame.isetitem(place, frame.iloc[:, place].map(as_cell).to_numpy())
    text: str = frame.to_csv(index=False, lineterminator="\n")
    if "\r" in text:  # which ends a line for readers, and is not quoted by itself
        text = frame.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text.encode()


def _header(columns: Sequence[str], cell: Callable[[str], str] = as_cell) -> bytes:
    """The first line of a table; with `str`, that of tables before names were kept from
    spreadsheets.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow([cell(name) for name in columns])
    return text.getvalue().removesuffix("\r\n").encode() + b"\n"
