"""The compiled loop: many steps without a return to Python, rows buffered on the device.

A chunk is one call: its steps run in one loop, under XLA, as a graph, or eagerly, while
TensorFlow's own kernel draws the random bits of all steps of the next chunk in bulk. The number of
steps is an argument, so that a run traces the chunk once, whatever its length.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tati_re.core.backend import Direct, tf
from tati_re.core.errors import refuse_if
from tati_re.core.facets import temperatures_of, tuning_of, turns_of
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import compiled_by_xla
from tati_re.core.potential import Batch, Potential
from tati_re.core.protocol import Clock, Rung, State, with_energy
from tati_re.engine.divergence import highest_energy, hottest, total_energy
from tati_re.engine.limits import LIMITS, Limits
from tati_re.engine.noise import Drawing, RecordingNoise, StepNoise, draw_numbers, philox_keys
from tati_re.engine.observables import Observables
from tati_re.engine.recording import Carry, Chunk, RowBuffers, RunningMoments
from tati_re.engine.timeline import Factor, Moves, Timeline
from tati_re.engine.zero_evaluate import ZeroEvaluate
from tati_re.runs.stored_arrays import StoredArrays

_BUFFER_BYTES = 16 * 2**20
"""Of the largest buffer of a chunk, such as its random bits. What a chunk costs beside its steps,
some milliseconds, is shared by them: 784-10 with 8 walkers takes an eighth more time a step with a
quarter of it.
"""
_FEWEST_STEPS = 4


def entry(i) -> Callable:
    """`values -> values[i]` of tensors, in one operation where indexing makes seven: half of what a
    step traces.
    """
    begin = tf.reshape(i, (1,))
    end = begin + 1
    step = tf.constant([1])
    return lambda values: tf.raw_ops.StridedSlice(
        input=values, begin=begin, end=end, strides=step, shrink_axis_mask=1
    )


def entry_at_end(i) -> Callable:
    """As `entry`, for a place that depends on where a loop ended.

    XLA takes the begin of a strided slice for a constant of the program. All that decides the place
    would be constants too: the limit on the energy, and the data and scales of a density. A program
    would be compiled again for each new value of them.

    Args:
        i: The place, a tensor, int32.
    """
    return lambda values: tf.gather(values, i)


class Loop:
    """A sampler or optimizer and a potential, compiled.

    Args:
        potential: The potential.
        method: The sampler or optimizer.
        observables: The columns of a row of run.csv.
        rung: Temperature and step size of each walker.
        seed: Seed of all random numbers.
        execution: "xla", "graph" or "eager".
        record_every: Steps between two rows.
        trajectory_every: Steps between two stored positions; 0: none. Default: 0.
        num_burnin_steps: Steps at the start without positions and moments. Default: 0.
        directions: Positions are projected on these rows, `(k, parameters)`. Default: they are not
            projected.
        step_factor: A function of step numbers that multiplies the step size. Default: 1.
        temperature_factor: A function of step numbers that multiplies the temperature. Default: 1.
        first_step: Steps of other loops of the run before this one. Default: 0.
        num_recorded: The first walkers, in the method's order, whose positions and moments are
            kept. Default: all.
        num_steps: The most steps. Default: any number.
        limits: Limits on the length of a chunk.

    Attributes:
        turns: Groups of walkers that move in turn.
        burnin: What is done in the burn-in between two chunks.
        ladder: The method's temperatures.
        timeline: Which step is taken when, and what is due after it.
        cools: Changes the carry at the start, between chunks of the burn-in, some end after moves
            `cools_after`, and at its end, from the carry and the number of the move; `None`:
            nothing.
        traces: How often the chunk was traced so far.
        chunk_steps: The most steps of one chunk.
        by_rung: Whether rows come temperature by temperature.
        walkers_at_rung: Walkers of each temperature.
    """

    recorder = RowBuffers

    @front_door
    def __init__(
        self,
        potential: Potential,
        method: Method,
        observables: Observables,
        rung: Rung,
        seed: int,
        execution: str,
        record_every: int,
        trajectory_every: int = 0,
        num_burnin_steps: int = 0,
        directions: np.ndarray | None = None,
        step_factor: Factor | None = None,
        temperature_factor: Factor | None = None,
        first_step: int = 0,
        num_recorded: int | None = None,
        num_steps: int | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.potential = potential
        self.method = method
        self.turns = turns_of(method)
        self.burnin = tuning_of(method)
        self.ladder = temperatures_of(method)
        self.observables = observables
        self.rung = rung
        self.seed = seed
        self.execution = execution
        self.first_step = first_step
        self.cools: Callable[[Carry, int], Carry] | None = None
        self.cools_after: Sequence[int] = ()
        self.timeline = Timeline(
            record_every=record_every,
            trajectory_every=trajectory_every,
            num_burnin_steps=num_burnin_steps,
            groups=self.turns.groups,
            group_steps=self.turns.steps,
            step_factor=step_factor,
            temperature_factor=temperature_factor,
            event_every=self.ladder.event_every,
        )
        self.directions = None if directions is None else tf.constant(directions.T, potential.dtype)
        self.walkers = int(rung.step_size.shape[0])
        self.title = method.name
        self.num_recorded = self.walkers if num_recorded is None else num_recorded
        self.walkers_at_rung = self.walkers // self.ladder.copies
        self.labels = list(method.label_names)
        self.by_rung = self.ladder.by_rung
        self.event_rows = self.traces = 0
        self._state_type: Any = None
        self.draws: list = []
        self.chunk_steps = self._capacity = 0
        self._num_steps = num_steps
        self._limits = limits
        self._ahead: dict[int, tuple[int, list]] = {}
        self._batches: dict[int, Any] = {}
        self._init: Any = None
        self._evaluated: Any = self._anew if execution == "eager" else Direct(self._anew)

    def start(self, position: np.ndarray, auxiliary: tuple, first_walker: int = 0) -> Carry:
        """Makes the state before the first step, from the method's `init` on mini-batch 0.

        Args:
            position: Positions, shape (walkers, parameters).
            auxiliary: Keras' non-trainable variables, shape (walkers, ...) each.
            first_walker: Number of the first of these walkers in the run. Default: 0.

        Returns:
            The carry: state, variables, running moments and the energy limit `highest`.
        """
        position = tf.constant(position, self.potential.dtype)
        rung = self._rung_at(*(factor[0] for factor in self.timeline.factors(np.ones(1, np.int64))))
        silent = ZeroEvaluate(rung)
        noise = RecordingNoise(self.potential.dtype)
        state = self.method.init(position, silent, noise)
        needed = {*State._fields, *self.method.shown}
        if self.method.has_momentum:
            needed.add("momentum")
        lacking = needed - {*dir(state)}
        refuse_if(
            lacking,
            f"{self.title}: the state from init lacks {', '.join(sorted(lacking))}.",
            type(state).__name__,
        )
        numbers = [
            values[0] for values in draw_numbers(noise.draws, self.seed, "init", 0, 1, first_walker)
        ]

        def init(position, auxiliary, numbers, *examples):
            evaluate = self.potential.bind(
                rung, self._batch(*examples, entry(tf.constant(0))), auxiliary
            )
            return self.method.init(
                position, evaluate, StepNoise(noise.draws, numbers)
            ), evaluate.auxiliary

        if self._init is None:
            self._init = init if self.execution == "eager" else Direct(init)
        auxiliary = tuple(map(tf.constant, auxiliary))
        examples = self._examples(0, 1, first_walker)
        state, auxiliary = self._init(position, auxiliary, numbers, *examples)
        self.prepare(state)
        moments = self._no_moments(self.num_recorded, position.shape[1])
        return Carry(state, tuple(auxiliary), moments, self.highest(state))

    @staticmethod
    def _no_moments(rows: int, parameters: int) -> RunningMoments:
        zeros = tf.zeros((rows, parameters), tf.float64)
        return RunningMoments(zeros[:, 0], zeros, zeros, zeros[:, 0])

    @property
    def longest(self) -> int:
        """The most steps of one stretch."""
        return self._capacity

    def take_over(self, carry: Carry) -> Carry:
        """Continues where another loop stopped, evaluated on this loop's own mini-batch 0.

        Args:
            carry: The carry of the other loop.

        Returns:
            The carry before this loop's first step.
        """
        self.prepare(carry.state)
        return self.evaluated(carry._replace(state=carry.state._replace(rung=self.rung)), 0)

    def evaluated(self, carry: Carry, batch: int) -> Carry:
        """Evaluates the potential at the current positions.

        Args:
            carry: The carry.
            batch: Number of the mini-batch to use.

        Returns:
            The carry with the new potential and gradient.
        """
        state, auxiliary = self._evaluated(carry.state, carry.auxiliary, *self._examples(batch, 1))
        return carry._replace(state=state, auxiliary=tuple(auxiliary))

    def _anew(self, state, auxiliary, *examples):
        evaluate = self.potential.bind(
            state.rung, self._batch(*examples, entry(tf.constant(0))), auxiliary
        )
        bound = self.ladder.bound(state, evaluate)
        needs_all_data = self.method.full_batch and not evaluate.exact
        return with_energy(
            state, (bound.full if needs_all_data else bound)(state.position)
        ), evaluate.auxiliary

    def highest(self, state) -> tf.Tensor:
        """Returns an energy that no walker reaches from this state unless the run diverges.

        Args:
            state: The state of all walkers.

        Returns:
            The limit, float64.
        """
        last = self.first_step + (self._num_steps or 1)
        temperature = hottest(self.method, self.rung, self.timeline.temperature_factor, last)
        energy = total_energy(self.method, state).numpy()
        potential = state.potential.numpy()
        number = self.potential.num_parameters
        scale = self.potential.scale
        return tf.constant(
            highest_energy(energy, potential, temperature, number, scale), tf.float64
        )

    def energies(self, carry: Carry, with_total: bool) -> tuple[np.ndarray, np.ndarray]:
        """Returns the energies of all walkers.

        Args:
            carry: The carry.
            with_total: Whether to compute U + p·p/2 too.

        Returns:
            U, and U + p·p/2 if `with_total` is true, otherwise U again; shape (walkers,) each.
        """
        potential = np.asarray(carry.state.potential)
        return potential, np.asarray(
            total_energy(self.method, carry.state)
        ) if with_total else potential

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds beside the carry.

        Returns:
            Arrays by name.
        """
        return {}

    def restore(self, arrays: StoredArrays) -> None:
        """Restores from a checkpoint what `arrays` returned.

        Args:
            arrays: The arrays of the checkpoint, by name.
        """

    def states(self, carry: Carry) -> list:
        """Returns the states of groups of walkers that are tuned together: all, or each block's.

        Args:
            carry: The carry.

        Returns:
            One state per group.
        """
        return [carry.state]

    def template(self, position: np.ndarray):
        """Makes a state of the right structure and shapes without an evaluation.

        Its values are arbitrary.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            The state.
        """
        noise = RecordingNoise(self.potential.dtype)
        position = tf.constant(position, self.potential.dtype)
        return self.method.init(position, ZeroEvaluate(self.rung), noise)

    def prepare(self, state) -> None:
        """Determines what random numbers a step draws and how many steps fit in a chunk.

        A second call does nothing.

        Args:
            state: The state before the first step.
        """
        if self._state_type is not None:
            return
        self._state_type = type(state)
        silent = ZeroEvaluate(self.rung)
        noise = RecordingNoise(self.potential.dtype)
        stepped = self.method.step(state, silent, noise)
        pair = isinstance(stepped, tuple) and len(stepped) == 2
        refuse_if(
            not pair,
            f"{self.title}: a step does not return a pair of state and Info.",
            type(stepped).__name__,
        )
        needed = {
            **state._asdict(),
            **({"acceptance": state.potential} if self.method.metropolis else {}),
        }
        fields = {**stepped[0]._asdict(), **stepped[1]._asdict()}
        for name, value in needed.items():  # which TensorFlow's loops do not name
            now, expected_kind = (
                f"{field.dtype.name} of shape {field.shape}"
                if isinstance(field, tf.Tensor)
                else type(field).__name__
                for field in (fields.get(name), value)
            )
            refuse_if(
                now != expected_kind,
                f"{self.title}: a step returns {name} with another type or shape.",
                now,
                expected_kind,
            )
        self.draws = noise.draws
        if self.timeline.event_every:
            self.event_rows = int(self.ladder.events(state).shape[0])
        batches = self.potential.batches
        indices = (
            0 if batches.full else 4 * batches.batch_size * (1 if batches.shared else self.walkers)
        )
        width = (
            self.potential.num_parameters if self.directions is None else self.directions.shape[1]
        )
        position_bytes = 0
        line = self.timeline
        if line.trajectory_every:
            position_bytes = self.num_recorded * width * self.potential.dtype.size / line.closest
        rows = 8 * self.walkers * len(self.observables.columns) / line.record_every
        event_bytes = 8 * self.event_rows * len(self.ladder.event_columns) / (line.event_every or 1)
        heaviest = max(
            sum(draw.bytes() for draw in self.draws), indices, position_bytes, rows, event_bytes, 1
        )
        fitting = max(_FEWEST_STEPS * line.groups, _BUFFER_BYTES // heaviest)
        self.chunk_steps = int(min(self._limits.most_steps, fitting))
        moves_of_run = self.chunk_steps if self._num_steps is None else line.moves(self._num_steps)
        self._capacity = min(self.chunk_steps, max(1, moves_of_run))
        self._recorder = self.recorder(self, width, self._capacity)
        steps = self._steps
        if self.execution == "xla":
            steps = tf.function(self._steps_for_xla, autograph=False, jit_compile=True)
        eager = self.execution == "eager"
        self._drawing = Drawing(self.draws, self._capacity, self.execution)
        self._keys = philox_keys(self.draws, self.seed, "step")
        chunk = self._chunk_of(steps)
        draw = self._drawing.drawn
        self._compiled = chunk if eager else Direct(chunk)
        self._drawn = draw if eager else Direct(draw)

    def batches(
        self, first_move: int, num_moves: int, first_walker: int = 0
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Selects the examples of consecutive moves.

        Args:
            first_move: Number of the first move, from 1.
            num_moves: Number of moves.
            first_walker: Number of the first walker in the run. Default: 0.

        Returns:
            Indices of the examples of each move, and the sizes of its mini-batches.
        """
        steps, _ = self.timeline.steps(first_move, num_moves)
        first = int(steps.min())
        indices, sizes = self._examples(
            first - self.first_step, int(steps.max()) - first + 1, first_walker
        )
        if self.timeline.groups == 1:
            return indices, sizes
        return tf.gather(indices, steps - first), tf.gather(sizes, steps - first)

    def _examples(
        self, first_batch: int, num_steps: int, first_walker: int = 0
    ) -> tuple[tf.Tensor, tf.Tensor]:
        batches = self.potential.batches
        if batches.full:
            return tf.zeros((num_steps, 1, 0), tf.int32), tf.zeros((num_steps,), tf.int32)
        if first_walker:
            if first_walker not in self._batches:
                self._batches[first_walker] = batches.from_walker(first_walker)
            batches = self._batches[first_walker]
        indices, sizes = batches.indices(first_batch, num_steps)
        return tf.constant(indices, tf.int32), tf.constant(sizes, tf.int32)

    def ends(self) -> set[int]:
        """The moves at which a chunk ends, for what is done between two chunks."""
        latest = self.timeline.num_burnin_steps + self.burnin.finds_end
        ends = {end for end in (*self.burnin.renewals, *self.cools_after) if end < latest}
        return ends | ({self.timeline.num_burnin_steps} if self.cools else set())

    def run(self, carry: Carry, first_move: int, count: int, first_walker: int = 0) -> Chunk:
        """Makes up to `chunk_steps` moves; fewer if the method must be retuned before.

        Args:
            carry: The carry before the first of these moves.
            first_move: Number of the first move, from 1.
            count: Number of moves to make at most.
            first_walker: Number of the first walker in the run, which determines random numbers and
                mini-batches. Default: 0.

        Returns:
            The chunk: the carry after the moves, and the recorded rows.
        """
        count = min(self._capacity, self.until_end(first_move, count))
        chunk = self.stretch(carry, first_move, count, first_walker)
        last = first_move + count - 1
        if last in self.ends() and int(chunk.taken) == count > 0:
            chunk = chunk._replace(carry=self.between(chunk.carry, last))
        return chunk

    def until_end(self, first_move: int, count: int) -> int:
        """Returns how many moves can be made before a chunk must end.

        Args:
            first_move: Number of the first move, from 1.
            count: Number of moves wanted.

        Returns:
            The number of moves, at most `count`.
        """
        return min([count, *(end + 1 - first_move for end in self.ends() if end >= first_move)])

    def between(self, carry: Carry, last: int) -> Carry:
        """Does what is due between two chunks: retuning, and the end of the burn-in.

        Args:
            carry: The carry after a chunk.
            last: Number of its last move.

        Returns:
            The carry before the next chunk.
        """
        carry = carry._replace(state=self.burnin.renewed(carry.state))
        self.end_burnin(carry)
        return self.cooled(carry, last)

    def cooled(self, carry: Carry, last: int) -> Carry:
        """Changes the temperature during the burn-in, as `cools` prescribes.

        Args:
            carry: The carry after a move of the burn-in.
            last: Number of that move; 0 before the first.

        Returns:
            The carry before the next move.
        """
        return carry if self.cools is None else self.cools(carry, last)

    def stretch(self, carry: Carry, first_move: int, count: int, first_walker: int = 0) -> Chunk:
        """Makes moves as `run` does, without what is due between two chunks.

        Args:
            carry: The carry before the first of these moves.
            first_move: Number of the first move, from 1.
            count: Number of moves.
            first_walker: Number of the first walker in the run. Default: 0.

        Returns:
            The chunk: the carry after the moves, and the recorded rows.
        """
        due = self.timeline.due(first_move, self._capacity, count)
        return self._called(carry, first_move, count, first_move + count, first_walker, due)

    def _called(
        self,
        carry,
        first_move: int,
        count: int,
        following: int,
        first_walker: int,
        due: Moves,
        *others,
    ):
        indices, sizes = self.batches(first_move, self._capacity, first_walker)
        due = Moves(*map(tf.constant, due))
        walker = tf.constant(first_walker, tf.int64)
        ready, bits = self._ahead.get(first_walker, (-1, []))
        if ready != first_move:
            bits = self._drawn(self._keys, tf.constant(first_move, tf.int64), walker)
        number = tf.constant(count, tf.int32)
        beyond = tf.constant(following, tf.int64)
        chunk, ahead = self._compiled(
            carry, self._keys, beyond, walker, due, number, bits, indices, sizes, *others
        )
        self._ahead[first_walker] = (following, ahead) if ahead else (-1, [])
        return chunk

    def end_burnin(self, carry: Carry) -> None:
        """Starts to count draws if the method has determined the end of its burn-in.

        Args:
            carry: The carry after a chunk.
        """
        if (end := self.burnin.end(carry.state)) is not None:
            self.timeline.num_burnin_steps = end

    def _batch(self, indices, sizes, at) -> Batch | None:
        return None if self.potential.batches.full else Batch(at(indices), at(sizes))

    def _chunk_of(self, steps):
        def chunk(carry, keys, following, first_walker, *arguments):
            self.traces += self.execution != "eager"
            # The bits of the next chunk are drawn beside the steps of this one: XLA leaves a core
            # idle at times.
            ahead = (
                []
                if self.execution == "eager"
                else self._drawing.drawn(keys, following, first_walker)
            )
            return steps(carry, *arguments), ahead

        return chunk

    def _at(self, i, due: Moves, indices, sizes, auxiliary):
        at = entry(i)
        return self._evaluate(Moves(*map(at, due)), self._batch(indices, sizes, at), auxiliary)

    def _rung_at(self, step_factor, temperature_factor) -> Rung:
        if not self.timeline.varies:
            return self.rung
        beta, weight, step_size = self.rung
        return Rung(beta / temperature_factor, weight, step_size * step_factor)

    def _evaluate(self, now: Moves, batch: Batch | None, auxiliary):
        rung = self._rung_at(now.step_factor, now.temperature_factor)
        return self.potential.bind(rung, batch, auxiliary, Clock(now.step, now.adapting, now.group))

    def _pack(self, state) -> list:
        return [value for name, value in zip(state._fields, state, strict=True) if name != "rung"]

    def _unpack(self, fields, rung: Rung):
        names = [name for name in self._state_type._fields if name != "rung"]
        return self._state_type(**dict(zip(names, fields, strict=True)), rung=rung)

    def _steps_for_xla(self, *arguments) -> Chunk:
        with compiled_by_xla():
            return self._steps(*arguments)

    def _steps(self, carry: Carry, due: Moves, count, bits, indices, sizes) -> Chunk:
        acceptance = tf.zeros((self.walkers,), tf.float64)
        empty = self._recorder.empty(carry.moments)
        begin = (
            tf.constant(0),
            self._pack(carry.state),
            carry.auxiliary,
            acceptance,
            tf.constant(True),
            empty,
        )
        return self._chunk(
            carry, due, *self._walked(begin, carry, due, count, bits, indices, sizes)
        )

    def _walked(self, begin: tuple, carry: Carry, due: Moves, count, bits, indices, sizes) -> tuple:
        # In bulk: inside of the steps XLA evaluates them once for each use.
        numbers = self._drawing.numbers(bits)
        line = self.timeline

        # What a step of its own row has counted on its way is not counted again.
        counting = (
            line.record_every * line.groups == 1
            and self.method.current
            and not self.method.metropolis
        )
        counting = counting and self.potential.metric_name is not None
        counted: list[bool] = []

        def one_step(i, fields, auxiliary, acceptance, alive, accuracy):
            at = entry(i)
            evaluate = self._evaluate(
                Moves(*map(at, due)), self._batch(indices, sizes, at), auxiliary
            )
            if counting:
                evaluate.counting = True
            noise = StepNoise(self.draws, [at(values) for values in numbers])
            state, info = self.turns.move(self._unpack(fields, evaluate.rung), evaluate, noise)
            if self.method.metropolis:
                acceptance = info.acceptance
            possible = tf.logical_and(
                tf.math.is_finite(state.potential), state.potential <= carry.highest
            )
            if counting and (latest_accuracy := evaluate.accuracy_at(state.position)) is not None:
                counted[:], accuracy = [True], latest_accuracy
            return (
                i + 1,
                self._pack(state),
                evaluate.auxiliary,
                acceptance,
                tf.reduce_all(possible),
                accuracy,
            )

        def segment(i, fields, auxiliary, acceptance, alive, buffers):
            stop = entry(i)(due.stop)
            evaluate = self._at(i, due, indices, sizes, auxiliary)
            turn = self._pack(self.turns.begin(self._unpack(fields, evaluate.rung), evaluate))
            i, turn, auxiliary, acceptance, alive, accuracy = tf.while_loop(
                lambda i, turn, auxiliary, acceptance, alive, accuracy: tf.logical_and(
                    i < stop, alive
                ),
                one_step,
                (i, turn, auxiliary, acceptance, alive, tf.zeros_like(acceptance)),
            )
            at = entry_at_end(i - 1)
            last = Moves(*map(at, due))
            batch = self._batch(indices, sizes, at)
            evaluate = self._evaluate(last, batch, auxiliary)
            turn = self._unpack(turn, evaluate.rung)
            fields = self._pack(self.turns.end(self._unpack(fields, evaluate.rung), turn, evaluate))
            if self.method.has_momentum:
                # All momenta are summed only where a row is due, which needs the sum as well.
                full_state = self._unpack(fields, self.rung)
                energy = tf.cond(
                    last.row,
                    lambda: total_energy(self.method, full_state),
                    lambda: tf.zeros_like(acceptance),
                )
                alive = tf.logical_and(alive, tf.reduce_all(energy <= carry.highest))

            def now():
                evaluate = self._evaluate(last, batch, auxiliary)
                state = self._unpack(fields, evaluate.rung)
                if counted:
                    evaluate.known_accuracy = state.position, accuracy
                return state, evaluate

            buffers = self._recorder.after(last, now, acceptance, alive, buffers)
            return i, fields, auxiliary, acceptance, alive, buffers

        return tf.while_loop(
            lambda i, fields, auxiliary, acceptance, alive, buffers: tf.logical_and(
                i < count, alive
            ),
            segment,
            begin,
        )

    def _chunk(
        self, carry: Carry, due: Moves, taken, fields, auxiliary, acceptance, alive, buffers
    ) -> Chunk:
        last = self._rung_at(
            *map(entry_at_end(tf.maximum(taken - 1, 0)), (due.step_factor, due.temperature_factor))
        )
        after = Carry(self._unpack(fields, last), tuple(auxiliary), buffers.moments, carry.highest)
        return Chunk(after, taken, *self._recorder.stacked(buffers))
