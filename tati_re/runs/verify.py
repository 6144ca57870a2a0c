"""Whether the files of a run folder are what the run wrote."""

import csv
import os
import warnings
import zipfile
from pathlib import Path
from typing import NamedTuple

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.regular import check_regular, regular_bytes
from tati_re.core.files.unpacking import DAMAGED
from tati_re.core.front_door import front_door
from tati_re.runs import checkpoint, files, manifest
from tati_re.runs.checked_tables import ShorterTable, check_table, read_whole, whole_array


class FileState(NamedTuple):
    """A file of a run folder, by its path there; whether it is whole, as far as can be known; and
    how, in words.
    """

    name: str
    whole: bool
    sentence: str


@front_door
def verify(folder: AnyPath) -> list[FileState]:
    """Checks every file of a run folder for damage.

    Tables, directions and manifest are compared with the records in the checkpoint, and checkpoints
    with their sha256. Models and arrays are compared with the checksums in their archives. In other
    tables, rows and numbers are checked.

    Args:
        folder: The run folder. The run may have ended, be running, or have been stopped or killed.

    Returns:
        The state of each file, missing files included.

    Raises:
        InputError: The folder does not exist or holds no run.

    Examples:
        >>> all(file.whole for file in tati_re.verify("runs/a"))
        True
    """
    folder = Path(folder)
    if not (folder / files.MANIFEST).is_file():
        manifest.read(folder)
    expected = {f"{files.CHECKPOINTS}/{files.CURRENT}"}
    for number, meta in enumerate(checkpoint.metas(folder)):
        # Files that are written at once come after their first checkpoint.
        expected.update(meta.get("whole" if number else "files", {}))
    names = [
        file.name for file in files.FILES if (folder / file.name).exists() or file.name in expected
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShorterTable)
        return [_state(folder, name) for name in names]


def _state(folder: Path, name: str) -> FileState:
    try:
        return FileState(name, True, _checked(folder, name))
    except FileNotFoundError:
        return FileState(name, False, "It is missing.")
    except (InputError, ShorterTable, checkpoint.DamagedCheckpoint, OSError, *DAMAGED) as error:
        damaged = "It is " if isinstance(error, checkpoint.DamagedCheckpoint) else ""
        return FileState(name, False, f"{damaged}{error}".replace(f"{folder}{os.sep}", ""))


def _checked(folder: Path, name: str) -> str:
    """What is right about a file; an error says what is not."""
    path = folder / name
    check_regular(path)
    if name == files.MANIFEST:
        refuse_if(changed := manifest.changes(folder, manifest.read(folder)), " ".join(changed))
        return "It agrees with the checkpoint."
    if path.parent.name == files.CHECKPOINTS:
        step = checkpoint.read(path)[1].get("step")
        refuse_if(step is None, f"{path}: it does not state its step.")
        return f"It is from step {step:,}; its sha256 matches."
    if name == files.DIRECTIONS:
        rows = whole_array(path, digests := checkpoint.known_whole(folder, name))
        return f"{len(rows)} directions" + (
            ", unchanged since the start." if digests else "; no digest is known."
        )
    if name in (*files.OF_METHODS.values(), files.NOISE):
        frame = read_whole(path, lambda: checkpoint.known_whole(folder, name))
        digests = checkpoint.known_whole(folder, name)
        return f"{len(frame):,} rows" + (
            ", as at the checkpoint." if digests else "; no digest is known."
        )
    if name == files.COMPARISON:
        return f"{_rows_of_text(path):,} rows; no digest is known."
    if path.suffix in (".keras", ".npz"):
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
        refuse_if(bad is not None, f"{path}: {bad} in it is damaged.")
        return "Its checksums match."
    known = checkpoint.known(folder, name)
    if path.parent != folder or path.suffix not in (".csv", ".h5"):
        return f"{path.stat().st_size:,} bytes; its content was not checked."
    counted = f"{check_table(path, known):,} rows of numbers"
    return (
        f"{counted}, the same as at step {known.step:,}."
        if known and known.digest
        else f"{counted}; no digest is known."
    )


def _rows_of_text(path: Path) -> int:
    """Counts the rows of a table whose cells may be words; refuses one that is cut or has holes."""
    lines = regular_bytes(path).decode(errors="replace").split("\n")
    refuse_if(lines.pop() != "", f"{path}: its last line is not complete.")
    rows = list(csv.reader(lines))
    widths = {len(row) for row in rows}
    refuse_if(len(rows) < 2 or len(widths) != 1, f"{path}: rows are missing or differ in length.")
    return len(rows) - 1
