"""Blocks of walkers in one process: one compiled loop for all, and what each carries from stretch
to stretch.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.protocol import fields_of
from tati_re.distributed.replica_subset import RungPlacement
from tati_re.engine.divergence import total_energy
from tati_re.engine.loop import Loop, entry
from tati_re.engine.recording import (
    Buffers,
    Carry,
    RowBuffers,
    RunningMoments,
    carry_of,
    leaves_of,
    update_moments,
)
from tati_re.engine.timeline import Moves


class Answer(NamedTuple):
    """What the blocks of a process tell of a stretch. `facts` are `(walkers, columns)`, float64: U
    and U + p·p/2 after it, and before a swap L, V, the loss at the centre where there is one, the
    acceptance, and the numbers that belong to the rungs; arrays that belong to them are `wide`, by
    their names. Of each block the moves `taken` and where its burn-in `ends`; `recorded` are rows,
    positions and what is beside them, where there are any.
    """

    facts: np.ndarray
    taken: list[int]
    ends: list[int | None]
    recorded: list[np.ndarray]
    wide: dict[str, np.ndarray]

    @property
    def potential(self) -> np.ndarray:
        return self.facts[:, 0]


class PackedTensors:
    """Tensors of one structure as one vector of float64, which holds their whole numbers exactly:
    each tensor that is handed to TensorFlow, or taken from there, costs some 25 microseconds.
    `part` has the places of named fields.
    """

    def __init__(self, like: Any) -> None:
        self._like = like
        leaves = tf.nest.flatten(like)
        self._kinds = [(leaf.shape, leaf.dtype) for leaf in leaves]
        self.sizes = [leaf.shape.num_elements() for leaf in leaves]
        ends = np.cumsum(
            [sum(leaf.shape.num_elements() for leaf in tf.nest.flatten(value)) for value in like]
        )
        self.part = dict(
            zip(getattr(like, "_fields", ()), map(slice, (0, *ends), ends), strict=False)
        )

    @staticmethod
    def joined(values: Any) -> tf.Tensor:
        return tf.concat(
            [tf.reshape(tf.cast(leaf, tf.float64), [-1]) for leaf in tf.nest.flatten(values)], 0
        )

    def parted(self, vector: Any) -> Any:
        pairs = zip(tf.split(vector, self.sizes), self._kinds, strict=True)
        return tf.nest.pack_sequence_as(
            self._like, [tf.cast(tf.reshape(v, shape), kind) for v, (shape, kind) in pairs]
        )


def joined(parts: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Arrays `(n, walkers, ...)` of several groups of walkers side by side, of each kind as many as
    all groups have.
    """
    kinds = zip(*parts, strict=True)
    return [
        np.concatenate([value[: min(map(len, values))] for value in values], axis=1)
        for values in kinds
    ]


class BlockServer:
    """The blocks of one process, by their first walker. It answers messages and knows of no
    transport.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._carries: dict[int, Carry] = {}
        self._template: Any = None
        self._verbs: dict[str, Callable] = {
            **{"start": self._start, "load": self._load, "examples": self._examples},
            "leaves": lambda first: leaves_of(self._carries[first]),
        }

    def answer(
        self, verb: str, common: tuple, arguments_by_block: dict[int, tuple] | None
    ) -> dict[int, Any]:
        """Answers a message to the blocks of this process.

        Args:
            verb: What to do: "start", "load", "examples", "leaves" or "advance".
            common: Arguments that all blocks share.
            arguments_by_block: Further arguments of each block that is asked, by its first walker.
                "advance" moves all blocks, and None then stands for no further arguments.

        Returns:
            The answer of each block, by its first walker; for "advance" one `Answer` of all blocks,
            under the first one.
        """
        if verb == "advance":
            return self._advance(arguments_by_block or {}, *common)
        assert arguments_by_block is not None
        return {
            first: self._verbs[verb](first, *common, *arguments)
            for first, arguments in arguments_by_block.items()
        }

    def _start(self, first: int, position: np.ndarray, auxiliary: tuple) -> list[np.ndarray]:
        return leaves_of(self.loop.start(position, auxiliary, first))

    def _load(self, first: int, leaves: list[np.ndarray]) -> int:
        """The block goes on from here; the longest stretch that it can make at once."""
        if self._template is None:
            self._template = self.loop.template(
                np.zeros((self.loop.walkers, self.loop.potential.num_parameters))
            )
        self._carries[first] = carry_of(leaves, self._template)
        self.loop.prepare(self._carries[first].state)
        return self.loop.longest

    def _advance(
        self,
        arguments_by_block: dict,
        first_move: int,
        count: int,
        burnin: int,
        every: int,
        between: bool,
        *decided,
    ) -> dict:
        """`decided` is where all walkers of the run are after the swaps of the step before.

        It is β, λ and the bias as one vector, and rung, acceptance and the numbers that belong to
        the rung of each walker.
        """
        self.loop.timeline.num_burnin_steps, self.loop.timeline.trajectory_every = burnin, every
        parts = []
        entering = ()
        for first in self._carries:
            if decided:
                columns = decided[1][first : first + self.loop.walkers].T
                entering = (
                    np.concatenate([decided[0], columns.ravel()]),
                    *arguments_by_block.get(first, ({},)),
                )
            parts.append(self._advanced(first, first_move, count, between, *entering))
        facts, taken, ends, recorded, wide = zip(*parts, strict=True)
        rows = joined(recorded) if all(recorded) else []
        arrays = {name: np.concatenate([fields[name] for fields in wide]) for name in wide[0]}
        return {
            next(iter(self._carries)): Answer(
                facts=np.concatenate(facts),
                taken=list(taken),
                ends=list(ends),
                recorded=rows,
                wide=arrays,
            )
        }

    def _advanced(self, first: int, first_move: int, count: int, between: bool, *entering) -> tuple:
        """What an `Answer` has, of one block."""
        loop = self.loop
        method = self.loop.method
        made: Any = loop.stretch(self._carries[first], first_move, count, first, *entering)
        chunk, swap, wide = made if isinstance(loop, BlockLoop) else (made, [], {})
        carry = chunk.carry
        taken = int(chunk.taken)
        if between and taken == count:
            carry = loop.between(carry, first_move + count - 1)
        self._carries[first] = carry
        recorded = []
        if int(chunk.num_rows) + int(chunk.num_positions):
            positions = np.asarray(chunk.positions)
            beside = np.asarray(chunk.beside)
            positions = positions[: int(chunk.num_positions)]
            beside = beside[: int(chunk.num_positions)]
            if isinstance(loop, BlockLoop):
                is_recorded = loop.row_numbers(carry.state).numpy() < loop.kept
                positions = positions[:, is_recorded]
                beside = beside[:, is_recorded]
            recorded = [np.asarray(chunk.rows)[: int(chunk.num_rows)], positions, beside]
        energies = [
            np.asarray(carry.state.potential),
            np.asarray(total_energy(method, carry.state)),
        ]
        return (
            np.stack([*energies, *swap], 1),
            taken,
            loop.burnin.end(carry.state),
            recorded,
            wide,
        )

    def _examples(self, first: int, field: str, indices: np.ndarray) -> np.ndarray:
        """Losses of single examples at the positions of a field of the state."""
        carry = self._carries[first]
        evaluate = self.loop.potential.bind(self.loop.rung, None, carry.auxiliary)
        return np.asarray(
            evaluate.examples(fields_of(carry.state, [field])[field], tf.constant(indices))
        )


class _Buffers(RowBuffers):
    """Rows and positions of all walkers of a block in their order, moments by the rung; see
    `BlockLoop`.
    """

    place: Callable

    def _updated(self, moments: RunningMoments, ordered, weight, state) -> RunningMoments:
        row = self.place(state)[:, None]
        new = update_moments(
            RunningMoments(*(tf.gather_nd(values, row) for values in moments)), ordered, weight
        )
        pairs = zip(moments, new, strict=True)
        return RunningMoments(
            *(tf.tensor_scatter_nd_update(values, row, value) for values, value in pairs)
        )


class BlockLoop(Loop):
    """The loop of a block of a ladder, whose method is `ReplicaSubset`.

    A stretch may begin with the swaps of the step before, which is recorded then. At its end it
    returns the numbers by which the next swaps are decided.

    Args:
        *arguments: Arguments of `Loop`.
        kept: Number of places, the first ones in the order of the run's rows, whose positions and
            moments are stored.
        **options: Options of `Loop`.
    """

    recorder = _Buffers
    method: Any
    _recorder: Any

    def __init__(self, *arguments, kept: int, **options) -> None:
        super().__init__(*arguments, **options)
        self.kept = kept
        self._flat: Any = None
        self._own: list[str] = []
        self._wide: list[str] = []

    @property
    def longest(self) -> int:
        return self._capacity - 1

    def row_numbers(self, state) -> tf.Tensor:
        """The place of each walker in the order of the run's rows, `(walkers,)`, int32."""
        ladders = self.method.num_ladders
        return state.rungs.index * ladders + tf.range(self.walkers) % ladders

    def _row(self, state):
        """Where a walker's moments are; those of one that is not kept are in rows at the end that
        nobody reads.
        """
        place = self.row_numbers(state)
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
        """Makes moves, after the swaps of the step before, up to the next swaps.

        Args:
            carry: The carry before the first of these moves.
            first_move: Number of the first move, from 1.
            count: Number of moves.
            first_walker: Number of the first walker in the run. Default: 0.
            *entering: What the swaps of the step before have changed; nothing if there were none.
                It is two arguments. The first is a vector of β, λ, the bias, rungs, acceptance, and
                numbers that belong to the rungs. The second has the arrays that belong to the
                rungs, by name.

        Returns:
            The chunk; the numbers by which swaps are decided, shape (columns, walkers), as in
            `Answer`; the arrays that belong to the rungs, by name. The last two are empty if no
            swaps follow.
        """
        method = self.method
        due = self.timeline.due(first_move - 1, self._capacity, count + 1)
        swaps = count > 0 and method.exchange.swaps_after(first_move + count - 1)
        if swaps:
            for values in (due.row, due.position, due.moments):
                values[count] = False
        apply = bool(entering)
        state = carry.state
        if self._flat is None:
            self._wide = [
                name for name in method.of_rung if fields_of(state, [name])[name].shape.rank > 1
            ]
            self._own = [name for name in method.of_rung if name not in self._wide]
            rungs = state.rungs
            narrow_values = fields_of(state, self._own).values()
            self._flat = PackedTensors(
                [
                    rungs.table,
                    rungs.bias,
                    rungs.index,
                    tf.zeros((self.walkers,), tf.float64),
                    *narrow_values,
                ]
            )
        if not apply:
            entering = np.zeros(sum(self._flat.sizes)), fields_of(state, self._wide)
        tensors = tf.nest.map_structure(tf.convert_to_tensor, (apply, swaps, *entering))
        following = first_move + count - 1
        chunk, swap = self._called(
            carry, first_move - 1, count + 1, following, first_walker, due, *tensors
        )
        chunk = chunk._replace(taken=chunk.taken - 1)
        if not swaps:
            return chunk, [], {}
        wide = fields_of(chunk.carry.state, self._wide)
        return chunk, np.asarray(swap), {name: np.asarray(value) for name, value in wide.items()}

    def _steps(self, carry: Carry, due: Moves, count, bits, indices, sizes, *tensors) -> Any:
        apply, swaps, *entering = tensors
        begin = self._entered(carry, due, indices, sizes, apply, *entering)
        walked = self._walked(begin, carry, due, count, bits, indices, sizes)
        chunk = self._chunk(carry, due, *walked)
        state = chunk.carry.state

        def energies():
            evaluate = self._at(chunk.taken - 1, due, indices, sizes, chunk.carry.auxiliary)
            return tuple(self.method.energies(state, evaluate))

        none = tf.zeros((self.walkers,), tf.float64)
        energy_columns = tf.cond(tf.logical_and(swaps, walked[4]), energies, lambda: (none, none))
        centre = fields_of(state, [name for name in ("centre_loss",) if name in state._fields])
        columns = (
            *energy_columns,
            *centre.values(),
            walked[3],
            *fields_of(state, self._own).values(),
        )
        return chunk, tf.stack([tf.cast(values, tf.float64) for values in columns])

    def _entered(
        self, carry: Carry, due: Moves, indices, sizes, apply, vector, wide: dict
    ) -> tuple:
        """The beginning of the steps: the swaps of the step before, and its record."""
        table, bias, index, acceptance, *narrow_values = self._flat.parted(vector)
        placed = RungPlacement(index, table, bias, carry.state.rungs.replica)
        fields = wide | dict(zip(self._own, narrow_values, strict=True))
        evaluate = self._at(tf.constant(0), due, indices, sizes, carry.auxiliary)
        before = self._unpack(self._pack(carry.state), evaluate.rung)

        def swapped():
            return self._pack(self.method.exchanged(before, placed, fields, evaluate))

        packed = tf.cond(apply, swapped, lambda: self._pack(before))
        now = Moves(*map(entry(tf.constant(0)), due))
        alive = tf.constant(True)
        full_state = self._unpack(packed, evaluate.rung)
        if self.method.has_momentum:
            seen = tf.logical_and(apply, now.row)
            energy = tf.cond(
                seen,
                lambda: total_energy(self.method, full_state),
                lambda: tf.zeros_like(acceptance),
            )
            alive = tf.reduce_all(energy <= carry.highest)

        def state():
            evaluate = self._at(tf.constant(0), due, indices, sizes, carry.auxiliary)
            return self._unpack(packed, evaluate.rung), evaluate

        recorded = tf.logical_and(apply, alive)
        empty: Buffers = self._recorder.empty(carry.moments)
        buffers = self._recorder.after(now, state, acceptance, recorded, empty)
        return tf.constant(1), packed, carry.auxiliary, acceptance, alive, buffers
