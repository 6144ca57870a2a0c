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
    """The first entry of a specification that differs from a stored one.

    Args:
        then: The stored specification.
        now: The present specification. Only its entries are compared.

    Returns:
        The entry with its stored value, such as `seed = 1`; None if all agree.
    """
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
    """Makes the folder of a calculation, or opens one with the same specification.

    The caller holds the folder's lock.

    Args:
        folder: The folder.
        filename: Name of the file of the specification, TOML.
        now: The present specification.
        kind: The calculation in a word, such as "landscape", for messages.
        outdated: Patterns of files that are removed when a calculation begins. Default: none.
        overwrite: Whether another calculation, or other files, may be in the folder. Default:
            False.
        difference: Says what differs between the stored specification and `now`; None for nothing.
            Default: `first_difference`.

    Returns:
        The stored specification if it is the same; None if the calculation begins.

    Raises:
        InputError: The path is a file, or the folder contains something else and `overwrite` is
            false.
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
