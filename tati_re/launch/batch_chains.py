"""Chains on mini-batches from fits: the steps that they take, and how well they predict."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.backend import Compiled, deterministic, tf
from tati_re.core.errors import InputError
from tati_re.core.potential import Batch
from tati_re.core.protocol import Rung
from tati_re.posterior.noise_spectrum import noise_spectrum
from tati_re.posterior.potential import ModelPotential
from tati_re.system.system import System

SAMPLER = "BAOAB"
ORDER = "symmetric"
"""Sampler and order of the mini-batches. At small steps a symmetric sweep has a bias of second
order in the step size (Paulin, Whalley, Chada and Leimkuhler, AISTATS 2025).
"""
PART_OF_PERIOD = 0.25
"""Step size times the frequency of the stiffest direction. The bound of stability is 2."""
HEATING = 0.2
"""Rise of the temperature by the noise of mini-batches, on average over the parameters, that the
friction allows.
"""
DRAWS = 24
"""Draws of each chain of a trial at most."""
_BURNIN = 0.5
_STEPS_AT_ONCE = 64
_EXAMPLES_OF_NOISE = 256


@dataclass(frozen=True)
class BatchSteps:
    """Steps on mini-batches at one place.

    Attributes:
        step_size: Time of a step, above 0.
        friction: Rate of the friction, 1/time, above 0.
    """

    step_size: float
    friction: float


def steps_at(
    potential: ModelPotential, position: np.ndarray, seed: int, auxiliary: tuple = ()
) -> BatchSteps:
    """The steps that suit the curvature and the gradient noise at a fit.

    The step size follows from the largest curvature, by Lanczos steps. White noise of variance s²
    raises the temperature by h s²/(2γT): the friction γ keeps the mean of that over the parameters
    below `HEATING`, and is at least the frequency of the prior's slowest direction, 1.

    Args:
        potential: The potential on mini-batches.
        position: The fit, shape (parameters,).
        seed: Which examples are looked at.
        auxiliary: Non-trainable variables of the fit, shape (1, ...) each. Default: none.

    Raises:
        InputError: The model has no second derivatives there, or no direction is curved upwards.
    """
    count = min(_EXAMPLES_OF_NOISE, potential.num_examples)
    random = np.random.default_rng([seed, 0x424D])
    chosen = np.sort(random.permutation(potential.num_examples)[:count]).astype(np.int32)
    try:
        spectrum = noise_spectrum(potential, position, auxiliary, chosen, _unchanged, _unchanged)
    except (tf.errors.OpError, LookupError, NotImplementedError) as error:
        raise InputError("the model has no second derivatives at a fit.") from error

    largest = float(spectrum.curvature[-1])
    if not (math.isfinite(largest) and largest > 0):
        raise InputError("no direction is curved upwards at a fit.")
    step_size = PART_OF_PERIOD / math.sqrt(largest)

    size = potential.batches.batch_size
    of_batch = (1.0 - size / potential.num_examples) / size
    total = float(spectrum.variance.sum()) + spectrum.rest_variance
    variance = of_batch * total / len(position)
    friction = max(1.0, step_size * variance / (2.0 * HEATING))
    # Beyond 1/h a larger friction only slows the chains.
    return BatchSteps(step_size, min(friction, 1.0 / step_size))


def _unchanged(vectors: np.ndarray) -> np.ndarray:
    return vectors


class BatchChains:
    """Chains of BAOAB at temperature 1 on mini-batches, compiled once, for a trial.

    Args:
        system: The model and its data, with the held-out rows as their test set.
        potential: The potential on mini-batches of all other rows, one walker for each chain.
        steps: Step size and friction.
        xla: Whether steps are compiled by XLA.
    """

    def __init__(
        self, system: System, potential: ModelPotential, steps: BatchSteps, xla: bool = False
    ) -> None:
        self._potential = potential
        self._steps = steps
        self._shift = system.log_unit(potential.loss)
        ones = tf.ones((potential.num_walkers,), tf.float64)
        self._rung = Rung(ones, ones, ones)
        self._several = Compiled(self._moved, jit_compile=xla)
        self._losses = Compiled(
            lambda position, *auxiliary: potential.losses_of_test(position, auxiliary)
        )
        self._auxiliary: tuple[np.ndarray, ...] = ()
        self.num_steps = 0

    def run(
        self,
        start: np.ndarray,
        deadline: float,
        seed: int,
        auxiliary: tuple[np.ndarray, ...] = (),
    ) -> np.ndarray | None:
        """Log density of each held-out row under the average over the chains.

        The first half of the steps is burn-in. `num_steps` are those that were taken.

        Args:
            start: Where the chains begin, shape (chains, parameters).
            deadline: Time of the last step, by `time.monotonic`.
            seed: Of the random numbers.
            auxiliary: Non-trainable variables of each chain, shape (chains, ...) each, which stay
                as they are. Default: none.

        Returns:
            Densities in the units of the data, shape (rows,); None where there was no time for a
            draw, or the chains diverged.
        """
        self._auxiliary = auxiliary
        with deterministic():
            return self._run(np.array(start), deadline, seed)

    def _run(self, start: np.ndarray, deadline: float, seed: int) -> np.ndarray | None:
        random = np.random.default_rng([seed, 0x4243])
        momentum = random.standard_normal(start.shape).astype(start.dtype)
        place = tf.constant(start), tf.constant(momentum)
        place = self._called(place, 0, 1, seed)  # compiled
        began = time.monotonic()
        place = self._called(place, 1, _STEPS_AT_ONCE, seed)
        pace = (time.monotonic() - began) / _STEPS_AT_ONCE

        affordable = (deadline - time.monotonic()) / pace
        steps_per_draw = max(_STEPS_AT_ONCE, int(affordable * _BURNIN / DRAWS))
        burnin = int(affordable * _BURNIN)
        step = 1 + _STEPS_AT_ONCE
        drawn: list[np.ndarray] = []
        while time.monotonic() + pace * steps_per_draw < deadline and len(drawn) < DRAWS:
            place = self._after(place, step, steps_per_draw, seed)
            step += steps_per_draw
            if step < burnin:
                continue
            density = -self._losses(place[0], *self._auxiliary).numpy()
            if not np.isfinite(density).all():
                return None
            drawn.append(density)

        self.num_steps = step
        if not drawn:
            return None
        densities = np.concatenate(drawn)
        mean = np.logaddexp.reduce(densities, axis=0) - math.log(len(densities))
        return mean - self._shift

    def _after(self, place: tuple, first: int, count: int, seed: int) -> tuple:
        """The chains after so many steps more."""
        for begin in range(first, first + count, _STEPS_AT_ONCE):
            place = self._called(place, begin, min(_STEPS_AT_ONCE, first + count - begin), seed)
        return place

    def _called(self, place: tuple, first: int, count: int, seed: int) -> tuple:
        """The chains after one call of so many steps."""
        # All calls have arrays of one shape, and so one program.
        indices, sizes = self._potential.batches.indices(first + 1, _STEPS_AT_ONCE)
        seeds = np.array([seed % 2**31, first], np.int32)
        position, momentum = place
        moved = self._several(
            position,
            momentum,
            seeds,
            np.asarray(indices, np.int32),
            np.asarray(sizes, np.int32),
            np.int32(count),
            *self._auxiliary,
        )
        return tuple(moved)

    def _moved(
        self,
        position: tf.Tensor,
        momentum: tf.Tensor,
        seeds: tf.Tensor,
        indices: tf.Tensor,
        sizes: tf.Tensor,
        count: tf.Tensor,
        *auxiliary: tf.Tensor,
    ) -> tuple:
        """Steps of BAOAB, in which the half kicks at one place are one kick."""
        dtype = position.dtype
        half = tf.constant(0.5 * self._steps.step_size, dtype)
        damped = math.exp(-self._steps.friction * self._steps.step_size)
        damping = tf.constant(damped, dtype)
        renewed = tf.constant(math.sqrt(1.0 - damped**2), dtype)

        def step(i: Any, position: tf.Tensor, momentum: tf.Tensor) -> tuple:
            position = position + half * momentum
            normal = tf.random.stateless_normal(
                tf.shape(momentum), seeds + tf.stack([0, i]), dtype=dtype
            )
            momentum = damping * momentum + renewed * normal
            position = position + half * momentum
            batch = Batch(indices[i], sizes[i])
            gradient = self._potential.bind(self._rung, batch, tuple(auxiliary))(position).gradient
            return i + 1, position, momentum - 2.0 * half * gradient

        return tf.while_loop(lambda i, *_: i < count, step, (tf.constant(0), position, momentum))[
            1:
        ]
