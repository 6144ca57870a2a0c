"""Export of runs: CSV, Parquet, ArviZ' NetCDF."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.runs import files
from tati_re.runs.positions import Positions
from tati_re.runs.selection import as_run, select_rows

if TYPE_CHECKING:
    import pandas as pd

    from tati_re.runs.run import RunFiles

_NAMES = {"acceptance": "acceptance_rate", "potential": "energy"}
"""ArviZ' own names of sample statistics, in addition to ours."""


def write_table(table: pd.DataFrame, path: str | os.PathLike[str], to: str = "csv") -> Path:
    """Writes a table. Returns the file, with its ending.

    Args:
        table: The table.
        path: The file without its ending.
        to: `"csv"` or `"parquet"`. Default: `"csv"`.

    Raises:
        InputError: Parquet without the package pyarrow, another format, or a file that cannot be written.
    """
    if to not in ("csv", "parquet"):
        raise InputError("to is not known.", to, "csv or parquet")
    path = Path(path).with_name(f"{Path(path).name}.{to}")
    try:
        if to == "csv":
            table.to_csv(path, index=False)
        else:
            table.to_parquet(path, index=False)
    except ImportError:
        raise InputError("Parquet needs the package pyarrow.", expected="pip install 'tati_re[parquet]'") from None
    except OSError as error:
        raise InputError(f"The table cannot be written: {error.strerror or error}.", path) from error
    return path


def to_arviz(run: RunFiles | str | os.PathLike[str], burnin: int | None = None, thin: int = 1) -> Any:
    """Returns a run as ArviZ' `xarray.DataTree` (InferenceData), with walkers as chains.

    `posterior` holds the stored positions, each tensor of the model in its shape (or the projections that were
    stored), `sample_stats` the columns of `run.csv`. Both have the coordinate `step`: they may be recorded at different
    steps. `arviz.summary(tree)` and others take the tree.

    Args:
        run: The run, or its folder.
        burnin: Steps to leave out. Default: None, the run's own burn-in.
        thin: Every how many rows and positions are kept. Default: 1.

    Raises:
        InputError: The packages xarray and h5netcdf are missing, or no rows are left.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import xarray
    except ImportError:
        raise InputError(
            "ArviZ' format needs the packages xarray and h5netcdf.", expected="pip install 'tati_re[arviz]'"
        ) from None
    run = as_run(run)
    rows = select_rows(run, burnin, thin)
    steps, chains = _chains(rows["step"].to_numpy(), rows["walker"].to_numpy())
    statistics = {
        name: (("chain", "draw"), rows[name].to_numpy()[chains])
        for name in rows.columns
        if name not in ("step", "walker")
    }
    statistics |= {_NAMES[name]: statistics[name] for name in _NAMES if name in statistics}
    coordinates = {"chain": np.arange(len(chains))}
    groups = {"sample_stats": xarray.Dataset(statistics, {**coordinates, "step": ("draw", steps)})}
    if files.trajectory_in(run.folder) is not None:
        positions = Positions(run, burnin, thin)
        stored = positions.read()
        steps, chains = _chains(stored.step, stored.walker)
        tensors = _tensors(run, positions, stored.values[chains])
        groups["posterior"] = xarray.Dataset(tensors, {**coordinates, "step": ("draw", steps)})
    attributes = {
        "inference_library": "tati_re",
        "inference_library_version": str(run.manifest.get("tati_re", "")),
        "sampler": str(run.manifest.get("options", {}).get("sampler", "")),
        "meaning": str(run.manifest.get("meaning", "")),
    }
    for group in groups.values():
        group.attrs.update(attributes)
    return xarray.DataTree.from_dict(groups)


def write_arviz(
    run: RunFiles | str | os.PathLike[str], path: str | os.PathLike[str], burnin: int | None = None, thin: int = 1
) -> Path:
    """Writes a run as a NetCDF file for `xarray.open_datatree` and ArviZ.

    It returns the file, `path`, which ends in `.nc`. The other arguments are those of `to_arviz`.

    Raises:
        InputError: As `to_arviz`, or the file cannot be written.
    """
    tree = to_arviz(run, burnin, thin)
    try:
        tree.to_netcdf(path, engine="h5netcdf")
    except (ImportError, ValueError) as error:
        raise InputError(
            f"The NetCDF file cannot be written: {error}.", expected="pip install 'tati_re[arviz]'"
        ) from error
    except OSError as error:
        raise InputError(f"The NetCDF file cannot be written: {error.strerror or error}.", path) from error
    return Path(path)


def _chains(steps: np.ndarray, walkers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Steps of walker 0, and rows by walker, `(walkers, draws)`, cut to the shortest."""
    order = np.lexsort((steps, walkers))
    parts = np.split(order, np.flatnonzero(np.diff(walkers[order])) + 1)
    shortest = min(len(part) for part in parts)
    chosen = np.stack([part[:shortest] for part in parts])
    return steps[chosen[0]], chosen


def _tensors(run: RunFiles, positions: Positions, values: np.ndarray) -> dict[str, Any]:
    described = run.manifest.get("parameters", {})
    if positions.projected or positions.num_parameters != described.get("num"):
        return {"projection": (("chain", "draw", "direction"), values)}
    tensors, first = {}, 0
    for name, shape in zip(described["names"], described["shapes"], strict=True):
        size = int(np.prod(shape, dtype=np.int64))
        part = values[..., first : first + size].reshape(*values.shape[:2], *shape)
        name = name.replace("/", ".")  # a slash would make a group of a NetCDF file
        tensors[name] = (("chain", "draw", *(f"{name}_dim_{k}" for k in range(len(shape)))), part)
        first += size
    return tensors
