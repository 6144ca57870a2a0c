"""The compiled loop: many steps without a return to Python, rows buffered on the device.

A chunk is one call: the random bits of all its steps are drawn in bulk by TensorFlow's own kernel, then the steps run
in one loop, under
XLA, as a graph, or eagerly. The number of steps is an argument, so that a run traces the chunk once, whatever its
length.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tati_re.engine.noise import RecordingNoise, StepNoise, draw_bits
from tati_re.engine.observables import Observables
from tati_re.models.backend import tf
from tati_re.posterior.potential import Batch
from tati_re.samplers.protocol import Energy, Rung

_BUFFER_BYTES = 4 * 2**20
_MOST_STEPS = 16_384
_FEWEST_STEPS = 4
EXECUTIONS = ("xla", "graph", "eager")


class Moments(NamedTuple):
    """Streaming mean and sum of squared deviations of the parameters (Welford), per walker.

    Attributes:
        count: Rows seen, float64 scalar.
        mean: `(walkers, parameters)`, float64.
        m2: `(walkers, parameters)`, float64; the variance is m2 / (count - 1).
    """

    count: Any
    mean: Any
    m2: Any


class Carry(NamedTuple):
    """Everything that goes on from chunk to chunk and into the checkpoint."""

    state: Any
    auxiliary: tuple
    moments: Moments


class Chunk(NamedTuple):
    """What a chunk gives back.

    Attributes:
        carry: The state after the last step.
        taken: Steps taken; fewer than asked for where the potential stopped being finite.
        rows: `(row capacity, walkers, columns)`, float64; the first `num_rows` are filled.
        positions: `(trajectory capacity, walkers, parameters or directions)`; the first `num_positions` are filled.
        energies: Potential and loss beside each position, `(trajectory capacity, walkers, 2)`, float64.
    """

    carry: Carry
    taken: Any
    rows: Any
    num_rows: Any
    positions: Any
    energies: Any
    num_positions: Any


class Schedule(NamedTuple):
    """What is due after each step of a chunk, `(chunk_steps,)` each.

    Attributes:
        stop: How many steps of the chunk are done when something is due next, or the chunk ends, int32.
        row: A row of run.csv, bool.
        moments: A row past burn-in, bool.
        position: A position of the trajectory, bool.
    """

    stop: Any
    row: Any
    moments: Any
    position: Any


class _SilentEvaluate:
    """Stands for the potential while a step is asked which random numbers it draws."""

    scale = 1.0

    def __init__(self, rung: Rung) -> None:
        self.rung = rung

    def __call__(self, position) -> Energy:
        zeros = tf.zeros(position.shape[:1], tf.float64)
        return Energy(zeros, tf.zeros_like(position), zeros, zeros)

    full = __call__

    def confine(self, position, momentum):
        return position, momentum


class Loop:
    """A sampler or optimizer and a potential, compiled.

    Args:
        potential: What is sampled.
        method: A sampler or optimizer.
        observables: The columns of a row.
        rung: Temperature and step size of each walker.
        seed: Of all random numbers.
        execution: "xla", "graph" or "eager".
        record_every: A row each so many steps.
        trajectory_every: A position each so many steps; 0 for none.
        num_burnin_steps: No positions and no moments before.
        directions: `(k, parameters)`: positions are stored as projections on these; `None` stores them whole.

    Attributes:
        traces: How often the chunk was traced so far.
        chunk_steps: The most steps of one chunk.
    """

    def __init__(
        self,
        potential,
        method,
        observables: Observables,
        rung: Rung,
        seed: int,
        execution: str,
        record_every: int,
        trajectory_every: int = 0,
        num_burnin_steps: int = 0,
        directions: np.ndarray | None = None,
    ) -> None:
        self.potential, self.method, self.observables, self.rung = potential, method, observables, rung
        self.seed, self.execution = seed, execution
        self.record_every, self.trajectory_every, self.num_burnin_steps = (
            record_every,
            trajectory_every,
            num_burnin_steps,
        )
        self.directions = None if directions is None else tf.constant(directions.T, potential.dtype)
        self.walkers = int(rung.step_size.shape[0])
        self.traces = 0
        self._state_type: type | None = None
        self.draws: list = []
        self.chunk_steps = 0

    def start(self, position: np.ndarray, auxiliary: tuple) -> Carry:
        """The state before the first step, from the method's `init` on batch 0."""
        position = tf.constant(position, self.potential.dtype)
        silent, noise = _SilentEvaluate(self.rung), RecordingNoise(self.potential.dtype)
        self.method.init(position, silent, noise)
        bits = [values[0] for values in draw_bits(noise.draws, self.seed, "init", 0, 1)]
        auxiliary = tuple(tf.constant(value) for value in auxiliary)

        def init(position, auxiliary):
            evaluate = self.potential.bind(self.rung, self._batch(*self.batches(0, 1), 0), auxiliary)
            state = self.method.init(position, evaluate, StepNoise(noise.draws, bits))
            return state, evaluate.auxiliary

        state, auxiliary = (init if self.execution == "eager" else tf.function(init, autograph=False))(
            position, auxiliary
        )
        zeros = tf.zeros(position.shape, tf.float64)
        carry = Carry(state, tuple(auxiliary), Moments(tf.zeros((), tf.float64), zeros, zeros))
        self.prepare(state)
        return carry

    def template(self, position: np.ndarray):
        """A state of the right structure and shapes, without an evaluation; its numbers mean nothing."""
        return self.method.init(
            tf.constant(position, self.potential.dtype),
            _SilentEvaluate(self.rung),
            RecordingNoise(self.potential.dtype),
        )

    def prepare(self, state) -> None:
        """Finds out what a step draws, and how many steps fit a chunk."""
        self._state_type = type(state)
        silent, noise = _SilentEvaluate(self.rung), RecordingNoise(self.potential.dtype)
        self.method.step(state, silent, noise)
        self.draws = noise.draws
        batches = self.potential.batches
        indices = (
            0 if batches is None or batches.full else 4 * batches.batch_size * (1 if batches.shared else self.walkers)
        )
        width = self.potential.num_parameters if self.directions is None else self.directions.shape[1]
        stored = 0
        if self.trajectory_every:
            stored = self.walkers * width * self.potential.dtype.size / self.trajectory_every
        rows = 8 * self.walkers * len(self.observables.columns) / self.record_every
        heaviest = max(sum(draw.bytes() for draw in self.draws), indices, stored, rows, 1)
        self.chunk_steps = int(min(_MOST_STEPS, max(_FEWEST_STEPS, _BUFFER_BYTES // heaviest)))
        self._row_capacity = self.chunk_steps // self.record_every + 1
        self._position_capacity = self.chunk_steps // self.trajectory_every + 1 if self.trajectory_every else 0
        steps = tf.function(self._steps, autograph=False, jit_compile=True) if self.execution == "xla" else self._steps
        chunk = self._chunk_of(steps)
        self._compiled = chunk if self.execution == "eager" else tf.function(chunk, autograph=False)

    def batches(self, first_step: int, num_steps: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The examples of each step, as the chunk takes them."""
        batches = self.potential.batches
        if batches is None or batches.full:
            return tf.zeros((num_steps, 1, 0), tf.int32), tf.zeros((num_steps,), tf.int32)
        indices, sizes = batches.indices(first_step, num_steps)
        return tf.constant(indices, tf.int32), tf.constant(sizes, tf.int32)

    def run(self, carry: Carry, first_step: int, count: int) -> Chunk:
        """Takes up to `chunk_steps` steps.

        Args:
            carry: Where to go on.
            first_step: Number of the first step to take, from 1.
            count: How many, at most `chunk_steps`.
        """
        indices, sizes = self.batches(first_step, self.chunk_steps)
        return self._compiled(carry, tf.constant(first_step, tf.int64), tf.constant(count, tf.int32), indices, sizes)

    def _batch(self, indices, sizes, i) -> Batch | None:
        batches = self.potential.batches
        return None if batches is None or batches.full else Batch(indices[i], sizes[i])

    def _chunk_of(self, steps):
        def chunk(carry, first_step, count, indices, sizes):
            self.traces += self.execution != "eager"
            bits = draw_bits(self.draws, self.seed, "step", first_step, self.chunk_steps)
            return steps(carry, self._schedule(first_step, count), count, bits, indices, sizes)

        return chunk

    def _schedule(self, first_step, count) -> Schedule:
        """What is due after each step of a chunk, made once before the steps as arrays to look up."""
        steps = first_step + tf.range(self.chunk_steps, dtype=tf.int64)
        events = [self.record_every] + ([self.trajectory_every] if self.trajectory_every else [])
        every = math.gcd(*events) if max(events) % min(events) else min(events)
        stop = tf.minimum(tf.cast(-(-steps // every) * every - first_step, tf.int32) + 1, count)
        past_burnin = steps > self.num_burnin_steps
        row = tf.equal(steps % self.record_every, 0)
        never = tf.zeros_like(row)
        position = (
            tf.logical_and(past_burnin, tf.equal(steps % self.trajectory_every, 0)) if self.trajectory_every else never
        )
        return Schedule(stop, row, tf.logical_and(row, past_burnin), position)

    def _pack(self, state) -> list:
        return [value for name, value in zip(state._fields, state, strict=True) if name != "rung"]

    def _unpack(self, fields):
        names = [name for name in self._state_type._fields if name != "rung"]
        return self._state_type(**dict(zip(names, fields, strict=True)), rung=self.rung)

    def _steps(self, carry: Carry, schedule: Schedule, count, bits, indices, sizes) -> Chunk:
        def one_step(i, fields, auxiliary, acceptance, alive):
            evaluate = self.potential.bind(self.rung, self._batch(indices, sizes, i), auxiliary)
            noise = StepNoise(self.draws, [values[i] for values in bits])
            state, info = self.method.step(self._unpack(fields), evaluate, noise)
            if self.method.metropolis:
                acceptance = info.acceptance
            alive = tf.reduce_all(tf.math.is_finite(state.potential))
            return i + 1, self._pack(state), evaluate.auxiliary, acceptance, alive

        def segment(i, fields, auxiliary, acceptance, alive, stored):
            stop = schedule.stop[i]
            i, fields, auxiliary, acceptance, alive = tf.while_loop(
                lambda i, fields, auxiliary, acceptance, alive: tf.logical_and(i < stop, alive),
                one_step,
                (i, fields, auxiliary, acceptance, alive),
            )
            due = Schedule(*(values[i - 1] for values in schedule))
            stored = self._record(due, i - 1, fields, auxiliary, acceptance, alive, stored, indices, sizes)
            return i, fields, auxiliary, acceptance, alive, stored

        state = carry.state
        width = self.potential.num_parameters if self.directions is None else self.directions.shape[1]
        stored = (
            carry.moments,
            tf.TensorArray(tf.float64, self._row_capacity, element_shape=(self.walkers, len(self.observables.columns))),
            tf.constant(0),
            tf.TensorArray(self.potential.dtype, self._position_capacity, element_shape=(self.walkers, width)),
            tf.TensorArray(tf.float64, self._position_capacity, element_shape=(self.walkers, 2)),
            tf.constant(0),
        )
        acceptance = tf.zeros((self.walkers,), tf.float64)
        taken, fields, auxiliary, _, _, stored = tf.while_loop(
            lambda i, fields, auxiliary, acceptance, alive, stored: tf.logical_and(i < count, alive),
            segment,
            (tf.constant(0), self._pack(state), carry.auxiliary, acceptance, tf.constant(True), stored),
        )
        moments, rows, num_rows, positions, energies, num_positions = stored
        carry = Carry(self._unpack(fields), tuple(auxiliary), moments)
        if not self._position_capacity:
            empty = tf.zeros((0, self.walkers, 0), self.potential.dtype)
            return Chunk(
                carry, taken, rows.stack(), num_rows, empty, tf.zeros((0, self.walkers, 2), tf.float64), num_positions
            )
        return Chunk(carry, taken, rows.stack(), num_rows, positions.stack(), energies.stack(), num_positions)

    def _record(self, due: Schedule, i, fields, auxiliary, acceptance, alive, stored, indices, sizes):
        """Stores a row and a position where this step is due for them."""

        def store():
            moments, rows, num_rows, positions, energies, num_positions = stored
            state = self._unpack(fields)
            evaluate = self.potential.bind(self.rung, self._batch(indices, sizes, i), auxiliary)
            if not self.method.current:
                energy = evaluate(state.position)
                state = state._replace(
                    gradient=energy.gradient, potential=energy.potential, loss=energy.loss, log_prior=energy.log_prior
                )

            def row():
                return rows.write(num_rows, self.observables(state, evaluate, acceptance)), num_rows + 1

            def position():
                value = state.position if self.directions is None else state.position @ self.directions
                beside = tf.stack([state.potential, state.loss], axis=-1)
                return positions.write(num_positions, value), energies.write(num_positions, beside), num_positions + 1

            new_moments = tf.cond(due.moments, lambda: update_moments(moments, state.position), lambda: moments)
            new_rows, new_num_rows = tf.cond(due.row, row, lambda: (rows, num_rows))
            if not self.trajectory_every:
                return new_moments, new_rows, new_num_rows, positions, energies, num_positions
            kept = tf.cond(due.position, position, lambda: (positions, energies, num_positions))
            return new_moments, new_rows, new_num_rows, *kept

        return tf.cond(tf.logical_and(alive, tf.logical_or(due.row, due.position)), store, lambda: stored)


def update_moments(moments: Moments, position) -> Moments:
    """Welford's update with one more position of every walker."""
    values = tf.cast(position, tf.float64)
    count = moments.count + 1.0
    deviation = values - moments.mean
    mean = moments.mean + deviation / count
    return Moments(count, mean, moments.m2 + deviation * (values - mean))
