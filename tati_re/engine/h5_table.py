"""HDF5 tables of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.engine import reading
from tati_re.engine.rows import BLOCK_VALUES, Rows
from tati_re.engine.storage import PARTIAL, replace, storing, sync_file
from tati_re.errors import InputError

CHUNK_BYTES = 1 << 20
"""Size of a chunk; the last one of a file is padded to this size."""


class H5Table(Rows):
    """An HDF5 file for wide tables, still readable after its writer was killed in the middle of a write.

    Datasets: `index` (n, integer columns) int64 and `rows` (n, other columns) in `dtype`, with their names in the
    string datasets `index_columns` and `columns`. The file is open during `flush` only, and then in HDF5's
    single-writer/multiple-reader mode, which orders its writes so that readers meet no half-written structure.
    `rows` grows before `index`, and a row of `index` that was not written yet holds -1. An existing file is replaced.

    Args:
        path: The file; its folder exists.
        columns: Names, in order.
        integer_columns: Those kept in `index`, at least one. Default: `step` and `walker`.
        dtype: Of `rows`, `float32` or `float64`. Default: `float64`.

    Raises:
        StorageError: The file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str],
        integer_columns: Sequence[str] = ("step", "walker"),
        dtype: str = "float64",
        *,
        _position: int | None = None,
    ) -> None:
        super().__init__(path, columns, integer_columns)
        if not self.is_integer.any() or self.is_integer.all():
            raise ValueError("an HDF5 table needs an integer column and another one")
        self.dtype = np.dtype(dtype)
        if _position is None:
            with storing(self.path, RuntimeError):
                self._create(self.path)
                sync_file(self.path)
                sync_file(self.path.parent)
        else:
            self.on_disk = _position

    @classmethod
    def reopen(
        cls,
        path: str | os.PathLike[str],
        columns: Sequence[str],
        position: int,
        integer_columns: Sequence[str] = ("step", "walker"),
        dtype: str = "float64",
    ) -> H5Table:
        """Opens an existing file to go on at row `position`; later rows are cut off first.

        A file with later rows, or whose writer was killed inside a flush, is copied aside up to `position` and
        renamed, so that another kill loses nothing.

        Args:
            path: The file.
            columns: The names that it must have.
            position: What `position()` said when the checkpoint was written, in rows.
            integer_columns: As in the constructor.
            dtype: As in the constructor.

        Returns:
            The table, ready to append.

        Raises:
            InputError: The file is missing, cannot be opened, has other columns, or fewer rows.
            StorageError: The file cannot be written.
        """
        table = cls(path, columns, integer_columns, dtype, _position=position)
        with reading.open_h5(table.path) as source:
            index_columns, other_columns = reading.h5_columns(source)
            stored = reading.h5_length(source)
            if index_columns != table._names(True) or other_columns != table._names(False):
                raise InputError(f"The file {table.path} has other columns than the run to resume.")
            if source["rows"].dtype != table.dtype:
                raise InputError(
                    f"The file {table.path} has other numbers than the run to resume.",
                    received=source["rows"].dtype,
                    expected=table.dtype,
                )
            if stored < position:
                raise InputError(
                    f"The file {table.path} does not fit the checkpoint.",
                    received=f"{stored} rows",
                    expected=f"at least {position} rows",
                )
            longer = max(len(source["rows"]), len(source["index"])) > position
            if longer or source.swmr_mode:
                aside = table.path.with_name(table.path.name + PARTIAL)
                with storing(table.path, RuntimeError):
                    table._create(aside, source, position)
                    sync_file(aside)
                    replace(aside, table.path)
        return table

    def flush(self) -> None:
        """Writes the waiting rows and returns when they are on the disk.

        Raises:
            StorageError: They could not be written; rows up to `position()` stay readable, the others keep waiting.
        """
        if not self.pending:
            return
        from h5py import File

        new = np.concatenate(self.pending)
        end = self.on_disk + len(new)
        parts = {"rows": new[:, ~self.is_integer].astype(self.dtype), "index": new[:, self.is_integer].astype(np.int64)}
        with storing(self.path, RuntimeError):
            with File(self._open_for_append()) as file:
                for name, values in parts.items():
                    data = file[name]
                    if len(data) < end:
                        data.resize(end, axis=0)
                    data[self.on_disk : end] = values
                    data.flush()
            sync_file(self.path)
        self.on_disk = end
        self.pending.clear()

    def close(self) -> None:
        """Flushes; the file is closed between flushes anyway."""
        self.flush()

    def _names(self, integer: bool) -> list[str]:
        return [name for name, whole in zip(self.columns, self.is_integer, strict=True) if whole == integer]

    def _open_for_append(self) -> Any:
        """Returns a low-level file opened for append.

        The high-level call first opens for writing and then switches to single-writer mode; a kill between the two
        would leave a file that no reader opens. Locks are off: a reader elsewhere must not stop a run.
        """
        from h5py import h5f, h5p

        access = h5p.create(h5p.FILE_ACCESS)
        access.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
        access.set_file_locking(False, True)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        return h5f.open(os.fsencode(self.path), h5f.ACC_RDWR | h5f.ACC_SWMR_WRITE, access)

    def _create(self, path: Path, source: Any = None, num_rows: int = 0) -> None:
        """Makes the datasets, and fills them with the first `num_rows` rows of the open file `source`."""
        import h5py

        with h5py.File(path, "w", libver=("v110", "v110"), locking=False) as file:
            for kind, integer, dtype, fill in (("index", True, np.dtype(np.int64), -1), ("rows", False, self.dtype, 0)):
                names = self._names(integer)
                width = min(len(names), CHUNK_BYTES // dtype.itemsize)
                chunk = (max(1, min(4096, CHUNK_BYTES // (width * dtype.itemsize))), width)
                shape, most = (num_rows, len(names)), (None, len(names))
                data = file.create_dataset(kind, shape, dtype, maxshape=most, chunks=chunk, fillvalue=fill)
                step = max(1, BLOCK_VALUES // len(names))
                for first in range(0, num_rows, step):
                    last = min(first + step, num_rows)
                    data[first:last] = source[kind][first:last]
                label = "columns" if kind == "rows" else "index_columns"
                file.create_dataset(label, data=names, dtype=h5py.string_dtype())
