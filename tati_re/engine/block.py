"""Blocks of walkers in one process: one compiled loop for all, and what each carries from stretch to stretch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.protocol import fields_of
from tati_re.engine.divergence import total_energy
from tati_re.engine.loop import Loop, entry
from tati_re.engine.recording import Buffers, Carry, RowBuffers, RunningMoments, carry_of, leaves_of, update_moments
from tati_re.engine.timeline import Moves


class Answer(NamedTuple):
    """What a block tells of a stretch, as NumPy arrays: U and U + p·p/2 of its walkers after it, the moves that it
    made, rows, positions and what is beside them, the end of its burn-in, and, before a swap, L, V, the acceptance and
    the fields that belong to the rungs."""

    potential: np.ndarray
    energy: np.ndarray
    taken: int
    rows: np.ndarray
    positions: np.ndarray
    beside: np.ndarray
    end: int | None
    swap: tuple | None = None


class Held:
    """The blocks of one process, by their first walker. It answers messages and knows of no transport."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._carries: dict[int, Carry] = {}
        self._template: Any = None
        self._verbs: dict[str, Callable] = {
            **{"start": self._start, "load": self._load, "advance": self._advance},
            **{"leaves": lambda first: leaves_of(self._carries[first]), "examples": self._examples},
        }

    def answer(self, verb: str, common: tuple, own: dict[int, tuple]) -> dict[int, Any]:
        """The answers of some blocks to a message, with what is common to them and what is their own."""
        return {first: self._verbs[verb](first, *common, *each) for first, each in own.items()}

    def _start(self, first: int, position: np.ndarray, auxiliary: tuple) -> list[np.ndarray]:
        return leaves_of(self.loop.start(position, auxiliary, first))

    def _load(self, first: int, leaves: list[np.ndarray]) -> int:
        """The block goes on from here; the longest stretch that it can make at once."""
        if self._template is None:
            size = (self.loop.walkers, self.loop.potential.num_parameters)
            self._template = self.loop.template(np.zeros(size))
        self._carries[first] = carry_of(leaves, self._template)
        self.loop.prepare(self._carries[first].state)
        return self.loop.longest

    def _advance(self, first: int, first_move: int, count: int, burnin: int, between: bool, *entering) -> Answer:
        loop, method = self.loop, self.loop.method
        loop.timeline.num_burnin_steps = burnin
        made: Any = loop.stretch(self._carries[first], first_move, count, first, *entering)
        chunk, swap = made if isinstance(loop, BlockLoop) else (made, None)
        carry, taken = chunk.carry, int(chunk.taken)
        if between and taken == count:
            carry = loop.between(carry, first_move + count - 1)
        self._carries[first] = carry
        positions, beside = np.asarray(chunk.positions), np.asarray(chunk.beside)
        positions, beside = positions[: int(chunk.num_positions)], beside[: int(chunk.num_positions)]
        if isinstance(loop, BlockLoop):
            kept = loop.places(carry.state).numpy() < loop.kept
            positions, beside = positions[:, kept], beside[:, kept]
        potential = np.asarray(carry.state.potential)
        energy = np.asarray(total_energy(method, carry.state)) if method.has_momentum else potential
        rows = np.asarray(chunk.rows)[: int(chunk.num_rows)]
        return Answer(potential, energy, taken, rows, positions, beside, method.burnin_end(carry.state), swap)

    def _examples(self, first: int, field: str, indices: np.ndarray) -> np.ndarray:
        """Losses of single examples at the positions of a field of the state."""
        carry = self._carries[first]
        evaluate = self.loop.potential.bind(self.loop.rung, None, carry.auxiliary)
        return np.asarray(evaluate.examples(fields_of(carry.state, [field])[field], tf.constant(indices)))


class _Buffers(RowBuffers):
    """Rows and positions of all walkers of a block in their order, moments by the rung; see `BlockLoop`."""

    place: Callable

    def _updated(self, moments: RunningMoments, ordered, weight, state) -> RunningMoments:
        row = self.place(state)[:, None]
        part = RunningMoments(*(tf.gather_nd(values, row) for values in moments))
        new = update_moments(part, ordered, weight)
        pairs = zip(moments, new, strict=True)
        return RunningMoments(*(tf.tensor_scatter_nd_update(values, row, value) for values, value in pairs))


class BlockLoop(Loop):
    """The loop of a block of a ladder, whose method is `Apart`: a stretch may begin with the swaps of the step before,
    which is recorded then, and tells at its end what the next swaps are decided by. `kept` are places in the order of
    the run's rows, the first ones, whose positions and moments are stored."""

    recorder = _Buffers
    method: Any
    _recorder: Any

    def __init__(self, *arguments, kept: int, **options) -> None:
        super().__init__(*arguments, **options)
        self.kept = kept

    @property
    def longest(self) -> int:
        return self.chunk_steps - 1

    def places(self, state) -> tf.Tensor:
        """The place of each walker in the order of the run's rows, `(walkers,)`, int32."""
        ladders = self.method.num_ladders
        return state.rungs.index * ladders + tf.range(self.walkers) % ladders

    def _row(self, state):
        """Where a walker's moments are; those of one that is not kept are in rows at the end that nobody reads."""
        place = self.places(state)
        return tf.where(place < self.kept, place, self.kept + tf.range(self.walkers))

    def start(self, position: np.ndarray, auxiliary: tuple, first_walker: int = 0) -> Carry:
        self.method.first_replica, self._init = first_walker // self.method.num_ladders, None
        carry = super().start(position, auxiliary, first_walker)
        return carry._replace(moments=self._no_moments(self.kept + self.walkers, position.shape[1]))

    def prepare(self, state) -> None:
        if self._state_type is None:
            super().prepare(state)
            self._recorder.place = self._row

    def stretch(self, carry: Carry, first_move: int, count: int, first_walker: int = 0, *entering):
        """The chunk, and L, V, acceptance and the fields of the rungs where it ends before a swap.

        `entering` is where the walkers are after the swaps of the step before (`Placed`), what belongs to their rungs
        there, and the acceptance of that step; nothing where there were none.
        """
        method = self.method
        due = self.timeline.due(first_move - 1, self._capacity, count + 1)
        swaps = count > 0 and method.exchange.swaps_after(first_move + count - 1)
        if swaps:
            for values in (due.row, due.position, due.moments):
                values[count] = False
        apply = bool(entering)
        if not apply:
            fields = fields_of(carry.state, method.of_rung)
            entering = carry.state.rungs, fields, np.zeros(self.walkers)
        given = tf.nest.map_structure(tf.convert_to_tensor, (apply, swaps, *entering))
        following = first_move + count - 1
        chunk, *found = self._called(carry, first_move - 1, count + 1, following, first_walker, due, *given)
        chunk = chunk._replace(taken=chunk.taken - 1)
        if not swaps:
            return chunk, None
        state = chunk.carry.state
        names = [*method.of_rung, *(name for name in ("centre_loss",) if name in state._fields)]
        fields = fields_of(state, names)
        return chunk, tuple(tf.nest.map_structure(np.asarray, (*found, fields)))

    def _steps(self, carry: Carry, due: Moves, count, bits, indices, sizes, *given) -> Any:
        apply, swaps, *entering = given
        begin = self._entered(carry, due, indices, sizes, apply, *entering)
        walked = self._walked(begin, carry, due, count, bits, indices, sizes)
        chunk = self._chunk(carry, due, *walked)

        def energies():
            evaluate = self._at(chunk.taken - 1, due, indices, sizes, chunk.carry.auxiliary)
            return tuple(self.method.energies(chunk.carry.state, evaluate))

        none = tf.zeros((self.walkers,), tf.float64)
        loss, penalty = tf.cond(tf.logical_and(swaps, walked[4]), energies, lambda: (none, none))
        return chunk, loss, penalty, walked[3]

    def _entered(self, carry: Carry, due: Moves, indices, sizes, apply, placed, fields: dict, acceptance) -> tuple:
        """The beginning of the steps: the swaps of the step before, and its record."""
        evaluate = self._at(tf.constant(0), due, indices, sizes, carry.auxiliary)
        before = self._unpack(self._pack(carry.state), evaluate.rung)

        def swapped():
            return self._pack(self.method.exchanged(before, placed, fields, evaluate))

        packed = tf.cond(apply, swapped, lambda: self._pack(before))
        now = Moves(*map(entry(tf.constant(0)), due))
        alive, whole = tf.constant(True), self._unpack(packed, evaluate.rung)
        if self.method.has_momentum:
            seen = tf.logical_and(apply, now.row)
            energy = tf.cond(seen, lambda: total_energy(self.method, whole), lambda: tf.zeros_like(acceptance))
            alive = tf.reduce_all(energy <= carry.highest)

        def state():
            evaluate = self._at(tf.constant(0), due, indices, sizes, carry.auxiliary)
            return self._unpack(packed, evaluate.rung), evaluate

        recorded = tf.logical_and(apply, alive)
        empty: Buffers = self._recorder.empty(carry.moments)
        buffers = self._recorder.after(now, state, acceptance, recorded, empty)
        return tf.constant(1), packed, carry.auxiliary, acceptance, alive, buffers
