"""Warnings that name the line of the user's code that led to them."""

import sys
import sysconfig
import warnings
from functools import cache
from pathlib import Path
from types import FrameType

_FOLDER = str(Path(__file__).parents[1])
_PACKAGE = "tati_re"


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the line of the user's code that called the package.

    Frames of this package, of the standard library and of installed libraries are skipped: a
    context manager, a decorator or a grid search may stand between the user and the warning.

    Args:
        text: The warning.
        category: Its class. Default: `UserWarning`.
    """
    frame = _frame_of_user()
    warnings.warn_explicit(
        text,
        category,
        filename=frame.f_code.co_filename,
        lineno=frame.f_lineno,
        module=frame.f_globals.get("__name__") or "<unknown>",
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _frame_of_user() -> FrameType:
    """The innermost frame of a user's code; for a command the one that called the package."""
    frame = sys._getframe(1)
    outside: FrameType | None = None
    while True:
        if not _is_in_package(frame):
            outside = outside or frame
            if not _is_installed(frame.f_code.co_filename):
                return frame
        if frame.f_back is None:
            return outside or frame
        frame = frame.f_back


def _is_in_package(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] == _PACKAGE or frame.f_code.co_filename.startswith(_FOLDER)


def _is_installed(path: str) -> bool:
    """Whether a file is one of Python or of an installed library."""
    return path.startswith(("<frozen ", *_library_folders()))


@cache
def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = sysconfig.get_paths()
    return tuple({str(Path(paths[name]) / "_")[:-1] for name in names if name in paths})
