"""Parameters from files: trajectories of this package or of TATi, NPZ files, Keras models, run folders."""

from __future__ import annotations

import csv
import os
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.errors import InputError, nearest
from tati_re.models.names import described_names, parameter_names
from tati_re.runs import checkpoint, manifest, reading

KINDS = "a trajectory (.csv, .h5), an .npz, a .keras file or a run folder"
_WEIGHTS, _BIASES = re.compile(r"w(?:eight)?(\d+)"), re.compile(r"b(?:ias)?(\d+)")
_WALKER = ("walker", "id")


class FileParameters(NamedTuple):
    """Parameters read from a file.

    Attributes:
        positions: One row a stored walker, in their order, `(rows, parameters)`, float64.
        source: Where they come from, in words.
        auxiliary: Keras' non-trainable variables, `(rows, ...)` each, where the file has them, else `None`.
    """

    positions: np.ndarray
    source: str
    auxiliary: list[np.ndarray] | None = None

    def for_walkers(self, num_walkers: int) -> np.ndarray:
        """The position of each walker, `(num_walkers, parameters)`: its own, or the first one if some are not
        stored."""
        return np.array(self.positions[self.rows_of(num_walkers)])

    def rows_of(self, num_walkers: int) -> np.ndarray:
        """The row of each walker."""
        return np.arange(num_walkers) if len(self.positions) >= num_walkers else np.zeros(num_walkers, int)


class ExpectedParameters(NamedTuple):
    """The parameters that a model has, and those that a file may have besides.

    Attributes:
        names: Names of the parameters, `(parameters,)`.
        fixed: Names of others, which keep their values.
    """

    names: list[str]
    fixed: Collection[str] = ()

    def places(self, path: Path, found: list[str]) -> list[int]:
        """Where each parameter is among those of a file; refuses the parameters of another model."""
        _check_names(path, [name for name in found if name not in self.fixed], self.names)
        place = {name: k for k, name in enumerate(found)}
        return [place[name] for name in self.names]


def read_parameters(
    path: str | os.PathLike[str], step: int | None = None, *, names: Sequence[str], fixed: Collection[str] = ()
) -> FileParameters:
    """Reads the parameters of a model from a file or a run folder.

    Args:
        path: `trajectory.csv` or `.h5` of a run; a CSV file of TATi (columns `weight0`, ..., `bias0`, ... or `w0`, ...,
            `b0`, ...: all weights, layer by layer, then all biases); an `.npz` with the array `parameters`, or one
            array for each tensor of the model by name (`dense/kernel`); an `.npy`; a `.keras` file; the folder of a
            run.
        step: The row with this number in the column `step`. Default: the last one; of a folder, where the run arrived.
        names: Names of the parameters, as `Simulation.parameter_names()` gives them, `(parameters,)`.
        fixed: Names of parameters of the model that keep their values: a file may have them too. Default: none.

    Returns:
        The parameters; of a ladder those at the target's temperature.

    Raises:
        InputError: No such file or step, another number of parameters, or parameters of another model.
    """
    path, wanted = Path(path).expanduser(), ExpectedParameters(list(names), frozenset(fixed))
    if not path.exists():
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"parameters: there is no {path}.{nearest(path.name, beside)}", expected=KINDS)
    if path.is_dir():
        return _folder(path, step, wanted)
    readers = {".csv": _csv, ".h5": _h5, ".npz": _arrays, ".npy": _arrays, ".keras": _keras}
    if path.suffix not in readers:
        raise InputError("parameters: a file of another kind.", received=path, expected=KINDS)
    if step is not None and path.suffix not in (".csv", ".h5"):
        raise InputError(f"parameters_step: {path} has no steps.", received=step, expected="a trajectory, or no step")
    try:
        return readers[path.suffix](path, step, wanted)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"parameters: {path} cannot be read: {reason}.", expected=KINDS) from None


def _folder(folder: Path, step: int | None, wanted: ExpectedParameters) -> FileParameters:
    said = manifest.read(folder)
    stored = said.get("parameters", {})
    places = wanted.places(folder, described_names(stored)) if "names" in stored else list(range(len(wanted.names)))
    walkers = said.get("options", {}).get("num_walkers", 1)
    if step is None:
        arrays, meta, _ = checkpoint.load(folder)
        positions = arrays.get("state/position/0")
        # On a ladder the order of the rows is that of the replicas, not of the temperatures.
        if positions is not None and len(positions) == walkers:
            auxiliary = [arrays[f"auxiliary/{k}"] for k in range(sum(key.startswith("auxiliary/") for key in arrays))]
            where = f"the end of {folder}, step {meta['step']}"
            return FileParameters(_checked(folder, positions[:, places], wanted.names), where, auxiliary)
    for name, read in (("trajectory.csv", _csv), ("trajectory.h5", _h5)):
        if (folder / name).exists():
            return read(folder / name, step, wanted)
    raise InputError(f"parameters: {folder} has no trajectory.", expected="a run with trajectory_every above 0")


def _csv(path: Path, step: int | None, wanted: ExpectedParameters) -> FileParameters:
    with path.open(encoding="utf-8", newline="") as file:
        header = next(csv.reader(line for line in file if line.strip() and not line.startswith("#")), [])
    columns = [name.strip() for name in header]
    chosen, step_column, walker_column = _columns(path, columns, wanted)
    index, lines = _csv_rows(path, columns, step_column, walker_column)
    rows, found = _rows_at(path, index, step)
    values = np.array([_numbers(path, lines[row], columns, chosen) for row in rows])
    return FileParameters(_checked(path, values, wanted.names), f"step {found} of {path}")


def _csv_rows(path: Path, columns: list[str], step_column: int | None, walker_column: int | None):
    """Step and walker of each row at the target's temperature, `(rows, 2)`, and the rows as text."""
    index, lines, first = [], [], True
    rung = columns.index("rung") if "rung" in columns else None
    growing = (path.parent / manifest.NAME).exists()
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.strip() or line.startswith("#"):
                continue
            if first:
                first = False
                continue
            # The last line of a run that goes on may not be complete.
            if growing and not line.endswith("\n"):
                continue
            cells = line.split(",")
            if len(cells) != len(columns):
                raise InputError(
                    f"parameters: {path} has a ragged row.", f"{len(cells)} cells", f"{len(columns)} as in its header"
                )
            if rung is not None and float(cells[rung]) != 0:
                continue
            here = [len(lines) if step_column is None else cells[step_column], 0]
            here[1] = 0 if walker_column is None else cells[walker_column]
            index.append([int(float(number)) for number in here])
            lines.append(line)
    return np.array(index, dtype=np.int64).reshape(-1, 2), lines


def _numbers(path: Path, line: str, columns: list[str], chosen: list[int]) -> list[float]:
    cells = line.split(",")
    try:
        return [float(cells[k]) for k in chosen]
    except ValueError as error:
        raise InputError(f"parameters: {path} has a cell that is no number.", str(error).split(": ")[-1]) from None


def _h5(path: Path, step: int | None, wanted: ExpectedParameters) -> FileParameters:
    with reading.open_h5(path) as file:
        index_columns, columns = reading.h5_columns(file)
        chosen, _, _ = _columns(path, [*index_columns, *columns], wanted)
        index = file["index"][: reading.h5_length(file)]
        kept = np.arange(len(index))
        if "rung" in index_columns:
            kept = kept[index[:, index_columns.index("rung")] == 0]
        rows, found = _rows_at(path, index[kept][:, :2], step)
        places = np.array(chosen) - len(index_columns)
        values = np.array([file["rows"][int(kept[row])][places] for row in rows])
    return FileParameters(_checked(path, values, wanted.names), f"step {found} of {path}")


def _columns(path: Path, columns: list[str], wanted: ExpectedParameters) -> tuple[list[int], int | None, int | None]:
    """Places of the parameters in their order, of the step and of the walker."""
    places = {name: k for k, name in enumerate(columns)}
    step = places.get("step")
    walker = next((places[name] for name in _WALKER if name in places), None)
    names = wanted.names
    if all(name in places for name in names):
        known = set(names)
        wanted.places(path, [name for name in columns if name in known or "/" in name])
        return [places[name] for name in names], step, walker
    weights, biases = _numbered(_WEIGHTS, places), _numbered(_BIASES, places)
    if weights or biases:
        return _of_tati(path, weights, biases, names), step, walker
    if any(re.fullmatch(r"c\d+", name) for name in columns):
        raise InputError(f"parameters: {path} holds projections on directions, not parameters.", expected=KINDS)
    if found := [name for name in columns if "[" in name or "/" in name]:
        _check_names(path, found, names)
    raise InputError(f"parameters: {path} has no columns of parameters.", received=", ".join(columns[:4]) + ", ...")


def _numbered(kind: re.Pattern, places: dict[str, int]) -> list[int]:
    """Places of the columns of one kind, by their number."""
    found = [(int(match[1]), place) for name, place in places.items() if (match := kind.fullmatch(name))]
    return [place for _, place in sorted(found)]


def _of_tati(path: Path, weights: list[int], biases: list[int], names: list[str]) -> list[int]:
    """Places of the model's parameters among TATi's columns: its weights and its biases are numbered apart."""
    is_bias = [name.split("[")[0].rsplit("/", 1)[-1] == "bias" for name in names]
    wanted = (len(names) - sum(is_bias), sum(is_bias))
    if (len(weights), len(biases)) != wanted:
        received = f"{len(weights)} weights and {len(biases)} biases"
        expected = f"{wanted[0]} weights and {wanted[1]} biases"
        raise InputError(f"parameters: {path} does not fit the model.", received, expected)
    left = {False: iter(weights), True: iter(biases)}
    return [next(left[bias]) for bias in is_bias]


def _rows_at(path: Path, index: np.ndarray, step: int | None) -> tuple[list[int], int]:
    """The rows of a step, one a walker in the walkers' order, and the step; the last step where none is asked for."""
    if not len(index):
        raise InputError(f"parameters: {path} has no rows.", expected="at least one")
    if step is None:
        step = int(index[:, 0].max())
    at_step = np.flatnonzero(index[:, 0] == step)
    if not len(at_step):
        steps = np.unique(index[:, 0])
        near = steps[np.argmin(np.abs(steps - step))]
        stored = f"one of the {len(steps)} steps from {steps[0]} to {steps[-1]}, the nearest being {near}"
        raise InputError(f"parameters_step: there is no such step in {path}.", received=step, expected=stored)
    by_walker: dict[int, int] = {}
    for row in at_step:
        by_walker.setdefault(int(index[row, 1]), int(row))
    return [by_walker[walker] for walker in sorted(by_walker)], step


def _arrays(path: Path, _: int | None, wanted: ExpectedParameters) -> FileParameters:
    names = wanted.names
    loaded: Any = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return FileParameters(_checked(path, np.atleast_2d(loaded), names), str(path))
    with loaded as archive:
        if "parameters" in archive.files or len(archive.files) == 1:
            values = archive["parameters" if "parameters" in archive.files else archive.files[0]]
            return FileParameters(_checked(path, np.atleast_2d(values), names), str(path))
        tensors = list(dict.fromkeys(name.split("[")[0] for name in names))
        if missing := [tensor for tensor in tensors if tensor not in archive.files]:
            expected = f"the array parameters, or one for each of {', '.join(tensors)}"
            raise InputError(f"parameters: {path} has no array {missing[0]!r}.", ", ".join(archive.files), expected)
        found = [pair for tensor in tensors for pair in _entries(tensor, archive[tensor])]
    places = wanted.places(path, [name for name, _ in found])
    return FileParameters(_checked(path, np.array([[found[k][1] for k in places]]), names), str(path))


def _entries(tensor: str, values: np.ndarray) -> Iterator[tuple[str, float]]:
    """Name and value of each entry of a tensor."""
    return zip(parameter_names([tensor], [values.shape]), values.reshape(-1), strict=True)


def _keras(path: Path, _: int | None, wanted: ExpectedParameters) -> FileParameters:
    from tati_re.models.build import load_model
    from tati_re.models.flat import FlatModel

    try:
        flat = FlatModel(load_model(path))
    except InputError as error:
        raise InputError(f"parameters: {error}") from None
    values = flat.get()[wanted.places(path, flat.parameter_names())]
    return FileParameters(_checked(path, values[None], wanted.names), str(path), [v[None] for v in flat.auxiliary])


def _check_names(path: Path, found: list[str], names: list[str]) -> None:
    """Refuses the parameters of another model."""
    if found == names:
        return
    if len(found) != len(names):
        what = f"parameters: {path} does not fit the model."
        raise InputError(what, f"{len(found)} parameters", f"{len(names)} parameters")
    first = next(pair for pair in zip(found, names, strict=True) if pair[0] != pair[1])
    raise InputError(f"parameters: {path} is of another model.", f"a parameter {first[0]}", first[1])


def _checked(path: Path, values: np.ndarray, names: list[str]) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2 or values.shape[1] != len(names):
        shape = values.shape[-1] if values.ndim == 2 else f"an array of shape {values.shape}"
        what = f"parameters: {path} does not fit the model."
        raise InputError(what, f"{shape} parameters" if values.ndim == 2 else shape, f"{len(names)} parameters")
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise InputError(f"parameters: {path} holds what is no finite number.", expected="finite numbers")
    return values.astype(np.float64)
