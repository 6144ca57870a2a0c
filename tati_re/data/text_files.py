"""Tables of text: their encoding, the mark between cells, their header, and rows of one length."""

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path

from tati_re.core.errors import InputError
from tati_re.core.files.cells import from_cell
from tati_re.core.files.unpacking import check_size
from tati_re.data.numerals import is_number

WHITE_SPACE = (".txt", ".dat", ".data")
TEXTS = (".csv", ".tsv", *WHITE_SPACE)
"""The suffixes of tables of text, which may be followed by `.gz`."""

_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.I)
_ERRORS_OF_EXCEL = (
    r"N/A|DIV/0!|REF!|VALUE!|NUM!|NAME\?|NULL!|SPILL!|CALC!|FIELD!|BLOCKED!|CONNECT!|UNKNOWN!"
)
_BEGINS_WITH_ERROR = re.compile(rf"\s*#(?:{_ERRORS_OF_EXCEL})\s*(?=[,;\t|]|$)", re.I)
_HOW_TO_READ = "encoding = 'latin-1' or another encoding, or the file saved as UTF-8"
_NO_TEXT = {
    b"PK\x03\x04": "an Excel workbook or another zip archive",
    b"\xd0\xcf\x11\xe0": "an Excel workbook of an old format",
    b"PAR1\x15": "a Parquet file",
    b"ARROW1\0\0": "a Feather file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "an array of NumPy",
    b"\x1f\x8b": "a file compressed by gzip",
    b"BZh91AY&SY": "a file compressed by bzip2",
    b"\xfd7zXZ": "a file compressed by xz",
    b"\x28\xb5\x2f\xfd": "a file compressed by Zstandard",
    b"%PDF-": "a PDF document",
    b"SQLite format 3": "a database of SQLite",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
}
"""First bytes of files that are not tables of text, none of which can begin a header."""
_MARKS_OF_UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


class TextTable:
    """A file of text with one line for each row.

    Cells stand between commas, semicolons, tabs or vertical bars, in files of `WHITE_SPACE` also
    between white space. A first line `sep=;`, as Excel writes it, names the mark. Columns without
    a name that are empty in all rows are left out.

    Args:
        path: The file, which may be compressed (`.gz`).
        encoding: How characters are stored. Default: UTF-8.

    Raises:
        InputError: At the first use: a file that cannot be read, or another encoding.
    """

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self.path = path
        self.encoding = encoding
        self._spaced = path.name.lower().removesuffix(".gz").endswith(WHITE_SPACE)

    def lines(self) -> Iterator[tuple[int, str]]:
        """The lines that are neither empty nor comments, with their numbers from 1.

        Raises:
            InputError: The file cannot be read, or a line may be a comment or a row.
        """
        below = False
        for number, line, is_comment in self._lines_and_comments():
            if not is_comment:
                yield number, line
                below = True
            elif below:
                self._check_comment(number, line)

    def _first_lines(self, count: int) -> list[str]:
        """The first lines that are neither empty nor comments."""
        lines = (line for _, line, is_comment in self._lines_and_comments() if not is_comment)
        return list(islice(lines, count))

    def _lines_and_comments(self) -> Iterator[tuple[int, str, bool]]:
        """The lines that are not empty, with their numbers from 1, and whether they are comments."""
        opened = gzip.open if self._is_packed else open
        first = True
        try:
            self._refuse_other_kinds()
            with opened(self.path, "rt", newline="", encoding=self._codec) as file:
                for number, line in enumerate(file, 1):
                    if not line.strip():
                        continue
                    if line.lstrip().startswith("#") and not _BEGINS_WITH_ERROR.match(line):
                        yield number, line, True
                        continue
                    if "\0" in line:
                        raise self._other_encoding(number, 0, line.encode(errors="replace"))
                    if not (first and _SEPARATOR_LINE.fullmatch(line.strip("\r\n"))):
                        yield number, line, False
                    first = False
        except UnicodeError:
            raise self._undecodable() from None
        except OSError as error:
            raise InputError(f"{self.path} cannot be read.", error.strerror) from None

    @cached_property
    def separator(self) -> str | None:
        """What stands between cells; None for white space."""
        opened = gzip.open if self._is_packed else open
        lines = self._first_lines(2)
        with suppress(OSError, UnicodeError):
            with opened(self.path, "rt", newline="", encoding=self._codec) as file:
                first = file.readline(80).strip("\r\n")
            if match := _SEPARATOR_LINE.fullmatch(first):
                return match[1]
        if self._spaced:
            return _separator_or_space(lines)
        header, *rows = (re.sub('"[^"]*"', "", line) for line in lines or [""])
        marks = sorted(",;\t", key=header.count, reverse=True)
        best = "|" if header.count(marks[0]) == 0 and "|" in header else marks[0]
        agreeing = (
            mark for mark in marks for row in rows if header.count(mark) == row.count(mark) > 0
        )
        return next(agreeing, best)

    @cached_property
    def header(self) -> list[str]:
        """The names of the columns that are read; x1, x2, ... of a file without a header line."""
        names = self._all_names
        return [names[place] for place in self.column_numbers]

    @cached_property
    def column_numbers(self) -> list[int]:
        """The places of these columns among all columns of the file, from 0."""
        names = self._all_names
        nameless = {place for place, name in enumerate(names) if not name}
        if nameless:
            for _, line in self.body():
                cells = self.cells(line)
                nameless -= {place for place in nameless if place < len(cells) and cells[place]}
                if not nameless:
                    break
        return [place for place in range(len(names)) if place not in nameless]

    @property
    def width(self) -> int:
        """The number of columns of the file, with those that are left out."""
        return len(self._all_names)

    def cells(self, line: str) -> list[str]:
        """The cells of a line."""
        if self.separator is None:
            return line.split()
        try:
            row = next(csv.reader([line], delimiter=self.separator, skipinitialspace=True))
        except csv.Error as error:
            raise InputError(
                f"{self.path.name} has a line that is not a table row: {error}.",
                f"{line[:40]}...",
            ) from None
        return [cell.strip() for cell in row]

    def body(self) -> Iterator[tuple[int, str]]:
        """The lines below the header, with their numbers."""
        lines = self.lines()
        first = next(lines, None)
        if first is not None and not self._has_header:
            yield first
        yield from lines

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The cells of the columns that are read, line by line, with the numbers of the lines."""
        for number, line in self.even_lines():
            cells = self.cells(line)
            yield number, [cells[place] for place in self.column_numbers]

    def even_lines(self) -> Iterator[tuple[int, str]]:
        """The lines below the header, each with one cell for each column of the file.

        Marks are counted before a line is taken apart, so that a very long line costs nothing.

        Raises:
            InputError: A line with fewer cells, or with more that are not empty.
        """
        for number, line in self.body():
            count = self._count(line)
            is_plain = count == self.width and not self._has_spaced_quote(line)
            yield number, line if is_plain else self._even(number, line, count)

    def _refuse_open(self, where: str, line: str) -> None:
        """Refuses a line with a cell in quotes that ends on another line."""
        if self.separator is None or '"' not in line:
            return
        try:
            next(csv.reader([line], delimiter=self.separator, skipinitialspace=True, strict=True))
        except csv.Error as error:
            if "unexpected end" in str(error):
                problem = f"{where}: a cell in quotes does not end on this line."
                expected = "cells without line breaks, and two quotes for each quote inside a cell"
                raise InputError(problem, line.strip()[:40], expected) from None

    def size(self) -> int:
        """Bytes of the file, unpacked."""
        if not self._is_packed:
            return self.path.stat().st_size
        try:
            with gzip.open(self.path) as file:
                check_size(size := file.seek(0, 2), self.path.stat().st_size)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise InputError(f"{self.path} cannot be read: {error}.") from None
        return size

    def _check_comment(self, number: int, line: str) -> None:
        """Refuses a line below the header that begins with # and may be a row: in a table whose
        first column is text, one with as many cells.
        """
        text = line.lstrip()
        if text[1:2].isspace() or self._begins_with_number or self._count(text) != self.width:
            return
        if not is_number(self.cells(text)[0].lstrip("#")):
            problem = (
                f"{self.path.name}, line {number} begins with # and has as many cells as a row."
            )
            expected = 'a space behind the # of a comment; in a row, quotes as in "#1 north"'
            raise InputError(problem, text.strip()[:40], expected)

    @cached_property
    def _begins_with_number(self) -> bool:
        """Whether the first cell of the first row is a number."""
        rows = self._first_lines(2)[1:]
        return any(is_number(self.cells(line)[0]) for line in rows)

    def _count(self, line: str) -> int:
        if self.separator is None:
            return len(line.split())
        if '"' in line:
            return len(self.cells(line))
        return line.count(self.separator) + 1

    def _has_spaced_quote(self, line: str) -> bool:
        """Whether spaces stand in front of a cell in quotes, which NumPy takes for text."""
        if self.separator is None or '"' not in line:
            return False
        return re.search(rf'(^|{re.escape(self.separator)}) +"', line) is not None

    def _even(self, number: int, line: str, count: int) -> str:
        """A line whose surplus cells are empty without them, with empty cells for columns without
        names that it lacks, and without spaces in front of quotes.
        """
        least = self.column_numbers[-1] + 1 if self.column_numbers else 0
        stripped = line.rstrip("\r\n").rstrip(f"{self.separator or ''} ")
        if count > self.width and '"' not in line and self._count(stripped) > self.width:
            count = self._count(stripped)
        elif least <= count:
            cells = self.cells(line)
            if not any(cells[self.width :]):
                cells = (cells + [""] * self.width)[: self.width]
                marked = ['"' + cell.replace('"', '""') + '"' for cell in cells]
                return (self.separator or " ").join(marked)
        self._refuse_open(f"{self.path.name}, line {number}", line)
        dropped = self.width - len(self.column_numbers)
        named = f"{self.width}, {dropped} of them without a name" if dropped else self.width
        problem = f"{self.path.name}, line {number} has the wrong number of cells."
        raise InputError(problem, count, named)

    @cached_property
    def _all_names(self) -> list[str]:
        lines = self._first_lines(1)
        if not lines:
            expected = "a header line, then one line per example"
            raise InputError(f"{self.path} is empty.", expected=expected)
        self._refuse_open(f"{self.path.name}, header", lines[0])
        cells = self.cells(lines[0])
        if not self._has_header:
            return [f"x{i + 1}" for i in range(len(cells))]
        return [from_cell(cell) for cell in cells]

    @cached_property
    def _has_header(self) -> bool:
        """Whether the first line is a header: in files of `WHITE_SPACE` one whose cells are not
        numbers where those of the second line are.
        """
        if not self._spaced:
            return True
        kinds = [[*map(is_number, self.cells(line))] for line in self._first_lines(2)]
        if not kinds or all(kinds[0]):
            return not kinds
        return len(kinds) < 2 or self.separator is None or kinds[0] != kinds[1] or not any(kinds[0])

    @property
    def _is_packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    @property
    def _codec(self) -> str:
        """The name of the encoding; a mark of the order of bytes in front is not text."""
        if self.encoding is None:
            return "utf-8-sig"
        try:
            name = codecs.lookup(self.encoding).name
            "".encode(name)
        except (LookupError, ValueError, TypeError):
            expected = "a name that Python knows, such as utf-8, latin-1, cp1252 or utf-16"
            raise InputError("encoding: unknown name.", self.encoding, expected) from None
        return "utf-8-sig" if name == "utf-8" else name

    def _head(self) -> bytes:
        """The first bytes of the file."""
        with open(self.path, "rb") as file:
            return file.read(16)

    def _refuse_other_kinds(self) -> None:
        """Refuses files that are no text, whatever their name ends in."""
        if self._is_packed:
            return
        head = self._head()
        for mark, kind in _NO_TEXT.items():
            if head.startswith(mark):
                problem = f"{self.path.name} is not a table of text."
                raise InputError(problem, kind, "a table saved as text, such as CSV in UTF-8")

    def _undecodable(self) -> InputError:
        """The line and the byte that are not text in the encoding."""
        opened = gzip.open if self._is_packed else open
        with opened(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(self._codec)
                except UnicodeDecodeError as error:
                    return self._other_encoding(number, line[error.start], line)
                except UnicodeError:
                    break
        return self._other_encoding(1, None, b"")

    def _other_encoding(self, number: int, byte: int | None, line: bytes) -> InputError:
        name = self.encoding or "UTF-8"
        expected = _HOW_TO_READ if self.encoding is None else "another encoding"
        if number == 1 and self._head().startswith(_MARKS_OF_UTF_32):
            expected = "encoding = 'utf-32', or the file saved as UTF-8"
        elif number == 1 and byte in (0xFE, 0xFF):
            expected = "encoding = 'utf-16', or the file saved as UTF-8"
        elif _is_utf_16(line) or (number == 1 and _is_utf_16(self._head())):
            expected = "encoding = 'utf-16-le' or 'utf-16-be', or the file saved as UTF-8"
        elif byte == 0:
            expected = "a file without zero bytes: it is damaged, or writing it was interrupted"
        elif byte is not None and 0x80 <= byte < 0xA0 and self.encoding is None:
            # Control characters in Latin-1; letters, quotes and the euro sign in Windows' encoding.
            expected = "encoding = 'cp1252' or another encoding, or the file saved as UTF-8"
        received = "bytes in another encoding" if byte is None else f"the byte 0x{byte:02x}"
        return InputError(
            f"{self.path.name}, line {number} is not {name} text.", received, expected
        )


def _is_utf_16(line: bytes) -> bool:
    """Whether zeros stand in every second place, as between the letters of UTF-16.

    Zeros in one line of a damaged file stand anywhere, or next to each other.
    """
    even, odd = line[::2].count(0), line[1::2].count(0)
    return 2 * max(even, odd) >= len(line) // 2 > 0 and 10 * min(even, odd) <= max(even, odd)


def _separator_or_space(lines: list[str]) -> str | None:
    """The mark between cells in the first lines of a file that may have white space between them:
    one that stands in each line as often, and not in numbers, as a decimal comma does.
    """
    for mark in sorted(",;\t|", key=lambda mark: -lines[0].count(mark) if lines else 0):
        counts = {line.count(mark) for line in lines}
        if len(counts) != 1 or 0 in counts:
            continue
        cells = [cell.split() for cell in lines[-1].split(mark)]
        if not any(len(parts) > 1 and all(map(is_number, parts)) for parts in cells):
            return mark
    return None
