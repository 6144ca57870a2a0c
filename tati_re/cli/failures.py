"""Errors at the end of a command: one sentence on stderr, an exit status, and a log of what nobody foresaw."""

from __future__ import annotations

import contextlib
import os
import platform
import select
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tati_re._version import __version__
from tati_re.core.errors import InputError
from tati_re.core.exit_status import BAD_INPUT, INTERNAL_ERROR, OUTPUT_CLOSED
from tati_re.runs.files import MANIFEST

MADE: ContextVar[Path | None] = ContextVar("folder that this command made", default=None)
_VERSIONS = ("numpy", "tensorflow", "keras", "scipy", "pandas", "h5py", "pydantic")


def failed(error: Exception, prog: str, arguments: Sequence[str], sentence: str | None = None) -> int:
    """Says an error in one sentence and returns the exit status; `sentence` is that of a user's error. What others
    raised comes with a log of traceback and versions; with `--debug` the traceback is on stderr too."""
    if isinstance(error, BrokenPipeError) and _nobody_reads():
        return OUTPUT_CLOSED
    status, said, kept = BAD_INPUT, sentence or "", False
    if sentence is None:
        status, said, kept = _in_words(error, arguments)
    with contextlib.suppress(OSError):
        if "--debug" in arguments:
            traceback.print_exception(error)
        if kept and (log := _logged(error, prog, arguments)):
            said += f" The traceback is in {log}."
        said = " ".join(said.split())
        said = said if len(said) <= 2000 else f"{said[:1997]}..."
        print("error: " + "".join(c if c.isprintable() else repr(c)[1:-1] for c in said), file=sys.stderr)
    return status


def _nobody_reads() -> bool:
    """Whether the reader of the output has left; Python then need not try to write what is left of it."""
    poll = select.poll()
    try:
        poll.register(sys.stdout, 0)
    except (OSError, ValueError):
        return False
    if not poll.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


def _in_words(error: Exception, arguments: Sequence[str]) -> tuple[int, str, bool]:
    """Exit status, sentence, and whether a log is worth its place."""
    words = " ".join(str(error).split())
    words = (words if len(words) <= 300 else words[:297] + "...").rstrip(".")
    tensorflow: Any = sys.modules.get("tensorflow")  # which may not be there yet
    foreign = tensorflow is not None and isinstance(error, tensorflow.errors.OpError)
    if isinstance(error, MemoryError) or (foreign and isinstance(error, tensorflow.errors.ResourceExhaustedError)):
        what = f"There is not enough memory{': ' * bool(words)}{words}."
        return BAD_INPUT, str(InputError(what, expected="fewer walkers, replicas or examples at a time")), foreign
    if isinstance(error, OSError):
        if error.filename is None:
            return BAD_INPUT, f"{words}.", False
        name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
        typed = next((f"{flag}: " for flag, value in _typed(arguments) if _begins(name, value.rstrip("/"))), "")
        name = name if len(name) <= 160 else f"{name[:77]}...{name[-80:]}"
        return BAD_INPUT, f"{typed}{name} cannot be used: {error.strerror or words}.", False
    if foreign:
        return BAD_INPUT, f"TensorFlow cannot compute this ({type(error).__name__}): {words}.", True
    return INTERNAL_ERROR, f"Internal error, {type(error).__name__}{': ' * bool(words)}{words}.", True


def _begins(name: str, value: str) -> bool:
    """Whether a file has this name, or lies below it; a value may go on after a colon."""
    return bool(value) and (name.startswith(value) or value.startswith(f"{name}:"))


def _typed(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Flags with each of their values."""
    flag = ""
    for text in arguments:
        name, equals, value = text.partition("=")
        if text.startswith("--"):
            flag = name
        if flag and (value := value if equals and text.startswith("--") else text) != flag:
            yield flag, value


def _logged(error: Exception, prog: str, arguments: Sequence[str]) -> Path | None:
    """Writes traceback and versions to a new file in the run folder that was made or named, else in that of temporary
    files."""
    versions = [f"tati_re {__version__}", f"python {platform.python_version()} on {platform.platform()}"]
    for package in _VERSIONS:
        with contextlib.suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    said = "".join(traceback.format_exception(error))
    text = "\n".join([" ".join([prog, *arguments]), ", ".join(versions), "", said])
    named = [MADE.get(), *(Path(value.rpartition("=")[2]) for value in arguments)]
    runs = [folder for folder in named if folder is not None and os.path.isfile(folder / MANIFEST)]
    for folder in (*map(str, runs), tempfile.gettempdir(), "."):
        with contextlib.suppress(OSError):
            number, path = tempfile.mkstemp(".log", "tati_re-error-", folder, text=True)
            with open(number, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return Path(path)
    return None
