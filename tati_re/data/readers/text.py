"""Tables of text between commas, semicolons, tabs or white space."""

from collections.abc import Sequence
from pathlib import Path

from tati_re.data.contents import Contents
from tati_re.data.readers.contract import ReadRequest, TableReader
from tati_re.data.tables import are_unknown, num_unknown, read_header, read_table
from tati_re.data.text_files import TEXTS


class TextReader(TableReader):
    """Tables of text, which may be compressed (`.gz`)."""

    suffixes = TEXTS
    takes_encoding = True
    joins_suffixes = False

    def column_names(self, path: Path, request: ReadRequest) -> list[str]:
        return read_header(path, request.encoding, request.fewest_columns)

    def read(self, path: Path, request: ReadRequest) -> Contents:
        return read_table(path, request)

    def is_blank(self, path: Path, columns: Sequence[str], request: ReadRequest) -> bool:
        return are_unknown(path, columns, request.encoding)

    def num_blank(self, path: Path, columns: Sequence[str], request: ReadRequest) -> int:
        return num_unknown(path, columns, request.encoding)
