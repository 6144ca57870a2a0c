"""Preparation of the folder of a run."""

from collections.abc import Collection
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.runs.files import FILES, LOCK, PARTIAL
from tati_re.runs.lock import entries
from tati_re.runs.storage import LEFTOVER, storing


def prepare(path: AnyPath, overwrite: bool = False, abandoned: bool = False) -> Path:
    """Makes the folder of a new run, with its parents. With `overwrite` the files of an old run in it are removed, and
    what commands made of it; else it has to be empty, but for the files of a start that was `abandoned`."""
    folder = _folder(path)
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if abandoned:
            clear(folder)
        if not overwrite:
            _refuse(folder, entries(folder))
        clear(folder)
    return folder


def free_folder(name: str, parent: AnyPath = "runs") -> Path:
    """Makes the next free numbered folder, `runs/sample-1`, `runs/sample-2`, ..., safely for concurrent commands."""
    refuse_if(Path(parent).is_file(), f"{parent} is no folder.", "a file", "a folder, or --output")
    for number in count(1):
        folder = Path(parent) / f"{name}-{number}"
        with storing(folder), suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError


def check_free(path: AnyPath, overwrite: bool = False) -> None:
    """Refuses a folder that cannot be written, or has files."""
    folder = _folder(path)
    nearest = next(place for place in (folder, *folder.parents) if place.exists())
    with storing(folder), TemporaryFile(dir=nearest):
        pass
    if not overwrite and folder.is_dir():
        _refuse(folder, entries(folder))


def _folder(path: AnyPath) -> Path:
    folder = Path(path)
    refuse_if(folder.exists() and not folder.is_dir(), "The output is a file.", folder, "a folder that is new or empty")
    return folder


def _refuse(folder: Path, found: list[str]) -> None:
    if found:
        what = f"The output folder {folder} is not empty."
        expected = f"a new folder, overwrite (--overwrite), or resume (--resume {folder})"
        raise InputError(what, ", ".join(found[:3]) + (", ..." if len(found) > 3 else ""), expected)


def clear(folder: Path) -> None:
    """Removes the files of a run, and those of the commands, but for the lock of the writer that does it."""
    inner_folders = {(folder / file.name).parent for file in FILES} - {folder}
    for inner in inner_folders:
        if inner.is_symlink():  # what it points to is not of this run
            inner.unlink()
    for file in FILES:
        if file.name != LOCK:
            (folder / file.name).unlink(missing_ok=True)
        (folder / (file.name + PARTIAL)).unlink(missing_ok=True)
    remove_leftovers(folder)
    for inner in inner_folders:
        if inner.is_dir() and not any(inner.iterdir()):
            inner.rmdir()


def remove_leftovers(folder: Path, writers: Collection[str] | None = None) -> None:
    """Removes what kills left of files that were being replaced; of some writers' only, where others may write."""
    for file in FILES:
        if writers is None or file.writer in writers:
            for path in folder.glob(f"{file.name}.*"):
                if LEFTOVER.search(path.name):
                    path.unlink(missing_ok=True)
