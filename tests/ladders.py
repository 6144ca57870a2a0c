"""Systems on temperature ladders with known laws, and runs of them without files."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.exchange.schedule import make_swap_schedule
from tati_re.exchange.swap_rules import Metropolis
from tati_re.models.backend import tf
from tati_re.posterior.function import FunctionEvaluate, FunctionPotential, combine
from tati_re.samplers.protocol import Rung
from tests.scenarios import NoisyEvaluate, NoisyPotential

_METROPOLIS = Metropolis()


class LadderRun(NamedTuple):
    """What a run on a ladder recorded.

    Attributes:
        rows: `(rows, rungs, ladders, columns)`.
        columns: Their names.
        events: `(attempts, columns of exchange.csv)`.
        positions: `(positions, rungs, ladders, parameters)`.
        state: The last one.
    """

    rows: np.ndarray
    columns: list[str]
    events: np.ndarray
    positions: np.ndarray
    state: object

    def column(self, name: str) -> np.ndarray:
        return self.rows[..., self.columns.index(name)]


def exchanging(
    inner,
    ladder,
    rule=_METROPOLIS,
    *,
    every: int = 4,
    ladders: int = 1,
    schedule: str = "even_odd",
    kind: type[ReplicaExchange] = ReplicaExchange,
    **options,
) -> ReplicaExchange:
    """A sampler on a ladder; by Metropolis' rule, unless another or `None` is given."""
    chosen = None if rule is None else make_swap_schedule(schedule, ladder.num_rungs)
    return kind(inner, ladder, rule, chosen, every, ladders, **options)


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
) -> LadderRun:
    """A run of `ReplicaExchange` in the engine, from `(replicas, parameters)` on."""
    values = (
        method.target.inverse_temperature[0],
        method.target.likelihood_weight[0],
        np.asarray(method.ladder.step_size)[0],
    )
    rung = Rung(*(tf.fill([method.num_replicas], tf.constant(value, tf.float64)) for value in values))
    loop = Loop(
        potential,
        method,
        Observables(method, None),
        rung,
        seed,
        execution,
        record_every,
        trajectory_every,
        num_burnin_steps,
    )
    carry = loop.start(start, ())
    rows, events, positions, step = [], [], [], 0
    while step < num_steps:
        chunk = loop.run(carry, step + 1, min(loop.chunk_steps, num_steps - step))
        carry = chunk.carry
        step += int(chunk.taken)
        rows.append(chunk.rows.numpy()[: int(chunk.num_rows)])
        events.append(chunk.events.numpy()[: int(chunk.num_events)])
        positions.append(chunk.positions.numpy()[: int(chunk.num_positions)])
    shape = (-1, method.num_rungs, method.num_ladders)
    rows, positions = np.concatenate(rows), np.concatenate(positions)
    events = np.concatenate(events).reshape(-1, max(1, events[0].shape[-1]))
    events = events[events[:, 0] >= 0] if len(events) else events
    return LadderRun(
        rows.reshape(*shape, rows.shape[-1]),
        loop.observables.columns,
        events,
        positions.reshape(*shape, positions.shape[-1]) if positions.size else positions,
        carry.state,
    )


class NoisyEnergies(NoisyPotential):
    """A potential whose gradient and whose energies at swaps have normal noise of known variance.

    The losses of the examples of a swap are independent normal numbers for each walker: over n examples an energy has
    the variance `energy_variance`, whatever n.
    """

    def __init__(self, function, num_parameters: int, variance, energy_variance: float, seed: int = 0) -> None:
        super().__init__(function, num_parameters, variance, seed)
        self.energy_variance = energy_variance

    def bind(self, rung, batch=None, auxiliary=(), clock=None):
        return NoisyEnergiesEvaluate(self, rung, clock)


class NoisyEnergiesEvaluate(NoisyEvaluate):
    """:class:`NoisyEnergies` bound to a step."""

    exact = False
    num_examples = 10**9

    def examples(self, position, indices):
        count = indices.shape[0]
        seed = tf.stack([tf.cast(self.clock.step, tf.int64), tf.cast(indices[0], tf.int64)])
        noise = tf.random.stateless_normal((position.shape[0], count), seed, dtype=tf.float64, alg="philox")
        return self.mean_loss(position)[:, None] + math.sqrt(self.potential.energy_variance * count) * noise


class Examples(FunctionPotential):
    """L = sum over the examples y of |θ - y|²/2: gradients see all of them, swaps a mini-batch.

    Args:
        data: `(examples, parameters)`.
        prior: V. Default: none.
    """

    def __init__(self, data: np.ndarray, prior=None) -> None:
        super().__init__(harmonic, data.shape[1], prior)
        self.data = data

    def bind(self, rung, batch=None, auxiliary=(), clock=None):
        return ExamplesEvaluate(self, rung, clock)


class ExamplesEvaluate(FunctionEvaluate):
    """:class:`Examples` bound to a step."""

    exact = False

    def __init__(self, potential, rung, clock=None) -> None:
        super().__init__(potential, rung, clock)
        self.num_examples = len(potential.data)
        self.scale = float(self.num_examples)

    def __call__(self, position):
        slope = self.scale * (position - self.potential.data.mean(axis=0))
        return combine(self.mean_loss(position), slope, self.potential.prior, position, self.rung, self.scale)

    full = __call__

    def mean_loss(self, position):
        data = self.potential.data
        return harmonic(position - data.mean(axis=0)) + 0.5 * np.sum(data.var(axis=0))

    def examples(self, position, indices):
        data = tf.gather(tf.constant(self.potential.data), indices)
        return harmonic(position[:, None, :] - data[None])


def harmonic(position):
    """U = θ'θ/2."""
    return 0.5 * tf.reduce_sum(tf.square(position), -1)


def five_gaussians(position):
    """Five equal Gaussians of standard deviation 0.5 at (0, 0) and (±3, ±3)."""
    centres = tf.constant([[0.0, 0.0], [3.0, 3.0], [3.0, -3.0], [-3.0, 3.0], [-3.0, -3.0]], position.dtype)
    squares = tf.reduce_sum(tf.square(position[:, None, :] - centres), -1)
    return -tf.reduce_logsumexp(-2.0 * squares, -1) + math.log(5 * 2 * math.pi * 0.25)


__all__ = [
    "Examples",
    "FunctionEvaluate",
    "FunctionPotential",
    "LadderRun",
    "NoisyEnergies",
    "exchanging",
    "five_gaussians",
    "harmonic",
    "run_ladder",
]
