"""Recording of the steps of a chunk, in buffers on the device; and what goes on from chunk to
chunk.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.method import Method
from tati_re.core.protocol import with_energy
from tati_re.engine.observables import Observables
from tati_re.engine.timeline import Moves


class RunningMoments(NamedTuple):
    """Streaming mean and sum of squared deviations of the parameters (Welford), per walker,
    float64. `count` and `squares`, `(walkers,)`, are the rows seen, or the sums of their weights
    and of the squares of these; `mean` and `m2` have shape `(walkers, parameters)`, and the
    variance is m2 / (count - squares / count).
    """

    count: Any
    mean: Any
    m2: Any
    squares: Any


class Carry(NamedTuple):
    """All that goes on from chunk to chunk, and into checkpoints; above U + p·p/2 of `highest`,
    `()`, runs diverge.
    """

    state: Any
    auxiliary: tuple
    moments: RunningMoments
    highest: Any


class Chunk(NamedTuple):
    """The state after the last step, the steps `taken`, fewer than asked for where the run
    diverged, and what was recorded: `rows`, `(capacity, walkers, columns)`, `positions`,
    `(capacity, recorded walkers, parameters or directions)`, `beside` these potential, loss and
    labels, and `events`, `(capacity, rows, columns)`, float64.
    """

    carry: Carry
    taken: Any
    rows: Any
    num_rows: Any
    positions: Any
    beside: Any
    num_positions: Any
    events: Any
    num_events: Any


def leaves_of(carry: Carry) -> list[np.ndarray]:
    """The arrays of a carry, without the rung: of the state, auxiliary variables, moments, and the
    highest energy.
    """
    return [
        np.asarray(leaf)
        for leaf in tf.nest.flatten(carry._replace(state=carry.state._replace(rung=())))
    ]


def carry_of(leaves: list[np.ndarray], template) -> Carry:
    """The carry of the arrays that `leaves_of` gave.

    Args:
        leaves: Arrays of the state, auxiliary variables, moments, and the highest energy.
        template: A state of the same structure, whose rung the carry gets.
    """
    bare = template._replace(rung=())
    count = len(tf.nest.flatten(bare))
    values = [tf.constant(leaf) for leaf in leaves]
    state = tf.nest.pack_sequence_as(bare, values[:count])._replace(rung=template.rung)
    return Carry(state, tuple(values[count:-5]), RunningMoments(*values[-5:-1]), values[-1])


class Buffers(NamedTuple):
    """The moments of the positions so far, the tensor arrays of what a `Chunk` has, and how much of
    each is filled.
    """

    moments: RunningMoments
    rows: Any
    num_rows: Any
    positions: Any
    beside: Any
    num_positions: Any
    events: Any
    num_events: Any


class RowBuffers:
    """Stores the records that are due after a step of a loop.

    Args:
        loop: The loop. Its first `num_recorded` walkers have positions and moments stored.
        width: Numbers of a stored position: parameters, or projections on the loop's `directions`,
            (parameters, width).
        chunk_steps: The most steps of a chunk.
    """

    def __init__(self, loop: Any, width: int, chunk_steps: int) -> None:
        self.method: Method = loop.method
        self.ladder = loop.ladder
        self.observables: Observables = loop.observables
        timeline = self.timeline = loop.timeline
        self.walkers = loop.walkers
        self.num_recorded = loop.num_recorded
        self.directions = loop.directions
        self.dtype = loop.potential.dtype
        self.labels = loop.labels
        # A chunk meets the ends of several turns of a group, each of which may have one more row
        # than its share.
        turns = 1 if timeline.groups == 1 else chunk_steps // timeline.group_steps + 2
        turns += 1  # for what is not due
        self._most_rows = chunk_steps // timeline.record_every + turns
        self._most_positions = (
            chunk_steps // timeline.closest + turns if timeline.trajectory_every else 0
        )
        self._most_events = (
            chunk_steps // timeline.event_every + turns if timeline.event_every else 0
        )
        self._of_row = (self.walkers, len(self.observables.columns))
        self._of_position = (self.num_recorded, width)
        self._of_beside = (self.num_recorded, 2 + len(self.labels))
        self._of_event = (loop.event_rows, len(self.ladder.event_columns))

    def empty(self, moments: RunningMoments) -> Buffers:

        def array(dtype, most: int, shape: tuple[int, int]):
            return tf.TensorArray(dtype, most, element_shape=shape)

        rows = array(tf.float64, self._most_rows, self._of_row)
        none = tf.constant(0)
        positions = array(self.dtype, self._most_positions, self._of_position)
        beside = array(tf.float64, self._most_positions, self._of_beside)
        events = array(tf.float64, self._most_events, self._of_event)
        return Buffers(
            moments=moments,
            rows=rows,
            num_rows=none,
            positions=positions,
            beside=beside,
            num_positions=none,
            events=events,
            num_events=none,
        )

    def stacked(self, buffers: Buffers) -> tuple:
        """Rows, positions, what is beside them, and events, as tensors, each but the second two
        with its number.
        """
        where = tf.zeros((0, self.num_recorded, 0), self.dtype)
        also = tf.zeros((0, *self._of_beside), tf.float64)
        if self._most_positions:
            where = buffers.positions.stack()
            also = buffers.beside.stack()
        new_events = (
            buffers.events.stack() if self._most_events else tf.zeros((0, 0, 0), tf.float64)
        )
        rows = buffers.rows.stack(), buffers.num_rows
        return *rows, where, also, buffers.num_positions, new_events, buffers.num_events

    def after(
        self, due: Moves, now: Callable[[], tuple[Any, Any]], acceptance, alive, buffers: Buffers
    ) -> Buffers:
        """The buffers after a move.

        Each buffer is written to, whatever is due, at the place of its next entry. Where nothing is
        due, that place stays the next one. XLA then writes in place; it copies buffers that pass
        through a condition, at each step.

        Args:
            due: The records due after this move, one scalar per field.
            now: Returns the state of all walkers and the potential that the move saw.
            acceptance: Acceptance of the move, shape (walkers,).
            alive: Whether the run has not diverged. Nothing is stored if False.
            buffers: The buffers before the move.
        """
        row_due = tf.logical_and(alive, due.row)
        position_due = tf.logical_and(alive, due.position)
        no_row = tf.zeros(self._of_row, tf.float64)
        no_position = tf.zeros(self._of_position, self.dtype)
        nothing = buffers.moments, no_row, no_position, tf.zeros(self._of_beside, tf.float64)
        either = tf.logical_or(row_due, position_due)
        due = due._replace(moments=tf.logical_and(alive, due.moments))
        always = self.timeline.record_every == 1
        recorded = _if(
            either, lambda: self._recorded(due, now(), acceptance, nothing), lambda: nothing, always
        )
        moments, row, position, beside = recorded
        rows, num_rows = _written(buffers.rows, buffers.num_rows, row, row_due)
        positions = buffers.positions
        also = buffers.beside
        num_positions = buffers.num_positions
        if self.timeline.trajectory_every:
            also, _ = _written(also, num_positions, beside, position_due)
            positions, num_positions = _written(positions, num_positions, position, position_due)
        events = buffers.events
        num_events = buffers.num_events
        if self.timeline.event_every:
            event_due = tf.logical_and(alive, due.event)
            none = tf.zeros(self._of_event, tf.float64)
            event = tf.cond(event_due, lambda: self.ladder.events(now()[0]), lambda: none)
            events, num_events = _written(events, num_events, event, event_due)
        return Buffers(
            moments=moments,
            rows=rows,
            num_rows=num_rows,
            positions=positions,
            beside=also,
            num_positions=num_positions,
            events=events,
            num_events=num_events,
        )

    def _recorded(self, due: Moves, now, acceptance, nothing: tuple) -> tuple:
        """The moments, the row, the position and what is beside it, each `nothing`'s where it is
        not due.
        """
        moments, no_row, no_position, no_beside = nothing
        line = self.timeline
        order = None
        labels = []
        state, evaluate = now
        evaluate = self.ladder.bound(state, evaluate)
        if not self.method.current:
            state = with_energy(state, evaluate(state.position))
        if self.labels:
            labels_by_name = self.method.labels(state)
            labels = [tf.cast(labels_by_name[name], tf.float64) for name in self.labels]
        if self.ladder.by_rung:
            order = self.ladder.order(state)
        ordered = (
            state.position
            if order is None
            else tf.gather(state.position, order[: self.num_recorded])
        )

        def row():
            values = self.observables(state, evaluate, acceptance, labels)
            return values if order is None else tf.gather(values, order)

        def position():
            value = ordered if self.directions is None else ordered @ self.directions
            beside = tf.stack([state.potential, state.loss, *labels], axis=-1)
            return value, beside if order is None else tf.gather(beside, order[: self.num_recorded])

        weight = None
        if line.groups > 1:
            moved = tf.equal(tf.range(self.walkers) // (self.walkers // line.groups), due.group)
            weight = tf.cast(moved, tf.float64)
        elif "weight" in self.labels:
            weight = labels[self.labels.index("weight")]
            weight = weight if order is None else tf.gather(weight, order[: self.num_recorded])
        if (
            line.record_every == 1
        ):  # number by number, for XLA copies what passes through a condition
            new_moments = tf.nest.map_structure(
                lambda new, old: tf.where(due.moments, new, old),
                self._updated(moments, ordered, weight, state),
                moments,
            )
        else:
            new_moments = tf.cond(
                due.moments, lambda: self._updated(moments, ordered, weight, state), lambda: moments
            )
        new_row = _if(due.row, row, lambda: no_row, line.record_every == 1)
        if not line.trajectory_every:
            return new_moments, new_row, no_position, no_beside
        stored = _if(
            due.position, position, lambda: (no_position, no_beside), line.trajectory_every == 1
        )
        return new_moments, new_row, *stored

    def _updated(self, moments: RunningMoments, ordered, weight, state) -> RunningMoments:
        return update_moments(moments, ordered, weight)


def _if(due, value: Callable, other: Callable, always: bool) -> Any:
    """The value where it is due, else the other, but the value in any case where it is `always` as
    good.
    """
    return value() if always else tf.cond(due, value, other)


def _written(buffer, number, value, due) -> tuple:
    """The buffer with a value at place `number`, and the place of the next one."""
    return buffer.write(number, value), number + tf.cast(due, tf.int32)


def update_moments(moments: RunningMoments, position, weight) -> RunningMoments:
    """Welford's update with one more position of every walker.

    Args:
        moments: The moments so far.
        position: Positions, shape (walkers, parameters).
        weight: Weight of each position, shape (walkers,). None: 1.
    """
    values = tf.cast(position, tf.float64)
    counted = tf.ones_like(moments.count) if weight is None else weight
    count = moments.count + counted
    deviation = (values - moments.mean) * counted[:, None]
    mean = moments.mean + deviation / tf.where(count > 0.0, count, 1.0)[:, None]
    return RunningMoments(
        count, mean, moments.m2 + deviation * (values - mean), moments.squares + counted**2
    )
