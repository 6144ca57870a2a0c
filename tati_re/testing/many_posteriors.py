"""Posteriors of one model for many data sets, sampled side by side in one compiled program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.analysis.convergence import effective_sample_size
from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.method import Method
from tati_re.core.user_input import seeded
from tati_re.engine.limits import LIMITS
from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.named_density import NamedDensity
from tati_re.samplers.hmc import HamiltonianMonteCarlo
from tati_re.testing.numpy_parts import rung_of

STEP_SIZE = 0.25
LEAPFROG_STEPS = 6
"""Mean number of leapfrog steps of HMC; half of it more or less at random."""
PILOT_STEPS = 20
"""Steps of one round of the burn-in."""
ROUNDS = 24
SETTLING_STEPS = 60
FEWEST_STEPS = 200
_RENEWALS = (8, 14, 20)
"""Rounds after which location and scales are estimated again, from the rounds since the last."""
_ACCEPTANCE = 0.85
_GAIN = 3.0
"""How fast steps follow the acceptance, per round."""
_FIRST_SCALE = 0.2
_MOST_EXTENSIONS = 3
_TRIES = 100
_LEAST_SCALE = 1e-8


class ManyPosteriors:
    """Chains of many posteriors, each with its own data, location and scales.

    Chains move in z, where a posterior has its free coordinates at location + scale z. Data,
    locations and scales are arguments of the compiled program, so that it is compiled once.

    Args:
        density: The model, with the first data set.
        data: The data sets, of the same names and shapes.
        chains: Chains of each posterior.
        seed: Seed of starts and steps.

    Attributes:
        density: The model.
        location: The location of each chain, shape (posteriors * chains, dimension).
        scale: Its scales, same shape.
    """

    def __init__(
        self, density: NamedDensity, data: Sequence[Mapping[str, Any]], chains: int, seed: int
    ) -> None:
        self.density = density
        self.chains = chains
        self.count = len(data)
        self.seed = seed
        self._random = seeded(seed, 0x5343)
        arrays = {name: value for name, value in density.data.items() if tf.is_tensor(value)}
        self._data = {
            name: tf.Variable(
                np.repeat(
                    np.stack([np.asarray(values[name]) for values in data]).astype(
                        value.dtype.as_numpy_dtype
                    ),
                    chains,
                    axis=0,
                ),
                trainable=False,
            )
            for name, value in arrays.items()
        }
        shape = (self.count * chains, density.dimension)
        self.location = tf.Variable(np.zeros(shape), trainable=False)
        self.scale = tf.Variable(np.full(shape, _FIRST_SCALE), trainable=False)
        self._of_one = tf.function(density.with_data_of_rows, autograph=False)
        self._potential = FunctionPotential(self._energy, density.dimension)

    def energy(self, position: np.ndarray, number: int) -> np.ndarray:
        """Returns U of free coordinates under the data of one posterior.

        Args:
            position: Free coordinates, shape (n, dimension).
            number: The posterior, from 0.
        """
        row = number * self.chains
        data = {
            name: tf.repeat(value[row : row + 1], len(position), axis=0)
            for name, value in self._data.items()
        }
        return self._of_one(tf.constant(position), data).numpy()

    def sampled(self, method: Method | None, step_size: float, least_ess: float) -> np.ndarray:
        """Samples all posteriors.

        Args:
            method: The sampler; None for HMC.
            step_size: Its step size in z.
            least_ess: Bulk ESS of each coordinate of each posterior; chains are extended until it
                is reached, up to 8 times.

        Returns:
            Free coordinates, shape (steps, posteriors, chains, dimension).
        """
        loop = self._steps_of(
            HamiltonianMonteCarlo(LEAPFROG_STEPS, 0.5),
            STEP_SIZE if method is not None else step_size,
            0,
        )
        position = self._tuned(loop, self._starts())
        if method is not None:
            loop = self._steps_of(method, step_size, 1)
        loop.start(self._inner(position))
        # A sampler settles after the scales were changed.
        loop.moved(SETTLING_STEPS)
        steps = max(FEWEST_STEPS, int(least_ess) // self.chains)
        outer_values = self._outer(loop.moved(steps))
        for _ in range(_MOST_EXTENSIONS):
            if self._least_ess(outer_values) >= least_ess:
                break
            outer_values = np.concatenate(
                [outer_values, self._outer(loop.moved(len(outer_values)))]
            )
        return outer_values.reshape(len(outer_values), self.count, self.chains, -1)

    def _steps_of(self, method: Method, step_size: float, number: int) -> _Steps:
        """A compiled loop; loops of different numbers draw different random numbers."""
        return _Steps(
            self._potential, method, step_size, self.location.shape[0], self.seed + number
        )

    def _energy(self, inner: Any) -> Any:
        position = self.location + self.scale * inner
        return self.density.with_data_of_rows(position, self._data)

    def _outer(self, inner: np.ndarray) -> np.ndarray:
        return self.location.numpy() + self.scale.numpy() * inner

    def _inner(self, position: np.ndarray) -> np.ndarray:
        return (position - self.location.numpy()) / self.scale.numpy()

    def _starts(self) -> np.ndarray:
        """Gaussian numbers in free coordinates, drawn again where there is no density."""
        position = self._random.standard_normal(self.location.shape)
        value = tf.function(self._energy, autograph=False)
        for _ in range(_TRIES):
            wrong = ~np.isfinite(value(tf.constant(self._inner(position))).numpy())
            if not wrong.any():
                return position
            position[wrong] = self._random.standard_normal((wrong.sum(), position.shape[1]))
        raise InputError(
            "log_density: not finite at 100 random starts of a replication.",
            expected="a finite log density near 0 in the free coordinates",
        )

    def _tuned(self, loop: _Steps, position: np.ndarray) -> np.ndarray:
        """Finds location and scales of each posterior; returns where the chains are then."""
        since = []
        factor = np.ones(self.count)
        deviation = self.scale.numpy()
        for number in range(1, ROUNDS + 1):
            loop.start(self._inner(position))
            inner = loop.moved(PILOT_STEPS)
            positions = self._outer(inner)
            position = positions[-1]
            since.append(positions)
            factor *= np.exp(_GAIN * (self._accepted(inner) - _ACCEPTANCE))
            factor = np.minimum(factor, 1.0 if number > _RENEWALS[0] else 1e3)
            if number in _RENEWALS:
                center, deviation = self._moments(np.concatenate(since))
                self.location.assign(center)
                factor[:] = 1.0
                since = []
            self.scale.assign(deviation * np.repeat(factor, self.chains)[:, None])
        return position

    def _accepted(self, inner: np.ndarray) -> np.ndarray:
        """The share of steps of each posterior in which its chains moved."""
        moved = (np.diff(inner, axis=0) != 0).any(axis=2)
        return moved.mean(axis=0).reshape(self.count, self.chains).mean(axis=1)

    def _moments(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each posterior, for each of its chains."""
        by_one = positions.reshape(len(positions), self.count, self.chains, -1)
        center = by_one.mean(axis=(0, 2))
        deviation = by_one.std(axis=(0, 2)) + _LEAST_SCALE
        return np.repeat(center, self.chains, axis=0), np.repeat(deviation, self.chains, axis=0)

    def _least_ess(self, outer_values: np.ndarray) -> float:
        by_one = outer_values.reshape(len(outer_values), self.count, self.chains, -1)
        sizes = [
            effective_sample_size(by_one[:, number, :, k].T)
            for number in range(self.count)
            for k in range(by_one.shape[3])
        ]
        return float(np.nanmin(sizes))


class _Steps:
    """A compiled loop that returns the position after each step.

    Args:
        potential: U of all chains.
        method: The sampler.
        step_size: The step size of all chains.
        walkers: The number of chains.
        seed: Seed of the steps.
    """

    def __init__(
        self,
        potential: FunctionPotential,
        method: Method,
        step_size: float,
        walkers: int,
        seed: int,
    ) -> None:
        self._loop = Loop(
            potential,
            method,
            Observables(method, None),
            rung_of(np.full(walkers, step_size)),
            seed=seed,
            execution="xla",
            record_every=1_000,
            trajectory_every=1,
            # Random numbers are drawn for a whole chunk, however few of its steps are taken.
            limits=replace(LIMITS, most_steps=PILOT_STEPS),
        )
        self._carry: Any = None
        self._next = 1

    def start(self, inner: np.ndarray) -> None:
        """Places the chains.

        Args:
            inner: Positions, shape (walkers, dimension).
        """
        if self._carry is None:
            self._carry = self._loop.start(inner, ())
            return
        # The limit on the energy stays that of the first start, the farthest from equilibrium.
        state = self._carry.state._replace(position=tf.constant(inner))
        self._carry = self._loop.evaluated(self._carry._replace(state=state), 0)

    def moved(self, steps: int) -> np.ndarray:
        """Returns the positions after each of the next steps, shape (steps, walkers, dimension).

        Args:
            steps: The number of steps.
        """
        parts = []
        missing = steps
        while missing:
            asked = min(missing, self._loop.chunk_steps)
            chunk = self._loop.run(self._carry, self._next, asked)
            positions = chunk.positions.numpy()[: int(chunk.num_positions)]
            # A step that diverges is counted, but its position is not stored.
            refuse_if(
                len(positions) < asked,
                "calibrate: a chain diverged.",
                expected="a smaller step_size, or sampler=None",
            )
            parts.append(positions)
            self._carry = chunk.carry
            self._next += asked
            missing -= asked
        return np.concatenate(parts)
