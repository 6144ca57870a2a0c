"""Reads the complete rows of a run's tables, also while it runs or after it was killed."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.cells import from_cell
from tati_re.core.files.regular import check_regular, regular_bytes
from tati_re.core.files.unpacking import check_h5_size
from tati_re.runs import checkpoint
from tati_re.runs.files import GROWING, MANIFEST
from tati_re.runs.foreign_table import parse_table
from tati_re.runs.h5_killed import KilledFile
from tati_re.runs.lock import is_held

_NOT_YET_WRITTEN = (
    1 << 30
)  # Bytes that an HDF5 file may claim before they are written: those of a flush.


_INDEX_NOT_YET_WRITTEN = 64e6  # The same of the index, which is some columns of integers.
_NAMES_AT_A_TIME = 64


def read_csv(path: AnyPath) -> "pandas.DataFrame":
    """Returns a CSV table, of a run or of another program, with every number exactly as written.

    An incomplete last line is left out only of a table to which a run is adding rows, or to which
    one was adding them when it was killed.

    Args:
        path: Of the file.

    Raises:
        InputError: An empty file, or a line with more or fewer cells than the header.
    """
    frame: Any = parse_table(path, table_bytes(Path(path)))
    for place, kind in enumerate(frame.dtypes):
        if kind.kind not in "biuf":
            column: Any = frame.iloc[:, place].map(from_cell)
            frame.isetitem(place, column)
    return frame


def table_bytes(path: Path) -> bytes:
    """The bytes of a CSV table, without a last line that a run has only begun to write."""
    return complete_lines(path) if _may_grow(path) else regular_bytes(path)


def _may_grow(path: Path) -> bool:
    """Whether a run is writing rows of a table that its last checkpoint does not know, or was."""
    if path.name not in GROWING or not (path.parent / MANIFEST).exists():
        return False
    known = checkpoint.known(path.parent, path.name)
    return known is None or is_held(path.parent) or path.stat().st_size > known.size


def complete_lines(path: AnyPath) -> bytes:
    """The bytes of a run's CSV table up to the end of its last complete line."""
    content = regular_bytes(path)
    complete = content[: content.rfind(b"\n") + 1]
    refuse_if(
        not complete,
        f"The file {path} has no header line; the run stopped before writing it.",
    )
    return complete


def read_h5(path: AnyPath) -> "pandas.DataFrame":
    """Returns an HDF5 table with the integer columns first, in the file's number types."""
    with open_h5(path) as file:
        index_columns, columns = h5_columns(file)
        length = h5_length(file)
        index = pandas.DataFrame(file["index"][:length], columns=index_columns)
        rows = pandas.DataFrame(file["rows"][:length], columns=columns)
    frame = pandas.concat([index, rows], axis=1)
    # As in a CSV file: labels of a walker stand last.
    return frame[[*index_columns[:2], *columns, *index_columns[2:]]]


@contextmanager
def open_h5(path: AnyPath, alone: bool = False) -> Iterator[Any]:
    """Opens an HDF5 table for reading, also while it is written, or after its writer was killed.

    Args:
        path: The HDF5 file.
        alone: Whether no other process writes to the file. A file that is marked as open for
            writing then counts as left by a killed writer (`was_killed`). Default: False.

    Raises:
        InputError: The file is missing or damaged, or is not a table of a run.
    """
    check_regular(path)
    refuse_if(not Path(path).exists(), f"The file {path} is missing.")
    with ExitStack() as opened:
        try:
            try:
                file = opened.enter_context(h5py.File(path, "r", locking=False))
            except OSError as error:
                if "flag values don't match" in str(error):
                    problem = f"This process has opened the file {path} with h5py and a lock."
                    raise InputError(
                        problem, expected="close that file, or open it with locking=False"
                    ) from None
                # Only a file whose writer is at work is opened as one that changes: HDF5 reads the
                # damaged parts of such a file again and again, without an end.
                if "already open for" not in str(error):
                    raise
                if not alone and is_held(Path(path).parent):
                    file = h5py.File(path, "r", libver=("v110", "v110"), swmr=True, locking=False)
                else:
                    file = h5py.File(opened.enter_context(KilledFile(path)), "r")
                opened.enter_context(file)
            complete = all(
                _is_inside(file, name) for name in ("index", "rows", "index_columns", "columns")
            )
            complete = complete and _fits(file, "index", "iu") and _fits(file, "rows", "f")
            if complete:
                claimed, size = (
                    sum(file[name].nbytes for name in ("index", "rows")),
                    os.path.getsize(path),
                )
                if claimed > size + _NOT_YET_WRITTEN:
                    raise OSError(f"it claims {claimed:,} bytes of numbers but has {size:,}")
                _check_sizes(file)
                yield file
        except InputError:
            raise
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            problem = f"The file {path} is damaged and cannot be read ({error.args[0] if error.args else error})."
            expected = (
                "the HDF5 file that the run wrote; the other files of the run remain readable"
            )
            raise InputError(problem, expected=expected) from error
        if not complete:
            raise InputError(
                f"The file {path} is not a table of a run.",
                expected="datasets index, rows and columns",
            )


def was_killed(file: Any) -> bool:
    """Whether the writer of a file from `open_h5` was killed while it wrote."""
    return file.driver == "fileobj"


def _is_inside(file: Any, name: str) -> bool:
    """Whether a dataset and its numbers are in the file itself: HDF5 also knows links to datasets
    in other files.
    """
    if name not in file or not isinstance(file.get(name, getlink=True), h5py.HardLink):
        return False
    data = file[name]
    return isinstance(data, h5py.Dataset) and not data.is_virtual and data.external is None


def _fits(file: Any, name: str, kinds: str) -> bool:
    """Whether a dataset holds rows of such numbers, and its columns have names."""
    data = file[name]
    names = file["index_columns" if name == "index" else "columns"]
    named = h5py.check_string_dtype(names.dtype) is not None and names.ndim == 1
    return named and data.ndim == 2 and data.shape[1] == len(names) and data.dtype.kind in kinds


def _check_sizes(file: Any) -> None:
    """A `ValueError` where a table claims more than its file has. Of one that grows, or whose
    writer was killed, the last rows may not be there yet; their index says so, and they are not
    read.
    """
    for name in ("index_columns", "columns"):
        check_h5_size(file[name])
    check_h5_size(file["index"], _INDEX_NOT_YET_WRITTEN)
    check_h5_size(file["rows"], _NOT_YET_WRITTEN)
    rows = file["rows"]
    if rows.nbytes > rows.id.get_storage_size() and not rows.id.get_create_plist().get_nfilters():
        read = h5_length(file) * rows.shape[1] * rows.dtype.itemsize
        if read > (there := rows.id.get_storage_size()):
            raise ValueError(f"it claims {read:,} bytes of numbers but contains {there:,}")


def h5_columns(file: Any) -> tuple[list[str], list[str]]:
    """The names of the integer columns and of the others."""
    return _names_in(file, "index_columns"), _names_in(file, "columns")


def _names_in(file: Any, name: str) -> list[str]:
    """Texts of an HDF5 file, a part at a time: many may be the same one, which is there once."""
    data, most, names, letters = file[name].asstr(), file.id.get_filesize(), list[str](), 0
    for first in range(0, len(data), _NAMES_AT_A_TIME):
        part = list(data[first : first + _NAMES_AT_A_TIME])
        names += part
        letters += sum(map(len, part))
        if letters > most:
            raise OSError(f"its names claim {letters:,} letters or more, but it has {most:,} bytes")
    return names


def h5_length(file: Any) -> int:
    """Returns the number of complete rows; an index of -1 marks one whose writer was killed."""
    length = min(len(file["rows"]), len(file["index"]))
    missing = np.flatnonzero(file["index"][:length, 0] == -1)
    return int(missing[0]) if len(missing) else length
