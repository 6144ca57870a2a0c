"""Finished parts of an estimate in a folder, from which an interrupted call continues."""

import io
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import AnyPath, InputError
from tati_re.core.files.regular import regular_bytes
from tati_re.core.files.unpacking import DAMAGED, load_arrays
from tati_re.engine.environment import versions
from tati_re.runs.specification import first_difference, open_folder
from tati_re.runs.storage import replacing

SPECIFICATION = "evidence.toml"


class PartFiles:
    """Parts by name, each an `.npz` file written in one piece.

    A part is computed from earlier ones and the random numbers of its chains, whose place is kept
    with it. To load it is therefore the same as to compute it.

    Args:
        folder: The folder of the estimate. Default: None, nothing is saved.
        prefix: Start of the file names. Default: empty.
    """

    def __init__(self, folder: Path | None = None, prefix: str = "") -> None:
        self.folder = folder
        self.prefix = prefix
        self.seconds_saved = 0.0
        self._seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def load(self, name: str, *chains) -> dict[str, np.ndarray] | None:
        """Loads a part, and sets the counts of its chains to their end.

        Args:
            name: Name of the part.
            *chains: The chains whose counts of calls and gradients are kept with the part.

        Returns:
            Its arrays by name, or None if it is not kept.

        Raises:
            InputError: The file is damaged.
        """
        path = self._path(name)
        if path is None or not path.exists():
            return None
        try:
            with load_arrays(io.BytesIO(regular_bytes(path))) as file:
                values = dict(file)
            seconds = float(values.pop("seconds"))
            counts = values.pop("chains")
        except (OSError, ValueError, KeyError, TypeError, *DAMAGED):
            raise InputError(
                f"output: {path} is damaged.", expected="remove this file, or set overwrite"
            ) from None
        for chain, (calls, gradients) in zip(chains, counts, strict=True):
            chain.calls = int(calls)
            chain.gradients = float(gradients)
        self.seconds_saved += seconds
        self._seconds[name] = seconds
        self._since = time.monotonic()
        return values

    def save(self, name: str, values: Mapping[str, Any], *chains) -> None:
        """Saves a part, with the seconds since the part before.

        An earlier part of this name is replaced, and its seconds are added.

        Args:
            name: Name of the part.
            values: Its arrays by name.
            *chains: The chains whose counts of calls and gradients are kept with the part.
        """
        now = time.monotonic()
        seconds = self._seconds[name] = self._seconds.get(name, 0.0) + now - self._since
        self._since = now
        if (path := self._path(name)) is None:
            return
        counts = np.array([[chain.calls, chain.gradients] for chain in chains], np.float64)
        with replacing(path) as file:
            np.savez(file, seconds=seconds, chains=counts.reshape(-1, 2), **values)

    def has(self, name: str) -> bool:
        """Whether a part is kept in the folder."""
        path = self._path(name)
        return path is not None and path.exists()

    def part(self, name: str, compute: Callable[[], dict[str, Any]], *chains) -> dict[str, Any]:
        """Loads a part, or computes and saves it.

        Args:
            name: Name of the part.
            compute: Function that computes its arrays by name.
            *chains: The chains whose counts of calls and gradients are kept with the part.

        Returns:
            The arrays.
        """
        if (arrays := self.load(name, *chains)) is None:
            arrays = compute()
            self.save(name, arrays, *chains)
        return arrays

    def _path(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{self.prefix}{name}.npz"


def opened(folder: AnyPath, specification: Mapping[str, Any], overwrite: bool) -> list[str]:
    """Makes the folder of an estimate, or opens one of the same estimate.

    Args:
        folder: The folder.
        specification: What defines the numbers of the estimate, by name.
        overwrite: Whether parts of another estimate are removed.

    Returns:
        Messages on what is reused.

    Raises:
        InputError: The folder belongs to another estimate.
    """
    now = {**specification, **versions()}
    how: dict[str, Any] = {"outdated": ("*.npz",), "overwrite": overwrite}
    how["difference"] = lambda then, now: first_difference(
        then, {k: v for k, v in now.items() if k not in versions()}
    )
    then = open_folder(folder, SPECIFICATION, now, "evidence", **how)
    if then is None:
        return []
    parts = len(list(Path(folder).glob("*.npz")))
    messages = [f"{folder} has {parts} finished parts; continuing after them."] if parts else []
    if first_difference(then, now):
        messages.append(
            "The stored parts were computed with other package versions: results may "
            "differ in their last digits."
        )
    return messages
