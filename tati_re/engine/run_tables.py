"""The tables that grow while a run goes on: which there are, and the rows of a chunk in them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import refuse_if
from tati_re.engine.loop import Chunk, Loop
from tati_re.runs import files
from tati_re.runs.csv_table import CsvTable
from tati_re.runs.h5_table import H5Table
from tati_re.runs.rows import OF_SWAPS
from tati_re.runs.stored_arrays import StoredArrays


class RunningAverages:
    """Sums and counts of each walker, and the rows of averages.csv that follow from them.

    Args:
        loop: The loop of the run.
        expected: What kinetic energy and virial should average to at temperature 1; nan if not
            known.
    """

    def __init__(self, loop: Loop, expected: tuple[float, float]) -> None:
        self._columns = loop.observables.columns
        self._expected = np.array(expected)
        self._averaged = [self._columns.index(name) for name in loop.observables.averaged]
        self._walkers_at_rung = loop.walkers_at_rung if loop.by_rung else None
        self._walkers = loop.walkers
        self._temperature = np.asarray(loop.rung.temperature)
        self.begin()

    def begin(self) -> None:
        """Counts no row yet."""
        self._counts = np.zeros(self._walkers)
        self._sums = np.zeros((self._walkers, len(self._averaged)))

    def add(self, walkers: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Counts rows of walkers.

        Args:
            walkers: Numbers of the walkers, shape (n,).
            rows: Their rows of run.csv, shape (steps, n, columns).

        Returns:
            The averages after each row, as in averages.csv, shape (steps, n, columns of averages).
        """
        values = rows[:, :, self._averaged]
        weights = np.ones(rows.shape[:2])
        if "weight" in self._columns:
            weights = rows[:, :, self._columns.index("weight")]
        # One running sum: adding the sums of parts would round differently after each interruption.
        values = np.where(weights[:, :, None] == 0.0, 0.0, weights[:, :, None] * values)
        totals = np.cumsum(np.concatenate([self._sums[walkers][None], values]), axis=0)[1:]
        counts = np.cumsum(np.concatenate([self._counts[walkers][None], weights]), axis=0)[1:]
        self._sums[walkers] = totals[-1]
        self._counts[walkers] = counts[-1]
        # Where a walker is elsewhere its averages are still those at the target.
        temperature = rows[:, :, self._columns.index("temperature")]
        temperature = np.where(weights == 0.0, self._temperature[walkers], temperature)
        with np.errstate(invalid="ignore"):
            parts = [totals / counts[:, :, None], temperature[:, :, None] * self._expected]
        if self._walkers_at_rung is not None:
            parts.append(
                np.broadcast_to(
                    (walkers // self._walkers_at_rung)[:, None], (*temperature.shape, 1)
                )
            )
        return np.concatenate(parts, axis=-1)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"averages/counts": self._counts, "averages/sums": self._sums}

    def restore(self, arrays: StoredArrays) -> None:
        self._counts = arrays.like("averages/counts", self._counts)
        self._sums = arrays.like("averages/sums", self._sums)


_MOST_WAITING = 16 * 2**20


class RunTables:
    """run.csv, averages.csv, timing.csv, and what else the loop records.

    Args:
        folder: The run folder.
        loop: The loop of the run.
        trajectory: Format of the trajectory, "csv" or "h5".
        parameters: Names of the stored parameters or projections.
        averages: The averages of the run.
    """

    def __init__(
        self,
        folder: Path,
        loop: Loop,
        trajectory: str,
        parameters: Sequence[str],
        averages: RunningAverages,
    ) -> None:
        self._folder = folder
        self._averages = averages
        self._num_recorded = loop.num_recorded
        self._numbers = loop.potential.dtype
        self._trajectory = files.TRAJECTORIES[trajectory]
        self._parameters = list(parameters)
        observables = loop.observables
        self._columns = {
            files.ROWS: files.row_columns(observables.columns),
            files.AVERAGES: files.average_columns(observables.averaged, loop.by_rung),
            files.TIMING: files.timing_columns(),
        }
        if loop.timeline.trajectory_every:
            self._columns[self._trajectory] = files.trajectory_columns(parameters, loop.labels)
        if loop.timeline.event_every:
            self._columns[files.EXCHANGES] = list(loop.ladder.event_columns)
        self._tables: dict[str, CsvTable | H5Table] = {}
        self._waiting = 0
        self.last: tuple[float | None, float | None] = (None, None)

    def create(self) -> None:
        for name, columns in self._columns.items():
            kind = H5Table if name.endswith(".h5") else CsvTable
            self._tables[name] = kind(self._folder / name, columns, **self._options(name))

    def move(self, folder: Path) -> None:
        for name, table in self._tables.items():
            table.path = folder / name

    def reopen(self, positions: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Opens the tables of a run to continue where its checkpoint was written.

        Args:
            positions: Position in each table, by file name: bytes of a CSV file, rows of an HDF5
                file.
            digests: Digest of each table up to its position, by file name. A missing one is not
                compared.

        Raises:
            InputError: The checkpoint lacks the size of a table, or a table differs from what it
                knows.
        """
        unknown = [name for name in self._columns if name not in positions]
        refuse_if(
            unknown,
            f"The checkpoint of the run {self._folder} is not complete.",
            f"no size of {', '.join(unknown)}",
            "the file as the run wrote it",
        )
        for name, columns in self._columns.items():
            kind = H5Table if name.endswith(".h5") else CsvTable
            options = self._options(name) | {"digest": digests.get(name)}
            self._tables[name] = kind.reopen(
                self._folder / name, columns, int(positions[name]), **options
            )

    def known(self) -> dict[str, dict[str, Any]]:
        """How much of each table is on the disk, and the digest of so much, for a checkpoint."""
        tables = self._tables.items()
        return {
            "files": {n: int(t.on_disk) for n, t in tables},
            "digests": {n: t.digest.text() for n, t in tables},
        }

    def add_chunk(self, loop: Loop, chunk: Chunk, first_move: int) -> None:
        """Moves the rows of a chunk into the tables.

        Args:
            loop: The loop that made the chunk.
            chunk: The chunk.
            first_move: Number of its first move, from 1.
        """
        steps, group = loop.timeline.steps(first_move, int(chunk.taken))
        if count := int(chunk.num_rows):
            rows = np.asarray(chunk.rows)[:count]
            due = np.flatnonzero(loop.timeline.rows_due(steps))[:count]
            for which, walkers in loop.timeline.turns(group[due], np.arange(loop.walkers)):
                self._append(loop, files.ROWS, steps[due][which], walkers, rows[which][:, walkers])
                counted = loop.timeline.counted(steps[due][which])
                if counted.any():
                    averages = self._averages.add(walkers, rows[which][counted][:, walkers])
                    self._append(
                        loop, files.AVERAGES, steps[due][which][counted], walkers, averages
                    )
            self.last = _at_target(loop, rows[-1])
        if count := int(chunk.num_positions):
            due = np.flatnonzero(loop.timeline.positions_due(steps))[:count]
            beside = np.asarray(chunk.beside)[:count]
            parts = [beside[:, :, :2], np.asarray(chunk.positions)[:count], beside[:, :, 2:]]
            for which, walkers in loop.timeline.turns(group[due], np.arange(self._num_recorded)):
                values = [
                    part[which] if len(walkers) == part.shape[1] else part[which][:, walkers]
                    for part in parts
                ]
                self._append(loop, self._trajectory, steps[due][which], walkers, *values)
        if count := int(chunk.num_events):
            events = np.asarray(chunk.events)[:count].reshape(-1, chunk.events.shape[-1])
            self._tables[files.EXCHANGES].append(events[events[:, 0] >= 0])
        if self._waiting > _MOST_WAITING:
            # Rows beyond the checkpoint are cut off by a resume, so they may be written before it:
            # memory stays flat.
            self.flush()

    def add_last(self, loop: Loop, state: Any, step: int) -> None:
        """Moves the positions of a state at a step into the trajectory, one for each stored walker.

        Args:
            loop: The loop that made the step.
            state: Its state, with potential and loss at the positions.
            step: The step.
        """
        number = self._num_recorded
        order = np.arange(number)
        if loop.by_rung:
            order = np.asarray(loop.ladder.order(state))[:number]

        positions = np.asarray(state.position)[order]
        if loop.directions is not None:
            positions = positions @ np.asarray(loop.directions)

        labels = dict(loop.method.labels(state)) if loop.labels else {}
        if "weight" in labels:
            # Of one walker that changes its temperature each position counts, wherever it is.
            num_walkers = len(np.asarray(state.potential))
            labels["weight"] = np.ones(num_walkers)
            labels["rung"] = np.zeros(num_walkers)
        beside = [np.asarray(state.potential), np.asarray(state.loss)]
        beside += [np.asarray(labels[name], np.float64) for name in loop.labels]
        columns = np.stack(beside, axis=-1)[order]
        self._append(
            loop,
            self._trajectory,
            np.array([step]),
            np.arange(number),
            columns[None, :, :2],
            positions[None],
            columns[None, :, 2:],
        )

    def add_timing(self, step: int, seconds: float) -> None:
        """Adds a row to timing.csv.

        Args:
            step: The step.
            seconds: Seconds that the steps of the run have taken so far.
        """
        self._tables[files.TIMING].append(
            np.array([[step, seconds, step / seconds if seconds > 0 else 0.0]])
        )

    def flush(self) -> None:
        for table in self._tables.values():
            table.flush()
        self._waiting = 0

    def size(self, loop: Loop, num_steps: int) -> tuple[float, float]:
        """Bytes that the tables of the whole run will have, roughly.

        Args:
            loop: The loop of the run.
            num_steps: Steps of the whole run.

        Returns:
            Bytes of the rows, and of the stored positions.
        """
        line = loop.timeline
        numbers = len(loop.observables.columns) + len(loop.observables.averaged) + 4
        rows = num_steps / line.record_every * loop.walkers * 18.0 * numbers
        if not line.trajectory_every:
            return rows, 0.0

        if self._trajectory.endswith(".h5"):
            number = self._numbers.size
        else:
            number = 13.0 if self._numbers.size == 4 else 20.0
        num_positions = max(0, num_steps - line.num_burnin_steps) / line.trajectory_every
        return rows, num_positions * self._num_recorded * number * len(self._parameters)

    def _options(self, name: str) -> dict:
        if name.endswith(".h5"):
            return {"dtype": self._numbers.name}
        if name == files.EXCHANGES:
            return {"integer_columns": OF_SWAPS}
        single = name == self._trajectory and self._numbers == tf.float32
        return {"float32_columns": self._parameters if single else []}

    def _append(
        self, loop: Loop, name: str, steps: np.ndarray, walkers: np.ndarray, *values: np.ndarray
    ) -> None:
        numbers = walkers % loop.walkers_at_rung
        index = np.stack([np.repeat(steps, len(walkers)), np.tile(numbers, len(steps))], axis=-1)
        parts = [value.reshape(len(index), value.shape[-1]) for value in values]
        self._waiting += sum(part.nbytes for part in parts)
        self._tables[name].append(index, *parts)


def _at_target(loop: Loop, row: np.ndarray) -> tuple[float, float | None]:
    """Mean potential and kinetic temperature of the walkers at the target, of a row `(walkers,
    columns)`.
    """
    columns = loop.observables.columns
    first = loop.walkers_at_rung
    temperature = None
    if loop.method.has_momentum:
        temperature = float(
            2 * row[:first, columns.index("kinetic_energy")].mean() / loop.potential.num_parameters
        )
    return float(row[:first, columns.index("potential")].mean()), temperature
