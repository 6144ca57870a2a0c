"""Systems on temperature ladders with known laws."""

from __future__ import annotations

import numpy as np

from examples.ladder_systems import LadderRun, NoisyEnergies, five_gaussians, harmonic, run_ladder
from tati_re.core.backend import tf
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.exchange.schedule import make_swap_schedule
from tati_re.exchange.swap_rules import Metropolis
from tati_re.posterior.function import FunctionEvaluate, FunctionPotential, combine

_METROPOLIS = Metropolis()


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
    """`Examples` bound to a step."""

    exact = False

    def __init__(self, potential, rung, clock=None) -> None:
        super().__init__(potential, rung, clock)
        self.num_examples = len(potential.data)
        self.scale = float(self.num_examples)

    def __call__(self, position):
        slope = self.scale * (position - self.potential.data.mean(axis=0))
        return combine(
            self.mean_loss(position), slope, self.potential.prior, position, self.rung, self.scale
        )

    full = __call__

    def mean_loss(self, position):
        data = self.potential.data
        return harmonic(position - data.mean(axis=0)) + 0.5 * np.sum(data.var(axis=0))

    def examples(self, position, indices):
        data = tf.gather(tf.constant(self.potential.data), indices)
        return harmonic(position[:, None, :] - data)


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
