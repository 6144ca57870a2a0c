"""Small systems that many tests sample, and a run's tables as something to compare."""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np

from tati_re.core.backend import tf
from tati_re.posterior.function import FunctionPotential

_TABLES = ("run.csv", "averages.csv", "exchange.csv", "ladder.csv", "bias.csv")


def harmonic_well(num_parameters: int, stiffness=1.0) -> FunctionPotential:
    """U = sum k q²/2, with one k for all parameters or one for each."""
    k = np.asarray(stiffness)
    return FunctionPotential(
        lambda q: 0.5 * tf.reduce_sum(tf.constant(k, q.dtype) * q * q, axis=-1), num_parameters
    )


def tables(folder: str | os.PathLike[str]) -> dict[str, object]:
    """All tables of a run but those of the clock: bytes of a CSV file, arrays of an HDF5 file."""
    folder = Path(folder)
    found: dict[str, object] = {
        name: (folder / name).read_bytes() for name in _TABLES if (folder / name).exists()
    }
    for path in folder.glob("trajectory.*"):
        if path.suffix == ".csv":
            found[path.name] = path.read_bytes()
        else:
            with h5py.File(path) as file:
                found[path.name] = {name: np.asarray(file[name]).tolist() for name in file}
    assert {"run.csv", "averages.csv"} < found.keys() and any(
        name.startswith("trajectory") for name in found
    )
    return found
