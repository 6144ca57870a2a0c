"""Run folders written by hand: rows and positions of a known law, no model, no TensorFlow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tati_re.launch.run import Run, load
from tati_re.runs import manifest
from tati_re.runs.csv_table import CsvTable
from tati_re.runs.h5_table import H5Table


def write_rows(folder: Path, name: str, columns: dict[str, np.ndarray]) -> None:
    """A table of the run with these columns, one number a row each."""
    table = CsvTable(folder / name, list(columns))
    table.append(np.stack([np.asarray(values, np.float64) for values in columns.values()], axis=1))
    table.flush()


def made_run(
    folder: Path,
    chains: dict[str, np.ndarray],
    positions: np.ndarray | None = None,
    every: int = 10,
    burnin: int = 0,
    temperature: float = 1.0,
    shapes: dict[str, tuple[int, ...]] | None = None,
    h5: bool = False,
    extra: dict | None = None,
) -> Run:
    """A run folder.

    Args:
        folder: Made new.
        chains: Columns of run.csv, `(walkers, rows)` each; without `potential` it is one of zeros.
        positions: `(walkers, rows, P)`, at the same steps.
        every: Steps between two rows.
        burnin: The run's burn-in.
        temperature: The run's temperature.
        shapes: Of the tensors by name; they hold the P parameters.
        h5: Whether the trajectory is an HDF5 file.
        extra: More entries of the manifest.
    """
    folder.mkdir(parents=True)
    walkers, count = next(iter(chains.values())).shape
    step = np.repeat(every * np.arange(1, count + 1), walkers)
    labels = {"step": step, "walker": np.tile(np.arange(walkers), count)}
    columns = {
        "temperature": np.full((walkers, count), temperature),
        "potential": np.zeros((walkers, count)),
        **chains,
    }
    columns = {name: np.asarray(values).T.ravel() for name, values in columns.items()}
    write_rows(folder, "run.csv", labels | columns)
    shapes = shapes or {"dense/kernel": (1 if positions is None else positions.shape[2],)}
    if positions is not None:
        kept = step > burnin
        flat = positions.transpose(1, 0, 2).reshape(-1, positions.shape[2])
        names = [
            f"{name}[{k}]" for name, shape in shapes.items() for k in range(int(np.prod(shape)))
        ]
        head = np.stack(
            [*labels.values(), columns["potential"], columns.get("loss", columns["potential"])],
            axis=1,
        )
        kind = H5Table if h5 else CsvTable
        table = kind(
            folder / f"trajectory.{'h5' if h5 else 'csv'}",
            ["step", "walker", "potential", "loss", *names],
        )
        table.append(np.concatenate([head, flat], axis=1)[kept])
        table.flush()
    options = {
        "num_steps": int(step.max()),
        "num_burnin_steps": burnin,
        "num_walkers": walkers,
        "record_every": every,
    }
    options["sampler"] = "BAOAB"
    content = {
        "kind": "sample",
        "options": options,
        "temperature": temperature,
        "meaning": "U = L + V",
        "prior_proper": True,
        "parameters": {
            "num": sum(int(np.prod(shape)) for shape in shapes.values()),
            "names": list(shapes),
            "shapes": [list(shape) for shape in shapes.values()],
        },
    }
    manifest.write(folder, content | (extra or {}))
    return load(folder)
