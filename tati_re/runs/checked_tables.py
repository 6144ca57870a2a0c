"""Tables of a run, read as what the run wrote: rows of numbers, and those that its checkpoint
knows.
"""

import csv
import io
import re
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from tati_re.core.errors import InputError
from tati_re.core.files.cells import from_cell
from tati_re.core.files.regular import open_regular, regular_bytes
from tati_re.core.files.unpacking import load_arrays
from tati_re.core.user_warnings import warn_user
from tati_re.runs.digests import Digest, Known, of_whole
from tati_re.runs.files import GROWING, INDEX, NEEDED_COLUMNS, PARTIAL
from tati_re.runs.foreign_table import exact_numbers, has_long_first_row
from tati_re.runs.reading import complete_lines, h5_length, open_h5, read_h5

_NUMBER = rb"(?:-?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|inf)|nan)?"
_CELL = re.compile(_NUMBER)
_LINE = re.compile(_NUMBER + rb"(?:," + _NUMBER + rb")*\n")
_WORDS = ("test",)  # Columns that hold words.

_PART_BYTES = 1 << 24  # Bytes of a table that are read at a time for its digest.
_WIDE = 4_096  # Columns.

_NOT_OF_RUN = "they differ from what the run wrote; the file was changed after its checkpoint."
_EXPECTED = "the file as the run wrote it; tati-compare --verify checks a whole folder"


def read_table(path: Path, known: Known | None = None) -> "pandas.DataFrame":
    """Reads a table of a run, as `read_csv` and `read_h5`, and checks its content.

    A table that is shorter than its checkpoint knows is read, with a `ShorterTable` warning.

    Args:
        path: The file, CSV or HDF5 (`.h5`).
        known: What a checkpoint knows of the table. Default: None, the content is compared with
            nothing.

    Returns:
        The table, with at least the columns that all such tables have.

    Raises:
        InputError: A line is not a row of numbers, a column is missing, or the content differs from
            `known`. The sentence names the line.
    """
    if path.suffix == ".h5":
        with open_h5(path) as file:
            check = RowCheck(path, file, known)
            check.all_of(file, h5_length(file) if known else 0)
        check.end()
        return with_needed_columns(path, read_h5(path))
    is_complete = known is None and path.name not in GROWING and path.suffix != PARTIAL
    lines = ended(regular_bytes(path)) if is_complete else complete_lines(path)
    lines_check = LineCheck(path, known)
    lines_check.add(lines)
    lines_check.end()
    return with_needed_columns(path, parsed(path, lines))


def with_needed_columns(path: Path, frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """The same table of a run, after a check of its columns.

    Args:
        path: The file of the table. Its name decides which columns are needed.
        frame: The table.

    Raises:
        InputError: A column that all such tables have is missing or occurs twice.
    """
    names = list(frame.columns)
    missing = [name for name in NEEDED_COLUMNS.get(path.name, ()) if names.count(name) != 1]
    if missing:
        raise InputError(
            f"{path} is not a table of a run: it has no single column {missing[0]}.",
            ", ".join(map(str, names[:6])) + (", ..." if len(names) > 6 else ""),
            _EXPECTED,
        )
    return frame


def ended(content: bytes) -> bytes:
    """Lines of which the last one may lack its end, with it."""
    return content if content.endswith(b"\n") else content + b"\n"


def read_whole(path: Path, known: Callable[[], set[str]]) -> "pandas.DataFrame":
    """Reads a CSV table that is replaced at each checkpoint, and checks its content.

    A run that goes on may replace the table between reading it and asking for its digests. Both are
    therefore repeated, up to three times.

    Args:
        path: The CSV file.
        known: Returns the digests that the checkpoints know of the file. An empty set: the content
            is compared with nothing.

    Returns:
        The table.

    Raises:
        InputError: A line is not a row of numbers, the last line is cut off, or the content has
            none of the known digests.
    """
    for pause in (0.0, 0.02, 0.05):
        time.sleep(pause)
        content = regular_bytes(path)
        digests = known()
        if not digests or of_whole(content) in digests:
            break
    frame = parsed(path, content)
    if not content.endswith(b"\n") or (digests and of_whole(content) not in digests):
        lines = content.count(b"\n")
        where = (
            f"line {lines + 1}: it is cut off, and differs"
            if not content.endswith(b"\n")
            else f"{lines} lines: they differ"
        )
        raise InputError(
            f"{path}, {where} from what the run wrote.",
            expected=_EXPECTED,
        )
    return frame


def whole_array(path: Path, known: set[str]) -> np.ndarray:
    """Reads the array of an NPY file of a run, and checks its content.

    Args:
        path: The NPY file.
        known: The digests that the checkpoints know of the file. An empty set: the content is
            compared with nothing.

    Raises:
        InputError: The content has none of the known digests, or is not an array.
    """
    content = regular_bytes(path)
    if known and of_whole(content) not in known:
        raise InputError(
            f"{path}: the file was changed after the run began.",
            f"{len(content):,} bytes",
            _EXPECTED,
        )
    try:
        return np.asarray(load_arrays(io.BytesIO(content)))
    except (ValueError, EOFError, OSError, SyntaxError, MemoryError) as error:
        raise InputError(
            f"{path} cannot be read: {str(error).splitlines()[0]}.", expected=_EXPECTED
        ) from None


def parsed(
    path: Path, lines: bytes, columns: Sequence[str] | None = None, first_line: int = 1
) -> "pandas.DataFrame":
    """Parses complete lines of a CSV table of numbers.

    Args:
        path: The file, for messages.
        lines: The lines, each with its end.
        columns: Names of the columns. Default: None, the first line is the header.
        first_line: Number in the file of the first of these lines, for messages. Default: 1.

    Returns:
        The rows as a table.

    Raises:
        InputError: A line is not a row of numbers. The sentence names the line.
    """
    how = (
        exact_numbers()
        if columns is None
        else exact_numbers() | {"header": None, "names": list(columns)}
    )
    frame = None
    reason = "it cannot be read"
    first_lines = b"\n".join(lines.split(b"\n", 2)[:2]).decode(errors="replace")
    try:
        if not has_long_first_row(first_lines, None if columns is None else len(columns)):
            frame = pandas.read_csv(io.BytesIO(lines), **how)
    except (ValueError, OverflowError) as error:
        reason = str(error).strip().split("\n")[0]
    if frame is None or not _is_whole(frame, lines, columns is None):
        raise InputError(
            f"{path}, {_first_fault(lines, columns, first_line) or reason}", expected=_EXPECTED
        )
    return frame.rename(columns=from_cell)


def _is_whole(frame: "pandas.DataFrame", lines: bytes, header: bool) -> bool:
    """Whether every line became a row, and every cell a number."""
    start = lines.index(b"\n") + 1 if header else 0
    rows = lines.count(b"\n", start)
    kinds = {name: dtype.kind for name, dtype in frame.dtypes.items() if name not in _WORDS}
    return (
        len(frame) == rows
        and type(frame.index).__name__ == "RangeIndex"
        and lines.count(b",", start) == rows * (len(frame.columns) - 1)
        and b"\0" not in lines
        and (not rows or all(kind in "iuf" for kind in kinds.values()))
        and (not rows or all(kinds.get(name, "i") in "iu" for name in INDEX))
    )


def _first_fault(lines: bytes, columns: Sequence[str] | None, first_line: int) -> str | None:
    """Which line is the first that is no row of numbers, and why; None where there is none."""
    names = columns
    for number, line in enumerate(io.BytesIO(lines), first_line):
        if b"\0" in line:
            return f"line {number}: it contains NUL bytes."
        if names is None:
            names = header_of(line)
            continue
        if line.count(b",") != len(names) - 1:
            return (
                f"line {number}: it has {line.count(b',') + 1} cells, but the table has "
                f"{len(names)} columns."
            )
        first = zip(names, line.split(b",", 2)[:2], strict=False)
        if _LINE.fullmatch(line) and all(cell.isdigit() for name, cell in first if name in INDEX):
            continue
        for name, cell in zip(names, line.rstrip(b"\n").split(b","), strict=True):
            if name not in _WORDS and not (
                _CELL.fullmatch(cell) and (name not in INDEX or cell.isdigit())
            ):
                text = cell[:40].decode(errors="replace")
                return f"line {number}: {text!r} in the column {name} is not a {'step' if name in INDEX else 'number'}."
    return None


def header_of(line: bytes) -> list[str]:
    text = line.decode(errors="replace").rstrip("\r\n")
    try:
        return [from_cell(name) for name in next(csv.reader([text]), [])]
    except csv.Error:  # line ends or NULs inside: no names
        return [text]


def changed(path: Path, first: int, last: int) -> InputError:
    """Returns the error of a CSV file that is not what its checkpoint knows.

    Args:
        path: The file.
        first: Place of the first byte of the block that differs, from 0. Bytes before it agree.
        last: Place after the last byte of that block.
    """
    with path.open("rb") as file:
        before = file.read(first)
        within = file.read(last - first)
    line = before.count(b"\n") + 1
    names = header_of((before or within).split(b"\n")[0])
    complete_rows = within[: within.rfind(b"\n") + 1]
    if line > 1:
        cut = within.find(b"\n") + 1 if not before.endswith(b"\n") else 0
        fault = _first_fault(complete_rows[cut:], names, line + (cut > 0))
    else:
        fault = _first_fault(complete_rows, None, 1)
    where = fault or f"lines {line:,} to {line + within.count(bytes([10])):,}: {_NOT_OF_RUN}"
    return InputError(f"{path}, {where}", expected=_EXPECTED)


class LineCheck:
    """Compares a CSV table with what a checkpoint knows of it, while it is read from its beginning.

    Args:
        path: The CSV file, for messages.
        known: What the checkpoint knows of the file. None: nothing is compared.
    """

    def __init__(self, path: Path, known: Known | None) -> None:
        self._path = path
        self._known = known or Known(0)
        self.digest = Digest((known or Known(0)).size)

    def add(self, lines: bytes) -> None:
        self.digest.update(lines)
        if change := self.digest.first_change(self._known.digest):
            raise changed(self._path, *change)

    def end(self) -> None:
        """Warns of a table that is shorter than its checkpoint knows."""
        if self.digest.size < self._known.size:
            _warn_of_loss(self._path, self.digest.size, self._known, "bytes")


class RowCheck:
    """Compares the rows of an open HDF5 table with what a checkpoint knows of them, as `LineCheck`.

    Digests are of the numbers of each row, index first.

    Args:
        path: The HDF5 file, for messages.
        file: The open file, from `open_h5`.
        known: What the checkpoint knows of the file. None: nothing is compared.
    """

    def __init__(self, path: Path, file: Any, known: Known | None) -> None:
        self._path = path
        self._known = known or Known(0)
        self._rows = 0
        self._width = (
            8 * file["index"].shape[1] + file["rows"].dtype.itemsize * file["rows"].shape[1]
        )
        self.digest = Digest(self._known.size * self._width)

    def add(self, index: np.ndarray, rows: np.ndarray) -> None:
        """Adds the next rows of the table to the digest.

        Args:
            index: Integer columns of the rows, shape (n, integer columns).
            rows: Other columns of the rows, shape (n, other columns).

        Raises:
            InputError: The rows so far differ from what the checkpoint knows.
        """
        left = self._known.size - self._rows
        self._rows += len(index)
        if left > 0:
            add_rows(self.digest, index[:left], rows[:left])
        if change := self.digest.first_change(self._known.digest):
            where = f"rows {change[0] // self._width + 1:,} to {-(-change[1] // self._width):,}: {_NOT_OF_RUN}"
            raise InputError(f"{self._path}, {where}", expected=_EXPECTED)

    def all_of(self, file: Any, length: int) -> Digest:
        """Adds the first rows of a file to the digest, a part at a time.

        Args:
            file: The open file, from `open_h5`.
            length: Number of rows.

        Returns:
            The digest of the table so far, from here on without a limit.

        Raises:
            InputError: The rows differ from what the checkpoint knows.
        """
        step = max(1, _PART_BYTES // self._width)
        for first in range(0, length, step):
            last = min(first + step, length)
            self.add(file["index"][first:last], file["rows"][first:last])
        return self.digest.going_on()

    def end(self) -> None:
        """Warns of a table that is shorter than its checkpoint knows."""
        if self._rows < self._known.size:
            _warn_of_loss(self._path, self._rows, self._known, "rows")


def check_table(path: Path, known: Known | None) -> int:
    """Checks a whole table of a run, a part at a time, and counts its rows.

    Args:
        path: The file, CSV or HDF5 (`.h5`). An incomplete last line of a CSV file is left out.
        known: What a checkpoint knows of the table. None: the content is compared with nothing.

    Returns:
        The number of complete rows.

    Raises:
        InputError: A line is not a row of numbers, or the content differs from `known`.
    """
    if path.suffix == ".h5":
        with open_h5(path) as file:
            rows = RowCheck(path, file, known)
            rows.all_of(file, length := h5_length(file))
        rows.end()
        return length
    check = LineCheck(path, known)
    count = 0
    with open_regular(path) as file:
        header = file.readline()
        check.add(header)
        while lines := [line for line in file.readlines(_PART_BYTES) if line.endswith(b"\n")]:
            text = b"".join(lines)
            check.add(text)
            parsed(path, text, header_of(header), count + 2)
            count += len(lines)
    check.end()
    return count


class ShorterTable(UserWarning):
    """A table that is shorter than its checkpoint knows."""


def _warn_of_loss(path: Path, size: int, known: Known, unit: str) -> None:
    text = f"{path} is shorter than its checkpoint of step {known.step:,}: {size:,} {unit} of {known.size:,}."
    warn_user(f"{text} The rest is read; resume refuses it.", ShorterTable)


def csv_digest(path: Path, known: Known) -> Digest:
    """The digest of a CSV file up to the length at its checkpoint, ready to continue.

    Args:
        path: The CSV file.
        known: What the checkpoint knows of the file: its length in bytes, and its digest.

    Raises:
        InputError: The content up to that length differs from what the checkpoint knows.
    """
    check = LineCheck(path, known)
    with open_regular(path) as file:
        while check.digest.size < known.size and (part := file.read(_PART_BYTES)):
            check.digest.update(part)
    check.add(b"")
    return check.digest.going_on()


def add_rows(digest: Digest, index: np.ndarray, rows: np.ndarray) -> None:
    """Adds rows of an HDF5 table to its digest, as little-endian bytes, index first.

    Rows of 4,096 columns or more are added without a copy, which would take as long.

    Args:
        digest: The digest of the table, which is updated.
        index: Integer columns of the rows, shape (n, integer columns).
        rows: Other columns of the rows, shape (n, other columns).
    """
    parts = [
        np.ascontiguousarray(part, part.dtype.newbyteorder("<")).view(np.uint8)
        for part in (index, rows)
    ]
    for piece in (
        chain(*zip(*parts, strict=True))
        if rows.shape[1] >= _WIDE
        else [np.concatenate(parts, axis=1)]
    ):
        digest.update(piece.reshape(-1).data)
