"""The path from a reference to the posterior as potentials for samplers.

Point λ samples exp(-u), u = (1 - λ) V_q + λ (L + V), with V_q = -log q of the reference. With the prior as the
reference that is λ L + V, which every potential of a model is; `SpringsPotential` is the path from springs at a
minimum. In both, `Energy.loss` times `scale` is E = -log(f/q), and `drawn_from_prior` draws from the reference.
"""

from __future__ import annotations

import math

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.evaluate import Delegating, Energy, Evaluate, Rung
from tati_re.core.potential import Potential
from tati_re.evidence.quadratic import Springs


class SpringsPotential(Potential):
    """The path between springs and the posterior: u = λ E + V_q, E = L + V - V_q."""

    def __init__(self, potential, springs: Springs) -> None:
        self.posterior, self.springs = potential, springs
        self.num_walkers, self.num_parameters, self.dtype = (
            potential.num_walkers,
            potential.num_parameters,
            potential.dtype,
        )
        self.num_examples, self.auxiliary, self.prior = potential.num_examples, potential.auxiliary, potential.prior
        self.stiffness = 1.0 / springs.std**2
        self.log_normalization = springs.log_normalization

    def bind(self, rung: Rung, batch=None, auxiliary: tuple = (), clock=None) -> SpringsEvaluate:
        ones = Rung(*(tf.ones_like(values) for values in rung))
        return SpringsEvaluate(self, self.posterior.bind(ones, None, auxiliary, clock), rung)

    def describe(self, batch: str | None = None) -> str:
        return f"u = λ E + V, E = L + V_p - V, V of springs; {self.posterior.describe(batch)}"

    def log_reference(self, position):
        """log q, `(walkers,)`, float64, and its gradient's negative, the force of the springs."""
        away = tf.cast(position, tf.float64) - self.springs.centre
        force = self.stiffness * away
        return -0.5 * tf.reduce_sum(force * away, axis=-1) - self.log_normalization, tf.cast(force, position.dtype)


class SpringsEvaluate(Delegating):
    def __init__(self, path: SpringsPotential, posterior: Evaluate, rung: Rung) -> None:
        super().__init__(posterior)
        self.path, self.rung, self.scale, self.exact = path, rung, 1.0, True

    def full(self, position) -> Energy:
        energy = self.evaluate.full(position)
        log_q, pull = self.path.log_reference(position)
        weight = self.rung.likelihood_weight
        difference = energy.potential + log_q
        mixed = tf.cast(weight, position.dtype)[:, None]
        gradient = mixed * energy.gradient + (1 - mixed) * pull
        return Energy(weight * difference - log_q, gradient, difference, log_q)

    __call__ = full

    def mean_loss(self, position):
        loss = self.evaluate.scale * self.evaluate.mean_loss(position)
        return loss - self.evaluate.log_prior(position) + self.path.log_reference(position)[0]

    def log_prior(self, position):
        return self.path.log_reference(position)[0]

    def gradient_variance(self, position):
        return tf.zeros_like(position)

    def drawn_from_prior(self, normal):
        springs, drawn = self.path.springs, tf.cast(normal, tf.float64)
        if (edges := springs.cut_edges()) is not None:
            low, high = edges
            inside = low + (high - low) * 0.5 * tf.math.erfc(-drawn * math.sqrt(0.5))
            drawn = tf.math.ndtri(tf.clip_by_value(inside, 1e-300, 1 - 1e-16))
        drawn = springs.centre + springs.std * drawn
        if springs.bound is not None:
            drawn = tf.clip_by_value(drawn, -springs.bound, springs.bound)
        return tf.cast(drawn, normal.dtype)

    def examples(self, position, indices):
        raise InputError("The path from springs to the posterior is no sum over examples.")

    def at(self, rung: Rung) -> SpringsEvaluate:
        return SpringsEvaluate(self.path, self.evaluate, rung)

    def part(self, first, count: int) -> SpringsEvaluate:
        return SpringsEvaluate(self.path, self.evaluate.part(first, count), self.rung.part(first, count))


def drawn_from_reference(potential, num: int, seed: int) -> np.ndarray:
    if isinstance(potential, SpringsPotential):
        normal = np.random.default_rng([seed, 0x4556]).standard_normal((num, potential.num_parameters))
        return potential.springs.from_normal(normal)
    return np.asarray(potential.prior.sample((num, potential.num_parameters), seed), np.float64)
