"""Texts of others, such as names of columns, folders and layers, without what would steer a
terminal: escape sequences, and controls that hide or turn what is read.
"""

import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tati_re.core.process.passing_stream import PassingStream

SCREEN_WIDTH = 100
"""Columns of the screen of a run."""
_KINDS = ("Cc", "Cf", "Cs", "Zl", "Zp")
_SUSPECT = re.compile(r"[^\n\t\x20-\x7e]")
"""What may be a control character; letters of other alphabets are looked up."""


def printable(text: str, keep: str = "\n\t") -> str:
    """A text in which control characters are written as Python does, `\\x1b` for an escape.

    Args:
        text: Any text.
        keep: Control characters that stay. Default: the ends of lines, and tabs.

    Returns:
        The text; the same where it has no control characters, and none that has no width or turns
        the direction of writing.
    """
    escaped = _SUSPECT.sub(_written, text)
    for control in "\n\t":
        if control not in keep:
            escaped = escaped.replace(control, " ")
    return escaped


def is_printable(text: str) -> bool:
    """Whether a text has no control characters at all."""
    return printable(text, keep="") == text


def _written(match: re.Match[str]) -> str:
    character = match[0]
    if unicodedata.category(character) not in _KINDS:
        return character
    return character.encode("unicode_escape").decode()


class PrintableStream(PassingStream):
    """A stream of text that writes what is printable to another one, and is otherwise as that.

    Args:
        stream: Where the text goes, as `stream.inner` with all its characters: a progress bar has
            its own control characters, and cleans what it is given itself.
    """

    def write(self, text: str) -> int:
        self.inner.write(printable(text))
        return len(text)

    @property
    def closed(self) -> bool:
        return bool(self.inner.closed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def inner_stream(stream: Any) -> Any:
    """The stream below a `PrintableStream`, or the stream itself."""
    return stream.inner if isinstance(stream, PrintableStream) else stream


@contextmanager
def printable_output() -> Iterator[None]:
    """Makes what is printed to standard output and error printable while a block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_printable_stream, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _printable_stream(stream: Any) -> Any:
    """A stream that may be missing, as in a process without a terminal."""
    if stream is None or isinstance(stream, PrintableStream):
        return stream
    return PrintableStream(stream)
