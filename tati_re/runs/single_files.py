"""Tables of a run folder that are also kept under a name of their own, complete whenever those in
the folder are.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tati_re.runs import files
from tati_re.runs.storage import storing

OPTIONS = ("run_file", "averages_file", "trajectory_file")
"""Options that name a copy of a table."""


class SingleFiles:
    """Copies of tables, by their names in the run folder, to which each flush adds what these have
    more of.
    """

    def __init__(self, pairs: Mapping[str, Path]) -> None:
        self._pairs = dict(pairs)
        self._copied = dict.fromkeys(self._pairs, 0)

    def __call__(self, folder: Path, step: int, last: bool = False) -> None:
        """Brings the copies up to date, as a callback of the driver; HDF5 files at the end only."""
        for name, target in self._pairs.items():
            source = Path(folder) / name
            if not source.exists() or source.resolve() == target.resolve():
                continue
            with storing(target):
                if source.suffix != ".csv":
                    if last:
                        shutil.copyfile(source, target)
                    continue
                done = self._copied[name]
                with open(source, "rb") as file, open(target, "ab" if done else "wb") as copy:
                    file.seek(done)
                    shutil.copyfileobj(file, copy)
                    self._copied[name] = file.tell()


def single_files(options, trajectory_format: str) -> SingleFiles:
    """The copies that the options ask for.

    Args:
        options: The options `run_file`, `averages_file` and `trajectory_file`, None for no copy.
        trajectory_format: Format of the run's trajectory, "csv" or "h5".
    """
    names = files.ROWS, files.AVERAGES, files.TRAJECTORIES[trajectory_format]
    paths = options.run_file, options.averages_file, options.trajectory_file
    return SingleFiles(
        {name: Path(path) for name, path in zip(names, paths, strict=True) if path is not None}
    )


def trajectory_format(options, num_columns: int) -> str:
    """The format of a run's trajectory, "csv" or "h5".

    Args:
        options: The options `trajectory_format` and `trajectory_file`.
        num_columns: Number of stored parameters or projections. By default more than 1,000 are
            stored as HDF5.
    """
    if options.trajectory_format != "auto":
        return options.trajectory_format
    if options.trajectory_file is not None:
        return kind_of(options.trajectory_file)
    return "h5" if num_columns > files.H5_FROM else "csv"


def kind_of(path: str) -> str:
    return "h5" if path.endswith((".h5", ".hdf5")) else "csv"
