"""Robust writing: files replaced atomically, synced before they are renamed, errors in one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tati_re.core.errors import InputError
from tati_re.runs.files import PARTIAL


class StorageError(InputError):
    """A file that cannot be written: full disk, read-only folder, path below a file."""

    def __init__(self, path: str | os.PathLike[str], error: BaseException) -> None:
        super().__init__(
            f"Cannot write {os.fspath(path)}: {_reason(error)}.",
            expected="a folder that can be written, on a disk with free space; what was written before is kept",
        )


def _reason(error: BaseException) -> str:
    """Returns the operating system's words; HDF5 hides them inside a longer sentence."""
    words = getattr(error, "strerror", None)
    inside = re.search(r"error message = '([^']*)'", str(error))
    return str(words or (inside.group(1) if inside else error)).rstrip(".")


@contextmanager
def storing(path: str | os.PathLike[str], *more: type[Exception]) -> Iterator[None]:
    """Turns an `OSError` (and the types in `more`) inside its block into a `StorageError` that names `path`."""
    kinds: tuple[type[Exception], ...] = (OSError, *more)
    try:
        yield
    except kinds as error:
        raise StorageError(path, error) from error


def sync_file(path: str | os.PathLike[str]) -> None:
    """Returns when the bytes of a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Renames `source` to `target`, replacing it, and waits until the folder is on disk."""
    os.replace(source, target)
    sync_file(Path(target).parent)


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a small file atomically: readers see the old content or the new, even after a kill."""
    path = Path(path)
    aside = path.with_name(path.name + PARTIAL)
    with storing(path):
        with open(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        replace(aside, path)
