"""Runs a compiled loop to its end: rows to files, checkpoints, progress, interruption, resume."""

from __future__ import annotations

import enum
import itertools
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import SamplingError
from tati_re.engine.loop import Carry, Chunk, Loop
from tati_re.engine.prediction_averages import PredictionAverages
from tati_re.engine.recording import RunningMoments
from tati_re.runs import checkpoint
from tati_re.runs.storage import write_whole
from tati_re.runs.tables import CsvTable, H5Table, csv_text

_GIGABYTE = 1e9
_MOST_WAITING = 16 * 2**20
_FIRST_STEPS = 4
_CHUNK_SECONDS = 0.5


class Outcome(enum.Enum):
    """How a run ended; the value is the sentence that the user reads."""

    FINISHED = "All steps are done."
    INTERRUPTED = "Interrupted after a checkpoint; resume the run to go on."
    OUT_OF_TIME = "max_time is over, a checkpoint is written; resume the run to go on."


@dataclass(frozen=True)
class Plan:
    """How long a run is and what it writes.

    Attributes:
        num_steps: The last step.
        checkpoint_seconds: Time between flushes with a checkpoint.
        max_time: Seconds after which the run ends with a checkpoint, or `None`.
        trajectory_format: "csv" or "h5".
        parameter_names: Columns of the trajectory.
        expected: What `kinetic_energy` and `virial` should average to at temperature 1; nan where nothing is known.
        callbacks: Called as `callback(folder, step)` after each flush.
    """

    num_steps: int
    checkpoint_seconds: float
    max_time: float | None
    trajectory_format: str
    parameter_names: Sequence[str]
    expected: tuple[float, float]
    callbacks: Sequence[Callable[[Path, int], None]] = field(default_factory=tuple)


class Driver:
    """One run in its folder.

    Args:
        folder: The run folder, made and empty but for manifest and model, or that of the run to resume.
        loops: The compiled loops, one after the other, each from its `first_step` on; mostly there is one. They differ
            in step size and mini-batches.
        plan: Length and files.
        progress: Where progress and sentences go (`tati_re.engine.progress`).
        predictions: Averages of predictions to keep on the way. Default: none.
    """

    def __init__(
        self,
        folder: Path,
        loops: Sequence[Loop],
        plan: Plan,
        progress,
        predictions: PredictionAverages | None = None,
    ) -> None:
        self.folder, self.loops, self.plan, self.progress = Path(folder), list(loops), plan, progress
        self.predictions = predictions
        self.loop = loop = self.loops[0]
        self._move = 0
        self.seconds = 0.0
        walkers, averaged = loop.walkers, loop.observables.averaged
        self._counts, self._sums = np.zeros(walkers), np.zeros((walkers, len(averaged)))
        self._averaged = [loop.observables.columns.index(name) for name in averaged]
        self._tables: dict[str, CsvTable | H5Table] = {}
        self._last: tuple[float | None, float | None] = (None, None)
        self._waiting = 0

    @property
    def step(self) -> int:
        """The last step that every walker has taken."""
        return self._move // self.loop.timeline.groups

    def begin(self, position: np.ndarray, auxiliary: tuple) -> Carry:
        """Opens new files and writes the checkpoint of step 0."""
        carry = self.loop.start(position, auxiliary)
        self._check_finite(carry, 0)
        for name, columns, single in self._files():
            self._tables[name] = (
                H5Table(self.folder / name, columns, dtype=self.loop.potential.dtype.name)
                if name.endswith(".h5")
                else CsvTable(self.folder / name, columns, float32_columns=single)
            )
        self._save(carry)
        return carry

    def go_on(self, position: np.ndarray, auxiliary: tuple) -> Carry:
        """Reads the checkpoint and cuts the files back to it."""
        arrays, meta, note = checkpoint.load(self.folder)
        if note:
            self.progress.message(note)
        self._move, self.seconds = int(meta["move"]), float(meta["seconds"])
        self.loop = self._loop_at(self.step)
        carry = self._restored(arrays, position, auxiliary)
        self._counts, self._sums = arrays["averages/counts"], arrays["averages/sums"]
        if self.predictions is not None:
            self.predictions.restore(arrays)
        for name, columns, single in self._files():
            where = int(meta["files"][name])
            self._tables[name] = (
                H5Table.reopen(self.folder / name, columns, where, dtype=self.loop.potential.dtype.name)
                if name.endswith(".h5")
                else CsvTable.reopen(self.folder / name, columns, where, float32_columns=single)
            )
        return carry

    def run(self, carry: Carry) -> tuple[Carry, Outcome]:
        """Takes the remaining steps.

        Raises:
            SamplingError: The potential is not finite after a step; what came before is on the disk.
        """
        plan, line = self.plan, self.loop.timeline
        began = saved = time.monotonic()
        before, first = self.seconds, self.step
        outcome, most, took = Outcome.FINISHED, _FIRST_STEPS, began
        last = line.moves(plan.num_steps)
        self.progress.start(plan.num_steps, self.step, self.loop.method.name, self.loop.walkers)
        try:
            with _interruptible() as interrupted:
                while self._move < last:
                    if (loop := self._loop_at(self.step + 1)) is not self.loop:
                        carry, self.loop, most = loop.take_over(carry), loop, _FIRST_STEPS
                    end = min(last, line.moves(self._end_of(loop)))
                    count = self._until_prediction(min(loop.chunk_steps, end - self._move, most))
                    chunk = loop.run(carry, self._move + 1, count)
                    self._take(chunk)
                    now = time.monotonic()
                    # Chunks of half a second at most: Ctrl-C, max_time and checkpoints wait for their end.
                    most = max(_FIRST_STEPS, int(count * _CHUNK_SECONDS / max(now - took, 1e-9)))
                    took = now
                    self.seconds = before + now - began
                    self._check_finite(chunk.carry, self.step)
                    carry = chunk.carry
                    self._predict(chunk)
                    self.progress.update(self.step, *self._last, (self.step - first) / max(now - began, 1e-9))
                    over = plan.max_time is not None and now - began >= plan.max_time
                    if interrupted() or over:
                        outcome = Outcome.INTERRUPTED if interrupted() else Outcome.OUT_OF_TIME
                        break
                    if now - saved >= plan.checkpoint_seconds and self._move < last:
                        self._flush(carry)
                        saved = time.monotonic()
                if self._move >= last:
                    outcome = Outcome.FINISHED
                self._flush(carry)
        finally:
            self.progress.stop()
            for table in self._tables.values():
                table.close()
        return carry, outcome

    def _loop_at(self, step: int) -> Loop:
        """The loop that takes this step."""
        return next((loop for loop in reversed(self.loops) if loop.first_step < step), self.loops[0])

    def _end_of(self, loop: Loop) -> int:
        """The last step before the next loop takes over."""
        return min((other.first_step for other in self.loops if other.first_step > loop.first_step), default=10**18)

    def size(self) -> float:
        """Bytes that the files of the whole run will have, roughly."""
        loop, steps = self.loop, self.plan.num_steps
        line = loop.timeline
        rows = (
            steps
            / line.record_every
            * loop.walkers
            * 18.0
            * (len(loop.observables.columns) + len(loop.observables.averaged) + 4)
        )
        if not line.trajectory_every:
            return rows
        number = (
            loop.potential.dtype.size
            if self.plan.trajectory_format == "h5"
            else (13.0 if loop.potential.dtype.size == 4 else 20.0)
        )
        kept = max(0, steps - line.num_burnin_steps) / line.trajectory_every
        return rows + kept * loop.kept * number * len(self.plan.parameter_names)

    def say_size(self) -> None:
        """Tells the size of the files where it will pass a gigabyte."""
        if (size := self.size()) > _GIGABYTE:
            self.progress.message(
                f"The files of this run will take about {size / _GIGABYTE:.1f} GB; a larger "
                f"trajectory_every or directions make it less."
            )

    def _files(self) -> list[tuple[str, list[str], list[str]]]:
        """Name, columns and float32 columns of each table."""
        loop = self.loop
        files = [
            ("run.csv", ["step", "walker", *loop.observables.columns], []),
            (
                "averages.csv",
                [
                    *("step", "walker", *loop.observables.averaged, "expected_kinetic_energy", "expected_virial"),
                    *(["rung"] if loop.by_rung else []),
                ],
                [],
            ),
            ("timing.csv", ["step", "seconds", "steps_per_second"], []),
        ]
        if loop.timeline.trajectory_every:
            names = list(self.plan.parameter_names)
            single = names if loop.potential.dtype == tf.float32 else []
            columns = ["step", "walker", "potential", "loss", *names, *loop.labels]
            files.append((f"trajectory.{self.plan.trajectory_format}", columns, single))
        if loop.timeline.event_every:
            files.append(("exchange.csv", list(loop.method.event_columns), []))
        return files

    def _take(self, chunk: Chunk) -> None:
        """Moves the rows of a chunk into the tables."""
        loop, start = self.loop, self._move
        self._move = start + int(chunk.taken)
        steps, group = loop.timeline.steps(start + 1, self._move - start)
        if count := int(chunk.num_rows):
            rows = chunk.rows.numpy()[:count]
            due = np.flatnonzero(loop.timeline.rows_due(steps))[:count]
            for which, walkers in self._by_group(group[due]):
                self._append("run.csv", steps[due][which], walkers, rows[which][:, walkers])
                self._average(steps[due][which], walkers, rows[which][:, walkers])
            columns, first = loop.observables.columns, loop.walkers_at_rung
            temperature = None
            if loop.method.has_momentum:
                kinetic = rows[-1, :first, columns.index("kinetic_energy")]
                temperature = float(2 * kinetic.mean() / loop.potential.num_parameters)
            self._last = (float(rows[-1, :first, columns.index("potential")].mean()), temperature)
        if count := int(chunk.num_positions):
            due = np.flatnonzero(loop.timeline.positions_due(steps))[:count]
            beside = chunk.beside.numpy()[:count]
            values = np.concatenate(
                [beside[:, :, :2], chunk.positions.numpy()[:count].astype(np.float64), beside[:, :, 2:]], axis=-1
            )
            for which, walkers in self._by_group(group[due], loop.kept):
                name = f"trajectory.{self.plan.trajectory_format}"
                self._append(name, steps[due][which], walkers, values[which][:, walkers])
        if count := int(chunk.num_events):
            events = chunk.events.numpy()[:count].reshape(-1, chunk.events.shape[-1])
            self._tables["exchange.csv"].append(events[events[:, 0] >= 0])
        if self._waiting > _MOST_WAITING:
            # Rows beyond the checkpoint are cut off by a resume, so they may be written before it: memory stays flat.
            self._write()

    def _until_prediction(self, count: int) -> int:
        """Moves up to the next prediction, at most `count`: it needs the positions after it."""
        if self.predictions is None:
            return count
        due = self._predictions_due(self.loop.timeline.steps(self._move + 1, count)[0])
        return int(np.argmax(due)) + 1 if due.any() else count

    def _predictions_due(self, steps: np.ndarray) -> np.ndarray:
        return (steps % self.predictions.every == 0) & self.loop.timeline.counted(steps)

    def _predict(self, chunk: Chunk) -> None:
        """Counts the walkers that arrived where a prediction is due."""
        loop, state = self.loop, chunk.carry.state
        steps, group = loop.timeline.steps(self._move, 1)
        if self.predictions is None or not self._predictions_due(steps)[0]:
            return
        walkers = self._by_group(group)[0][1]
        places = np.asarray(loop.method.order(state)) if loop.by_rung else np.arange(loop.walkers)
        places, weights = places[walkers][: loop.walkers_at_rung], np.ones(len(walkers))
        if "weight" in loop.labels:
            row = chunk.rows[int(chunk.num_rows) - 1].numpy()
            weights = row[walkers, loop.observables.columns.index("weight")]
        auxiliary = [np.asarray(value)[places] for value in chunk.carry.auxiliary]
        self.predictions.add(np.asarray(state.position)[places], auxiliary, weights[: len(places)])

    def _by_group(self, group: np.ndarray, count: int | None = None) -> list[tuple[slice, np.ndarray]]:
        """Runs of rows of one group, and the walkers that moved in them, of the first `count`."""
        groups, walkers = self.loop.timeline.groups, np.arange(count or self.loop.walkers)
        if groups == 1:
            return [(slice(None), walkers)]
        borders = [0, *np.flatnonzero(np.diff(group)) + 1, len(group)]
        size = len(walkers) // groups
        runs = [slice(a, b) for a, b in itertools.pairwise(borders) if b > a]
        return [(run, walkers[group[run.start] * size : (group[run.start] + 1) * size]) for run in runs]

    def _append(self, name: str, steps: np.ndarray, walkers: np.ndarray, values: np.ndarray) -> None:
        numbers = walkers % self.loop.walkers_at_rung
        index = np.stack([np.repeat(steps, len(walkers)), np.tile(numbers, len(steps))], axis=-1)
        rows = np.concatenate([index, values.reshape(len(index), -1)], axis=-1)
        self._waiting += rows.nbytes
        self._tables[name].append(rows)

    def _write(self) -> None:
        for table in self._tables.values():
            table.flush()
        self._waiting = 0

    def _average(self, steps: np.ndarray, walkers: np.ndarray, rows: np.ndarray) -> None:
        past = self.loop.timeline.counted(steps)
        if not past.any():
            return
        columns = self.loop.observables.columns
        steps, values = steps[past], rows[past][:, :, self._averaged]
        weights = np.ones(values.shape[:2])
        if "weight" in columns:
            weights = rows[past][:, :, columns.index("weight")]
        # One running sum: adding the sums of parts would round differently after each interruption.
        values = np.where(weights[:, :, None] == 0.0, 0.0, weights[:, :, None] * values)
        totals = np.cumsum(np.concatenate([self._sums[walkers][None], values]), axis=0)[1:]
        counts = np.cumsum(np.concatenate([self._counts[walkers][None], weights]), axis=0)[1:]
        self._sums[walkers], self._counts[walkers] = totals[-1], counts[-1]
        temperature = rows[past][:, :, columns.index("temperature")]
        with np.errstate(invalid="ignore"):
            parts = [totals / counts[:, :, None], temperature[:, :, None] * np.array(self.plan.expected)]
        if self.loop.by_rung:
            rung = walkers // self.loop.walkers_at_rung
            parts.append(np.broadcast_to(rung[:, None], (*temperature.shape, 1)))
        self._append("averages.csv", steps, walkers, np.concatenate(parts, axis=-1))

    def _flush(self, carry: Carry) -> None:
        rate = self.step / self.seconds if self.seconds > 0 else 0.0
        self._tables["timing.csv"].append(np.array([[self.step, self.seconds, rate]]))
        self._save(carry)
        for callback in self.plan.callbacks:
            callback(self.folder, self.step)

    def _save(self, carry: Carry) -> None:
        self._write()
        # Tables of a few rows that tell how things stand: written anew each time.
        for name, table in getattr(self.loop.method, "tables", lambda state: {})(carry.state).items():
            write_whole(self.folder / name, csv_text(table))
        files = {name: int(table.position()) for name, table in self._tables.items()}
        meta = {"step": self.step, "move": self._move, "seconds": self.seconds, "files": files}
        checkpoint.save(self.folder, self._arrays(carry), meta)

    def _arrays(self, carry: Carry) -> dict[str, np.ndarray]:
        arrays = {f"moments/{name}": np.asarray(value) for name, value in carry.moments._asdict().items()}
        arrays |= {f"auxiliary/{k}": np.asarray(value) for k, value in enumerate(carry.auxiliary)}
        for name, value in carry.state._asdict().items():
            if name != "rung":
                arrays |= {f"state/{name}/{k}": np.asarray(leaf) for k, leaf in enumerate(tf.nest.flatten(value))}
        arrays |= {"averages/counts": self._counts, "averages/sums": self._sums}
        return arrays if self.predictions is None else arrays | self.predictions.arrays()

    def _restored(self, arrays: dict[str, np.ndarray], position: np.ndarray, auxiliary: tuple) -> Carry:
        state = self.loop.template(position)
        fields = {}
        for name, value in state._asdict().items():
            if name != "rung":
                leaves = [tf.constant(arrays[f"state/{name}/{k}"]) for k in range(len(tf.nest.flatten(value)))]
                fields[name] = tf.nest.pack_sequence_as(value, leaves)
        state = state._replace(**fields)
        self.loop.prepare(state)
        moments = RunningMoments(
            *(tf.constant(arrays[f"moments/{name}"], tf.float64) for name in RunningMoments._fields)
        )
        return Carry(state, tuple(tf.constant(arrays[f"auxiliary/{k}"]) for k in range(len(auxiliary))), moments)

    def _check_finite(self, carry: Carry, step: int) -> None:
        potential = np.asarray(carry.state.potential)
        if np.isfinite(potential).all():
            return
        self._write()
        walker = int(np.flatnonzero(~np.isfinite(potential))[0])
        raise SamplingError(f"The potential of walker {walker} is {potential[walker]} after step {step}.", step, walker)


@contextmanager
def _interruptible():
    """Turns the first Ctrl-C into a wish that the loop sees between chunks; a second one interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    asked = []

    def handler(number, frame):
        asked.append(number)
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, previous)
