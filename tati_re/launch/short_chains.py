"""Short chains from fits, by whose held-out density candidates are compared."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.backend import Compiled, deterministic, tf
from tati_re.core.protocol import Rung
from tati_re.engine.zero_evaluate import ZeroEvaluate
from tati_re.posterior.potential import ModelPotential
from tati_re.samplers.microcanonical import MCLMC
from tati_re.samplers.wrappers.metered import error_of_bias
from tati_re.system.system import System

EVERY = 25
"""Steps between two draws; during the burn-in, between two changes of the step size."""
NUM_CHUNKS = 160
"""Stretches of so many steps at most, 4,000 steps in all."""
_BURNIN = 0.5
"""Part of the stretches that are burn-in, at the end of which the step size is frozen."""
_TARGET_BIAS = 0.36
_FIRST_STEP = 1e-3
_MOST_CHANGE = 2.0
_LEAST_CHANGE = 0.5


@dataclass
class Place:
    """Where the chains are: position, momentum, gradient and potential, a row a chain each."""

    position: tf.Tensor
    momentum: tf.Tensor
    gradient: tf.Tensor
    potential: tf.Tensor


class _Normals:
    """Normal numbers of one step."""

    def __init__(self, seed: tf.Tensor, dtype: tf.DType) -> None:
        self._seed = seed
        self._dtype = dtype

    def normal(self, shape: Any) -> tf.Tensor:
        return tf.random.stateless_normal(shape, self._seed, dtype=self._dtype)


class ShortChains:
    """Chains of MCLMC at a large step, from fits, compiled once.

    The step size is moved so that the energy error of a step allows a bias of 0.36, that of the
    preset MILE; no mass is measured. They are long enough to rank models, not to draw from one.

    Args:
        system: The model and its data, with the held-out rows as their test set.
        potential: The potential on all other rows, one walker for each chain.
        xla: Whether steps are compiled by XLA.
    """

    def __init__(self, system: System, potential: ModelPotential, xla: bool) -> None:
        self._shift = system.log_unit(potential.loss)
        self._potential = potential
        self._method = MCLMC(friction=1.0)
        self._several = Compiled(self._steps, jit_compile=xla)
        self._losses = Compiled(lambda position: potential.losses_of_test(position, ()))

    def run(self, start: np.ndarray, deadline: float, seed: int) -> np.ndarray | None:
        """Log density of each held-out row under the average over the chains.

        Args:
            start: Where the chains begin, shape (chains, parameters).
            deadline: Time of the last step, by `time.monotonic`.
            seed: Of the random numbers.

        Returns:
            Densities in the units of the data, shape (rows,); None where the burn-in was not over
            in time, or the chains diverged.
        """
        with deterministic():
            return self._run(np.array(start), deadline, seed)

    def _run(self, start: np.ndarray, deadline: float, seed: int) -> np.ndarray | None:
        place = self._begun(start, seed)
        step_size = _FIRST_STEP
        target = error_of_bias(_TARGET_BIAS)
        total: np.ndarray | None = None
        count = 0
        planned = NUM_CHUNKS
        chunk = 0
        while chunk < planned:
            began = time.monotonic()
            place, error = self._chunk(place, chunk, step_size, seed)
            chunk += 1
            if not np.isfinite(error):
                return None
            if chunk <= _BURNIN * planned:
                change = (target / max(error, 1e-12)) ** (1 / 6)
                step_size *= min(max(change, _LEAST_CHANGE), _MOST_CHANGE)
            else:
                drawn = -self._losses(place.position).numpy()
                total = drawn if total is None else np.logaddexp(total, drawn)
                count += 1
            now = time.monotonic()
            if chunk > 1:  # the first one was compiled
                left = int((deadline - now) / max(now - began, 1e-9))
                planned = min(NUM_CHUNKS, chunk + max(0, left))
        if total is None:
            return None
        chains = len(start)
        return np.logaddexp.reduce(total, axis=0) - math.log(count * chains) - self._shift

    def _begun(self, start: np.ndarray, seed: int) -> Place:
        """The chains at their start; the first, infinitely short, step finds their gradients."""
        random = np.random.default_rng([seed, 0x5343])
        momentum = random.standard_normal(start.shape)
        momentum *= math.sqrt(start.shape[1]) / np.linalg.norm(momentum, axis=1, keepdims=True)
        zeros = tf.zeros(start.shape[:1], tf.float64)
        place = Place(
            tf.constant(start),
            tf.constant(momentum.astype(start.dtype)),
            tf.zeros_like(start),
            zeros,
        )
        return self._chunk(place, -1, 1e-12, seed)[0]

    def _chunk(self, place: Place, number: int, step_size: float, seed: int) -> tuple[Place, float]:
        """The chains after some more steps, and the mean squared energy error per parameter."""
        size = np.full(len(place.position), step_size)
        seeds = np.array([seed % 2**31, number + 1], np.int32)
        *moved, error = self._several(
            place.position, place.momentum, place.gradient, place.potential, size, seeds
        )
        return Place(*moved), float(np.mean(error.numpy()))

    def _steps(
        self,
        position: tf.Tensor,
        momentum: tf.Tensor,
        gradient: tf.Tensor,
        potential: tf.Tensor,
        size: tf.Tensor,
        seeds: tf.Tensor,
    ) -> tuple:
        ones = tf.ones_like(size)
        rung = Rung(ones, ones, size)
        silent = ZeroEvaluate(rung)
        template = self._method.init(position, silent, _Normals(seeds, position.dtype))
        evaluate = self._potential.bind(rung, None, ())
        parameters = float(position.shape[1])

        def step(
            i: Any,
            position: tf.Tensor,
            momentum: tf.Tensor,
            gradient: tf.Tensor,
            potential: tf.Tensor,
            errors: tf.Tensor,
        ) -> tuple:
            state = template._replace(
                position=position, momentum=momentum, gradient=gradient, potential=potential
            )
            numbers = _Normals(seeds * EVERY + tf.stack([0, i]), position.dtype)
            state, info = self._method.step(state, evaluate, numbers)
            errors = errors + tf.square(info.energy_change) / parameters
            return i + 1, state.position, state.momentum, state.gradient, state.potential, errors

        *_, errors = final = tf.while_loop(
            lambda i, *_: i < EVERY,
            step,
            (tf.constant(0), position, momentum, gradient, potential, tf.zeros_like(size)),
        )
        return (*final[1:-1], errors / EVERY)
