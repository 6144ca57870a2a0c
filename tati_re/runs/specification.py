"""Folders of calculations that continue where they were interrupted if their specification is the
same.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.regular import regular_bytes
from tati_re.core.files.structured import MOST_TOML, reason_of, toml_of
from tati_re.runs.lock import entries
from tati_re.runs.storage import remove_leftovers, storing, write_whole


def first_difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    return next(
        (f"{name} = {then.get(name)}" for name, value in now.items() if then.get(name) != value),
        None,
    )


def open_folder(
    folder: AnyPath,
    filename: str,
    now: Mapping[str, Any],
    kind: str,
    *,
    outdated: Sequence[str] = (),
    overwrite: bool = False,
    difference: Callable[[Mapping[str, Any], Mapping[str, Any]], str | None] = first_difference,
) -> Mapping[str, Any] | None:
    """Makes the folder of a calculation, or opens one of the same specification, which is returned;
    None if new. `filename` is that of the specification `now`, in TOML, and `kind` the
    calculation's, for messages. With `overwrite` another calculation in the folder is replaced, and
    files of the patterns `outdated` are removed. `difference` says what differs between the
    specification found and `now`, or None. The caller holds the folder's lock.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(
            "output is a file.", folder, f"a folder that is new, empty, or of the same {kind}"
        )
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
    path = folder / filename
    if path.exists():
        then = _specification(path, kind, overwrite)
        change = "a damaged file" if then is None else difference(then, now)
        if then is not None and change is None:
            return then
        refuse_if(
            not overwrite,
            f"output: {folder} contains another {kind}.",
            change,
            "another folder, or overwrite",
        )
    elif (others := ", ".join(entries(folder)[:3])) and not overwrite:
        raise InputError(
            f"output: the folder {folder} is not empty.", others, "a new folder, or overwrite"
        )
    with storing(folder):
        for pattern in outdated:
            for old in folder.glob(pattern):
                old.unlink()
    write_whole(path, tomli_w.dumps(now).encode())
    return None


def _specification(path: Path, kind: str, overwrite: bool) -> Mapping[str, Any] | None:
    """What a folder says of its calculation; None if that is damaged and may be replaced."""
    try:
        with storing(path):
            return toml_of(regular_bytes(path, MOST_TOML).decode())
    except InputError:
        if overwrite:
            return None
        raise
    except (ValueError, RecursionError) as error:
        if overwrite:
            return None
        problem = f"The file {path} of the {kind} cannot be read: {reason_of(error)}."
        expected = "the file as it was written, another folder, or overwrite"
        raise InputError(problem, expected=expected) from None
