"""Robust writing: files replaced atomically, synced before they are renamed, errors in one
sentence. A folder may come from someone else: no function here writes through a symbolic link that
lies in it, and files that are replaced have temporary names that nobody can guess. A run folder
that is itself a link to another disk is followed.
"""

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from tati_re.core.errors import AnyPath, InputError
from tati_re.runs.files import MANIFEST, PARTIAL


class StorageError(InputError):
    """A file that cannot be written: full disk, read-only folder, path below a file.

    Args:
        path: The file or folder.
        error: The error that writing raised.
    """

    def __init__(self, path: AnyPath, error: BaseException) -> None:
        # The operating system's words, which HDF5 hides inside a longer sentence.
        inside = re.search(r"error message = '([^']*)'", str(error))
        reason = str(
            getattr(error, "strerror", None) or (inside.group(1) if inside else error)
        ).rstrip(".")
        expected = "a writable folder on a disk with free space; existing content is kept"
        super().__init__(f"Cannot write {os.fspath(path)}: {reason}.", expected=expected)


@contextmanager
def storing(path: AnyPath, *more: type[Exception]) -> Iterator[None]:
    """Turns an `OSError` inside its block into a `StorageError` that names the path.

    Args:
        path: The file or folder that is written.
        *more: Further types of exceptions that are turned.
    """
    kinds: tuple[type[Exception], ...] = (OSError, *more)
    try:
        yield
    except kinds as error:
        raise StorageError(path, error) from error


def made(folder: AnyPath) -> Path:
    """The folder, with its parents."""
    with storing(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


def sync_file(path: AnyPath) -> None:
    """Returns when the bytes of a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(source: AnyPath, target: AnyPath) -> None:
    """Renames a file, replacing the target, and waits until the folder is on disk.

    Args:
        source: The present name.
        target: The new name. A file of this name is replaced.
    """
    _refuse_link(Path(target).parent)
    os.replace(source, target)
    sync_file(Path(target).parent)


def open_new(path: AnyPath) -> BinaryIO:
    """Opens a new, empty file for reading and writing; what has its name, a link too, is
    removed.
    """
    _refuse_link(Path(path).parent)
    Path(path).unlink(missing_ok=True)
    return open(path, "x+b")


def open_existing(path: AnyPath) -> Any:
    """Opens a file that is there for reading and writing, without a buffer; an `OSError` for a
    link.
    """
    path = Path(path)
    _refuse_link(path.parent)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link; nothing is written through it")
    return open(
        path, "r+b", buffering=0, opener=lambda name, flags: os.open(name, flags | _NO_LINKS)
    )


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def _refuse_link(folder: Path) -> None:
    """A folder inside a run folder is no link to elsewhere."""
    if folder.is_symlink() and (folder.parent / MANIFEST).exists():
        raise OSError(errno.ELOOP, f"{folder} is a symbolic link; nothing is written through it")


LEFTOVER = re.compile(rf"\.[0-9a-f]{{16}}{re.escape(PARTIAL)}(\.\w+)?$")
"""How a file ends that a kill left of `replacing`."""


def remove_leftovers(folder: AnyPath) -> None:
    """Removes what kills left of `replacing` anywhere in a folder that has no other writer."""
    for path in Path(folder).rglob(f"*{PARTIAL}*"):
        if LEFTOVER.search(path.name):
            path.unlink(missing_ok=True)


@contextmanager
def replacing(path: AnyPath, suffix: str = "") -> Iterator[BinaryIO]:
    """Opens a new file that replaces another one when the block ends, or is removed if it fails.

    Args:
        path: The file that is replaced.
        suffix: End of the temporary file's name. Default: none.
    """
    path = Path(path)
    aside = path.with_name(f"{path.name}.{secrets.token_hex(8)}{PARTIAL}{suffix}")
    with storing(path):
        try:
            with open_new(aside) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            replace(aside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                aside.unlink()
            raise


def write_whole(path: AnyPath, content: bytes) -> None:
    """Writes a small file atomically: readers see the old content or the new, even after a kill.

    Args:
        path: The file.
        content: The whole new content.
    """
    with replacing(path) as file:
        file.write(content)
