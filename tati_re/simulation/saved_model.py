"""Model and directions of a run in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.given import as_array
from tati_re.core.unpacking import DAMAGED, load_arrays
from tati_re.runs.storage import replacing

if TYPE_CHECKING:
    from tati_re.models.flat import FlatModel
    from tati_re.simulation.starts import Walkers


def save_model(flat: FlatModel, walkers: Walkers, path: Path) -> bool:
    """Writes the model with the weights of walker 0; `False` where its class cannot be written, or there is none."""
    if flat.model is None:
        return False
    before = [variable.numpy() for variable in flat.model.variables]
    try:
        flat.set(walkers.position[0])
        flat.set_auxiliary([value[0] for value in walkers.auxiliary])
        # A kill while the model is written must not cost the one that was there before.
        with replacing(path, ".keras") as file:
            flat.model.save(file.name)
    except (NotImplementedError, TypeError, ValueError):
        path.unlink(missing_ok=True)
        return False
    finally:
        for variable, value in zip(flat.model.variables, before, strict=True):
            variable.assign(value)
    return True


def read_directions(source, num_parameters: int) -> np.ndarray | None:
    """Row vectors `(k, parameters)` from an array or a file."""
    if source is None:
        return None
    if isinstance(source, str):
        path = Path(source)
        if not os.path.exists(path):
            raise InputError(
                "directions: the file does not exist.",
                received=source,
                expected="a .npy, .npz or .csv file of row vectors",
            )
        try:
            source = _read_rows(path)
        except (OSError, ValueError, EOFError, IndexError, *DAMAGED) as error:
            reason = str(error).strip().split("\n")[0]
            raise InputError(
                f"directions: {path} cannot be read: {reason}.", expected="a .npy, .npz or .csv file of row vectors"
            ) from None
    rows = np.atleast_2d(as_array(source, "directions", np.float64))
    if rows.ndim != 2 or not len(rows) or rows.shape[1] != num_parameters or not np.isfinite(rows).all():
        raise InputError(
            "directions: not row vectors of the parameters.",
            received=f"shape {rows.shape}",
            expected=f"(k, {num_parameters}), finite",
        )
    return rows


def _read_rows(path: Path) -> np.ndarray:
    """The numbers of a .npy file, of the first array of a .npz file, or of a CSV file with or without a header line."""
    if path.suffix != ".csv":
        loaded = load_arrays(path)
        return loaded if isinstance(loaded, np.ndarray) else loaded[loaded.files[0]]
    lines = [line.split(",") for line in path.read_text().splitlines() if line.strip() and line[0] != "#"]
    try:
        np.asarray(lines[0], np.float64)
    except ValueError:
        lines = lines[1:]
    return np.asarray(lines, np.float64)
