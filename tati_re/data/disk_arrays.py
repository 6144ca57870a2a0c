"""Arrays larger than the memory limit, in unnamed temporary files read row by row."""

import mmap
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.files.unpacking import array_header

_BLOCK_BYTES = 32 * 2**20


class Store:
    """A growing array of rows: in memory up to a limit, beyond it in a temporary file. The file has
    no name any more when rows are written to it: it goes with the array, at the latest when the
    process ends, however that ends. The folder is the environment variable TMPDIR's.
    """

    def __init__(self, limit: float | None = None) -> None:
        self._limit = limit
        self._pieces = list[Any]()
        self.size = 0
        self._file: Any = None
        self.rows = 0
        self._like = np.zeros(0)

    def append(self, rows: np.ndarray) -> None:
        """Adds rows `(n, ...)`."""
        if self.rows and rows.shape[1:] != self._like.shape[1:]:
            raise ValueError("rows of unequal shapes")
        if not self.rows:
            self._like = rows[:0]
        self.rows += len(rows)
        self.size += rows.nbytes
        if self._file is None and (self._limit is None or self.size <= self._limit):
            self._pieces.append(rows)
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="tati_re-")  # noqa: SIM115, the array reads it
                for piece in self._pieces:
                    self._file.write(np.ascontiguousarray(piece).data)
                self._pieces = []
            self._file.write(np.ascontiguousarray(rows, self._like.dtype).data)
        except OSError as error:
            raise _full(error) from None

    def finished(self) -> np.ndarray:
        """Returns all rows, in memory or mapped from the file, and ends the use of the store."""
        if self._file is None:
            return np.concatenate(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
        return _mapped(self._file, self._like.dtype, (self.rows, *self._like.shape[1:]))


def on_disk(values: Any) -> bool:
    """Whether an array is mapped from a file."""
    while values is not None:
        if isinstance(values, (np.memmap, mmap.mmap)):
            return True
        values = getattr(values, "base", None)
    return False


def blocks(values: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of an array, some 32 MB at a time."""
    rows = max(1, _BLOCK_BYTES // max(1, values[:1].nbytes))
    for start in range(0, len(values), rows):
        yield values[start : start + rows]


def chosen(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    """`values[which]`; arrays on the disk stay on the disk.

    Args:
        values: An array, in memory or on the disk, shape (n, ...).
        which: Mask of the rows to keep, shape (n,).
    """
    if not on_disk(values):
        return values[which]
    store = Store(limit=0)
    start = 0
    for block in blocks(values):
        store.append(block[which[start : start + len(block)]])
        start += len(block)
    return store.finished()


def concatenated(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenates arrays; the result is on disk if one of them is."""
    if not any(map(on_disk, parts)):
        return np.concatenate(parts)
    store = Store(limit=0)
    for part in parts:
        for block in blocks(part):
            store.append(block)
    return store.finished()


def member_of_npz(path: Path, name: str, limit: float | None) -> np.ndarray | None:
    """A member of an NPZ file, kept on the disk if it is larger than the limit.

    Args:
        path: The NPZ file.
        name: Name of the member in the archive, such as `x.npy`.
        limit: Bytes above which it is kept on the disk; None: no limit.

    Returns:
        The array, or None if it is to be read into memory: it is small, absent, stored by column,
        or holds Python objects.

    Raises:
        InputError: The disk is full.
    """
    with zipfile.ZipFile(path) as archive:
        if (
            limit is None
            or name not in archive.namelist()
            or archive.getinfo(name).file_size <= limit
        ):
            return None
        with archive.open(name) as source:
            shape, by_column, dtype = array_header(source)
            if by_column or dtype.hasobject:
                return None
            try:
                file = tempfile.TemporaryFile(prefix="tati_re-")  # noqa: SIM115, the array reads it
                shutil.copyfileobj(source, file, _BLOCK_BYTES)
                return _mapped(file, dtype, shape)
            except OSError as error:
                raise _full(error) from None


def _mapped(file: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.memmap:
    """Maps the array in a file, which only the array holds open from now on."""
    with file:
        file.flush()
        return np.memmap(file, dtype, "r", shape=shape)


def _full(error: OSError) -> InputError:
    problem = (
        f"memory_limit: larger data cannot be stored in {tempfile.gettempdir()}: {error.strerror}."
    )
    return InputError(
        problem,
        expected="a larger memory_limit, or another folder in the environment variable TMPDIR",
    )
