"""Standard input, output and error where they are closed, missing or full."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from tati_re.core.printable import inner_stream
from tati_re.core.process.passing_stream import PassingStream


def open_missing() -> None:
    """Opens the null device in place of closed descriptors 0 to 2.

    The next file that is opened would take such a number, and what TensorFlow and the interpreter
    write to standard error would be written into it.
    """
    if os.name != "posix":
        return
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is given out: this one.
            with contextlib.suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


class LenientStream(PassingStream):
    """A text stream that notes the first failure of a write in place of raising it; what is
    written from then on is dropped.

    Args:
        stream: The stream.
        redirect: Whether the null device takes the place of the descriptor after a failure, so that
            the interpreter can flush at its end.

    Attributes:
        failure: The first failure; None: there was none.
    """

    def __init__(self, stream: TextIO, redirect: bool = False) -> None:
        super().__init__(stream)
        self._redirect = redirect
        self.failure: OSError | ValueError | None = None

    def write(self, text: str) -> int:
        if self.failure is None:
            try:
                return self.inner.write(text)
            except (OSError, ValueError) as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        if self.failure is None:
            try:
                super().flush()
            except (OSError, ValueError) as error:
                self._fail(error)

    def isatty(self) -> bool:
        try:
            return super().isatty()
        except ValueError:  # It is closed.
            return False

    @property
    def closed(self) -> bool:
        return False

    @property
    def buffer(self) -> Any:
        return self.inner.buffer

    def _fail(self, error: OSError | ValueError) -> None:
        if isinstance(error, UnicodeError):
            raise error
        self.failure = error
        if not self._redirect:
            return
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.inner.fileno())
            os.close(null)


@contextlib.contextmanager
def lenient_streams() -> Iterator[tuple[LenientStream, LenientStream]]:
    """Standard output and error of a command: neither raises, and a missing one is the null
    device.

    Yields:
        Standard output and standard error, which note their first failure.
    """
    before = sys.stdout, sys.stderr
    with contextlib.ExitStack() as stack:
        streams = []
        for stream in before:
            there = inner_stream(stream)
            if isinstance(there, LenientStream):  # of a command that calls another one
                streams.append(there)
                continue
            if there is None or there.closed:
                there = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            streams.append(LenientStream(there, redirect=True))
        # One that is lenient already stays as it is, with what is around it.
        restored = [
            old if inner_stream(old) is new else new
            for old, new in zip(before, streams, strict=True)
        ]
        sys.stdout, sys.stderr = restored  # type: ignore[assignment]
        try:
            yield streams[0], streams[1]
        finally:
            sys.stdout, sys.stderr = before


def has_no_reader(error: OSError | ValueError) -> bool:
    """Whether a write failed because the reader of a pipe has left, as in `... | head`."""
    return isinstance(error, OSError) and error.errno == errno.EPIPE
