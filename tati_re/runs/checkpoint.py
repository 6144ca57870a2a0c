"""Checkpoints: the state of a run in one file, with a complete one on disk at all times."""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tati_re.core.errors import AnyPath, InputError, abbreviated, refuse_if
from tati_re.core.files.regular import open_regular
from tati_re.core.files.structured import json_of
from tati_re.core.files.unpacking import DAMAGED, load_arrays
from tati_re.core.user_input import error_text
from tati_re.runs.digests import Known
from tati_re.runs.files import CHECKPOINTS, CURRENT, OF_METHODS, PARTIAL, PREVIOUS
from tati_re.runs.storage import open_new, replace, storing, sync_file
from tati_re.runs.stored_arrays import NUMBERS, StoredArrays

ASIDE = CURRENT + PARTIAL

META = "meta.json"
"""Name of the array that holds the bytes of the JSON text of `meta`."""

DIGEST_LENGTH = 64
"""The comment that ends the zip file: the sha256, in hexadecimal digits, of all bytes before it."""


class DamagedCheckpoint(Exception):
    """A missing or damaged checkpoint file; the message completes "is ..."."""


def save(folder: AnyPath, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Writes a checkpoint that survives a kill at any moment.

    The file is written under a temporary name and synced. Then the current checkpoint becomes the
    previous one, and the new file gets its name. Files are in the subfolder `checkpoint`, which is
    created if missing.

    Args:
        folder: The run folder.
        arrays: Numbers or booleans of any shape by name. Names may contain slashes
            (`moments/mean`).
        meta: Values that JSON can hold, numpy numbers included, such as the step and the positions
            of the tables.

    Raises:
        StorageError: The checkpoint cannot be written. Earlier checkpoints are unchanged.
    """
    where = Path(folder) / CHECKPOINTS
    content = {META: np.frombuffer(json.dumps(dict(meta), default=_plain).encode(), dtype=np.uint8)}
    for name, values in arrays.items():
        array = np.asarray(values)
        if array.dtype.kind not in NUMBERS or name == META:
            raise TypeError(
                f"the array {name!r} of type {array.dtype} cannot be part of a checkpoint"
            )
        content[name] = array
    aside = where / ASIDE
    with storing(where / CURRENT):
        if not where.is_dir():
            where.mkdir(parents=True)
            sync_file(where.parent)
        if aside.exists() and not (where / CURRENT).exists():
            # A kill between the two renames below left this one as the newest: it must not be
            # overwritten.
            replace(aside, where / CURRENT)
        # Of a fixed name, by which `load` finds it after a kill.
        with open_new(aside) as file:
            _write(file, content)
            file.flush()
            os.fsync(file.fileno())
        sync_file(where)
        if (where / CURRENT).exists():
            replace(where / CURRENT, where / PREVIOUS)
        replace(aside, where / CURRENT)


def load(folder: AnyPath) -> tuple[StoredArrays, dict[str, Any], str | None]:
    """Reads the newest complete checkpoint.

    Args:
        folder: The run folder.

    Returns:
        The arrays by name, `meta`, and a note. The note is None, or one sentence if the current
        checkpoint was unusable.

    Raises:
        InputError: The folder has no usable checkpoint.
    """
    where = Path(folder) / CHECKPOINTS
    problems = []
    for name in (CURRENT, ASIDE, PREVIOUS):
        try:
            arrays, meta = read(where / name)
        except DamagedCheckpoint as problem:
            problems.append(f"{name} is {problem}")
            continue
        return StoredArrays(arrays, folder), meta, _note(name, problems, meta)
    if not any((where / name).exists() for name in (CURRENT, ASIDE, PREVIOUS)):
        missing = f"The folder {os.fspath(folder)} has no checkpoint."
        raise InputError(missing, expected="a run that lasted at least one checkpoint interval")
    problems = [text for text in problems if not text.startswith(ASIDE)]
    raise InputError(f"No checkpoint in {where} can be used: {'; '.join(problems)}.")


def moments_of(
    arrays: StoredArrays,
    where: str = "moments",
    shape: tuple[int | None, int | None] = (None, None),
) -> list[np.ndarray]:
    """The averages of parameters in a checkpoint.

    Args:
        arrays: The arrays of the checkpoint.
        where: The first part of their names. Default: those of all walkers.
        shape: Walkers and parameters, None where any number fits. Default: any.

    Returns:
        `count` `(walkers,)`, `mean` and `m2` `(walkers, parameters)`, and `squares` `(walkers,)`,
        which earlier versions did not store: they were the count.

    Raises:
        InputError: One is missing, or of another shape.
    """
    mean = _by_walker(arrays, f"{where}/mean", *shape)
    m2 = _by_walker(arrays, f"{where}/m2", *mean.shape)
    count = _by_walker(arrays, f"{where}/count", len(mean))
    if (squares := f"{where}/squares") not in arrays:
        return [count, mean, m2, count]
    return [count, mean, m2, _by_walker(arrays, squares, len(mean))]


def _by_walker(
    arrays: StoredArrays, name: str, walkers: int | None, *parameters: int | None
) -> np.ndarray:
    """An array with a row for each walker; one without that axis holds the same for all."""
    if arrays[name].ndim == len(parameters):
        alone = arrays.of_shape(name, parameters)
        return np.broadcast_to(alone, (walkers or 1, *alone.shape))
    return arrays.of_shape(name, (walkers, *parameters))


def metas(folder: AnyPath) -> Iterator[dict[str, Any]]:
    """The `meta` of each checkpoint that is readable, the newest first, without the arrays."""
    return filter(
        None, (_meta(Path(folder) / CHECKPOINTS / name) for name in (CURRENT, ASIDE, PREVIOUS))
    )


def step_back(folder: AnyPath) -> None:
    """Makes the previous checkpoint the current one."""
    where = Path(folder) / CHECKPOINTS
    replace(where / PREVIOUS, where / CURRENT)
    (where / ASIDE).unlink(missing_ok=True)


def _meta(path: Path) -> dict[str, Any]:
    """The `meta` of a checkpoint file; empty where it is missing or damaged."""
    try:
        with open_regular(path) as file, load_arrays(file) as archive:
            return _checked_meta(archive[META])
    except (OSError, ValueError, KeyError, EOFError, TypeError, *DAMAGED):
        return {}


def known(folder: AnyPath, table: str) -> Known | None:
    """What the newest readable checkpoint knows of a table that grows.

    Args:
        folder: The run folder.
        table: Name of the table's file in the folder, such as `run.csv`.

    Returns:
        Length, digest and step; None if there is no checkpoint, or it does not know the table.
    """
    meta = next(metas(folder), {})
    size = meta.get("files", {}).get(table)
    return (
        None
        if size is None
        else Known(size, meta.get("digests", {}).get(table), meta.get("step", 0))
    )


def known_whole(folder: AnyPath, name: str) -> set[str]:
    """The digests that a file which is always written as a whole may have.

    Each readable checkpoint knows one. None holds for a table of a method after a damaged current
    checkpoint.

    Args:
        folder: The run folder.
        name: Name of the file in the folder, such as `directions.npy` or `ladder.csv`.

    Returns:
        Digests as hexadecimal text; an empty set if none is known.
    """
    current = Path(folder) / CHECKPOINTS / CURRENT
    if name in OF_METHODS.values() and current.exists() and not _meta(current):
        return set()
    return {meta["whole"][name] for meta in metas(folder) if name in meta.get("whole", {})}


def _note(name: str, problems: list[str], meta: Mapping[str, Any]) -> str | None:
    if name == CURRENT:
        return None
    at = f", of step {meta['step']}," if "step" in meta else ""
    which = (
        "previous checkpoint" if name == PREVIOUS else "last checkpoint written, not yet renamed,"
    )
    return f"The checkpoint {problems[0]}; the {which}{at} is used.".replace(",,", ",")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a checkpoint's meta cannot hold a {type(value).__name__}")


def _write(file: BinaryIO, content: Mapping[str, np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in content.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asarray(array, order="C"), allow_pickle=False)
        archive.comment = b"0" * DIGEST_LENGTH
    digest = _digest(file)
    file.seek(-DIGEST_LENGTH, os.SEEK_END)
    file.write(digest)


def _digest(file: BinaryIO) -> bytes:
    """Returns the sha256 of all but the last 64 bytes, which hold it."""
    left = file.seek(0, os.SEEK_END) - DIGEST_LENGTH
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (part := file.read(min(left, 1 << 20))):
        digest.update(part)
        left -= len(part)
    return digest.hexdigest().encode()


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the `meta` of a checkpoint file; a `DamagedCheckpoint` where it is not
    whole.
    """
    try:
        with open_regular(path) as file:
            # The digest comes first, so that no parser meets damaged bytes; one open file, so that
            # renames do no harm.
            digest = _digest(file)
            if file.read(DIGEST_LENGTH) != digest:
                raise DamagedCheckpoint("damaged (its sha256 does not fit)")
            file.seek(0)
            with load_arrays(file) as archive:
                arrays = {name: archive[name] for name in archive.files}
            meta = _checked_meta(arrays.pop(META))
            _check_numbers(arrays)
            return arrays, meta
    except FileNotFoundError:
        raise DamagedCheckpoint("missing") from None
    except OSError as error:
        raise DamagedCheckpoint(f"not readable ({error.strerror})") from error
    except (KeyError, ValueError, TypeError, EOFError, *DAMAGED) as error:
        raise DamagedCheckpoint(f"not a checkpoint ({error_text(error)})") from error


def check_resumable(folder: AnyPath, meta: Mapping[str, Any]) -> None:
    """Refuses a checkpoint that lacks what a run needs to go on.

    Args:
        folder: The folder of the run, for the message.
        meta: What `load` returned.

    Raises:
        InputError: The step, the moves, the seconds or the sizes of tables are missing.
    """
    missing = [name for name in ("step", "move", "seconds", "files") if name not in meta]
    refuse_if(
        missing,
        f"The checkpoint in {Path(folder) / CHECKPOINTS} is not complete.",
        f"no {', '.join(missing)}",
        "the file as the run wrote it",
    )


def _check_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    """A `ValueError` if an array holds something else than booleans or real numbers."""
    for name, array in arrays.items():
        if array.dtype.kind not in NUMBERS:
            raise ValueError(f"its array {abbreviated(name, 60)} is of the type {array.dtype}")


def _checked_meta(content: np.ndarray) -> dict[str, Any]:
    """What a checkpoint says of its run; a `ValueError` where it is of another form."""
    meta = json_of(np.asarray(content).tobytes())
    if not isinstance(meta, dict):
        raise ValueError("its description of the run is not a table")
    for name, is_right in _OF_META.items():
        if name in meta and not is_right(meta[name]):
            raise ValueError(f"it states {name} = {abbreviated(meta[name], 60)}")
    return meta


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e18


def _of_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _of_digests(value: Any) -> bool:
    texts = (str, type(None))
    return isinstance(value, dict) and all(isinstance(text, texts) for text in value.values())


def _of_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


_OF_META = {
    "step": _is_count,
    "move": _is_count,
    "seconds": _is_duration,
    "files": _of_counts,
    "digests": _of_digests,
    "whole": _of_texts,
    "manifest": _of_texts,
}
"""The entries of `meta` that this package reads, and whether a value is of their form."""
