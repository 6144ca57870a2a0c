"""Parameters from files: trajectories of this package or of TATi, NPZ files, Keras models, run
folders.
"""

import csv
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tati_re.core.errors import AnyPath, InputError, nearest, refuse_if
from tati_re.core.files.regular import check_regular
from tati_re.core.files.unpacking import DAMAGED, load_arrays
from tati_re.models.names import parameter_names
from tati_re.runs import checkpoint, files, manifest, reading
from tati_re.runs.trajectory_rows import KINDS, ExpectedParameters, columns_of, csv_rows, h5_rows


class FileParameters(NamedTuple):
    """Rows of parameters, `(rows, parameters)`, float64; `source` in words; `auxiliary`: Keras'
    other variables.
    """

    positions: np.ndarray
    source: str
    auxiliary: list[np.ndarray] | None = None

    def rows_of(self, num_walkers: int) -> np.ndarray:
        return (
            np.arange(num_walkers)
            if len(self.positions) >= num_walkers
            else np.zeros(num_walkers, int)
        )


def read_parameters(
    path: AnyPath, step: int | None = None, *, names: Sequence[str], fixed: Collection[str] = ()
) -> FileParameters:
    """Reads the parameters of a model from a file or a run folder.

    On a temperature ladder these are the parameters at the target's temperature.

    Args:
        path: `trajectory.csv` or `trajectory.h5` of a run; a CSV file of TATi, with columns
            `weight0`, ..., `bias0`, ... or `w0`, ..., `b0`, ...: all weights, layer by layer, then
            all biases; an `.npz` with the array `parameters`, or one array for each tensor of the
            model by name (`dense/kernel`); an `.npy`; a `.keras` file; the folder of a run.
        step: The step, for trajectories and run folders only. Default: None, the last one of a
            trajectory, and the end of a run for its folder.
        names: Names of the model's parameters, in order.
        fixed: Names of parameters that keep their values. The file may have them too. Default:
            none.

    Returns:
        Rows of parameters, in the order of `names`.

    Raises:
        InputError: The file is missing, has an unknown format or another model's parameters, or
            lacks the step.
    """
    path = Path(path).expanduser()
    expected = ExpectedParameters(list(names), frozenset(fixed))
    if not os.path.exists(path):
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(
            f"parameters: there is no {path}.{nearest(path.name, beside)}", expected=KINDS
        )
    if path.is_dir():
        return _folder(path, step, expected)
    check_regular(path, "parameters")
    readers = {".csv": _rows, ".h5": _rows, ".npz": _arrays, ".npy": _arrays, ".keras": _keras}
    refuse_if(
        path.suffix not in readers, "parameters: the file has an unknown format.", path, KINDS
    )
    if step is not None and path.suffix not in (".csv", ".h5"):
        raise InputError(
            f"parameters_step: {path} has no steps.",
            received=step,
            expected="a trajectory, or no parameters_step",
        )
    try:
        return readers[path.suffix](path, step, expected)
    except InputError as error:
        sentence = str(error)
        raise InputError(
            sentence if sentence.startswith("parameters") else f"parameters: {sentence}"
        ) from None
    except (OSError, ValueError, OverflowError, EOFError, csv.Error, *DAMAGED) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"parameters: {path} cannot be read: {reason}.", expected=KINDS) from None


def read_trajectory(
    path: str, names: Sequence[str], steps: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Reads steps and parameters of a trajectory in CSV, from this package or TATi.

    Args:
        path: The `.csv` file.
        names: Names of the model's parameters, in order.
        steps: Steps whose rows are read. Default: all.

    Returns:
        Step of each row, shape (rows,), and parameters, shape (rows, parameters). A file without
        steps has row numbers from 0 instead.

    Raises:
        InputError: The file is missing, has another model's parameters, or lacks a step.
    """
    if not os.path.exists(path):
        raise InputError("parameters: there is no such trajectory.", path, "a .csv file")
    if Path(path).suffix != ".csv":
        raise InputError("parameters: the trajectory is not a CSV file.", path, "a .csv file")
    table = reading.read_csv(path)
    expected = ExpectedParameters(list(names))
    chosen, step, _ = columns_of(Path(path), list(table.columns), expected)
    steps_of_rows = np.arange(len(table)) if step is None else table.iloc[:, step].to_numpy()
    if missing := sorted(set(steps) - set(steps_of_rows.tolist())):
        raise InputError(f"parameters_step: {path} has no such step.", missing[0])
    selected = np.isin(steps_of_rows, steps) if steps else slice(None)
    return steps_of_rows[selected], expected.checked(Path(path), table.iloc[:, chosen].to_numpy())[
        selected
    ]


def _folder(folder: Path, step: int | None, expected: ExpectedParameters) -> FileParameters:
    stored = manifest.read(folder)
    parameters = stored.parameters
    columns = list(range(len(expected.names)))
    if parameters.names:
        columns = expected.column_numbers(folder, parameters.all_names())
    walkers = stored.options.num_walkers
    if step is None:
        arrays, meta, _ = checkpoint.load(folder)
        # On a ladder the order of the rows is that of the replicas, not of the temperatures.
        if arrays.num_rows("state/position/0") == walkers:
            positions = arrays.of_shape("state/position/0", (walkers, parameters.num or None))
            auxiliary = [
                arrays[f"auxiliary/{k}"]
                for k in range(sum(key.startswith("auxiliary/") for key in arrays))
            ]
            where = f"the end of {folder}, step {meta.get('step', 'unknown')}"
            return FileParameters(expected.checked(folder, positions[:, columns]), where, auxiliary)
    return _rows(files.trajectory_of(folder), step, expected)


def _rows(path: Path, step: int | None, expected: ExpectedParameters) -> FileParameters:
    values, actual_step = (h5_rows if path.suffix == ".h5" else csv_rows)(path, step, expected)
    return FileParameters(expected.checked(path, values), f"step {actual_step} of {path}")


def _arrays(path: Path, _: int | None, expected_parameters: ExpectedParameters) -> FileParameters:
    loaded = load_arrays(path)
    if isinstance(loaded, np.ndarray):
        return FileParameters(expected_parameters.checked(path, np.atleast_2d(loaded)), str(path))
    with loaded as archive:
        if "parameters" in archive.files or len(archive.files) == 1:
            values = archive["parameters" if "parameters" in archive.files else archive.files[0]]
            return FileParameters(
                expected_parameters.checked(path, np.atleast_2d(values)), str(path)
            )
        tensors = list(dict.fromkeys(name.split("[")[0] for name in expected_parameters.names))
        if missing := [tensor for tensor in tensors if tensor not in archive.files]:
            expected = f"an array named parameters, or one for each of {', '.join(tensors)}"
            raise InputError(
                f"parameters: {path} has no array {missing[0]!r}.",
                ", ".join(archive.files),
                expected,
            )
        values = [archive[tensor] for tensor in tensors]
    columns = expected_parameters.column_numbers(
        path, parameter_names(tensors, [value.shape for value in values])
    )
    vector = np.concatenate([value.reshape(-1) for value in values])
    return FileParameters(expected_parameters.checked(path, vector[None, columns]), str(path))


def _keras(path: Path, _: int | None, expected: ExpectedParameters) -> FileParameters:
    from tati_re.models.build import load_model
    from tati_re.models.flat import FlatModel

    try:
        flat = FlatModel(load_model(path))
    except InputError as error:
        raise InputError(f"parameters: {error}") from None
    values = flat.get()[expected.column_numbers(path, flat.parameter_names())]
    return FileParameters(
        expected.checked(path, values[None]), str(path), [v[None] for v in flat.auxiliary]
    )
