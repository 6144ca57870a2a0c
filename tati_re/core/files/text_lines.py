"""Lines of text files of numbers, with their numbers, whatever ends them."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.regular import regular_bytes


def decoded(path: AnyPath, content: bytes) -> str:
    """The text of a file in UTF-8, without its byte order mark.

    Args:
        path: The file, for messages.
        content: Its bytes.

    Raises:
        InputError: The bytes are not UTF-8; the sentence names the line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}, line {line} is not UTF-8 text.",
            f"the byte 0x{content[error.start]:02x}",
            "the table saved as UTF-8",
        ) from None


def numbered_lines(path: AnyPath, content: bytes) -> list[tuple[int, str]]:
    """The lines of a text file that are neither empty nor comments (`#`), with their numbers.

    Args:
        path: Of the file, for messages.
        content: Its bytes, in UTF-8; lines may end in LF, CRLF or CR, the last one in nothing.

    Raises:
        InputError: Another encoding, or no such line.
    """
    file = io.StringIO(decoded(path, content), newline=None)
    lines = [
        (number, line.rstrip("\n"))
        for number, line in enumerate(file, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    refuse_if(not lines, f"The file {path} is empty.", expected="lines of numbers")
    return lines


def check_cells(path: AnyPath, line: int, count: int, expected: int) -> None:
    """Refuses a line that has another number of cells than the lines above it.

    Args:
        path: The file, for messages.
        line: Number of the line in the file, from 1.
        count: Number of cells of the line.
        expected: Number of cells of the lines above.

    Raises:
        InputError: The numbers differ.
    """
    if count != expected:
        raise InputError(
            f"{path}, line {line} is not a row of the table.",
            f"{count} cell{'s' if count > 1 else ''}",
            f"{expected} cells, as in the line{'s' if line > 2 else ''} above",
        )


def read_numbers(path: Path) -> np.ndarray:
    """The numbers of a CSV file `(rows, columns)`, with or without a header line.

    Raises:
        InputError: A line that has another number of cells than the first one, or a cell that is
            not a number; the sentence names the line.
    """
    lines = [
        (number, _cells(path, number, line))
        for number, line in numbered_lines(path, regular_bytes(path))
    ]
    rows = lines[is_header(lines[0][1]) :]
    refuse_if(not rows, f"{path} has no rows.", expected="numbers below the header line")
    for number, cells in rows:
        check_cells(path, number, len(cells), len(lines[0][1]))
    try:
        return np.asarray([cells for _, cells in rows], np.float64)
    except ValueError:
        number, cell = next(
            (number, cell) for number, cells in rows for cell in cells if is_header([cell])
        )
        raise InputError(
            f"{path}, line {number} has a cell that is not a number.",
            repr(cell.strip()),
            "numbers between commas",
        ) from None


def header_of(path: Path) -> list[str]:
    """The names in the first line of a CSV file of numbers; none if that holds numbers."""
    number, line = numbered_lines(path, regular_bytes(path))[0]
    cells = _cells(path, number, line)
    return [cell.strip() for cell in cells] if is_header(cells) else []


def _cells(path: AnyPath, number: int, line: str) -> list[str]:
    """The cells of a line; a comma in quotes, as in the name "kernel[0,1]", is part of a cell."""
    if '"' not in line:
        return line.split(",")
    try:
        return next(csv.reader([line], skipinitialspace=True))
    except csv.Error as error:
        raise InputError(f"{path}, line {number} cannot be read: {error}.") from None


def is_header(cells: Sequence[str]) -> bool:
    """Whether the cells of a first line are names."""
    try:
        return not len(np.asarray(cells, np.float64))
    except ValueError:
        return True
