"""Replica exchange on potentials that are functions: a run in the engine without files, and noise
of known variance, for other examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.protocol import Clock, Energy, Rung
from tati_re.engine.limits import LIMITS, Limits
from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.posterior.function import FunctionEvaluate, FunctionPotential


class LadderRun(NamedTuple):
    """The records of a run on a ladder. These are `rows`, `(rows, rungs, ladders, columns)`,
    `events`, `(attempts, columns of exchange.csv)`, `positions`, `(positions, rungs, ladders,
    parameters)`, the names of `columns`, and the last `state`.
    """

    rows: np.ndarray
    columns: list[str]
    events: np.ndarray
    positions: np.ndarray
    state: object

    def column(self, name: str) -> np.ndarray:
        """The values of a column of run.csv, `(rows, rungs, ladders)`."""
        return self.rows[..., self.columns.index(name)]


def run_ladder(
    method,
    potential,
    start: np.ndarray,
    num_steps: int,
    record_every: int,
    num_burnin_steps: int = 0,
    seed: int = 1,
    execution: str = "xla",
    trajectory_every: int = 0,
    limits: Limits = LIMITS,
) -> LadderRun:
    """A run of a `tati_re.exchange.ReplicaExchange` in the engine.

    Args:
        potential: Such as a `tati_re.FunctionPotential`.
        start: Where the replicas start, rung by rung, `(rungs * ladders, parameters)`.
        num_steps: Burn-in included.
        record_every: A row each so many steps, those of the burn-in included.
        num_burnin_steps: Steps in which what adapts may do so; without positions. Default: 0.
        seed: Of the random numbers. Default: 1.
        execution: "xla", "graph" or "eager". Default: xla.
        trajectory_every: A position of every replica each so many steps. Default: 0, none.
        limits: On the chunks of steps.
    """
    of = method.target
    values = (
        of.inverse_temperature[0],
        of.likelihood_weight[0],
        np.asarray(method.rungs.step_size)[0],
    )
    rung = Rung(
        *(tf.fill([method.num_replicas], tf.constant(value, tf.float64)) for value in values)
    )
    how = seed, execution, record_every, trajectory_every, num_burnin_steps
    loop = Loop(
        potential, method, Observables(method, None), rung, *how, num_steps=num_steps, limits=limits
    )
    carry = loop.start(start, ())
    rows, events, positions, step = list[Any](), list[Any](), list[Any](), 0
    while step < num_steps:
        chunk = loop.run(carry, step + 1, min(loop.chunk_steps, num_steps - step))
        carry = chunk.carry
        step += int(chunk.taken)
        rows.append(chunk.rows.numpy()[: int(chunk.num_rows)])
        events.append(chunk.events.numpy()[: int(chunk.num_events)])
        positions.append(chunk.positions.numpy()[: int(chunk.num_positions)])
    shape = (-1, method.num_rungs, method.num_ladders)
    table, stored = np.concatenate(rows), np.concatenate(positions)
    swaps = np.concatenate(events).reshape(-1, max(1, events[0].shape[-1]))
    swaps = swaps[swaps[:, 0] >= 0] if len(swaps) else swaps
    stored = stored.reshape(*shape, stored.shape[-1]) if stored.size else stored
    return LadderRun(
        table.reshape(*shape, table.shape[-1]), loop.observables.columns, swaps, stored, carry.state
    )


def run_walkers(
    method,
    potential,
    start: np.ndarray,
    step_size: float,
    num_steps: int,
    every: int,
    num_burnin_steps: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Walkers of a sampler with weights at temperature 1, in the engine: the weights `(rows,
    walkers)` and positions `(rows, walkers, parameters)` of each so many steps after the
    burn-in.
    """
    rung = Rung(
        *(tf.fill([len(start)], tf.constant(value, tf.float64)) for value in (1.0, 1.0, step_size))
    )
    seen = Observables(method, None)
    loop = Loop(
        potential,
        method,
        seen,
        rung,
        seed,
        "xla",
        every,
        every,
        num_burnin_steps,
        num_steps=num_steps,
    )
    carry, rows, positions, step = loop.start(start, ()), list[Any](), list[Any](), 0
    while step < num_steps:
        chunk = loop.run(carry, step + 1, min(loop.chunk_steps, num_steps - step))
        carry, step = chunk.carry, step + int(chunk.taken)
        rows.append(chunk.rows.numpy()[: int(chunk.num_rows)])
        positions.append(chunk.positions.numpy()[: int(chunk.num_positions)])
    stored = np.concatenate(positions)
    return np.concatenate(rows)[-len(stored) :, :, seen.columns.index("weight")], stored


class NoisyPotential(FunctionPotential):
    """A potential whose gradient has normal noise of known variance: the same noise for each
    evaluation within a step, as with one mini-batch, and a function of seed and step alone.

    Args:
        function: U, as of a `FunctionPotential`.
        num_parameters: P.
        variance: Of each entry of the gradient, `(walkers, parameters)` to the same shape, or a
            number.
        seed: Of the noise.
    """

    def __init__(
        self, function: Callable, num_parameters: int, variance: Callable | float, seed: int = 0
    ) -> None:
        super().__init__(function, num_parameters)
        self.seed = seed
        self.variance = (
            variance if callable(variance) else lambda position: variance * tf.ones_like(position)
        )

    def bind(
        self, rung: Rung, batch=None, auxiliary: tuple = (), clock: Clock | None = None
    ) -> NoisyEvaluate:
        return NoisyEvaluate(self, rung, clock)


class NoisyEvaluate(FunctionEvaluate):
    """A `NoisyPotential` bound to the walkers' rungs and to the step of its clock."""

    def __call__(self, position) -> Energy:
        energy, potential = super().__call__(position), cast(NoisyPotential, self.potential)
        seed = tf.stack([tf.constant(potential.seed, tf.int64), tf.cast(self.clock.step, tf.int64)])
        noise = tf.random.stateless_normal(position.shape, seed, dtype=position.dtype, alg="philox")
        return energy._replace(
            gradient=energy.gradient + tf.sqrt(potential.variance(position)) * noise
        )

    def full(self, position) -> Energy:
        return super().__call__(position)

    def gradient_variance(self, position):
        return self.potential.variance(position)


class NoisyEnergies(NoisyPotential):
    """A potential whose gradient and whose energies at swaps have normal noise of known variance.
    The losses of the examples of a swap are independent normal numbers for each walker: over n
    examples an energy has the variance `energy_variance`, whatever n.

    Args:
        energy_variance: Of an energy; the others as of a `NoisyPotential`.
    """

    def __init__(
        self, function, num_parameters: int, variance, energy_variance: float, seed: int = 0
    ) -> None:
        super().__init__(function, num_parameters, variance, seed)
        self.energy_variance = energy_variance

    def bind(self, rung, batch=None, auxiliary=(), clock=None):
        return _NoisyEnergiesEvaluate(self, rung, clock)


class _NoisyEnergiesEvaluate(NoisyEvaluate):
    """`NoisyEnergies` bound to a step."""

    exact = False
    num_examples = 10**9

    def examples(self, position, indices):
        count = indices.shape[-1]
        seed = tf.stack(
            [tf.cast(self.clock.step, tf.int64), tf.cast(tf.reshape(indices, [-1])[0], tf.int64)]
        )
        noise = tf.random.stateless_normal(
            (position.shape[0], count), seed, dtype=tf.float64, alg="philox"
        )
        return (
            self.mean_loss(position)[:, None]
            + math.sqrt(self.potential.energy_variance * count) * noise
        )


class NoisyEverywhere(NoisyEnergies):
    """`NoisyEnergies` whose U is as noisy in each evaluation, as for a sampler that is driven by U
    itself.
    """

    def bind(self, rung, batch=None, auxiliary=(), clock=None):
        return _NoisyEverywhereEvaluate(self, rung, clock)


class _NoisyEverywhereEvaluate(_NoisyEnergiesEvaluate):
    """`NoisyEverywhere` bound to a step."""

    def __call__(self, position) -> Energy:
        energy = super().__call__(position)
        seed = tf.stack(
            [tf.constant(self.potential.seed + 1, tf.int64), tf.cast(self.clock.step, tf.int64)]
        )
        noise = tf.random.stateless_normal(
            energy.loss.shape, seed, dtype=energy.loss.dtype, alg="philox"
        )
        return energy._replace(loss=energy.loss + math.sqrt(self.potential.energy_variance) * noise)


def harmonic(position):
    """U = θ'θ/2."""
    return 0.5 * tf.reduce_sum(tf.square(position), -1)


def five_gaussians(position):
    """Five equal Gaussians of standard deviation 0.5 at (0, 0) and (±3, ±3)."""
    centres = tf.constant(
        [[0.0, 0.0], [3.0, 3.0], [3.0, -3.0], [-3.0, 3.0], [-3.0, -3.0]], position.dtype
    )
    squares = tf.reduce_sum(tf.square(position[:, None, :] - centres), -1)
    return -tf.reduce_logsumexp(-2.0 * squares, -1) + math.log(5 * 2 * math.pi * 0.25)
