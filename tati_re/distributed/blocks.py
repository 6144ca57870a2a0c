"""Blocks of walkers where a run sees one loop: what is done together is decided here, and steps are
made elsewhere.
"""

import math
from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from tati_re.core.backend import Direct, refilled, tf
from tati_re.core.evaluate import Clock
from tati_re.distributed.block import Answer, PackedTensors, joined
from tati_re.distributed.replica_subset import ReplicaSubset, RungPlacement
from tati_re.engine.loop import Loop
from tati_re.engine.noise import Draw, RecordingNoise, StepNoise, draw_numbers
from tati_re.engine.recording import Carry, Chunk, RunningMoments, carry_of, leaves_of
from tati_re.engine.zero_evaluate import ZeroEvaluate
from tati_re.runs.checkpoint import moments_of
from tati_re.runs.stored_arrays import StoredArrays

_AHEAD, _AHEAD_NUMBERS = 256, 10_000
"""Steps whose random numbers are drawn in one call, which takes as long as so many numbers that no
round needs.
"""


class BlockHolder(Protocol):
    """Holds the blocks of a run, in a number of workers, and passes verbs of `BlockServer` to them.

    `load` puts all blocks somewhere, `mark` notes their present states.
    """

    number: int

    def load(self, states: dict[int, list]) -> dict[int, int]: ...

    def mark(self, states: dict[int, list]) -> None: ...

    def ask(
        self, verb: str, common: tuple, arguments_by_block: dict[int, tuple] | None
    ) -> dict[int, Any]:
        """Asks the blocks.

        Args:
            verb: A verb of `BlockServer.answer`.
            common: Arguments that all blocks share.
            arguments_by_block: Further arguments of each block, by its first walker. None: none.

        Returns:
            The answers by the first walker of a block, as from `BlockServer.answer`.
        """
        ...


class _Elsewhere:
    """The carry of walkers in blocks, fetched when it is asked for."""

    def __init__(self, fetched: Callable[[], Carry]) -> None:
        self._fetched = fetched

    @cached_property
    def _carry(self) -> Carry:
        return self._fetched()

    state = property(lambda self: self._carry.state)
    auxiliary = property(lambda self: self._carry.auxiliary)
    moments = property(lambda self: self._carry.moments)
    highest = property(lambda self: self._carry.highest)

    def _replace(self, **fields: Any) -> Carry:
        """The carry with some of its fields replaced, as that of one loop."""
        return self._carry._replace(**fields)


class Blocks(Loop):
    """The loop of a run whose walkers are held in blocks.

    Args:
        *arguments: Arguments of `Loop`.
        team: Holds the blocks.
        size: Walkers of a block.
        replica_subset: The method of a block, if blocks divide a temperature ladder. Default: None,
            they do not.
        **options: Options of `Loop`.
    """

    method: Any

    def __init__(
        self,
        *arguments,
        team: BlockHolder,
        size: int,
        replica_subset: ReplicaSubset | None = None,
        **options,
    ) -> None:
        super().__init__(*arguments, **options)
        self._team = team
        self.size = size
        self._replica_subset = replica_subset
        self._firsts = range(0, self.walkers, size)
        self._parts = {first: slice(first, first + size) for first in self._firsts}
        self.title += f", workers {team.number}, blocks {len(self._firsts)}"
        self._here: Any = None
        self._last: dict[int, Answer] = {}
        self._longest = 0
        self._flat: Any = None
        self._rungs = np.zeros(0)
        self._ready: tuple[int, np.ndarray] = 0, np.zeros((0, 0))
        self._entering: tuple = ()
        self._wide: dict[int, tuple] | None = None
        self._moments: dict[int, list[np.ndarray]] = {}

    def prepare(self, state) -> None:
        if self._state_type is None:
            super().prepare(
                super().template(np.zeros((self.walkers, self.potential.num_parameters)))
            )

    # From blocks to all walkers, and back

    @cached_property
    def _like(self):
        """The state of a block: its structure and shapes."""
        method = self._replica_subset or self.method
        rung = self.rung.part(0, self.size)
        position = tf.zeros((self.size, self.potential.num_parameters), self.potential.dtype)
        return method.init(position, ZeroEvaluate(rung), RecordingNoise(self.potential.dtype))

    def _of_walkers(self, like) -> bool:
        return like.shape.rank > 0 and like.shape[0] == self.size

    def template(self, position: np.ndarray):
        """A state with the shapes of the joined one.

        A value that has no entry for each walker has an entry for each block.
        """
        full_state = super().template(position)
        number = len(self._firsts)

        def repeated(like):
            return (
                tf.concat([like] * number, 0)
                if self._of_walkers(like)
                else tf.stack([like] * number)
            )

        fields = {
            name: tf.nest.map_structure(repeated, like)
            for name, like in self._like._asdict().items()
            if name not in ("rung", "rungs")
        }
        return full_state._replace(**fields)

    def _joined(self, states: dict[int, list]) -> Carry:
        """The carry of all walkers. What is no entry of each walker has an entry of each block."""
        carries = [carry_of(states[first], self._like) for first in self._firsts]

        def joined(like, *parts):
            return tf.concat(parts, 0) if self._of_walkers(like) else tf.stack(parts)

        fields = {}
        for name, like in self._like._asdict().items():
            if name not in ("rung", "rungs"):
                fields[name] = tf.nest.map_structure(
                    joined, like, *(carry.state._asdict()[name] for carry in carries)
                )
        auxiliary = tuple(
            tf.concat(parts, 0)
            for parts in zip(*(carry.auxiliary for carry in carries), strict=True)
        )
        state_type, fields["rung"] = type(self._like), self.rung
        moments = RunningMoments(
            *(tf.concat(parts, 0) for parts in zip(*(c.moments for c in carries), strict=True))
        )
        if self._replica_subset is not None:
            self._moments = {first: states[first][-5:-1] for first in self._firsts}
            moments = _merged(list(self._moments.values()), self.num_recorded)
            full_state = super().template(np.zeros((self.walkers, self.potential.num_parameters)))
            rungs = (
                full_state.rungs
                if self._flat is None
                else self._flat.parted(tf.constant(self._rungs))
            )
            state_type, fields["rungs"] = type(full_state), rungs
        return Carry(state_type(**fields), auxiliary, moments, carries[0].highest)

    def _split(self, carry: Carry) -> dict[int, list[np.ndarray]]:
        """The arrays of each block."""
        fields = carry.state._asdict()
        states = {}
        placed = self._placed(fields["rungs"]) if self._replica_subset is not None else {}
        for number, (first, members) in enumerate(self._parts.items()):

            def part(like, value, members=members, number=number):
                return value[members] if self._of_walkers(like) else value[number]

            block_fields = {}
            for name, like in self._like._asdict().items():
                if name == "rungs":
                    block_fields[name] = placed[first]
                elif name != "rung":
                    block_fields[name] = tf.nest.map_structure(part, like, fields[name])
            state = self._like._replace(**block_fields)
            moments = RunningMoments(
                *(self._moments.get(first) or [value[members] for value in carry.moments])
            )
            states[first] = leaves_of(
                Carry(state, tuple(v[members] for v in carry.auxiliary), moments, carry.highest)
            )
        return states

    def _placed(self, rungs) -> dict[int, RungPlacement]:
        """Where the walkers of each block are; β, λ and the bias are the same arrays for all, and
        travel once.
        """
        index = np.asarray(rungs.index)
        replica = np.arange(self.walkers, dtype=np.int32) // self.method.num_ladders
        table, bias = (
            made and type(made)(*map(np.asarray, made)) for made in (rungs.table, rungs.bias)
        )
        return {
            first: RungPlacement(index[members], table, bias, replica[members])
            for first, members in self._parts.items()
        }

    def _load(self, carry: Carry) -> None:
        self.prepare(carry.state)
        if self._replica_subset is not None:
            self._flat = PackedTensors(carry.state.rungs)
            self._rungs = self._flat.joined(carry.state.rungs).numpy()
        self._longest = min(self._team.load(self._split(carry)).values())
        self.chunk_steps = max(self.chunk_steps, self._longest)

    def _fetched(self) -> Carry:
        states = self._team.ask("leaves", (), {first: () for first in self._firsts})
        self._team.mark(states)
        return self._joined(states)

    def arrays(self) -> dict[str, np.ndarray]:
        names = RunningMoments._fields
        pairs = (
            (first, zip(names, moments, strict=True)) for first, moments in self._moments.items()
        )
        return {
            f"blocks/{first}/{name}": value
            for first, named_moments in pairs
            for name, value in named_moments
        }

    def restore(self, arrays: StoredArrays) -> None:
        if self._replica_subset is not None:
            self._moments = {first: moments_of(arrays, f"blocks/{first}") for first in self._firsts}

    def start(self, position: np.ndarray, auxiliary: tuple, first_walker: int = 0) -> Carry:
        arguments_by_block = {
            k: (position[members], tuple(value[members] for value in auxiliary))
            for k, members in self._parts.items()
        }
        self.prepare(None)
        carry = self._joined(self._team.ask("start", (), arguments_by_block))
        if self._replica_subset is not None:
            state = carry.state
            rungs = self.method.with_bias(
                state.rungs, self.potential.scale * state.loss - state.log_prior
            )
            carry = carry._replace(state=state._replace(rungs=rungs))
            carry = carry._replace(moments=self._no_moments(self.num_recorded, position.shape[1]))
        return carry._replace(highest=self.highest(carry.state))

    def energies(self, carry: Carry, with_total: bool) -> tuple[np.ndarray, np.ndarray]:
        if carry is not self._here:
            return super().energies(carry, with_total)
        # Of blocks that went on while another one diverged nothing is said.
        moves_by_block = np.concatenate([answer.taken for answer in self._last.values()])
        seen = np.repeat(moves_by_block == moves_by_block.min(), self.size)
        facts = np.concatenate([answer.facts[:, :2] for answer in self._last.values()])
        potential, energy = np.where(seen, facts.T, 0.0)
        return potential, energy if with_total else potential

    def states(self, carry: Carry) -> list:
        return [carry_of(leaves, self._like).state for leaves in self._split(carry).values()]

    def end_burnin(self, carry: Carry) -> None:
        self._end(
            [self.burnin.end(state) for state in self.states(carry)]
            if self.burnin.finds_end
            else [None]
        )

    def _end(self, ends: list[int | None]) -> None:
        """The burn-in is over where all blocks have found its end."""
        known_ends = [end for end in ends if end is not None]
        if len(known_ends) == len(ends):
            self.timeline.num_burnin_steps = max(known_ends)

    # Steps

    def run(self, carry: Carry, first_move: int, count: int, first_walker: int = 0) -> Chunk:
        if carry is not self._here:
            self._load(carry)
        count = self.until_end(first_move, count)
        last = first_move + count - 1
        done = 0
        parts = list[list[np.ndarray]]()
        events = list[np.ndarray]()
        ends = count > 0 and last in self.ends()
        while True:
            move = first_move + done
            num_moves = min(count - done, self._longest)
            if self._replica_subset is not None and self.method.has_rounds:
                num_moves = min(
                    num_moves, self.method.exchange_every - (move - 1) % self.method.exchange_every
                )
            over = done + num_moves == count and not (
                num_moves and self._swaps(move + num_moves - 1)
            )
            moves_made, rows = self._stretch(move, num_moves, ends and over)
            parts += [rows] if rows else []
            done += moves_made
            if moves_made < num_moves or over:
                break
            if self._swaps(move + num_moves - 1):
                events.append(self._swapped(move + num_moves - 1))
        self._here = after = _Elsewhere(self._fetched)
        nothing = np.zeros((0, self.walkers, 0))
        records = (
            [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
            if parts
            else [nothing] * 3
        )
        event_rows = np.stack(events) if events else np.zeros((0, 0, 0))
        result: Any = after
        if ends and done == count:
            self._end([end for answer in self._last.values() for end in answer.ends])
            result = after if self.cools is None else self.cools(after._carry, last)

        return Chunk(
            carry=result,
            taken=done,
            rows=records[0],
            num_rows=len(records[0]),
            positions=records[1],
            beside=records[2],
            num_positions=len(records[1]),
            events=event_rows,
            num_events=len(events) if self.timeline.event_every else 0,
        )

    def _swaps(self, step: int) -> bool:
        """Whether walkers swap after a step."""
        return self._replica_subset is not None and self.method.swaps_after(step)

    def _stretch(self, move: int, count: int, between: bool) -> tuple[int, list[np.ndarray]]:
        """Moves of all blocks: how many were made, and, if any, what was recorded, in the run's
        order.
        """
        common = (
            move,
            count,
            self.timeline.num_burnin_steps,
            self.timeline.trajectory_every,
            between,
            *self._entering,
        )
        self._last = self._team.ask("advance", common, self._wide)
        self._entering = ()
        self._wide = None
        recorded = [answer.recorded for answer in self._last.values()]
        moves_made = min(min(answer.taken) for answer in self._last.values())
        if not all(recorded):
            return moves_made, []
        records = joined(recorded)
        if self._replica_subset is not None:
            index = self._rungs[self._flat.part["index"]]
            ladders = self.method.num_ladders
            place = index * ladders + np.arange(self.walkers) % ladders
            recorded_order = np.argsort(place[place < self.num_recorded])
            records = [
                values[:, order]
                for values, order in zip(
                    records, (np.argsort(place), recorded_order, recorded_order), strict=True
                )
            ]
        return moves_made, records

    # Swaps

    def _swapped(self, step: int) -> np.ndarray:
        """Decides the swaps after a step, which the blocks make next; what is told of them, `(rows,
        columns)`.
        """
        answers = list(self._last.values())
        part = self._flat.part
        seen = np.concatenate([answer.facts for answer in answers])[:, 2:]
        known = 3 if "centre_loss" in self._like._fields else 2
        adapting = step <= self.timeline.num_burnin_steps
        factors = [factor[0] for factor in self.timeline.factors(np.array([step]))]
        facts = [step, adapting, *factors], seen[:, :known].T.ravel(), self._numbers(step)
        decided = self._decide(np.concatenate([self._rungs, *facts]))
        self._rungs, source = decided[: -self.walkers], decided[-self.walkers :].astype(int)
        moved = np.concatenate([self._rungs[part["index"]][:, None], seen[source, known:]], 1)
        self._entering = (
            np.concatenate([self._rungs[part["table"]], self._rungs[part["bias"]]]),
            moved,
        )
        if wide := answers[0].wide:
            new = {
                name: np.concatenate([answer.wide[name] for answer in answers])[source]
                for name in wide
            }
            self._wide = {
                k: ({name: new[name][members] for name in new},)
                for k, members in self._parts.items()
            }
        return self._rungs[part["events"]].reshape(-1, len(self.ladder.event_columns))

    @cached_property
    def _draws(self) -> list[Draw]:
        """The random numbers of a round."""
        noise = RecordingNoise(self.potential.dtype)
        if self.method.swaps is not None:
            self.method.swaps.random_numbers(noise)
        return noise.draws

    @cached_property
    def _draw(self) -> Callable:
        """The random numbers of many steps, from the first one on, a row each, or of one where that
        is less.
        """
        numbers_per_step = sum(math.prod(draw.shape) for draw in self._draws)
        number = _AHEAD if numbers_per_step * self.method.exchange_every <= _AHEAD_NUMBERS else 1

        def drawn(first):
            numbers = draw_numbers(self._draws, self.seed, "step", first, number)
            rows = [tf.cast(tf.reshape(values, (number, -1)), tf.float64) for values in numbers]
            return tf.concat([tf.zeros((number, 0), tf.float64), *rows], 1)

        return Direct(drawn)

    def _numbers(self, step: int) -> np.ndarray:
        """The random numbers of a round after a step."""
        first, numbers = self._ready
        if not first <= step < first + len(numbers):
            first, numbers = self._ready = step, self._draw(tf.constant(step, tf.int64)).numpy()
        return numbers[step - first]

    @cached_property
    def _decide(self) -> Callable:
        """Rungs, the step, whether it is of the burn-in, both factors, L, V and what else is known
        of all walkers, and random numbers to the rungs after a round and the walker that was at
        each one's rung: from one vector to one, in one compiled call, within which estimates ask
        the blocks.
        """
        method = self.method
        flat = self._flat
        full = self.potential.batches.full
        exact = not method.ladder.asks_examples(full)
        has_centre = "centre_loss" in self._like._fields
        energies = [self.walkers] * (3 if has_centre else 2)
        sizes = [sum(flat.sizes), 4, *energies, *(math.prod(draw.shape) for draw in self._draws)]

        def decided(vector):
            before, head, *others = tf.split(vector, sizes)
            step, adapting, step_factor, temperature_factor = tf.unstack(head)
            (loss, penalty, *centre_loss), numbers = (
                others[: len(energies)],
                others[len(energies) :],
            )
            pairs = zip(self._draws, numbers, strict=True)
            noise = StepNoise(
                self._draws, [tf.cast(tf.reshape(v, draw.shape), draw.dtype) for draw, v in pairs]
            )
            evaluate: Any = SimpleNamespace(
                rung=self._rung_at(step_factor, temperature_factor),
                clock=Clock(tf.cast(step, tf.int64), adapting > 0, tf.constant(0)),
                num_examples=self.potential.num_examples,
                scale=self.potential.scale,
                exact=full or method.exact_energies,
                examples=self._examples_of,
            )
            values: dict[str, Any] = {"position": "position"}
            if has_centre:
                values |= {"centre": "centre", "centre_loss": centre_loss[0]}
            inner = SimpleNamespace(_fields=tuple(values), _asdict=lambda: values, **values)
            random = {} if method.swaps is None else method.swaps.random_numbers(noise)
            grown, new = method.decided(flat.parted(before), inner, loss, penalty, evaluate, random)
            return flat.joined((new, method.occupancy.source(grown.index, new.index)))

        self._raised: list[Exception] = []
        called = Direct(decided, jit_compile=exact)
        (inputs, memory) = refilled(sum(sizes))

        def decide(vector):
            memory[:] = vector
            try:
                return called(inputs).numpy()
            except tf.errors.OpError:
                if self._raised:
                    raise self._raised.pop() from None
                raise

        return decide

    def _examples_of(self, field: str, indices) -> tf.Tensor:
        """Losses of single examples, `(walkers, n)`, at the positions of a field of the state."""

        def examples_of(chosen):
            try:
                arguments_by_block = {
                    first: (chosen[first : first + self.size],) for first in self._firsts
                }
                examples = self._team.ask("examples", (field,), arguments_by_block)
                return np.concatenate([examples[first] for first in self._firsts])
            except Exception as error:  # which TensorFlow would hand on as words
                self._raised.append(error)
                raise

        return tf.ensure_shape(tf.numpy_function(examples_of, [indices], tf.float64), indices.shape)


def _merged(parts: list[list[np.ndarray]], num_kept: int) -> RunningMoments:
    """The moments of all blocks, one after the other (Chan, Golub and LeVeque 1983)."""
    count, mean, m2, squares = (values[:num_kept] for values in parts[0])
    for part in parts[1:]:
        other, their_mean, their_m2, their_squares = (values[:num_kept] for values in part)
        total = count + other
        share = (other / np.where(total > 0, total, 1.0))[:, None]
        difference = their_mean - mean
        m2 = m2 + their_m2 + difference**2 * count[:, None] * share
        mean = mean + difference * share
        count = total
        squares = squares + their_squares
    return RunningMoments(*map(tf.constant, (count, mean, m2, squares)))
