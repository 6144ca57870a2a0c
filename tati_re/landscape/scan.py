"""Landscapes: losses on the points of a line, plane or grid, and along a trajectory."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from matplotlib.figure import Figure

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.structured import read_toml_file
from tati_re.core.files.unpacking import DAMAGED, load_arrays
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.views import drawn, viewable
from tati_re.landscape import tables
from tati_re.landscape.grid import Axis, Grid, axes_of, project
from tati_re.runs.lock import one_writer
from tati_re.runs.positions import stored_positions
from tati_re.runs.storage import replacing

ARRAYS = "plane.npz"


@front_doors
@viewable
class Landscape(NamedTuple):
    """A loss landscape as tables.

    Attributes:
        table: One row per point: `scale` (if there are several), the coordinates, loss, potential,
            accuracy, the same for the test set, and `ln_excess_loss` = ln(loss - lowest).
        trajectory: One row per stored position, or None: step, walker, coordinates on the plane,
            distance from it, the loss, potential, ... of the position, and `plane_loss`, the loss
            of its projection.
        lowest: L0, the lowest loss of both tables.
        centre: The center, `(parameters,)`.
        directions: The directions, `(axes, parameters)`.
        names: Names of the coordinates.
    """

    table: pandas.DataFrame
    trajectory: pandas.DataFrame | None
    lowest: float
    centre: np.ndarray
    directions: np.ndarray
    names: tuple[str, ...]

    def plot(self, **choices: Any) -> Figure:
        """Plots the landscape.

        Args:
            **choices: `kind`, `quantity`, `scales` and `path`, as for
                `tati_re.plotting.plot_landscape`.

        Returns:
            The figure.
        """
        return drawn("landscape", self, **choices)


@front_door
@one_writer
def scan(
    surface,
    centre: np.ndarray,
    directions: np.ndarray,
    ranges: Sequence[Axis | str] | Axis | str = "-1:1:41",
    scales: Sequence[int] = (0,),
    *,
    trajectory: Iterable[Any] | None = None,
    names: Sequence[str] | None = None,
    output: AnyPath | None = None,
    overwrite: bool = False,
    description: dict[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Landscape:
    """Evaluates U on a line, a plane or a grid, and along a projected trajectory.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        centre: The center, `(parameters,)`.
        directions: Directions, `(axes, parameters)`. Their lengths are the units of the
            coordinates.
        ranges: `-1:1:41` or an `Axis` for all axes, or one for each. Default: `-1:1:41`.
        scales: Exponents of 10 that multiply the whole range, one grid after the other. Default: 0
            alone.
        trajectory: `Position`s from `tati_re.analysis.stored_positions` (or `path_of`), read once.
            Default: None.
        names: Names of the coordinates. Default: None, c0, c1, ...
        output: A folder in which the tables grow during the scan. A second call with the same
            arguments continues an interrupted scan. Default: None, everything in memory.
        overwrite: Whether to remove the files of another landscape in the folder. Default: False.
        description: Further entries for `landscape.toml`, such as the origin of the center.
            Default: None.
        progress: Function called with the finished and the total number of points after each block.
            Default: None.

    Returns:
        The landscape.

    Raises:
        InputError: Shapes do not fit, or the folder holds something else.
    """
    directions = np.atleast_2d(np.asarray(directions, np.float64))
    grid = Grid(centre, directions, axes_of(ranges, "direction", len(directions)), scales)
    names = tuple(names or (f"c{i}" for i in range(len(directions))))
    positions = None if trajectory is None else list(trajectory)
    refuse_if(trajectory is not None and not positions, "The trajectory has no positions.")
    folder = None
    if output is not None:
        kind = f"{len(directions)} in {directions.shape[1]} parameters"
        specification = {
            "schema_version": 1,
            "directions": kind,
            "ranges": [axis.text for axis in grid.axes],
        }
        specification |= {
            "scales": list(grid.scales),
            "names": list(names),
            "columns": list(surface.columns),
        }
        specification |= {**(description or {}), "digest": _digest(surface, grid, names, positions)}
        folder = tables.prepare(output, specification, overwrite)
        with replacing(folder / ARRAYS) as file:
            np.savez(file, centre=grid.centre, directions=grid.directions)
    several = len(grid.scales) > 1

    def points(first: int, last: int) -> np.ndarray:
        coordinates = grid.coordinates(first, last)
        values = surface.values(grid.positions(coordinates[:, 1:]))
        return np.column_stack(
            [coordinates[:, 0 if several else 1 :], *(values[name] for name in surface.columns)]
        )

    columns = [*(["scale"] if several else []), *names, *surface.columns]
    path = None if folder is None else folder / "landscape.csv"
    table = tables.finished(path)
    if table is None:
        rows = tables.grown(path, columns, grid.num_points, surface.points, points, progress)
        table = pandas.DataFrame(rows, columns=columns)
        table = table.astype({"scale": np.int64}) if several else table
    along = None
    if positions is not None:
        along = _along(
            surface, grid, positions, names, None if folder is None else folder / "trajectory.csv"
        )
    lowest = float(min(frame["loss"].min() for frame in (table, along) if frame is not None))
    table, along = (
        None if frame is None else tables.with_excess(frame, lowest) for frame in (table, along)
    )
    if folder is not None:
        tables.finish(folder / "landscape.csv", table)
        if along is not None:
            tables.finish(folder / "trajectory.csv", along)
    return Landscape(table, along, lowest, grid.centre, grid.directions, names)


@front_door
@one_writer
def along(
    surface,
    trajectory: Iterable[Any],
    *,
    output: AnyPath | None = None,
    overwrite: bool = False,
    description: dict[str, Any] | None = None,
) -> pandas.DataFrame:
    """Evaluates loss, potential and accuracy at stored positions, on all data.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        trajectory: `Position`s from `tati_re.analysis.stored_positions` or `path_of`, read once.
        output: A folder in which the table grows, as for `scan`. Default: None.
        overwrite: Whether to remove the files of another landscape in the folder. Default: False.
        description: Further entries for `landscape.toml`. Default: None.

    Returns:
        One row per position: step, walker, loss, potential, ..., `ln_excess_loss`.

    Raises:
        InputError: Shapes do not fit, or the folder holds something else.
    """
    positions = list(trajectory)
    refuse_if(not positions, "The trajectory has no positions.")
    folder = None
    if output is not None:
        specification = {
            "schema_version": 1,
            "columns": list(surface.columns),
            **(description or {}),
        }
        specification["digest"] = _digest(surface, None, (), positions)
        folder = tables.prepare(output, specification, overwrite)
    path = None if folder is None else folder / "trajectory.csv"
    frame = _along(surface, None, positions, (), path)
    frame = tables.with_excess(frame, float(frame["loss"].min()))
    if path is not None:
        tables.finish(path, frame)
    return frame


@front_door
def load(folder: AnyPath) -> Landscape:
    """Opens the folder of a finished landscape.

    Args:
        folder: The folder.

    Returns:
        The landscape.

    Raises:
        InputError: The folder holds no landscape, or an unfinished one; repeat the same command to
            finish it.
    """
    folder = Path(folder)
    path = folder / tables.SPECIFICATION
    refuse_if(not path.exists(), f"{folder} is not the folder of a landscape.")
    specification = read_toml_file(path)
    table = tables.finished(folder / "landscape.csv")
    if table is None:
        raise InputError(
            f"The landscape in {folder} is incomplete.", expected="repeat the same command or call"
        )
    try:
        with load_arrays(folder / ARRAYS) as file:
            centre, directions = file["centre"], file["directions"]
    except (OSError, ValueError, KeyError, *DAMAGED) as error:
        raise InputError(f"{folder / ARRAYS} cannot be read: {error}.") from None
    names = specification.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{path} does not name its coordinates.", names, "names = [...]")
    trajectory = tables.finished(folder / "trajectory.csv")
    lowest = float(min(frame["loss"].min() for frame in (table, trajectory) if frame is not None))
    return Landscape(table, trajectory, lowest, centre, directions, tuple(names))


@front_door
def path_of(run, most: int = 1000, walker: int | None = None) -> list[Any]:
    """Returns stored positions of a run, equally many and equally spaced for each walker.

    Args:
        run: The run, or its folder.
        most: Largest number of positions, at least 1. Default: 1,000.
        walker: One walker, counted from 0. Default: None, all walkers.

    Returns:
        `Position`s in the order of the file.

    Raises:
        InputError: The run stored no positions, or has no such walker.
    """

    def chosen():
        positions = stored_positions(run)
        return (
            positions
            if walker is None
            else (point for point in positions if point.walker == walker)
        )

    left = Counter(point.walker for point in chosen())
    refuse_if(
        not left, f"The run {run.folder} stored no positions of this walker.", f"walker {walker}"
    )
    every = -(-max(left.values()) // max(1, most // len(left)))
    points = []
    for point in chosen():
        left[point.walker] -= 1
        # The last position is where the walker ended: counted backwards, it is among those that are
        # kept.
        if left[point.walker] % every == 0:
            points.append(point)
    return points[-most:]


def _digest(surface, grid: Grid | None, names: Sequence[str], positions: list | None) -> str:
    parts: list[Any] = [surface.identity, tuple(surface.columns), tuple(names)]
    if grid is not None:
        parts += [grid.centre, grid.directions, tuple(grid.axes), grid.scales]
    if positions is not None:
        # The steps and one number of each position tell another trajectory; hashing all of it reads
        # it once more.
        parts += [np.array([(point.step, point.walker) for point in positions])]
        parts += [np.array([np.sum(point.parameters, dtype=np.float64) for point in positions])]
    return tables.digest(parts)


def _along(surface, grid: Grid | None, positions: list, names: Sequence[str], path: Path | None):
    frame = tables.finished(path)
    if frame is not None:
        return frame
    plane = [*names, "distance"] if grid is not None else []
    columns = [
        "step",
        "walker",
        *plane,
        *surface.columns,
        *(["plane_loss"] if grid is not None else []),
    ]

    def rows(first: int, last: int) -> np.ndarray:
        part = positions[first:last]
        vectors = np.stack([point.parameters for point in part]).astype(np.float64)
        surface_values = surface.values(vectors)
        begin = [np.array([(point.step, point.walker) for point in part])]
        end = [surface_values[name] for name in surface.columns]
        if grid is not None:
            coordinates, distance = project(vectors, grid.centre, grid.directions)
            begin += [coordinates, distance]
            end.append(surface.values(grid.positions(coordinates))["loss"])
        return np.column_stack([*begin, *end])

    table = tables.grown(path, columns, len(positions), surface.points, rows)
    return pandas.DataFrame(table, columns=columns).astype({"step": np.int64, "walker": np.int64})
