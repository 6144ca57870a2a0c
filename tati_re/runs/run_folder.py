"""Preparation of the folder of a run."""

from collections.abc import Collection
from contextlib import suppress
from itertools import count
from pathlib import Path
from shutil import rmtree

from tati_re.core.errors import AnyPath, InputError, pasted, refuse_if
from tati_re.runs.files import FILES, LOCK, MANIFEST, PARTIAL, START, is_started
from tati_re.runs.lock import entries
from tati_re.runs.storage import LEFTOVER, replace, storing


def prepare(path: AnyPath, overwrite: bool = False) -> Path:
    """Makes the folder of a new run, with its parents.

    A start that was killed is removed from the folder. An old run stays until `replace_with_start`.

    Args:
        path: The folder.
        overwrite: Whether the folder may contain an old run or other files. Default: False, it must
            be empty but for a killed start.

    Returns:
        The folder.

    Raises:
        InputError: The path is a file, or the folder is not empty.
    """
    folder = Path(path)
    refuse_if(
        folder.exists() and not folder.is_dir(),
        "The output folder is a file.",
        folder,
        "a new or empty folder",
    )
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MANIFEST).exists() and (overwrite or is_started(folder)):
            clear(folder)
        if (folder / START).exists():
            rmtree(folder / START)
    if (contents := entries(folder)) and not overwrite:
        problem = f"The output folder {folder} is not empty."
        expected = f"a new folder, overwrite (--overwrite), or resume (--resume {pasted(folder)})"
        raise InputError(
            problem, ", ".join(contents[:3]) + (", ..." if len(contents) > 3 else ""), expected
        )
    return folder


def replace_with_start(folder: Path) -> None:
    """Gives a start that is whole the place of the old run; a kill at any moment leaves one of the
    two, or what another call completes. A start that is not whole is removed.
    """
    start = folder / START
    if is_started(folder):
        with storing(folder):
            if (folder / MANIFEST).is_file():
                clear(folder)
        for file in reversed(FILES):
            if (start / file.name).exists():
                with storing(folder / file.name):
                    (folder / file.name).parent.mkdir(exist_ok=True)
                    replace(start / file.name, folder / file.name)
    rmtree(start, ignore_errors=True)


def free_folder(name: str, parent: AnyPath = "runs") -> Path:
    """Makes the next free numbered folder, `runs/sample-1`, `runs/sample-2`, ...

    Concurrent commands get different folders.

    Args:
        name: Name of the folder without its number.
        parent: The folder in which it is made. Default: "runs".
    """
    refuse_if(
        Path(parent).is_file(), f"{parent} is not a folder.", "a file", "a folder, or --output"
    )
    for number in count(1):
        folder = Path(parent) / f"{name}-{number}"
        with storing(folder), suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError


def clear(folder: Path) -> None:
    """Removes the files of a run, and those of the commands, but for the lock of the writer that
    does it.
    """
    inner_folders = {(folder / file.name).parent for file in FILES} - {folder}
    for inner in inner_folders:
        if inner.is_symlink():  # what it points to is not of this run
            inner.unlink()
    for file in reversed(FILES):
        for name in {file.name, file.name + PARTIAL} - {LOCK}:
            (folder / name).unlink(missing_ok=True)
    remove_leftovers(folder)
    for inner in inner_folders:
        if inner.is_dir() and not any(inner.iterdir()):
            inner.rmdir()


def remove_leftovers(folder: Path, writers: Collection[str] | None = None) -> None:
    """Removes what killed processes left of files that were being replaced.

    Args:
        folder: The run folder.
        writers: Rooms of the package whose files are cleaned (`RunFile.writer`), for a folder in
            which others may write. Default: None, all.
    """
    for file in FILES:
        if writers is None or file.writer in writers:
            for path in folder.glob(f"{file.name}.*"):
                if LEFTOVER.search(path.name):
                    path.unlink(missing_ok=True)
