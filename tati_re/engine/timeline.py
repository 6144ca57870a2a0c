"""The step of each walker, and the records due after it.

A move is one iteration of the loop: a step of all walkers, or of one group where groups take turns
(ensemble methods: one half moves while the other rests). A group makes `group_steps` steps, then
the next one the same steps: steps are counted per walker, and a walker is recorded only while it
moves.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tati_re.runs.trajectory_rows import steps_between

Factor = Callable[[np.ndarray], np.ndarray]


class Moves(NamedTuple):
    """The moves of a chunk, `(chunk_steps,)` each. `stop` says how many of them are done when
    something is due next, or a turn or the chunk ends, int32; what is due after each, bool: a
    `row`, one that counts for `moments`, a `position`, an `event` of the method; `step` is the one
    that the moving `group` takes, int64, `adapting` in the burn-in; the factors multiply step size
    and temperature, float64.
    """

    stop: Any
    row: Any
    moments: Any
    position: Any
    event: Any
    step: Any
    adapting: Any
    group: Any
    step_factor: Any
    temperature_factor: Any


@dataclass
class Timeline:
    """Moves, steps and due records. There is a row each `record_every` steps, a position each
    `trajectory_every`, more for the `fewest_positions`, and an event of a method that has some each
    `event_every`; 0: none. Burn-in steps have no positions and no moments; what adapts does so
    until they end. Groups of walkers take turns of `group_steps` steps. The factors give, of step
    numbers `(n,)`, what step size and temperature are multiplied with; None: 1.
    """

    record_every: int
    trajectory_every: int
    num_burnin_steps: int
    groups: int
    group_steps: int
    step_factor: Factor | None
    temperature_factor: Factor | None
    event_every: int
    fewest_positions: int = 0

    @property
    def closest(self) -> int:
        return int(steps_between(self.trajectory_every, self.fewest_positions, 0))

    @property
    def varies(self) -> bool:
        return self.step_factor is not None or self.temperature_factor is not None

    def steps(self, first_move: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The step and the group of each of several moves.

        Args:
            first_move: Number of the first move, from 1.
            count: Number of moves.

        Returns:
            Steps, from 1, and groups, from 0; int64, shape (count,) each.
        """
        turn, place = np.divmod(np.arange(first_move - 1, first_move - 1 + count), self.group_steps)
        round_, group = np.divmod(turn, self.groups)
        return round_ * self.group_steps + place + 1, group

    def moves(self, steps: int) -> int:
        """How many moves bring every walker to this step."""
        return steps * self.groups

    def turns(self, group: np.ndarray, walkers: np.ndarray) -> list[tuple[slice, np.ndarray]]:
        """Splits moves into runs of moves of one group.

        Args:
            group: The group that made each move, shape (n,).
            walkers: Numbers of the walkers, one group after the other.

        Returns:
            For each run of moves, its place among the n moves, and the walkers that moved in it.
        """
        if self.groups == 1:
            return [(slice(None), walkers)]
        borders = [0, *np.flatnonzero(np.diff(group)) + 1, len(group)]
        size = len(walkers) // self.groups
        runs = [slice(a, b) for a, b in itertools.pairwise(borders) if b > a]
        return [
            (run, walkers[group[run.start] * size : (group[run.start] + 1) * size]) for run in runs
        ]

    def rows_due(self, steps: np.ndarray) -> np.ndarray:
        """Whether a row is due after each of these steps."""
        return steps % self.record_every == 0

    def positions_due(self, steps: np.ndarray) -> np.ndarray:
        every = steps_between(
            self.trajectory_every, self.fewest_positions, steps - self.num_burnin_steps
        )
        return _multiples(every, steps) & self.counted(steps)

    def counted(self, steps: np.ndarray) -> np.ndarray:
        """Whether each of these steps counts for averages: past the burn-in, and not in a descent
        at temperature 0.
        """
        past = steps > self.num_burnin_steps
        return (
            past if self.temperature_factor is None else past & (self.temperature_factor(steps) > 0)
        )

    def factors(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ones = np.ones(len(steps))
        factors = [
            ones if factor is None else factor(steps)
            for factor in (self.step_factor, self.temperature_factor)
        ]
        return factors[0], factors[1]

    def due(self, first_move: int, capacity: int, count: int) -> Moves:
        """The records due after each of several moves.

        Args:
            first_move: Number of the first move, from 1.
            capacity: Number of moves whose records are computed.
            count: Number of moves that will be made, at most `capacity`.

        Returns:
            Arrays of shape (capacity,).
        """
        steps, group = self.steps(first_move, capacity)
        row = self.rows_due(steps)
        position = self.positions_due(steps)
        event = _multiples(self.event_every, steps)
        numbers = np.arange(1, capacity + 1)
        turn_ends = (steps % self.group_steps == 0) & (self.groups * self.group_steps > 1)
        events = np.where(row | position | event | turn_ends, numbers, capacity + 1)
        stop = np.minimum(np.minimum.accumulate(events[::-1])[::-1], count)
        adapting = steps <= self.num_burnin_steps
        step_factor, temperature_factor = self.factors(steps)

        return Moves(
            stop=stop.astype(np.int32),
            row=row,
            moments=row & self.counted(steps),
            position=position,
            event=event,
            step=steps,
            adapting=adapting,
            group=group.astype(np.int32),
            step_factor=step_factor,
            temperature_factor=temperature_factor,
        )


def _multiples(every: int | np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Which of the steps are multiples of `every`; 0: none."""
    return steps % every == 0 if np.all(every) else np.zeros(len(steps), bool)
