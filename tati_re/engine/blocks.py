"""Blocks of walkers where a run sees one loop: what is done together is decided here, and steps are made elsewhere."""

from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from tati_re.core.backend import Direct, tf
from tati_re.core.evaluate import Clock
from tati_re.engine.block import Answer
from tati_re.engine.loop import Loop
from tati_re.engine.noise import RecordingNoise, StepNoise, draw_numbers
from tati_re.engine.recording import Carry, Chunk, RunningMoments, carry_of, leaves_of
from tati_re.engine.silent import SilentEvaluate
from tati_re.exchange.apart import Apart, Placed


class Asked(Protocol):
    """Whoever holds the blocks: verbs of `Held`, with what is common to the blocks and what is the own of each, by its
    first walker, in so many workers. `load` puts all of them somewhere, `mark` says where they are."""

    number: int

    def load(self, states: dict[int, list]) -> dict[int, int]: ...

    def mark(self, states: dict[int, list]) -> None: ...

    def ask(self, verb: str, common: tuple, own: dict[int, tuple]) -> dict[int, Any]: ...


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


class Blocks(Loop):
    """The loop of a run whose walkers are cut into blocks of `size`, which `team` holds; `apart` is the method of a
    block where the walkers are replicas of a ladder."""

    method: Any

    def __init__(self, *arguments, team: Asked, size: int, apart: Apart | None = None, **options) -> None:
        super().__init__(*arguments, **options)
        self._team, self.size, self._apart = team, size, apart
        self._firsts = range(0, self.walkers, size)
        self.title += f", workers {team.number}, blocks {len(self._firsts)}"
        self._here: Any = None
        self._last: dict[int, Answer] = {}
        self._longest = 0
        self._rungs: Any = None
        self._entering: dict[int, tuple] = {}
        self._moments: dict[int, list[np.ndarray]] = {}

    def prepare(self, state) -> None:
        if self._state_type is None:
            super().prepare(super().template(np.zeros((self.walkers, self.potential.num_parameters))))

    # From blocks to all walkers, and back

    @cached_property
    def _like(self):
        """The state of a block: its structure and shapes."""
        method, rung = self._apart or self.method, self.rung.part(0, self.size)
        position = tf.zeros((self.size, self.potential.num_parameters), self.potential.dtype)
        return method.init(position, SilentEvaluate(rung), RecordingNoise(self.potential.dtype))

    def _of_walkers(self, like) -> bool:
        return like.shape.rank > 0 and like.shape[0] == self.size

    def _joined(self, states: dict[int, list]) -> Carry:
        """The carry of all walkers. What is no entry of each walker has an entry of each block."""
        carries = [carry_of(states[first], self._like) for first in self._firsts]

        def joined(like, *parts):
            return tf.concat(parts, 0) if self._of_walkers(like) else tf.stack(parts)

        fields = {}
        for name, like in self._like._asdict().items():
            if name not in ("rung", "rungs"):
                fields[name] = tf.nest.map_structure(joined, like, *(carry.state._asdict()[name] for carry in carries))
        auxiliary = tuple(tf.concat(parts, 0) for parts in zip(*(carry.auxiliary for carry in carries), strict=True))
        state_type, fields["rung"] = type(self._like), self.rung
        moments = RunningMoments(*(tf.concat(parts, 0) for parts in zip(*(c.moments for c in carries), strict=True)))
        if self._apart is not None:
            self._moments = {first: states[first][-4:-1] for first in self._firsts}
            moments = _merged(list(self._moments.values()), self.num_recorded)
            whole = super().template(np.zeros((self.walkers, self.potential.num_parameters)))
            state_type, fields["rungs"] = type(whole), self._rungs or whole.rungs
        return Carry(state_type(**fields), auxiliary, moments, carries[0].highest)

    def _split(self, carry: Carry) -> dict[int, list[np.ndarray]]:
        """The arrays of each block."""
        fields, states = carry.state._asdict(), {}
        placed = self._placed(fields["rungs"]) if self._apart is not None else {}
        for number, first in enumerate(self._firsts):
            here = slice(first, first + self.size)

            def part(like, value, here=here, number=number):
                return value[here] if self._of_walkers(like) else value[number]

            own = {}
            for name, like in self._like._asdict().items():
                if name == "rungs":
                    own[name] = placed[first]
                elif name != "rung":
                    own[name] = tf.nest.map_structure(part, like, fields[name])
            state = self._like._replace(**own)
            moments = RunningMoments(*(self._moments.get(first) or [value[here] for value in carry.moments]))
            states[first] = leaves_of(Carry(state, tuple(v[here] for v in carry.auxiliary), moments, carry.highest))
        return states

    def _placed(self, rungs) -> dict[int, Placed]:
        """Where the walkers of each block are; β, λ and the bias are the same arrays for all, and travel once."""
        index, replica = np.asarray(rungs.index), np.arange(self.walkers, dtype=np.int32) // self.method.num_ladders
        table, bias = (made and type(made)(*map(np.asarray, made)) for made in (rungs.table, rungs.bias))
        parts = {first: slice(first, first + self.size) for first in self._firsts}
        return {first: Placed(index[here], table, bias, replica[here]) for first, here in parts.items()}

    def _load(self, carry: Carry) -> None:
        self.prepare(carry.state)
        if self._apart is not None:
            self._rungs = carry.state.rungs
        longest = self._team.load(self._split(carry))
        self._longest = min(longest.values())
        self.chunk_steps = max(self.chunk_steps, self._longest)

    def _fetched(self) -> Carry:
        states = self._team.ask("leaves", (), {first: () for first in self._firsts})
        self._team.mark(states)
        return self._joined(states)

    def arrays(self) -> dict[str, np.ndarray]:
        names = RunningMoments._fields
        pairs = ((first, zip(names, moments, strict=True)) for first, moments in self._moments.items())
        return {f"blocks/{first}/{name}": value for first, each in pairs for name, value in each}

    def restore(self, arrays) -> None:
        if self._apart is not None:
            names = RunningMoments._fields
            self._moments = {first: [arrays[f"blocks/{first}/{name}"] for name in names] for first in self._firsts}

    def start(self, position: np.ndarray, auxiliary: tuple, first_walker: int = 0) -> Carry:
        parts = [slice(first, first + self.size) for first in self._firsts]
        own = {part.start: (position[part], tuple(value[part] for value in auxiliary)) for part in parts}
        self.prepare(None)
        carry = self._joined(self._team.ask("start", (), own))
        if self._apart is not None:
            state = carry.state
            rungs = self.method.with_bias(state.rungs, self.potential.scale * state.loss - state.log_prior)
            carry = carry._replace(state=state._replace(rungs=rungs))
            moments = self._no_moments(self.num_recorded, position.shape[1])
            carry = carry._replace(moments=moments)
        return carry._replace(highest=self.highest(carry.state))

    def energies(self, carry: Carry, whole: bool) -> tuple[np.ndarray, np.ndarray]:
        if carry is not self._here:
            return super().energies(carry, whole)
        # Of blocks that went on while another one diverged nothing is said.
        taken = min(answer.taken for answer in self._last.values())
        nothing = (np.zeros(self.size),) * 2
        seen = [(each.potential, each.energy) if each.taken == taken else nothing for each in self._last.values()]
        potential, energy = (np.concatenate(parts) for parts in zip(*seen, strict=True))
        return potential, energy if whole else potential

    def _states(self, carry: Carry) -> list:
        return [carry_of(leaves, self._like).state for leaves in self._split(carry).values()]

    def tuned(self, carry: Carry) -> str:
        return self.method.tuned(self._states(carry)[0])

    def end_burnin(self, carry: Carry) -> None:
        self._end([self.method.burnin_end(state) for state in self._states(carry)] if self.method.finds_end else [None])

    def _end(self, ends: list[int | None]) -> None:
        """The burn-in is over where all blocks have found its end."""
        found = [end for end in ends if end is not None]
        if len(found) == len(ends):
            self.timeline.num_burnin_steps = max(found)

    # Steps

    def run(self, carry: Carry, first_move: int, count: int, first_walker: int = 0) -> Chunk:
        if carry is not self._here:
            self._load(carry)
        count = self.until_end(first_move, count)
        last, done, parts, events = first_move + count - 1, 0, list[list[np.ndarray]](), list[np.ndarray]()
        ends = count > 0 and last in self.ends()
        while True:
            move = first_move + done
            here = min(count - done, self._longest)
            if self._apart is not None and self.method.has_rounds:
                here = min(here, self.method.exchange_every - (move - 1) % self.method.exchange_every)
            over = done + here == count and not (here and self._swaps(move + here - 1))
            taken, rows = self._stretch(move, here, ends and over)
            parts.append(rows)
            done += taken
            if taken < here or over:
                break
            if self._swaps(move + here - 1):
                events.append(self._swapped(move + here - 1))
        self._here = after = _Elsewhere(self._fetched)
        found = [np.concatenate(each) for each in zip(*parts, strict=True)]
        told = np.stack(events) if events else np.zeros((0, 0, 0))
        filled = found[0], len(found[0]), found[1], found[2], len(found[1])
        result: Any = after
        if ends and done == count:
            self._end([answer.end for answer in self._last.values()])
            result = after if self.cools is None else self.cools(after._carry, last)
        return Chunk(result, done, *filled, told, len(events) if self.timeline.event_every else 0)

    def _swaps(self, step: int) -> bool:
        """Whether walkers swap after a step."""
        return self._apart is not None and self.method.swaps_after(step)

    def _stretch(self, move: int, count: int, between: bool) -> tuple[int, list[np.ndarray]]:
        """Moves of all blocks: how many were made, and rows, positions and what is beside them in the run's order."""
        own = {first: self._entering.get(first, ()) for first in self._firsts}
        common = (move, count, self.timeline.num_burnin_steps, between)
        self._last, self._entering = self._team.ask("advance", common, own), {}
        answers = [self._last[first] for first in self._firsts]
        order = kept = np.arange(self.walkers)
        if self._apart is not None:
            index = np.asarray(self._rungs.index)
            place = index * self.method.num_ladders + np.arange(self.walkers) % self.method.num_ladders
            order = np.argsort(place)
            kept = np.argsort(place[place < self.num_recorded])
        shared = [(each.rows, each.positions, each.beside) for each in answers]
        found = []
        for values, places in zip(zip(*shared, strict=True), (order, kept, kept), strict=True):
            number = min(len(value) for value in values)
            joined = np.concatenate([value[:number] for value in values], axis=1)
            found.append(joined if self._apart is None else joined[:, places])
        return min(each.taken for each in answers), found

    # Swaps

    def _swapped(self, step: int) -> np.ndarray:
        """Decides the swaps after a step, which the blocks make next; what is told of them, `(rows, columns)`."""
        swaps: list[Any] = [self._last[first].swap for first in self._firsts]
        loss, penalty, acceptance = (np.concatenate(parts) for parts in list(zip(*swaps, strict=True))[:3])
        fields = {name: np.concatenate([swap[3][name] for swap in swaps]) for name in swaps[0][3]}
        adapting = step <= self.timeline.num_burnin_steps
        factors = [factor[0] for factor in self.timeline.factors(np.array([step]))]
        centre = [fields.pop("centre_loss")] if "centre_loss" in fields else []
        # One tensor for all: each takes some 25 microseconds to make.
        facts = np.concatenate([[step, adapting, *factors], loss, penalty])
        self._rungs, source = self._decide(self._rungs, facts, centre)
        source = source.numpy()
        for first, placed in self._placed(self._rungs).items():
            mine = source[first : first + self.size]
            changed = {name: values[mine] for name, values in fields.items()}
            self._entering[first] = (placed, changed, acceptance[mine])
        return np.asarray(self._rungs.events)

    @cached_property
    def _decide(self) -> Callable:
        """Rungs, and in one vector the step, whether it is of the burn-in, both factors, L and V of all walkers, to the
        rungs after a round and the walker that was at each one's rung: one compiled call, within which estimates ask
        the blocks."""
        method, noise = self.method, RecordingNoise(self.potential.dtype)
        if method.swaps is not None:
            method.swaps.random_numbers(noise)
        full = self.potential.batches.full
        draws, exact = noise.draws, not method.asks_examples(full)

        def decided(numbers, rungs, facts, centre):
            step, adapting, step_factor, temperature_factor = tf.unstack(facts[:4])
            loss, penalty = tf.split(facts[4:], 2)
            random = {} if method.swaps is None else method.swaps.random_numbers(StepNoise(draws, numbers))
            evaluate: Any = SimpleNamespace(
                rung=self._rung_at(step_factor, temperature_factor),
                clock=Clock(tf.cast(step, tf.int64), adapting > 0, tf.constant(0)),
                num_examples=self.potential.num_examples,
                scale=self.potential.scale,
                exact=full or method.exact_energies,
                examples=self._examples_of,
            )
            values: dict[str, Any] = {"position": "position"}
            if centre:
                values |= {"centre": "centre", "centre_loss": centre[0]}
            inner = SimpleNamespace(_fields=tuple(values), _asdict=lambda: values, **values)
            grown, new = method.decided(rungs, inner, loss, penalty, evaluate, random)
            return new, method.places.source(grown.index, new.index)

        compiled = tf.function(decided, autograph=False, jit_compile=True) if exact else decided
        self._raised: list[Exception] = []

        def drawn(rungs, facts, centre):
            step = tf.cast(facts[0], tf.int64)
            numbers = [values[0] for values in draw_numbers(draws, self.seed, "step", step, 1)]
            return compiled(numbers, rungs, facts, centre)

        called = Direct(drawn)

        def told(*given):
            try:
                return called(*given)
            except tf.errors.OpError:
                if self._raised:
                    raise self._raised.pop() from None
                raise

        return told

    def _examples_of(self, field: str, indices) -> tf.Tensor:
        """Losses of single examples, `(walkers, n)`, at the positions of a field of the state."""

        def asked(chosen):
            try:
                own = {first: (chosen[first : first + self.size],) for first in self._firsts}
                found = self._team.ask("examples", (field,), own)
                return np.concatenate([found[first] for first in self._firsts])
            except Exception as error:  # which TensorFlow would hand on as words
                self._raised.append(error)
                raise

        return tf.ensure_shape(tf.numpy_function(asked, [indices], tf.float64), indices.shape)


def _merged(parts: list[list[np.ndarray]], kept: int) -> RunningMoments:
    """The moments of all blocks, one after the other (Chan, Golub and LeVeque 1983)."""
    count, mean, m2 = (values[:kept] for values in parts[0])
    for part in parts[1:]:
        other, their_mean, their_m2 = (values[:kept] for values in part)
        total = count + other
        share = (other / np.where(total > 0, total, 1.0))[:, None]
        difference = their_mean - mean
        m2 = m2 + their_m2 + difference**2 * count[:, None] * share
        mean, count = mean + difference * share, total
    return RunningMoments(*map(tf.constant, (count, mean, m2)))
