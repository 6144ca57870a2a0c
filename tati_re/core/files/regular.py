"""Files that are read have to be regular ones: a FIFO would wait for a writer, a device may never
end.
"""

import errno
import os
import stat
from typing import BinaryIO, NoReturn

from tati_re.core.errors import AnyPath, InputError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO (named pipe)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)

# Not every system has all of them.
_FLAGS = os.O_RDONLY | vars(os).get("O_NONBLOCK", 0) | vars(os).get("O_BINARY", 0)


def check_regular(path: AnyPath, option: str = "") -> None:
    """Refuses what has the name of a file and is not a regular file; what is missing passes.

    Args:
        path: The file; a symbolic link counts as what it points to.
        option: The option that named it, for the message. Default: none.

    Raises:
        InputError: It is a folder, a FIFO, a socket or a device.
    """
    try:
        mode = os.stat(path).st_mode
    except ValueError:
        return  # whoever opens it says what is wrong
    except OSError as error:
        if error.errno == errno.ELOOP:
            _refuse(path, "symbolic links that lead to each other", option)
        return
    _refuse_other(path, mode, option)


def open_regular(path: AnyPath) -> BinaryIO:
    """Opens a file for reading, without waiting for the writer of a FIFO.

    Args:
        path: The file; a symbolic link counts as what it points to.

    Returns:
        The open file, of bytes.

    Raises:
        InputError: It is a folder, a FIFO, a socket or a device.
        OSError: It is missing, or may not be read.
    """
    check_regular(path)  # first: to open a device may already do something
    file = os.fdopen(os.open(path, _FLAGS), "rb")
    try:
        _refuse_other(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def regular_bytes(path: AnyPath, most: float | None = None, typed: bool = False) -> bytes:
    """The content of a regular file.

    Args:
        path: The file.
        most: Largest size in bytes. Default: any.
        typed: Whether the caller typed the path: a pipe that the shell has opened, as by `<(...)`,
            and a device such as `/dev/null` are read as well. Default: no.

    Returns:
        All of its bytes.

    Raises:
        InputError: It is not a regular file, or larger than `most`.
        OSError: It is missing, or may not be read.
    """
    with open(path, "rb") if typed and not _waits(path) else open_regular(path) as file:
        content = file.read() if most is None else file.read(int(most) + 1)
        size = max(len(content), os.fstat(file.fileno()).st_size)
    if most is not None and size > most:
        received = f"{size:,} bytes"
        raise InputError(
            f"The file {os.fspath(path)} is too large.", received, f"at most {most:,.0f} bytes"
        )
    return content


def _waits(path: AnyPath) -> bool:
    """Whether to open a path may wait for ever: a FIFO, but for one that the shell opened on both
    sides.
    """
    try:
        is_pipe = stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
    opened = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
    return is_pipe and not os.fspath(path).startswith(opened)


def _refuse_other(path: AnyPath, mode: int, option: str = "") -> None:
    if stat.S_ISREG(mode):
        return
    kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "something else")
    _refuse(path, kind, option)


def _refuse(path: AnyPath, kind: str, option: str) -> NoReturn:
    start = f"{option}: the file" if option else "The file"
    problem = f"{start} {os.fspath(path)} cannot be read: it is not a regular file."
    raise InputError(problem, kind, "a regular file")
