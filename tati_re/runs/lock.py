"""One writer a folder: a lock that the kernel releases when its process ends, however it ends."""

import contextlib
import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO, ParamSpec, TypeVar

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.regular import check_regular, open_regular
from tati_re.core.files.structured import json_of
from tati_re.core.user_warnings import warn_user
from tati_re.runs.files import LOCK
from tati_re.runs.storage import storing

_P = ParamSpec("_P")
_R = TypeVar("_R")


@contextmanager
def writing(folder: AnyPath | None, new: bool = True) -> Iterator[None]:
    """Holds the lock of a folder inside its block.

    Folders that were made for the lock and stay empty are removed at the end.

    Args:
        folder: The folder. Nothing is locked if it is None, or a path to a file.
        new: Whether a missing folder is made. Otherwise nothing is locked if it is missing.
            Default: True.

    Raises:
        InputError: Another process, or another call of this one, writes there.
    """
    where = None if folder is None else Path(folder)
    if where is not None:
        with storing(where, ValueError):
            where.exists()
    if where is None or (where.exists() and not where.is_dir()) or not (new or where.exists()):
        yield
        return
    problem = f"The folder {where} is a link to a missing target."
    refuse_if(where.is_symlink() and not where.exists(), problem, where.resolve(), "a folder")
    made = [place for place in (where, *where.parents) if not place.exists()]
    path = where / LOCK
    try:
        with storing(where):
            file = _locked(path)
        with file:
            try:
                with storing(path):  # who holds it, for others
                    file.truncate(0)
                    file.write(
                        json.dumps({"host": platform.node(), "process": os.getpid()}).encode()
                        + b"\n"
                    )
                yield
            finally:
                with contextlib.suppress(OSError):
                    if _is_there(file, path):
                        path.unlink()
    finally:
        with contextlib.suppress(OSError):
            for place in made:
                place.rmdir()


def is_held(folder: AnyPath) -> bool:
    """Whether a process may be writing to a folder: its lock is held, or cannot be asked for."""
    try:
        import fcntl

        with open_regular(Path(folder) / LOCK) as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except (ImportError, OSError, InputError):
        return True
    return False


def one_writer(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Makes a function hold the lock of the folder in its keyword `output` while it runs."""

    @wraps(function)
    def locked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        output: Any = kwargs.get("output")
        with writing(output):
            return function(*args, **kwargs)

    return locked


def entries(folder: Path) -> list[str]:
    """The names in a folder, in order; that of its lock is left out."""
    return sorted(entry.name for entry in folder.iterdir() if entry.name != LOCK)


def _locked(path: Path) -> BinaryIO:
    """The open file of a lock that is held."""
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_regular(path)
        # Not by a link, which could lead to a file of others; what the holder said of itself stays
        # to be read.
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        try:
            file = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
        except PermissionError:
            if path.exists():
                raise _of_another_user(path) from None
            raise
        try:
            _lock(file, path.parent)
            if _is_there(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # The holder removed the file at its end, between our opening and locking it.


def _of_another_user(path: Path) -> InputError:
    """The refusal of a folder whose lock belongs to somebody else."""
    holder: dict[str, Any] = {}
    with contextlib.suppress(OSError, InputError), open_regular(path) as file:
        holder = _holder(file)
    owner = _owner(path)
    if holder:
        owner += f", process {holder['process']} on {holder['host']}"
    problem = f"The folder {path.parent} has a {LOCK} of another user."
    expected = f"wait for that run, use another folder, or ask the owner to remove {path}"
    return InputError(problem, owner, expected)


def _owner(path: Path) -> str:
    """The name of a file's owner, or the number where no name is known."""
    try:
        return f"user {path.owner()}"
    except (KeyError, NotImplementedError, OSError):
        return f"user number {path.stat().st_uid}"


def _lock(file: BinaryIO, folder: Path) -> None:
    try:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(file)
        problem = f"Another process is writing to the folder {folder}."
        received = (
            f"process {holder.get('process', 'unknown')} on {holder.get('host', 'an unknown host')}"
        )
        raise InputError(problem, received, "wait for it to end, or use another folder") from None
    except (ImportError, OSError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "no flock on this system"
        text = (
            f"The folder {folder} cannot be locked ({why}): a second process could write there too."
        )
        warn_user(text)


def _is_there(file: BinaryIO, path: Path) -> bool:
    """Whether the open file still has this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _holder(file: BinaryIO) -> dict[str, Any]:
    file.seek(0)
    try:
        holder = json_of(file.read(4096))
    except ValueError:
        return {}
    holder = holder if isinstance(holder, dict) else {}
    host = holder.get("host")
    return (
        holder
        if isinstance(host, str) and host.isprintable() and isinstance(holder.get("process"), int)
        else {}
    )
