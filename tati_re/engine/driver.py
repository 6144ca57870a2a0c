"""Runs a compiled loop to its end: rows to files, checkpoints, progress, interruption, resume."""

import enum
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import SamplingError, pasted
from tati_re.core.potential import Recorder
from tati_re.core.process.exit_status import FINISHED, OUT_OF_TIME, of_signal
from tati_re.core.process.interruption import interruptible
from tati_re.engine.divergence import sentence
from tati_re.engine.limits import LIMITS, Limits
from tati_re.engine.loop import Carry, Loop
from tati_re.engine.pace import Pace
from tati_re.engine.prediction_averages import PredictionAverages
from tati_re.engine.progress import clock_text
from tati_re.engine.recording import RunningMoments
from tati_re.engine.run_tables import RunningAverages, RunTables
from tati_re.engine.time_limit import TimeLimit
from tati_re.runs import checkpoint, files, manifest
from tati_re.runs.csv_table import frame_text
from tati_re.runs.digests import lasting, of_whole
from tati_re.runs.storage import write_whole
from tati_re.runs.stored_arrays import StoredArrays

_GIGABYTE = 1e9
_FEWEST_BURNIN = (
    40  # Steps that change the step size at least, before which the clock ends no burn-in.
)


class Outcome(enum.Enum):
    """How a run ended; the value is the sentence that the user reads."""

    FINISHED = "All steps are done."
    INTERRUPTED = "Interrupted. A checkpoint was written; resume the run to continue."
    OUT_OF_TIME = "max_time is used up. A checkpoint was written; resume the run to continue."


class Looks(Protocol):
    """Steps at which it is asked whether a run ends.

    A run that comes to its bound ends there, or goes on to a later step, which `bound` returns.

    Attributes:
        begins_anew: Whether the last look found that shorter steps are needed. The earlier draws
            are then burn-in.
        trajectory_every: Steps between stored positions where the run goes on past its bound.
    """

    begins_anew: bool
    trajectory_every: int
    goal: str
    """How far the run is from its end, in a few words."""

    def missing(self, step: int) -> float:
        """Steps expected from this one to the end; inf if not known."""

    def next_look(self, step: int, burnin: int) -> int:
        """The step of the next look.

        Args:
            step: The look comes after this step.
            burnin: The last step of the burn-in, at most `step`.
        """
        ...

    def is_reached(self, step: int, left: float) -> bool:
        """Whether the run ends at this step, from the files of the run.

        Args:
            step: The step of the look, for which a checkpoint is written.
            left: Steps that the clock leaves; inf without a time limit.
        """
        ...

    def bound(self, step: int) -> int: ...

    def news(self, step: int, seconds: float) -> str:
        """A sentence on what the last look found; often empty.

        Args:
            step: The step up to which looks are reported.
            seconds: Seconds that the steps of the run have taken so far.
        """


@dataclass(frozen=True)
class Plan:
    """How long a run is and what it writes. `checkpoint_seconds` is the time between flushes with a
    checkpoint, `requeue_signal` the name of a signal that ends it like Ctrl-C; `expected` is what
    `kinetic_energy` and `virial` should average to at temperature 1, nan where nothing is known;
    `callbacks` are called after each flush, `burnt_in` once the burn-in is over, with its last
    step, a line on what it has tuned, and the carry; at `looks` it may end.
    """

    num_steps: int
    checkpoint_seconds: float
    max_time: float | None
    requeue_signal: str | None
    trajectory_format: str
    parameter_names: Sequence[str]
    expected: tuple[float, float]
    callbacks: Sequence[Recorder] = field(default_factory=tuple)
    burnt_in: Callable[[int, str, Any], None] | None = None
    looks: Looks | None = None
    predictions: PredictionAverages | None = None
    limits: Limits = LIMITS
    title: str = "sampling"
    """What the steps after the burn-in are called on the screen."""


class Driver:
    """One run in its folder.

    The folder is empty but for manifest and model, or it is the folder of the run to resume.

    Args:
        folder: The run folder.
        loops: The loops, mostly one. They follow each other, each from its `first_step` on, and
            differ in step size and mini-batches.
        plan: How long the run is and what it writes.
        progress: Where progress is reported, one of `tati_re.engine.progress`.
    """

    def __init__(self, folder: Path, loops: Sequence[Loop], plan: Plan, progress: Any) -> None:
        self.folder = Path(folder)
        self.loops = list(loops)
        self.plan = plan
        self.progress = progress
        self.predictions = plan.predictions
        self.limits = plan.limits
        self.loop = self.loops[0]
        self._move = self._saved = 0
        self._whole: dict[str, str] = {}
        self._told = False
        self._tuned = ""
        """What the burn-in has tuned, in a few words."""
        self._is_burning = False
        self._manifest: dict[str, str] = {}
        self.seconds = 0.0
        self.signal = 0
        self.burnin_cut: int | None = None
        """The step at which `max_time` ended the burn-in; None: it did not."""
        self.planned = plan.num_steps
        """The last step of the run, later where `until` goes on beyond `num_steps`."""
        self._averages = RunningAverages(self.loop, plan.expected)
        self.tables = RunTables(
            folder=self.folder,
            loop=self.loop,
            trajectory=plan.trajectory_format,
            parameters=plan.parameter_names,
            averages=self._averages,
        )

    @property
    def step(self) -> int:
        """The last step that every walker has taken."""
        return self._move // self.loop.timeline.groups

    def begin(self, position: np.ndarray, auxiliary: tuple) -> Carry:
        """Opens new files and writes the checkpoint of step 0.

        Args:
            position: Start of every copy, shape (copies, parameters).
            auxiliary: Non-trainable variables of the model, shape (copies, ...) each.

        Returns:
            The carry before the first step.

        Raises:
            SamplingError: U at the start is not finite.
        """
        carry = self.loop.cooled(self.loop.start(position, auxiliary), 0)
        self._check_possible(carry, 0)
        self.tables.create()
        self._save(carry)
        return carry

    def go_on(self, position: np.ndarray, auxiliary: tuple) -> Carry:
        """Reads the checkpoint and cuts the files back to it.

        Args:
            position: Start of every copy, shape (copies, parameters). Only the shape counts: the
                values are in the checkpoint.
            auxiliary: Non-trainable variables of the model, shape (copies, ...) each. Only shapes
                and types count.

        Returns:
            The carry at the step of the checkpoint.

        Raises:
            InputError: The checkpoint lacks what a run needs to continue, or does not match the
                files.
        """
        arrays, meta, note = checkpoint.load(self.folder)
        checkpoint.check_resumable(self.folder, meta)
        if note:
            self.progress.message(note)
        self._move = int(meta["move"])
        self.seconds = float(meta["seconds"])
        self._saved = self.step
        self.loop = self._loop_at(self.step)
        carry = self._restored(arrays, position, auxiliary)
        self._averages.restore(arrays)
        if self.predictions is not None:
            self.predictions.restore(arrays)
        self._manifest = meta.get("manifest", {})
        self.loop.end_burnin(carry)
        self._told = self._is_frozen
        self.tables.reopen(meta["files"], meta.get("digests", {}))
        return carry

    def run(self, carry: Carry) -> tuple[Carry, Outcome]:
        """Takes the remaining steps; where one diverges, what came before is on the disk."""
        plan = self.plan
        line = self.loop.timeline
        began = saved = time.monotonic()
        before = self.seconds
        paced = (began, self.step)
        outcome = Outcome.FINISHED
        now = began
        pace_of_calls = Pace(self.limits.first_steps, self.limits.chunk_seconds)
        since = began if self.limits.began is None else self.limits.began
        limit = TimeLimit(plan.max_time, since, self.limits.share, self.limits.reserve)
        last = line.moves(plan.num_steps)
        self._begin_phase()
        try:
            with interruptible(self.truth, plan.requeue_signal) as interrupted:
                while self._move < last or self._move < (last := self._extended(carry, last)):
                    if (loop := self._loop_at(self.step + 1)) is not self.loop:
                        carry = loop.take_over(carry)
                        self.loop = loop
                        pace_of_calls.begin()
                    if plan.looks is not None and self._is_look(carry):
                        looked = time.monotonic()
                        steps_left = limit.left(now) * self.step / max(self.seconds, 1e-9)
                        is_reached = plan.looks.is_reached(self.step, steps_left)
                        limit.reserve(time.monotonic() - looked)
                        if is_reached:
                            last = self._move
                            break
                        self._say_news()
                        if plan.looks.begins_anew:
                            carry = self._begun_anew(
                                carry,
                                f"Energy errors since step {line.num_burnin_steps:,} imply a bias above "
                                "target_bias. Reducing the step size; earlier draws count as burn-in.",
                            )
                    others = [
                        other.first_step
                        for other in self.loops
                        if other.first_step > loop.first_step
                    ]
                    end = min(last, *map(line.moves, (*others, self._next_look(self.step))))
                    called = time.monotonic()
                    most = pace_of_calls.within(limit.left(called))
                    carry, count = self._chunk(carry, min(loop.chunk_steps, end - self._move, most))
                    now = time.monotonic()
                    pace_of_calls.add(count, now - called)
                    self.seconds = before + now - began
                    # The first chunk is compiled: a rate with it would tell hours that are not
                    # left.
                    alone = paced[0] == began
                    pace = (self.step - paced[1]) / max(now - paced[0], 1e-9)
                    limit.step_made(now)
                    rate = None if alone and self._move < last else pace
                    self._report(rate, limit.left(now))
                    paced = (now, self.step) if alone else paced
                    over = limit.left(now) <= pace_of_calls.shortest
                    if self._may_begin and (share := limit.ends_burnin(now, self.step)):
                        self.burnin_cut = self.step
                        carry = self._begun_anew(
                            carry, f"{share} of max_time is used up; the burn-in ends here."
                        )
                    if interrupted() or over:
                        outcome = Outcome.INTERRUPTED if interrupted() else Outcome.OUT_OF_TIME
                        break
                    if now - saved >= plan.checkpoint_seconds and self._move < last:
                        self.flush(carry)
                        saved = time.monotonic()
                if self._move >= last:
                    outcome = Outcome.FINISHED
                self._tell_burnin(carry, now=True)
                self.flush(carry)
                self.signal = interrupted()
                if plan.looks is not None and plan.looks.goal and not self._is_burning:
                    self.progress.finish(plan.looks.goal)
        finally:
            self.close()
        return carry, outcome

    def _report(self, rate: float | None, left: float) -> None:
        """Reports the step with steps a second, if known, and the seconds that are left, if bound."""
        if self._is_burning and self._burnin_is_over:
            self.progress.update(self.loop.timeline.num_burnin_steps)
            self.progress.finish(self._tuned)
            self._begin_phase()

        more: dict[str, Any] = {} if math.isinf(left) else {"limit": max(0.0, left)}
        looks = self.plan.looks
        if looks is not None and not self._is_burning:
            more |= {"goal": looks.goal, "missing": looks.missing(self.step)}
        if self._is_burning and self.loop.burnin.finds_end:
            more |= {"missing": math.inf}
        self.progress.update(self.step, *self.tables.last, rate, **more)

    def _begin_phase(self) -> None:
        """Begins the line of the burn-in, or that of what follows it."""
        last = self.loop.timeline.num_burnin_steps
        self._is_burning = self.step < last
        total = last if self._is_burning else self.planned
        title = "burn-in" if self._is_burning else self.plan.title
        self.progress.start(total, self.step, title, self.loop.walkers)

    @property
    def _burnin_is_over(self) -> bool:
        """Whether the burn-in is over, and what it tuned is known."""
        known = self._told or self.plan.burnt_in is None or not self.loop.method.adapts
        return known and self.step >= self.loop.timeline.num_burnin_steps

    def _chunk(self, carry: Carry, count: int) -> tuple[Carry, int]:
        """Takes a chunk of up to so many moves: the carry after it, and how many it was to have."""
        loop = self.loop
        first = self._move + 1
        if self.predictions is not None:
            count = self.predictions.moves_until_due(loop.timeline, self._move, count)
        chunk = loop.run(carry, first, count)
        self.tables.add_chunk(loop, chunk, first)
        self._move += int(chunk.taken)
        self._check_possible(chunk.carry, self.step)
        self._tell_burnin(chunk.carry)
        if self.predictions is not None:
            self.predictions.add_chunk(loop, chunk, self._move)
        return chunk.carry, count

    def turn(self, carry: Carry, num_steps: int) -> Carry:
        """Takes steps of a run whose potential has changed since its last one.

        U may rise without end by what other runs have done. The limit on the energy rises with it.

        Args:
            carry: The carry after the last step.
            num_steps: Number of steps.

        Returns:
            The carry after these steps.
        """
        began = time.monotonic()
        end = self._move + self.loop.timeline.moves(num_steps)
        before = carry.state.potential
        carry = self.loop.evaluated(carry, self.step)
        # By what others have done U may rise without an end.
        carry = carry._replace(
            highest=carry.highest + tf.maximum(tf.reduce_max(carry.state.potential - before), 0.0)
        )
        while self._move < end:
            carry, _ = self._chunk(carry, min(self.loop.chunk_steps, end - self._move))
        self.seconds += time.monotonic() - began
        self.progress.update(self.step, *self.tables.last, self.step / self.seconds)
        return carry

    def store_last_positions(self, carry: Carry) -> None:
        """Stores the position of each walker at the last step, beyond the last checkpoint: a resume
        cuts it off.
        """
        loop = self.loop
        if not loop.method.current:
            carry = loop.evaluated(carry, self.step)
        self.tables.add_last(loop, carry.state, self.step)
        self.tables.flush()

    def close(self) -> None:
        self.progress.stop()
        self.tables.flush()

    def _next_look(self, step: int) -> int:
        """The step of the next look after a step; beyond all steps where there is none."""
        looks = self.plan.looks
        burnin = self.loop.timeline.num_burnin_steps
        return self.plan.num_steps if looks is None else looks.next_look(max(step, burnin), burnin)

    def _is_look(self, carry: Carry) -> bool:
        """Whether this is a step to look at; all that is stored so far is then on the disk."""
        line = self.loop.timeline
        if self.step <= line.num_burnin_steps or self._move != line.moves(self.step):
            return False
        if is_look := self._next_look(self.step - 1) == self.step:
            self.flush(carry)
        return is_look

    @property
    def _may_begin(self) -> bool:
        """Whether this is a burn-in that may end at any step, since it has tuned something."""
        line = self.loop.timeline
        return (
            self.loop.burnin.finds_end
            and _FEWEST_BURNIN <= self.step < line.num_burnin_steps
            and line.groups == 1
        )

    def _begun_anew(self, carry: Carry, message: str) -> Carry:
        """The carry with a step that is short enough; all that was drawn before it is burn-in."""
        loop = self.loop
        state = self.loop.burnin.shortened(carry.state, self.step)
        moments = tf.nest.map_structure(tf.zeros_like, carry.moments)
        self._averages.begin()
        if self.predictions is not None:
            self.predictions.begin()
        self.progress.message(message)
        loop.timeline.num_burnin_steps = self.step
        carry = loop.cooled(Carry(state, carry.auxiliary, moments, carry.highest), self.step)
        self._told = False
        self._tell_burnin(carry)
        return carry

    def _extended(self, carry: Carry, last: int) -> int:
        """The last move of a run that has come to its bound, later where it goes on beyond it."""
        line = self.loop.timeline
        looks = self.plan.looks
        if looks is None or self._move != line.moves(self.step):
            return last
        self.flush(carry)
        bound = looks.bound(self.step)
        self._say_news()
        if bound > self.step:
            line.trajectory_every = looks.trajectory_every
            self._manifest = {}
            self.planned = bound
            seconds = (bound - self.step) * self.seconds / max(1, self.step)
            self.progress.message(
                f"until not met at step {self.step:,}; continuing to step {bound:,}, where it is expected to be, "
                f"in about {clock_text(seconds)}. Set max_time or num_steps to stop earlier."
            )
            self._begin_phase()
        return line.moves(bound)

    def _say_news(self) -> None:
        """Prints what the last look found, if it is new."""
        if self.plan.looks is not None and (text := self.plan.looks.news(self.step, self.seconds)):
            self.progress.message(text)

    @property
    def _is_frozen(self) -> bool:
        """Whether the burn-in is over, and with a step past it the step size, of which the last one
        tried is no mean; what noise may not heat is settled at once.
        """
        return self.step >= self.loop.timeline.num_burnin_steps + (self.loop.cools is None)

    def _tell_burnin(self, carry: Carry, now: bool = False) -> None:
        """Tells the end of a burn-in that the method has found, once; the manifest has another
        number from then on.
        """
        method = self.loop.method
        last = self.loop.timeline.num_burnin_steps
        over = self._is_frozen or (now and self.step >= last)
        if method.adapts and self.plan.burnt_in is not None and not self._told and over:
            self._told = True
            tuned = self.loop.burnin.tuned(carry.state)
            # The spread of the masses stands in the details: with it a line can exceed the screen.
            settings = tuned.partition(", not settled")[0].partition(", mass spread")[0]
            self._tuned = f"{settings} (not settled)" if ", not settled" in tuned else settings
            self.plan.burnt_in(last, tuned, carry)
            self._manifest = {}

    def exit_status(self, outcome: Outcome) -> int:
        """What a command ends with: that of a signal also where the last step was done when it
        came.
        """
        if self.signal:
            return of_signal(self.signal)
        return OUT_OF_TIME if outcome is Outcome.OUT_OF_TIME else FINISHED

    def truth(self) -> str:
        """Where a run stands that is left at once."""
        return f"The last checkpoint is of step {self._saved:,}; resume with tati-sample --resume {pasted(self.folder)}."

    def _loop_at(self, step: int) -> Loop:
        return next(
            (loop for loop in reversed(self.loops) if loop.first_step < step), self.loops[0]
        )

    def say_size(self) -> None:
        """Prints the size of the files if it will pass a gigabyte, and which option reduces it."""
        rows, positions = self.tables.size(self.loop, self.plan.num_steps)
        size = rows + positions
        if size <= _GIGABYTE:
            return

        of_positions = "increase trajectory_every or set directions"
        advice = "increase record_every" if rows > positions else of_positions
        self.progress.message(
            f"The files of this run will need about {size / _GIGABYTE:.1f} GB when it "
            f"reaches step {self.plan.num_steps:,}. To reduce this, {advice}."
        )

    def flush(self, carry: Carry) -> None:
        """Writes what is known so far, and a checkpoint."""
        self.tables.add_timing(self.step, self.seconds)
        self._save(carry)
        for callback in self.plan.callbacks:
            callback(self.folder, self.step)

    def _save(self, carry: Carry) -> None:
        self.tables.flush()
        # Tables of a few rows that tell how things stand are written anew each time, after the
        # checkpoint: what a kill between the two leaves is known by the checkpoint before.
        tables = self.loop.ladder.tables(carry.state)
        texts = {files.of_method(name): frame_text(table) for name, table in tables.items()}
        meta = {"step": self.step, "move": self._move, "seconds": self.seconds}
        meta |= self.tables.known() | self._known(texts)
        checkpoint.save(self.folder, self._arrays(carry), meta)
        self._saved = self.step
        for name, text in texts.items():
            write_whole(self.folder / name, text)

    def _known(self, texts: Mapping[str, bytes]) -> dict[str, Any]:
        """What else a checkpoint knows of the run's files; the manifest is written after the first
        one.
        """
        directions = self.folder / files.DIRECTIONS
        if directions.exists() and files.DIRECTIONS not in self._whole:
            self._whole[files.DIRECTIONS] = of_whole(directions.read_bytes())
        if self._move and not self._manifest and (self.folder / files.MANIFEST).exists():
            self._manifest = lasting(manifest.read(self.folder))
        digests = self._whole | {name: of_whole(text) for name, text in texts.items()}
        return {"whole": digests} | ({"manifest": self._manifest} if self._manifest else {})

    def _arrays(self, carry: Carry) -> dict[str, np.ndarray]:
        arrays = {
            f"moments/{name}": np.asarray(value) for name, value in carry.moments._asdict().items()
        }
        arrays["highest"] = np.asarray(carry.highest)
        arrays |= {f"auxiliary/{k}": np.asarray(value) for k, value in enumerate(carry.auxiliary)}
        for name, value in carry.state._asdict().items():
            if name != "rung":
                arrays |= {
                    f"state/{name}/{k}": np.asarray(leaf)
                    for k, leaf in enumerate(tf.nest.flatten(value))
                }
        arrays |= self._averages.arrays() | self.loop.arrays()
        return arrays if self.predictions is None else arrays | self.predictions.arrays()

    def _restored(self, arrays: StoredArrays, position: np.ndarray, auxiliary: tuple) -> Carry:
        state = self.loop.template(position)
        fields = {}
        for name, value in state._asdict().items():
            if name != "rung":
                leaves = [
                    tf.constant(arrays.like(f"state/{name}/{k}", leaf))
                    for k, leaf in enumerate(tf.nest.flatten(value))
                ]
                fields[name] = tf.nest.pack_sequence_as(value, leaves)
        state = state._replace(**fields)
        self.loop.prepare(state)
        self.loop.restore(arrays)
        shape = self.loop.num_recorded, position.shape[1]
        moments = RunningMoments(
            *(
                tf.constant(moment, tf.float64)
                for moment in checkpoint.moments_of(arrays, shape=shape)
            )
        )
        values = tuple(
            tf.constant(arrays.like(f"auxiliary/{k}", value)) for k, value in enumerate(auxiliary)
        )
        highest = self.loop.highest(state)
        if "highest" in arrays:  # not in checkpoints of earlier versions
            highest = tf.constant(arrays.like("highest", highest))
        return Carry(state, values, moments, highest)

    def _check_possible(self, carry: Carry, step: int) -> None:
        highest = float(carry.highest)
        recorded = step % self.loop.timeline.record_every == 0
        potential, energy = self.loop.energies(carry, recorded)
        possible = np.isfinite(potential) & (energy <= highest)
        if possible.all():
            return
        self.tables.flush()
        walker = int(np.flatnonzero(~possible)[0])
        raise SamplingError(
            sentence(walker, potential[walker], energy[walker], highest, step), step, walker
        )
