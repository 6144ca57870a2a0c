"""The files of a run folder: each name, what it holds, who writes it and when. All other code takes
names from here.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tati_re.core.errors import InputError

PARTIAL = ".partial"
"""Suffix of a file that is still being written beside the one that it will replace."""

MANIFEST = "manifest.toml"
MODEL = "model.keras"
DIRECTIONS = "directions.npy"
MEMBERS = "members.npz"
LOCK = "writer.lock"
START = f"start{PARTIAL}"
"""A folder in that of a run, where one starts: with its manifest, written last, it is whole and
takes its place.
"""
ROWS = "run.csv"
AVERAGES = "averages.csv"
TIMING = "timing.csv"
EXCHANGES = "exchange.csv"
LADDER = "ladder.csv"
BIAS = "bias.csv"
NOISE = "noise.csv"
OF_METHODS = {"ladder": LADDER, "bias": BIAS}
"""The files of a method's `tables`, which are written anew at each checkpoint."""
TRAJECTORIES = {"csv": "trajectory.csv", "h5": "trajectory.h5"}
"""The stored positions by the option `trajectory_format`."""
GROWING = (ROWS, AVERAGES, TIMING, EXCHANGES, TRAJECTORIES["csv"])
"""The tables of text to which a run adds rows; a reader may find the last one half written."""
CHECKPOINTS = "checkpoint"
CURRENT = "current.npz"
PREVIOUS = "previous.npz"
REPORT = "report.html"
LOO = "loo.csv"
COMPARISON = "comparison.csv"
STACKING = "stacking.csv"
CALIBRATION = "calibration.csv"
PREDICTIONS, ANALYSIS, LANDSCAPE, INPUTSPACE = "predictions", "analysis", "landscape", "inputspace"
"""Folders in a run folder for what is computed from a run; the first two are where the commands
write by themselves.
"""

INDEX = ("step", "walker")
"""The columns that tables with a row a walker begin with."""
BEFORE_PARAMETERS = ("potential", "loss")
FIRST_PARAMETER = len(INDEX) + len(BEFORE_PARAMETERS)
"""Number of the first column of a trajectory that holds a parameter, or a projection."""
NEEDED_COLUMNS = {
    ROWS: (*INDEX, "temperature", "potential"),
    AVERAGES: INDEX,
    TIMING: ("step",),
    EXCHANGES: ("step",),
    **dict.fromkeys(TRAJECTORIES.values(), (*INDEX, *BEFORE_PARAMETERS)),
}
"""Columns that a table of a run has whatever its options are."""
LABELS = ("rung", "replica", "weight")
"""Columns that say what a row is, where it has them."""
H5_FROM = 1_000
"""Trajectories of more parameters than this are HDF5 files, where nothing else is asked for."""


def row_columns(observables: Sequence[str]) -> list[str]:
    return [*INDEX, *observables]


def average_columns(averaged: Sequence[str], by_rung: bool) -> list[str]:
    """The columns of `averages.csv`.

    Args:
        averaged: Names of the observables that are averaged.
        by_rung: Whether rows come temperature by temperature; then the last column is `rung`.
    """
    return [
        *INDEX,
        *averaged,
        "expected_kinetic_energy",
        "expected_virial",
        *(["rung"] if by_rung else []),
    ]


def trajectory_columns(parameters: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The columns of a trajectory.

    Args:
        parameters: Names of the parameters or projections.
        labels: Names of the columns that say what a row is, such as `rung` or `weight`.
    """
    return [*INDEX, *BEFORE_PARAMETERS, *parameters, *labels]


def timing_columns() -> list[str]:
    return ["step", "seconds", "steps_per_second"]


class RunFile(NamedTuple):
    """A file of a run folder: its path, the room that writes it, and when, in words. `columns`
    gives a table's; None where the method brings them. A repeatable file depends on options and
    seed alone: runs are compared by it.
    """

    name: str
    writer: str
    when: str
    columns: Callable[..., list[str]] | None = None
    repeatable: bool = False


_MODULES = (
    *(
        "alignment",
        "averages",
        "covariance",
        "diffusion_map",
        "free_energy",
        "learning_coefficient",
    ),
    *("parameters", "reweighting", "temperatures"),
)
_OF_COMMANDS = {
    PREDICTIONS: (
        *("predictions.csv", "scores.csv", "outside.csv", "reliability.csv", "predictions.png"),
        *("temperatures.csv", "temperatures.png"),
    ),
    ANALYSIS: (
        *(f"{name}.{ending}" for name in _MODULES for ending in ("csv", "parquet", "npz", "png")),
        *("traces.png", "autocorrelation.png", "spectrum.png", "arviz.nc"),
    ),
    LANDSCAPE: (
        *(
            "landscape.toml",
            "landscape.csv",
            "trajectory.csv",
            "landscape.png",
            "surface.png",
            "landscape.html",
        ),
        *("landscape.vtk", "trajectory.vtk"),
        *("plane.npz", "hessian.csv", "hessian.npy", "density.csv", "density.png"),
    ),
    INPUTSPACE: ("inputspace.toml", "inputspace.csv", "inputspace.png"),
}

_EACH_FLUSH = "rewritten at each checkpoint"
_AFTER = "after a run, by a command"
FILES = (
    # The manifest comes first: it is the last to be removed, or moved, by those who go through the
    # table backwards.
    RunFile(
        MANIFEST, "simulation", "before the first step; again when a resume makes the run longer"
    ),
    RunFile(MODEL, "simulation", "before the first step; for a fit, after the last one"),
    RunFile(DIRECTIONS, "simulation", "before the first step, if projections are stored"),
    RunFile(MEMBERS, "simulation", "before the first step, if walkers start from fits"),
    RunFile(ROWS, "engine", "one row per walker every record_every steps", row_columns, True),
    RunFile(
        AVERAGES,
        "engine",
        "one row for each row of run.csv after the burn-in",
        average_columns,
        True,
    ),
    *(
        RunFile(
            name,
            "engine",
            "one row per walker every trajectory_every steps",
            trajectory_columns,
            True,
        )
        for name in TRAJECTORIES.values()
    ),
    RunFile(EXCHANGES, "engine", "one row for each swap attempt", None, True),
    RunFile(LADDER, "engine", f"{_EACH_FLUSH}, on a temperature ladder", None, True),
    RunFile(BIAS, "engine", f"{_EACH_FLUSH}, on a temperature ladder with a bias", None, True),
    RunFile(TIMING, "engine", "one row per checkpoint", timing_columns),
    RunFile(NOISE, "simulation", "after the last step, if swaps used mini-batches"),
    RunFile(f"{CHECKPOINTS}/{CURRENT}", "engine", _EACH_FLUSH),
    RunFile(f"{CHECKPOINTS}/{PREVIOUS}", "engine", _EACH_FLUSH),
    RunFile(
        LOCK,
        "runs",
        "while a process writes to the folder; a killed process leaves the file, which "
        "then locks nothing",
    ),
    RunFile(REPORT, "report", _AFTER),
    RunFile(COMPARISON, "prediction", "after the last step of a run that began from fits"),
    RunFile(STACKING, "prediction", "where `weights` is stacking, after the last step"),
    RunFile(CALIBRATION, "prediction", "if `calibrate` is loo, at the first prediction"),
    RunFile(LOO, "prediction", "by run.loo() and tati-compare --elpd"),
    *(
        RunFile(f"{folder}/{name}", "cli", _AFTER)
        for folder, names in _OF_COMMANDS.items()
        for name in (*names, LOCK)
    ),
)


def of_method(table: str) -> str:
    """The file of one of a method's `tables`; an `InputError` for a table that no file is for."""
    if table not in OF_METHODS:
        raise InputError(
            "sampler: a run folder has no such table.", f"tables {table!r}", " or ".join(OF_METHODS)
        )
    return OF_METHODS[table]


def is_started(folder: Path) -> bool:
    return (folder / START / MANIFEST).is_file()


def trajectory_in(folder: Path) -> Path | None:
    return next((folder / name for name in TRAJECTORIES.values() if (folder / name).exists()), None)


def trajectory_of(folder: Path) -> Path:
    """As `trajectory_in`; refuses a folder without stored positions."""
    if (path := trajectory_in(folder)) is None:
        raise InputError(
            f"The run {folder} has no trajectory.", expected="a run with trajectory_every above 0"
        )
    return path
