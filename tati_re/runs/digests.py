"""What a checkpoint knows of the files of its run: their content up to its moment, in short."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

BLOCK_BYTES = 1 << 18
"""Bytes of a table that share a digest: a change is told to be within so many."""

LENGTH = 16
"""Hexadecimal digits of the digest of a block."""

_CHANGES = (
    "stopped",
    "failed_checks",
    "heating",
    "until",
    "convergence",
    "centered",
    "teacher",
    "burnin_cut",
    "last_positions",
    "predictor",
)
_CHANGING_OPTIONS = (
    "num_steps",
    "stages",
    "max_time",
    "require_certificate",
    "output",
    "overwrite",
    "data",
    "test_data",
    "verbose",
)
"""What a manifest may say anew: a resume makes runs longer, folders move, and data have a
fingerprint of their own.
"""

_BURNIN = "options.num_burnin_steps"  # A burn-in that ends by itself says so when it does.


class Known(NamedTuple):
    """What a checkpoint knows of a table: its length then, in bytes of a CSV file or rows of an
    HDF5 file, the digest of so much (None in folders of earlier versions), and the checkpoint's
    step.
    """

    size: int
    digest: str | None = None
    step: int = 0


class Digest:
    """The digest of a growing table: the first 64 bits of the sha256 of each block of its bytes,
    `limit` at most.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.size = 0
        self._limit = limit
        self._blocks = list[str]()
        self._open = hashlib.sha256()

    def update(self, content: bytes | memoryview) -> None:
        view = memoryview(content)
        if self._limit is not None:
            view = view[: self._limit - self.size]
        while len(view):
            part = view[: BLOCK_BYTES - self.size % BLOCK_BYTES]
            self._open.update(part)
            self.size += len(part)
            view = view[len(part) :]
            if self.size % BLOCK_BYTES == 0:
                self._blocks.append(self._open.hexdigest()[:LENGTH])
                self._open = hashlib.sha256()

    def copy(self) -> "Digest":
        other = Digest(self._limit)
        other.size = self.size
        other._blocks = [*self._blocks]
        other._open = self._open.copy()
        return other

    def going_on(self) -> "Digest":
        """The digest itself, from here on without a limit."""
        self._limit = None
        return self

    def text(self) -> str:
        """The digests of all blocks, one after the other, as a checkpoint has them."""
        return "".join(self._blocks) + (
            self._open.hexdigest()[:LENGTH] if self.size % BLOCK_BYTES else ""
        )

    def first_change(self, known: str | None) -> tuple[int, int] | None:
        """First and last byte of the first block that is another one in a checkpoint's text; None
        where all agree, or nothing is known. Of what is shorter than its limit the last block is
        left out.
        """
        if known is None:
            return None
        digests = (
            self.text()
            if self.size == self._limit or self._limit is None
            else "".join(self._blocks)
        )
        for first in range(0, len(digests), LENGTH):
            if digests[first : first + LENGTH] != known[first : first + LENGTH]:
                start = first // LENGTH * BLOCK_BYTES
                return start, min(start + BLOCK_BYTES, self.size)
        return None


def of_whole(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[: 2 * LENGTH]


def lasting(content: Mapping[str, Any]) -> dict[str, str]:
    """What stays in a manifest as it is, as texts by name; those of options begin with
    `options.`.
    """
    options = {
        f"options.{k}": v
        for k, v in content.get("options", {}).items()
        if k not in _CHANGING_OPTIONS
    }
    if options.get(_BURNIN) and "num_burnin_steps" not in content.get("given", ()):
        del options[_BURNIN]
    entries = {k: v for k, v in content.items() if k not in ("options", *_CHANGES)}
    return {name: json.dumps(value, sort_keys=True) for name, value in (entries | options).items()}
