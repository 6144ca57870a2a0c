"""CSV tables that another program may have written: every line counts, whatever ends it."""

import csv
import io
import re
from itertools import islice
from typing import Any

import pandas

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.cells import from_cell
from tati_re.core.files.text_lines import check_cells, decoded

_FIRST_LINES = 20
"""Lines among which the header and the first row are looked for; the others may be empty."""
_LINE_END = re.compile(r"\r\n|\r|\n")


def parse_table(path: AnyPath, content: bytes) -> pandas.DataFrame:
    """The table in the bytes of a CSV file, with each number exactly as it is written.

    Lines may end in LF, CRLF or CR, the last one in nothing at all. Empty lines are skipped.

    Args:
        path: Of the file, for messages.
        content: Its bytes, UTF-8 with or without a byte order mark; the first line has the names.

    Returns:
        One row a line, columns in the order of the file.

    Raises:
        InputError: An empty file, another encoding, or a line with more or fewer cells than the
            header; the sentence names the line.
    """
    text = decoded(path, content)
    empty = not text or text.isspace()
    refuse_if(empty, f"The file {path} is empty.", expected="a header line, then rows")
    if has_long_first_row(text):
        _refuse_ragged(path, text)
    try:
        frame, reason = pandas.read_csv(io.BytesIO(content), **exact_numbers()), ""
    except ValueError as error:  # the errors of pandas derive from it
        frame, reason = None, str(error).strip().split("\n")[0]
    if frame is None or not (_is_filled(frame, text) or _is_rectangular(frame, text)):
        _refuse_ragged(path, text)
    if frame is None:
        raise InputError(
            f"{path} cannot be read as a table: {reason}.",
            expected="cells between commas below a header line",
        )
    return frame.rename(columns=lambda name: from_cell(str(name).strip()))


def has_long_first_row(text: str, columns: int | None = None) -> bool:
    """Whether the first row has more cells than the table has columns.

    pandas takes the surplus for an index, and needs .7 ms for each of its cells.

    Args:
        text: The lines of a CSV file.
        columns: Number of columns. Default: None, the cells of the first line, which is a header.
    """
    lines = [line for line in islice(io.StringIO(text), _FIRST_LINES) if line.strip()]
    if columns is None and lines:
        columns = _cells(lines.pop(0))
    return bool(lines) and columns is not None and _cells(lines[0]) > columns


def _cells(line: str) -> int:
    """Number of cells of a line; quotes are taken apart only where there are some."""
    if '"' not in line:
        return line.count(",") + 1
    try:
        return len(next(csv.reader([line]), []))
    except csv.Error:
        return 0


def exact_numbers() -> dict[str, Any]:
    """Returns arguments with which `pandas.read_csv` reads every number exactly as written."""
    # From 3.1 on pandas does so and warns about the word; before it has to be asked.
    before = tuple(int(part) for part in pandas.__version__.split(".")[:2]) < (3, 1)
    return {"float_precision": "round_trip"} if before else {}


def _is_filled(frame: pandas.DataFrame, text: str) -> bool:
    """Whether no row can be shorter than the header, as its last cell would be missing, nor longer:
    pandas raises there, but for a first row, whose surplus it takes for an index. After a CR that
    ends an empty line, and in quotes, pandas counts otherwise: such tables are counted here.
    """
    if "\r" in text or '"' in text or frame.iloc[:, -1].isna().any():
        return False
    lines = (line for line in io.StringIO(text) if line.strip())
    separators = {line.count(",") for line in islice(lines, 2)}
    return separators == {len(frame.columns) - 1}


def _is_rectangular(frame: pandas.DataFrame, text: str) -> bool:
    """Whether the separators alone show that all lines have as many cells as the header."""
    lines = [line for line in _LINE_END.split(text) if line.strip()]
    rows, separators = lines[1:], len(frame.columns) - 1
    return (
        len(frame) == len(rows)
        and isinstance(frame.index, pandas.RangeIndex)  # else the rows are longer than the header
        and not any('"' in row for row in rows)
        and all(row.count(",") == separators for row in rows)
    )


def _refuse_ragged(path: AnyPath, text: str) -> None:
    """Refuses the first line whose cells are not as many as those of the header."""
    rows = csv.reader(io.StringIO(text, newline=""))
    width = None
    try:
        for cells in rows:
            if not "".join(cells).strip() and len(cells) < 2:
                continue
            width = width or len(cells)
            check_cells(path, rows.line_num, len(cells), width)
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num} cannot be read: {error}.") from None
