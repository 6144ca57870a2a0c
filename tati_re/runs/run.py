"""The files of a run, read on demand."""

import operator
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np
import pandas

from tati_re.core.errors import AnyPath, InputError, abbreviated, check_utf8, nearest, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.printable import printable
from tati_re.core.user_input import error_text
from tati_re.core.user_warnings import warn_user
from tati_re.core.views import drawn
from tati_re.runs import checkpoint, files, manifest, reading
from tati_re.runs.checked_tables import read_table, read_whole, whole_array
from tati_re.runs.manifest import Manifest
from tati_re.runs.trajectory_rows import rows_of_step, steps_between, stored_steps
from tati_re.supports.layout import ParameterLayout

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and variance of the parameters after burn-in, accumulated without storing the positions.

    Attributes:
        mean: Mean of each walker, `(walkers, parameters)`.
        variance: Variance of each walker, `(walkers, parameters)`. Its denominator is count -
            squares / count, which is n - 1 for n steps of equal weight. It is NaN for a single
            step.
        count: Number of steps, or the sum of their weights, `(walkers,)`.
        squares: Sum of the squared weights, `(walkers,)`. None if all weights are 1.
    """

    mean: np.ndarray
    variance: np.ndarray
    count: np.ndarray
    squares: np.ndarray | None = None

    def of(self, walker: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and variance, `(parameters,)` each, of one walker or of all walkers
        together.

        Args:
            walker: The walker, counted from 0; None pools all walkers.
        """
        if walker is None:
            return self.pooled()
        counts = self.count[_checked(walker, len(self.mean))]
        refuse_if(
            not counts,
            "This walker has no steps at the target temperature.",
            f"walker={walker}",
            "a walker that visited the target",
        )
        return self.mean[walker], self.variance[walker]

    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and variance, `(parameters,)` each, over the steps of all walkers.

        Reference: Chan, Golub and LeVeque, 1983.
        """
        count = self.count.astype(np.float64)
        squares = count if self.squares is None else self.squares
        mean = count @ self.mean / count.sum()
        degrees = np.nan_to_num(degrees_of_freedom(count, squares))[:, None]
        within = np.where(degrees > 0, self.variance * degrees, 0.0).sum(axis=0)
        return mean, (within + count @ (self.mean - mean) ** 2) / degrees_of_freedom(
            count.sum(), squares.sum()
        )


def degrees_of_freedom(total: Any, squares: Any) -> Any:
    """Returns the degrees of freedom of a weighted variance about its mean.

    Args:
        total: Sum of the weights.
        squares: Sum of the squared weights.

    Returns:
        n - 1 for n weights of 1; NaN if a single row has all the weight.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = total - squares / total
        return np.where(freedom > 1e-12 * total, freedom, np.nan)


_Frame: Any = pandas.DataFrame  # Any: the attribute `plot` of a DataFrame is another one.


class LadderTable(_Frame):
    """The rows of `ladder.csv`, one per rung; a selection of them is a plain DataFrame."""

    def __repr__(self) -> str:
        return printable(self.to_string(index=False, line_width=110, float_format="{:.4g}".format))

    def plot(self, path: AnyPath | None = None) -> "Figure":
        """Plots the accepted swaps between neighbors and the mean potential.

        Args:
            path: A PNG file to write. Default: None, no file.

        Returns:
            The figure; see `tati_re.plotting.plot_ladder`.
        """
        return drawn("ladder", self, path=path)


class ResultCache:
    """The last few results of some work, which count until the files behind them change."""

    MOST = 8

    def __init__(self) -> None:
        self._state: Any = None
        self._results: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = RLock()

    def __reduce__(self) -> Any:
        """A copy, or what a pickle holds, begins without results."""
        return ResultCache, ()

    def __call__(self, state: Any, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result under a key, from an earlier call or from `make`."""
        with self._lock:
            if state != self._state:
                self._results.clear()
                self._state = state
            if key not in self._results:
                self._results[key] = make()
            self._results.move_to_end(key)
            while len(self._results) > self.MOST:
                self._results.popitem(last=False)
            return self._results[key]


@front_doors
class RunFiles:
    """The tables and parameters of a run; a file is read on first use, and again only if it
    changed.

    Users get a `tati_re.Run`, which also predicts and writes summaries.
    """

    def __init__(self, folder: AnyPath) -> None:
        try:
            self.folder = Path(folder)
            self.folder.exists()
            if "\0" in str(self.folder):
                raise ValueError("embedded null character")
            check_utf8(self.folder)
        except InputError:
            raise
        except (TypeError, ValueError, OSError) as error:
            raise InputError(
                f"This path cannot be a run folder ({error_text(error)}).",
                abbreviated(folder, 77, repr),
                "a run folder",
            ) from None
        self._read: dict[str, tuple[tuple[int, int], Any]] = {}
        self._made: dict[str, tuple[tuple[Any, ...], Any]] = {}
        self._paths: dict[str, Path] = {}
        self._seen: dict[Path, tuple[int, int]] | None = None
        self._seen_state: tuple[tuple[int, int], ...] | None = None
        self._results_cache = ResultCache()
        self.exit_status: int | None = None
        """The exit status of the call that made the run; None of a folder that was opened."""
        self.data: Any = None
        """The data set of a run that was made here; None of a folder that was opened."""
        self.objects: dict[str, Any] = {}
        """What a run that was made here was given as objects, and its model; of an opened folder,
        those of `load`.
        """

    def __fspath__(self) -> str:
        return str(self.folder)

    @classmethod
    def open(cls, path: AnyPath) -> Self:
        if isinstance(path, cls):
            return path
        run = cls(path)
        if not run.folder.exists():
            above = run.folder.parent
            beside = [entry.name for entry in above.iterdir()] if above.is_dir() else []
            raise InputError(
                f"The run folder {run.folder} does not exist.{nearest(run.folder.name, beside)}"
            )
        manifest.read(run.folder)
        return run

    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fspath(self.folder)!r})"

    @property
    def is_temporary(self) -> bool:
        """Whether the folder is removed when the run is no longer used."""
        return False

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    @property
    def manifest(self) -> Manifest:
        """Options, versions, parameters and choices of the run.

        Read entries as attributes, `run.manifest.options.num_steps`, or as in the file,
        `run.manifest["options"]["num_steps"]`.
        """
        stored: Manifest = self._cached(files.MANIFEST, lambda path: manifest.read(path.parent))
        return stored

    @property
    def run_info(self) -> pandas.DataFrame:
        """The table `run.csv`: one row per recorded step, walker and, on a temperature ladder,
        rung.
        """
        return self._table(files.ROWS)

    @property
    def averages(self) -> pandas.DataFrame:
        """The table `averages.csv`: running averages."""
        return self._table(files.AVERAGES)

    def at_rung(self, rung: int = 0) -> pandas.DataFrame:
        """Returns the rows of `run.csv` for one rung of a temperature ladder.

        Args:
            rung: The rung, counted from 0, the target temperature. Default: 0.

        Returns:
            The rows; all rows if the run has no ladder.
        """
        rows = self.run_info
        return rows[rows["rung"] == rung].reset_index(drop=True) if "rung" in rows else rows

    @property
    def ladder(self) -> LadderTable:
        """The table `ladder.csv` after burn-in: acceptance, round trips and mean potential.

        `plot()` draws them.
        """
        return LadderTable(self._table(files.LADDER))

    @property
    def exchanges(self) -> pandas.DataFrame:
        """The table `exchange.csv`: one row per attempted swap."""
        return self._table(files.EXCHANGES)

    @property
    def bias(self) -> pandas.DataFrame:
        """The table `bias.csv`: the bias of each rung as a function of the potential
        (well-tempered).
        """
        return self._table(files.BIAS)

    @property
    def noise(self) -> pandas.DataFrame:
        """The table `noise.csv`: p-values of tests for normality of the noise in swap energies."""
        return self._table(files.NOISE)

    @property
    def timing(self) -> pandas.DataFrame:
        """The table `timing.csv`: clock readings during the run."""
        return self._table(files.TIMING)

    @property
    def trajectory(self) -> pandas.DataFrame:
        """The stored positions from `trajectory.csv` or `trajectory.h5`, equally spaced in steps.

        The last stored positions set the spacing. Named parameters with supports have their
        constrained values.
        """
        frame = self._table(files.trajectory_of(self.folder).name)
        far = frame["step"] % (stored_every(self) or 1) == 0
        frame = frame if far.all() else frame[far].reset_index(drop=True)
        layout = layout_of(self)
        return frame if layout is None else _constrained(frame, layout)

    @property
    def directions(self) -> np.ndarray:
        """The directions for projected positions, `(directions, parameters)`, from
        `directions.npy`.
        """
        refuse_if(not self.has(files.DIRECTIONS), f"The run {self.folder} has no projections.")
        return whole_array(
            self.folder / files.DIRECTIONS, checkpoint.known_whole(self.folder, files.DIRECTIONS)
        )

    @property
    def moments(self) -> Moments:
        """Mean and variance of the parameters up to the last checkpoint."""
        name = f"{files.CHECKPOINTS}/{files.CURRENT}"
        return (
            self._cached(name, self._read_moments)
            if (self.folder / name).exists()
            else self._read_moments()
        )

    def parameters(self, which: str | int = "mean", walker: int | None = None) -> np.ndarray:
        """Returns one parameter vector of the run, `(parameters,)`, in the number type of the run.

        Args:
            which: `"mean"`, the mean over the steps after burn-in, or a stored step. Default: mean.
            walker: The walker, counted from 0. Default: None, the mean over all walkers; at a
                stored step, the only walker of the run.
        """
        num_parameters = self.manifest.parameters.num
        vector = self.moments.of(walker)[0] if which == "mean" else self._stored(which, walker)
        if len(vector) != num_parameters:
            raise InputError(
                "The run's files do not match its manifest.",
                f"{len(vector)} parameters",
                num_parameters,
            )
        return np.asarray(vector, dtype=self.manifest.options.dtype)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Looks at each file of the run once within, as if nobody wrote to it meanwhile."""
        outermost = self._seen is None
        if outermost:
            self._seen = {}
        try:
            yield
        finally:
            if outermost:
                self._seen = None
                self._seen_state = None

    def _path(self, name: str) -> Path:
        """The path of a file of the run; joining paths takes longer than a look at the file."""
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = self.folder / name
        return path

    def _mark(self, path: Path) -> tuple[int, int]:
        """Size and time of a file."""
        seen = self._seen
        if seen is None:
            return _size_and_time(path)
        if path not in seen:
            seen[path] = _size_and_time(path)
        return seen[path]

    def _cached(self, name: str, read: Callable[[Path], Any]) -> Any:
        path = self._path(name)
        key = self._mark(path)
        if name not in self._read or self._read[name][0] != key:
            self._read[name] = (key, read(path))
        return self._read[name][1]

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Returns a value computed from several files of the run, and recomputes it if a file
        changed.

        Args:
            name: A name for the value.
            make: The function that computes it.
        """
        state = self._state()
        if name not in self._made or self._made[name][0] != state:
            self._made[name] = (state, make())
        return self._made[name][1]

    def cached_result(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns a result that predictions reuse, such as a traced network or the draws.

        It is recomputed only if a file of the run changed. The last few results are cached.

        Args:
            key: What the result depends on, apart from the files.
            make: The function that computes it.
        """
        return self._results_cache(self._files_state(), key, make)

    def _files_state(self) -> tuple[tuple[int, int], ...]:
        """Sizes and times of the manifest and of the files of numbers."""
        if self._seen_state is not None:
            return self._seen_state
        names = (files.MANIFEST, *_OF_NUMBERS)
        state = tuple(self._mark(self._path(name)) for name in names)
        if self._seen is not None:
            self._seen_state = state
        return state

    def _state(self) -> tuple[Any, ...]:
        """What changes with the numbers of the run: sizes and times of its tables and checkpoint,
        and its manifest but for the failed checks, which follow from them.
        """
        sizes = tuple(self._mark(self._path(name)) for name in _OF_NUMBERS)
        return str(self.manifest | {"failed_checks": None}), *sizes

    def _table(self, name: str) -> pandas.DataFrame:
        refuse_if(not self.has(name), f"The run {self.folder} has no {name}.")
        return self._cached(name, self._read_table)

    def _read_table(self, path: Path) -> pandas.DataFrame:
        """Rows by step and walker: groups of walkers that take turns write theirs turn by turn."""
        # The checkpoint first: what it knows is already in the tables, also of a run that goes on.
        if path.name in (*files.OF_METHODS.values(), files.NOISE):
            return read_whole(path, lambda: checkpoint.known_whole(self.folder, path.name))
        frame = read_table(path, checkpoint.known(self.folder, path.name))
        if "walker" in frame and not frame["step"].is_monotonic_increasing:
            frame = frame.sort_values(["step", "walker"], kind="stable", ignore_index=True)
        return frame

    def _read_moments(self, path: Path | None = None) -> Moments:
        arrays, _, note = checkpoint.load(self.folder)
        if note:
            warn_user(note)
        averaged = "moments/mean" in arrays and np.max(arrays["moments/count"], initial=0) > 0
        refuse_if(
            not averaged,
            f"The run {self.folder} has no averaged parameters: no step after the burn-in "
            "was stored.",
        )
        options = self.manifest.options
        # Where the positions of all rungs are stored those of the target come first.
        target = slice(options.num_walkers if options.trajectory_rungs == "all" else None)
        moments = [moment.astype(np.float64) for moment in checkpoint.moments_of(arrays)]
        count, mean, m2, squares = moments
        variance = m2 / degrees_of_freedom(count, squares)[:, None]
        return Moments(mean[target], variance[target], count[target], squares[target])

    def _stored(self, which: str | int, walker: int | None) -> np.ndarray:
        if not isinstance(which, SupportsIndex):
            raise InputError(
                "parameters: unknown choice.", which, '"mean" or the number of a stored step'
            )
        step = operator.index(which)
        path = files.trajectory_of(self.folder)
        num_parameters = self.manifest.parameters.num
        if self.has(files.DIRECTIONS):
            raise InputError(
                f"The run {self.folder} stored projections, not parameters.",
                f"step {step}",
                '"mean"',
            )
        if path.suffix == ".h5":
            with reading.open_h5(path) as file:
                row = self._find(file["index"][: reading.h5_length(file)], step, walker)
                # The integer columns step and walker are in `index`, so that `rows` starts with
                # potential, loss.
                first = files.FIRST_PARAMETER - len(files.INDEX)
                return file["rows"][row][first : first + num_parameters]
        frame = self._table(path.name)
        row = self._find(frame[["step", "walker"]].to_numpy(), step, walker)
        last = files.FIRST_PARAMETER + num_parameters
        return frame.iloc[row, files.FIRST_PARAMETER : last].to_numpy(dtype=np.float64)

    def _find(self, index: np.ndarray, step: int, walker: int | None) -> int:
        """Returns the row of a step and walker in the columns step, walker `(rows, 2)`."""
        refuse_if(not len(index), f"The trajectory of {self.folder} is empty.", f"step {step}")
        if not (rows := rows_of_step(index, step)):
            raise InputError("The step is not stored.", f"step {step}", stored_steps(index, step))
        if walker is None and len(rows) > 1:
            raise InputError(
                "The run has several walkers.", "walker=None", f"a walker from 0 to {len(rows) - 1}"
            )
        return rows[_checked(0 if walker is None else walker, len(rows))]


_OF_NUMBERS = (
    files.ROWS,
    files.LADDER,
    files.NOISE,
    *files.TRAJECTORIES.values(),
    f"{files.CHECKPOINTS}/{files.CURRENT}",
)
"""Files of the numbers that a run is judged by."""


def _size_and_time(path: Path) -> tuple[int, int]:
    """Bytes of a file and when it changed, in nanoseconds; -1 if there is none to be read: whoever
    reads it says why.
    """
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def stored_every(run: RunFiles) -> int:
    """Returns the spacing in steps of the stored positions of a walker, or 0 if none are stored."""
    if run.manifest.last_positions is not None:
        return 1
    options = run.manifest.options
    drawn = last_step(run, options.num_steps or 0) - (options.num_burnin_steps or 0)
    return int(steps_between(options.trajectory_every, run.manifest.fewest_positions, drawn))


def last_step(run: RunFiles, default: int) -> int:
    """Returns the step of the last checkpoint.

    Args:
        run: The run.
        default: Returned if there is no readable checkpoint, or it does not state its step.
    """
    return next(checkpoint.metas(run.folder), {}).get("step", default)


def layout_of(run: RunFiles) -> ParameterLayout | None:
    """Returns the named parameters of a run, or None without supports or with stored projections.

    Args:
        run: The run.

    Raises:
        InputError: The manifest describes unknown supports, or a different number of coordinates.
    """
    described = run.manifest.parameters
    if not described.supports or run.has(files.DIRECTIONS):
        return None
    layout = ParameterLayout.from_config(described.supports)
    problem = f"{run.folder}: the supports do not fit the number of parameters."
    refuse_if(layout.dimension != described.num, problem, layout.dimension, described.num)
    return layout


def _constrained(frame: pandas.DataFrame, layout: ParameterLayout) -> pandas.DataFrame:
    """A trajectory with constrained values in the place of free coordinates."""
    names = list(frame.columns)
    first = names.index(files.BEFORE_PARAMETERS[-1]) + 1
    last = first + layout.dimension
    free = frame.iloc[:, first:last].to_numpy(dtype=np.float64)
    entries = layout.entries(layout.constrain(free)[0])
    values = pandas.DataFrame(entries, columns=layout.entry_names(), index=frame.index)
    return pandas.concat([frame.iloc[:, :first], values, frame.iloc[:, last:]], axis=1)


AnyRun = RunFiles | AnyPath
"""A run, or its folder."""


def _checked(walker: int, num_walkers: int) -> int:
    if not 0 <= walker < num_walkers:
        raise InputError(
            "The walker does not exist.",
            f"walker={walker}",
            f"a walker from 0 to {num_walkers - 1}",
        )
    return walker
