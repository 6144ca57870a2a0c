"""Errors at the end of a command: one sentence on stderr, an exit status, and a log of what nobody
foresaw.
"""

import contextlib
import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tati_re._version import __version__
from tati_re.core.errors import InputError, abbreviated
from tati_re.core.printable import printable
from tati_re.core.process.exit_status import (
    BAD_INPUT,
    FINISHED,
    INTERNAL_ERROR,
    OUTPUT_CLOSED,
    OUTPUT_FAILED,
)
from tati_re.core.process.standard_streams import has_no_reader
from tati_re.core.user_input import error_text
from tati_re.runs.files import MANIFEST

MADE: ContextVar[Path | None] = ContextVar("folder created by this command", default=None)
PRINTS_RESULT: ContextVar[bool] = ContextVar("result is printed", default=False)
"""Whether the running command prints its result. Otherwise it writes files."""
_VERSIONS = ("numpy", "tensorflow", "keras", "scipy", "pandas", "h5py", "pydantic")


def failed(
    error: Exception, prog: str, arguments: Sequence[str], sentence: str | None = None
) -> int:
    """Prints an error in one sentence, and returns the exit status.

    Args:
        error: The error. Unless it is a user's error, a log has its traceback and the versions.
        prog: The name of the command.
        arguments: Its arguments. With `--debug` the traceback is printed too.
        sentence: The sentence of a user's error. Default: None, made from the error.
    """
    status = BAD_INPUT
    words = sentence or ""
    is_logged = False
    if sentence is None:
        status, words, is_logged = _in_words(error, arguments)
    with contextlib.suppress(OSError):
        if "--debug" in arguments:
            traceback.print_exception(error)
        if is_logged and (log := _logged(error, prog, arguments)):
            words += f" The traceback is in {log}."
        words = abbreviated(" ".join(words.split()), 2000)
        print(f"error: {printable(words, keep='')}", file=sys.stderr)
    return status


def status_of_output(failure: OSError | ValueError | None, status: int) -> int:
    """The exit status of a command whose standard output has failed, with a sentence.

    Args:
        failure: The first failure of a write; None: all was written.
        status: The exit status of what the command did.

    Returns:
        Its own status if its result is in files (`PRINTS_RESULT`), or something else went wrong;
        that of a closed pipe, without a sentence; else 74.
    """
    if failure is None or not PRINTS_RESULT.get() or status != FINISHED:
        return status
    if has_no_reader(failure):
        return OUTPUT_CLOSED
    named = failure.strerror if isinstance(failure, OSError) else None
    reason = named or error_text(failure)
    print(f"error: Standard output cannot be written: {reason}.", file=sys.stderr)
    return OUTPUT_FAILED


def _in_words(error: Exception, arguments: Sequence[str]) -> tuple[int, str, bool]:
    """Exit status, sentence, and whether a log is worth its place."""
    tensorflow: Any = sys.modules.get("tensorflow")  # which may not be there yet
    foreign = tensorflow is not None and isinstance(error, tensorflow.errors.OpError)
    if isinstance(error, MemoryError) or (
        foreign and isinstance(error, tensorflow.errors.ResourceExhaustedError)
    ):
        problem = f"Not enough memory ({error_text(error)})."
        return (
            BAD_INPUT,
            str(InputError(problem, expected="fewer walkers, replicas or examples at a time")),
            foreign,
        )
    if isinstance(error, OSError) and error.filename is not None:
        name = (
            os.fsdecode(error.filename)
            if isinstance(error.filename, str | bytes)
            else str(error.filename)
        )
        typed = _flag_of(name, arguments)
        name = name if len(name) <= 160 else f"{name[:77]}...{name[-80:]}"
        return (
            BAD_INPUT,
            f"{typed}{name} cannot be used: {error.strerror or error_text(error)}.",
            False,
        )
    if isinstance(error, OSError):
        return BAD_INPUT, f"The operating system refused this ({error_text(error)}).", False
    if foreign:
        return BAD_INPUT, f"TensorFlow cannot compute this ({error_text(error)}).", True
    user_files = {
        os.path.abspath(text.rpartition("=")[2].partition(":")[0]).removesuffix(".py")
        for text in arguments
    }
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if (
            frame.filename.removesuffix(".py") in user_files
        ):  # whose code fails, and not that of the package
            return (
                BAD_INPUT,
                f"{frame.filename} fails in line {frame.lineno} ({error_text(error)}).",
                True,
            )
    return INTERNAL_ERROR, f"Internal error ({error_text(error)}).", True


def _flag_of(name: str, arguments: Sequence[str]) -> str:
    """The flag, and a colon, that was typed with a file of this name or what it lies in; nothing
    for a plain word.
    """
    flag = ""
    for text in arguments:
        before, equals, value = text.partition("=")
        flag = before if text.startswith("--") else flag
        value = (value if equals and text.startswith("--") else text).rstrip("/")
        # A value may go on after a colon: my_net.py:build.
        if flag and value and (name.startswith(value) or value.startswith(f"{name}:")):
            return f"{flag}: "
    return ""


def _logged(error: Exception, prog: str, arguments: Sequence[str]) -> Path | None:
    """Writes traceback and versions to a new file in the run folder made or named, else among
    temporary files.
    """
    versions = [
        f"tati_re {__version__}",
        f"python {platform.python_version()} on {platform.platform()}",
    ]
    for package in _VERSIONS:
        with contextlib.suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    trace = "".join(traceback.format_exception(error))
    text = "\n".join([" ".join([prog, *arguments]), ", ".join(versions), "", trace])
    named = [MADE.get(), *(Path(value.rpartition("=")[2]) for value in arguments)]
    runs = [folder for folder in named if folder is not None and os.path.isfile(folder / MANIFEST)]
    for folder in (*map(str, runs), tempfile.gettempdir(), "."):
        with contextlib.suppress(OSError):
            number, path = tempfile.mkstemp(".log", "tati_re-error-", folder, text=True)
            with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return Path(path)
    return None
