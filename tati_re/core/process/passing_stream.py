"""A stream of text around another one: what it does not change passes to the other."""

from __future__ import annotations

import io
from typing import Any


class PassingStream(io.TextIOBase):
    """A stream of text that answers as the one inside of it, which it never closes.

    Args:
        stream: Where the text goes; `inner` from then on.
    """

    def __init__(self, stream: Any) -> None:
        self.inner = stream

    def flush(self) -> None:
        self.inner.flush()

    def isatty(self) -> bool:
        return bool(self.inner.isatty())

    def fileno(self) -> int:
        return int(self.inner.fileno())

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Leaves the other stream open: it belongs to whoever made it."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.inner.encoding or "utf-8"

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.inner.errors
