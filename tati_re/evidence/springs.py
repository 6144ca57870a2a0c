"""The reference of Frenkel-Ladd integration, independent springs at a minimum, and the path from it
to the posterior.

    q(θ) = exp(-Σ (θ_i - c_i)²/(2 s_i²)) / Z_q    for abs(θ_i) < bound_i, the prior's box if any

Published bounds took the box as centered on the minimum; it is centered on 0, so that its part of
the normalization is 1/2 [erf((a - c)/(√2 s)) + erf((a + c)/(√2 s))] for each parameter. That
correction is ours. Source: Frenkel and Ladd, J. Chem. Phys. 81, 3188 (1984); of networks: Baldock
and Marzari (arXiv 1904.04154).

Point λ of a path samples exp(-u), u = (1 - λ) V_q + λ (L + V), with V_q = -log q of the reference.
With the prior as the reference that is λ L + V, which every potential of a model is;
`SpringsPotential` is the path from springs. In both, `Energy.loss` times `scale` is E = -log(f/q),
and `drawn_from_prior` draws from the reference.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.evaluate import Delegating, Energy, Evaluate, Rung
from tati_re.core.potential import Potential


class Springs:
    """The normalized Gaussian density q of independent springs.

    Args:
        centre: c, the center, shape (parameters,).
        std: s, standard deviations above 0, shape (parameters,).
        bound: Half width of a box around 0, shape (parameters,) or a number. Default: None, no box.

    Raises:
        InputError: Shapes differ, a standard deviation is not above 0, or c is outside of the box.
    """

    def __init__(self, centre, std, bound=None) -> None:
        self.centre = np.asarray(centre, np.float64)
        self.std = np.asarray(std, np.float64)
        self.bound = (
            None
            if bound is None
            else np.broadcast_to(np.asarray(bound, np.float64), self.centre.shape)
        )
        if self.centre.ndim != 1 or self.std.shape != self.centre.shape:
            problem = "springs: wrong shapes."
            raise InputError(
                problem, f"{self.centre.shape} and {self.std.shape}", "(parameters,) both"
            )
        if not (np.isfinite(self.std) & (self.std > 0)).all():
            raise InputError(
                "springs: a standard deviation is not above 0.",
                self.std.min(),
                "finite numbers above 0",
            )
        if self.bound is not None and (np.abs(self.centre) > self.bound).any():
            raise InputError(
                "springs: the minimum lies outside the box.", expected="a minimum inside"
            )

    @property
    def log_normalization(self) -> float:
        log_widths = np.log(self.std * np.sqrt(2 * np.pi))
        if self.bound is not None:
            low, high = self._edges()
            log_widths = log_widths + np.log1p(-(ndtr(low) + ndtr(-high)))
            crowded = ndtr(low) + ndtr(-high) > 0.5
            if crowded.any():
                # Springs wider than the box: the small difference of two numbers near each other.
                a = log_ndtr(high[crowded])
                b = log_ndtr(low[crowded])
                log_widths[crowded] = (
                    np.log(self.std[crowded] * np.sqrt(2 * np.pi)) + a + np.log1p(-np.exp(b - a))
                )
        return float(log_widths.sum())

    def from_normal(self, normal):
        """Draws from q, from standard normal numbers `(n, parameters)`, in their precision."""
        drawn = tf.cast(normal, tf.float64)
        low, high = map(ndtr, self._edges()) if self.bound is not None else (0.0, 1.0)
        if np.any(low + (1 - high) > 1e-15):  # else walls cut off less than rounding
            inside = low + (high - low) * 0.5 * tf.math.erfc(-drawn * math.sqrt(0.5))
            drawn = tf.math.ndtri(tf.clip_by_value(inside, 1e-300, 1 - 1e-16))
        drawn = self.centre + self.std * drawn
        if self.bound is not None:
            drawn = tf.clip_by_value(drawn, -self.bound, self.bound)
        return tf.cast(drawn, normal.dtype)

    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        return (-self.bound - self.centre) / self.std, (self.bound - self.centre) / self.std

    def __str__(self) -> str:
        return f"springs of standard deviation {self.std.min():.3g} to {self.std.max():.3g} at a minimum"


class SpringsPotential(Potential):
    """The path between springs and the posterior: u = λ E + V_q, E = L + V - V_q.

    Args:
        potential: The potential of the posterior.
        springs: The springs.
    """

    def __init__(self, potential, springs: Springs) -> None:
        self.posterior = potential
        self.springs = springs
        self.num_walkers = potential.num_walkers
        self.num_parameters = potential.num_parameters
        self.num_examples = potential.num_examples
        self.auxiliary = potential.auxiliary
        self.prior = potential.prior
        self.dtype = potential.dtype
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
        return -0.5 * tf.reduce_sum(force * away, axis=-1) - self.log_normalization, tf.cast(
            force, position.dtype
        )


class SpringsEvaluate(Delegating):
    """Evaluations of the potential on the path between springs and the posterior.

    Args:
        path: The path.
        posterior: The evaluation of the posterior, at β, λ and h of 1.
        rung: λ of each walker, as its likelihood weight.
    """

    def __init__(self, path: SpringsPotential, posterior: Evaluate, rung: Rung) -> None:
        super().__init__(posterior)
        self.path = path
        self.rung = rung
        self.scale = 1.0
        self.exact = True

    def full(self, position) -> Energy:
        energy = self.evaluate.full(position)
        log_q, pull = self.path.log_reference(position)
        weight = self.rung.likelihood_weight
        difference = energy.potential + log_q
        mixed = tf.cast(weight, position.dtype)[:, None]
        return Energy(
            weight * difference - log_q,
            mixed * energy.gradient + (1 - mixed) * pull,
            difference,
            log_q,
        )

    __call__ = full

    def mean_loss(self, position):
        loss = self.evaluate.scale * self.evaluate.mean_loss(position)
        return loss - self.evaluate.log_prior(position) + self.path.log_reference(position)[0]

    def log_prior(self, position):
        return self.path.log_reference(position)[0]

    def gradient_variance(self, position):
        return tf.zeros_like(position)

    def drawn_from_prior(self, normal):
        return self.path.springs.from_normal(normal)

    def examples(self, position, indices):
        raise InputError("The path from springs to the posterior is not a sum over examples.")

    def at(self, rung: Rung) -> SpringsEvaluate:
        return SpringsEvaluate(self.path, self.evaluate, rung)

    def part(self, first, count: int) -> SpringsEvaluate:
        return SpringsEvaluate(
            self.path, self.evaluate.part(first, count), self.rung.part(first, count)
        )


def drawn_from_reference(potential, num: int, seed: int) -> np.ndarray:
    """Independent draws from the reference of a path, shape (num, parameters), float64.

    Args:
        potential: The path from springs, or the potential of a model, whose reference is the prior.
        num: Number of draws.
        seed: Seed of the draws.
    """
    if isinstance(potential, SpringsPotential):
        normal = np.random.default_rng([seed, 0x4556]).standard_normal(
            (num, potential.num_parameters)
        )
        return potential.springs.from_normal(normal).numpy()
    return np.asarray(potential.prior.sample((num, potential.num_parameters), seed), np.float64)
