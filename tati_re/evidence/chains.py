"""Compiled sampling of walkers at given points of a path."""

from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import Direct, deterministic, tf
from tati_re.core.errors import SamplingError
from tati_re.core.facets import temperatures_of
from tati_re.core.potential import Potential
from tati_re.core.protocol import Clock, Rung
from tati_re.engine.noise import RecordingNoise, StepNoise, draw_numbers

_BYTES = 16 * 2**20
_MOST_STEPS = 64


class Segment(NamedTuple):
    """The result of a number of steps: `position`, `(walkers, parameters)`; `energies`, E after
    each step, `(walkers, steps)`, float64; the mean `acceptance`, `(walkers,)`, 1 for samplers
    without a Metropolis test; and `visited`, positions after each of the last steps, `(steps,
    walkers, parameters)`, None unless asked for.
    """

    position: np.ndarray
    energies: np.ndarray
    acceptance: np.ndarray
    visited: np.ndarray | None = None


class Chains:
    """A sampler and a path, compiled for a number of walkers.

    Every call begins with fresh momenta and draws other random numbers. On a ladder walkers are
    given and returned point by point. E is `scale` times the loss of what `potential.bind` gives.

    Args:
        potential: The potential of the path, for all walkers.
        sampler: The sampler that moves them.
        seed: Seed of the random numbers.
        execution: "xla", "graph" or "eager".
        most_steps: Largest number of steps of one compiled call. Default: 64.
        visited: Number of last positions that each run returns. Default: 0.
        role: A name for which random numbers differ under one seed. Default: empty.
    """

    def __init__(
        self,
        potential: Potential,
        sampler,
        seed: int,
        execution: str,
        most_steps: int = _MOST_STEPS,
        visited: int = 0,
        role: str = "",
    ) -> None:
        self._purpose = f"evidence{role}"
        self.potential = potential
        self.sampler = sampler
        self.seed = seed
        self.execution = execution
        self.walkers = potential.num_walkers
        self.auxiliary = tuple(map(tf.constant, potential.auxiliary))
        self.most_steps = most_steps
        self.visited = visited
        self.gradients = 0.0
        self.calls = 0
        self._steps: Any = (
            self._moved if execution == "eager" else Direct(self._moved, execution == "xla")
        )
        self._draws: list = []
        self._ladder = temperatures_of(sampler)

    def run(self, position, weight, step_size, num_steps: int) -> Segment:
        """Moves all walkers.

        Args:
            position: Starting positions, shape (walkers, parameters).
            weight: λ, a number or shape (walkers,).
            step_size: Step size, a number or shape (walkers,).
            num_steps: Number of steps, at least 1.

        Returns:
            Positions, energies and acceptance.

        Raises:
            SamplingError: An energy is not finite.
        """
        rung = Rung(
            *(
                tf.constant(np.ones(self.walkers) * value, tf.float64)
                for value in (1.0, weight, step_size)
            )
        )
        position = tf.constant(np.asarray(position), self.potential.dtype)
        with deterministic():
            if not self._draws:
                self._prepare(position, rung)
            parts: list[Any] = []
            visited: list[Any] = []
            acceptance = np.zeros(())
            done = 0
            while done < num_steps:
                count = min(self._chunk, num_steps - done)
                position, some, accepted, stored = self._call(position, rung, count)
                parts.append(some)
                acceptance = acceptance + accepted
                done = done + count
                if self.visited:
                    visited = [*visited, *stored[0].numpy()[:count]][-self.visited :]
        energies = np.concatenate(parts).T
        if not np.isfinite(energies).all():
            walker = int(np.flatnonzero(~np.isfinite(energies).all(axis=1))[0])
            raise SamplingError(
                "The energy is not finite on the path from the reference.", num_steps, walker
            )
        self.gradients += num_steps * self.sampler.gradients_per_step * self.walkers
        return Segment(
            position.numpy(),
            energies,
            acceptance / num_steps,
            np.array(visited) if visited else None,
        )

    def _call(self, position, rung: Rung, count: int):
        purpose = f"{self._purpose}/{self.calls}"
        self.calls += 1
        start = [
            values[0] for values in draw_numbers(self._first, self.seed, f"{purpose}/init", 0, 1)
        ]
        numbers = draw_numbers(self._draws, self.seed, purpose, 0, self._chunk)
        arguments = position, rung, start, numbers, tf.constant(count)
        try:
            position, energies, accepted, visited = self._steps(*arguments)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
            if self.execution != "xla":
                raise
            self.execution, self._steps = "graph", Direct(self._moved)
            position, energies, accepted, visited = self._steps(*arguments)
        return position, energies.numpy()[:count], accepted.numpy(), visited

    def _bound(self, rung: Rung, step=0):
        clock = Clock(tf.cast(step, tf.int64), tf.constant(False), tf.constant(0))
        return self.potential.bind(rung, None, self.auxiliary, clock)

    def _prepare(self, position, rung: Rung) -> None:
        """Records the random numbers of a step, and sets the number of steps per call."""

        def dry(position, rung):
            first = RecordingNoise(self.potential.dtype)
            later = RecordingNoise(self.potential.dtype)
            state = self.sampler.init(position, self._bound(rung), first)
            state, _ = self.sampler.step(state, self._bound(rung, 1), later)
            self._first = first.draws
            self._draws = later.draws
            return state.position

        tf.function(dry, autograph=False).get_concrete_function(position, rung)
        heaviest = max(1, sum(draw.bytes() for draw in self._draws))
        self._chunk = int(min(self.most_steps, max(2, _BYTES // heaviest)))

    def _moved(self, position, rung: Rung, start, numbers, count):
        state = self.sampler.init(position, self._bound(rung), StepNoise(self._first, start))
        rows = tf.TensorArray(tf.float64, self._chunk, element_shape=(self.walkers,))
        rows = rows.unstack(tf.zeros((self._chunk, self.walkers), tf.float64))
        visited: tuple[Any, ...] = ()
        if self.visited:
            positions = tf.TensorArray(position.dtype, self._chunk, element_shape=position.shape)
            visited = (positions.unstack(tf.zeros((self._chunk, *position.shape), position.dtype)),)
        fields = state._fields

        def next_step(i, values, rows, accepted, visited):
            state = type_of(**dict(zip(fields, values, strict=True)))
            noise = StepNoise(self._draws, [draws[i] for draws in numbers])
            state, info = self.sampler.step(state, self._bound(rung, i + 1), noise)
            loss = self._loss(state, rung)
            acceptance = tf.ones_like(accepted)
            if self.sampler.metropolis:
                acceptance = info.acceptance
            if self._ladder.by_rung:
                order = self._ladder.order(state)
                loss = tf.gather(loss, order)
                acceptance = tf.gather(acceptance, order)
            rows = rows.write(i, self._bound(rung).scale * loss)
            visited = tuple(array.write(i, state.position) for array in visited)
            return i + 1, tuple(state), rows, accepted + acceptance, visited

        type_of = type(state)
        begin = (tf.constant(0), tuple(state), rows, tf.zeros((self.walkers,), tf.float64), visited)
        _, values, rows, accepted, visited = tf.while_loop(
            lambda i, *_: i < count, next_step, begin
        )
        state = type_of(**dict(zip(fields, values, strict=True)))
        position = state.position
        if self._ladder.by_rung:
            position = tf.gather(position, self._ladder.order(state))
        return position, rows.stack(), accepted, tuple(array.stack() for array in visited)

    def _loss(self, state, rung: Rung):
        """The loss at the walkers' positions; after a swap round the state holds it."""
        current = self.sampler.current or self._ladder.reevaluates
        return state.loss if current else self._bound(rung).mean_loss(state.position)
