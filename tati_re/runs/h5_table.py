"""HDF5 tables of a run."""

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
from h5py import h5f, h5fd, h5p

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.runs import reading
from tati_re.runs.checked_tables import RowCheck, add_rows
from tati_re.runs.digests import Digest, Known
from tati_re.runs.rows import INTEGERS, Rows
from tati_re.runs.storage import open_existing, replacing, storing, sync_file, write_whole

CHUNK_BYTES = 1 << 20
"""Most bytes of a chunk; the last one of a file is padded to its full size."""

COPY_BYTES = 1 << 26
"""Rows copied at a time, in bytes of float64."""

RESERVE_BYTES = 1 << 20
"""Room kept for what HDF5 writes besides chunks."""


@front_doors
class H5Table(Rows):
    """An HDF5 file for wide tables, readable even if its writer was killed in the middle of a
    write.

    The datasets are `index` (n, integer columns) in int64 and `rows` (n, other columns) in `dtype`.
    The string datasets `index_columns` and `columns` hold the column names. The file is open only
    during `flush`, in HDF5's single-writer/multiple-reader mode, which orders writes so that
    readers never see an incomplete structure. `rows` grows before `index`. A row of `index` that is
    not written yet holds -1.

    Args:
        path: The file, in an existing folder. An existing file is replaced.
        columns: Names of the columns.
        dtype: Number type of the columns that are not integers. Default: "float64".
        _position: Only for `reopen`: position in the existing file, in rows. Default: None, a new
            file.

    Raises:
        StorageError: The file cannot be written.
    """

    def __init__(
        self,
        path: AnyPath,
        columns: Sequence[str],
        dtype: str = "float64",
        *,
        _position: int | None = None,
    ) -> None:
        super().__init__(path, columns)
        if not self.is_integer.any() or self.is_integer.all():
            raise ValueError("an HDF5 table needs an integer column and at least one other")
        self.dtype = np.dtype(dtype)
        self._index_names = [name for name in self.columns if name in INTEGERS]
        self._row_names = [name for name in self.columns if name not in INTEGERS]
        if _position is None:
            write_whole(self.path, self._empty_file())
        else:
            self.on_disk = _position

    @classmethod
    def reopen(
        cls,
        path: AnyPath,
        columns: Sequence[str],
        position: int,
        dtype: str = "float64",
        digest: str | None = None,
    ) -> "H5Table":
        """Opens an existing file to continue at a row, and drops later rows.

        A file with later rows, or whose writer was killed during a flush, is copied up to
        `position` and renamed. Another kill therefore loses nothing. The method refuses a missing
        file, and a file with other columns, fewer rows, or a different digest.

        Args:
            path: The file.
            columns: Names of the columns.
            position: The row, as `on_disk` gave it when the checkpoint was written.
            dtype: Number type of the columns that are not integers. Default: "float64".
            digest: Digest of the file up to `position`, if a checkpoint holds it. Default: None,
                not compared.

        Returns:
            The table, open for writing at `position`.
        """
        table = cls(path, columns, dtype, _position=position)
        with reading.open_h5(table.path, alone=True) as source:
            index_columns, other_columns = reading.h5_columns(source)
            stored = reading.h5_length(source)
            if index_columns != table._index_names or other_columns != table._row_names:
                raise InputError(f"The columns of {table.path} differ from the run's.")
            problem = f"The numbers in {table.path} differ from the run's."
            refuse_if(
                source["rows"].dtype != table.dtype, problem, source["rows"].dtype, table.dtype
            )
            problem = f"The file {table.path} does not match the checkpoint."
            refuse_if(stored < position, problem, f"{stored} rows", f"at least {position} rows")
            table.digest = RowCheck(table.path, source, Known(position, digest)).all_of(
                source, position
            )
            longer = max(len(source["rows"]), len(source["index"])) > position
            if longer or reading.was_killed(source):
                table._copy(source, position)
        return table

    def _kept(
        self, blocks: list[np.ndarray], integer_columns: list[np.ndarray], index: np.ndarray
    ) -> Any:
        others = [
            block[:, ~is_index] if is_index.any() else block
            for block, is_index in zip(blocks, integer_columns, strict=True)
        ]
        return index.astype(np.int64), others

    def flush(self) -> None:
        if self.pending:
            self._check_left()
            self._left, digest = None, self.digest.copy()
            self.on_disk = self._write(self.path, self.on_disk, self.pending, digest)
            self._left = self.path.stat().st_size
            self.digest = digest
            self.pending.clear()

    def _copy(self, source: Any, num_rows: int) -> None:
        """Replaces the file by a copy of the first `num_rows` rows of the open file `source`,
        itself.
        """
        step = max(1, COPY_BYTES // (len(self.columns) * 8))
        with replacing(self.path) as aside:
            aside.write(self._empty_file())
            aside.flush()
            for first in range(0, num_rows, step):
                last = min(first + step, num_rows)
                self._write(
                    Path(aside.name),
                    first,
                    [(source["index"][first:last], [source["rows"][first:last]])],
                )

    def _empty_file(self) -> bytes:
        """A file without rows, and times, made in memory: on a full disk HDF5 may crash the
        process.
        """
        content = io.BytesIO()
        made = h5p.create(h5p.FILE_CREATE)
        access = _access()
        made.set_obj_track_times(False)
        access.set_fileobj_driver(h5fd.fileobj_driver, content)
        with h5py.File(h5f.create(b"trajectory", h5f.ACC_TRUNC, made, access)) as file:
            for kind, label, names, dtype, fill in (
                ("index", "index_columns", self._index_names, np.dtype(np.int64), -1),
                ("rows", "columns", self._row_names, self.dtype, 0),
            ):
                chunk = _chunk(len(names), dtype.itemsize)
                most = (None, len(names))
                file.create_dataset(
                    kind, (0, len(names)), dtype, maxshape=most, chunks=chunk, fillvalue=fill
                )
                file.create_dataset(label, data=names, dtype=h5py.string_dtype())
        return content.getvalue()

    def _write(
        self, path: Path, first: int, blocks: list[Any], digest: Digest | None = None
    ) -> int:
        """Writes from row `first` on, adds the rows to the digest, and returns the number of rows
        then.
        """
        last = first + sum(len(index) for index, _ in blocks)
        with storing(path, RuntimeError):
            with open_existing(path) as file:
                _reserve(file, self._bytes_of(last) - self._bytes_of(first) + RESERVE_BYTES)
            with h5py.File(_open_for_append(path)) as file:
                for name, written in (("rows", self._pieces(blocks, first)), ("index", blocks)):
                    data = file[name]
                    start = first
                    if len(data) < last:
                        data.resize(last, axis=0)
                    for index, rows in written:
                        data[start : (start := start + len(index))] = (
                            index if name == "index" else rows
                        )
                        if digest is not None and name == "rows":
                            add_rows(digest, index, rows)
                    data.flush()
            sync_file(path)
        return last

    def _pieces(self, blocks: list[Any], place: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Index and rows from row `place` on, a chunk of the file at a time: memory that is used
        again costs less than fresh pages do, and whole chunks less than parts.
        """
        height = _chunk(len(self._row_names), self.dtype.itemsize)[0]
        for index, parts in blocks:
            first = 0
            while first < len(index):
                piece = slice(first, first + height - place % height)
                rows = np.concatenate(
                    [part[piece] for part in parts], axis=1, dtype=self.dtype, casting="same_kind"
                )
                yield index[piece], rows
                first = first + len(rows)
                place = place + len(rows)

    def _bytes_of(self, num_rows: int) -> int:
        """Returns the size of the chunks for a number of rows, with 64 bytes per chunk for its
        address.
        """
        total = 0
        for num_columns, size in (
            (len(self._index_names), 8),
            (len(self._row_names), self.dtype.itemsize),
        ):
            height, width = _chunk(num_columns, size)
            total += (
                -(-num_rows // height) * -(-num_columns // width) * (height * width * size + 64)
            )
        return total


def _chunk(num_columns: int, size: int) -> tuple[int, int]:
    width = min(num_columns, CHUNK_BYTES // size)
    return max(1, min(4096, CHUNK_BYTES // (width * size))), width


def _reserve(file: BinaryIO, count: int) -> None:
    """Reserves disk space, since HDF5 may crash on a full disk; it releases the rest when it closes
    the file.
    """
    size = os.fstat(file.fileno()).st_size
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), size, count)
        else:
            file.seek(size)
            for _ in range(0, count, CHUNK_BYTES):
                file.write(bytes(CHUNK_BYTES))
            file.flush()
    except OSError:
        os.ftruncate(file.fileno(), size)
        raise


def _access() -> Any:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
    return access


def _open_for_append(path: Path) -> Any:
    """A low-level file opened for append, without locks: a reader elsewhere must not stop a run.
    The high-level call first opens for writing and then switches to single-writer mode; a kill in
    between leaves a file that none opens.
    """
    access = _access()
    access.set_file_locking(False, True)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    return h5f.open(os.fsencode(path), h5f.ACC_RDWR | h5f.ACC_SWMR_WRITE, access)
