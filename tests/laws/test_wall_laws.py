"""Laws between hard walls, in soft ones and at a tether, sampled and compared with closed forms and
quadrature.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from tati_re import priors
from tati_re.core.backend import tf
from tati_re.core.protocol import Rung
from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import SGLD, HamiltonianMonteCarlo, Splitting
from tati_re.samplers.ghmc import GeneralizedHMC
from tati_re.samplers.hmc import energy_change, leapfrog
from tati_re.samplers.mala import MALA
from tati_re.samplers.splitting import LangevinState
from tests.scenarios import TOLERANCE, rung_of

LOWER, UPPER = np.array([-0.5, 0.0, -np.inf]), np.array([1.0, np.inf, 0.7])


class Clipped(priors.HardWalls):
    """Puts back at the wall what left."""

    def confine(self, position, momentum):
        return tf.clip_by_value(position, self._interval.lower, self._interval.upper), momentum


class NotTurned(priors.HardWalls):
    """Reflects the position and lets the momentum go on outward."""

    def confine(self, position, momentum):
        return super().confine(position, momentum)[0], momentum


def positions_after(
    sampler, prior, step_size: float, num_steps: int, start, walkers: int = 8_000
) -> np.ndarray:
    """Where independent walkers are after some steps, the loss being 0."""
    potential = FunctionPotential(lambda x: 0.0 * tf.reduce_sum(x, -1), 3, prior=prior)
    loop = Loop(
        potential,
        sampler,
        Observables(sampler, None),
        rung_of([step_size] * walkers),
        1,
        "graph",
        10**6,
    )
    carry = loop.start(np.tile(np.asarray(start, np.float64), (walkers, 1)), ())
    for first in range(1, num_steps + 1, loop.chunk_steps):
        carry = loop.run(carry, first, min(loop.chunk_steps, num_steps + 1 - first)).carry
    return carry.state.position.numpy()


def deviations(positions: np.ndarray, means, squares) -> np.ndarray:
    """Of first and second moments, in standard errors."""
    found = []
    for power, expected in ((1, means), (2, squares)):
        values = positions**power
        found.append((values.mean(axis=0) - expected) / (values.std(axis=0) / np.sqrt(len(values))))
    return np.abs(np.array(found))


def truncated_moments() -> tuple[np.ndarray, np.ndarray]:
    law = stats.truncnorm(LOWER, UPPER)
    return law.mean(), law.var() + law.mean() ** 2


@pytest.mark.parametrize(
    ("sampler", "step_size", "num_steps"),
    [
        (Splitting("BAOAB"), 0.1, 100),
        pytest.param(Splitting("UBU"), 0.1, 100, marks=pytest.mark.slow),
        pytest.param(SGLD(), 0.01, 500, marks=pytest.mark.slow),
        pytest.param(GeneralizedHMC(2.0, 3), 0.2, 30, marks=pytest.mark.slow),
        pytest.param(MALA(), 0.2, 60, marks=pytest.mark.slow),
        (HamiltonianMonteCarlo(4, 0.5, "reflect"), 0.15, 20),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_gaussian_between_hard_walls_has_the_truncated_moments(sampler, step_size, num_steps):
    """8,000 walkers: the law without walls is hundreds of standard errors off."""
    found = positions_after(
        sampler,
        priors.HardWalls(priors.Gaussian(1.0), LOWER, UPPER),
        step_size,
        num_steps,
        [0.1, 0.3, -0.2],
    )
    assert (found >= LOWER).all() and (found <= UPPER).all()
    assert deviations(found, *truncated_moments()).max() < TOLERANCE
    assert deviations(found, 0.0, 1.0).max() > 50


@pytest.mark.parametrize("wrong", [Clipped, pytest.param(NotTurned, marks=pytest.mark.slow)])
def test_clipping_and_a_momentum_that_goes_on_are_caught(wrong):
    found = positions_after(
        Splitting("BAOAB"), wrong(priors.Gaussian(1.0), LOWER, UPPER), 0.1, 100, [0.1, 0.3, -0.2]
    )
    assert deviations(found, *truncated_moments()).max() > TOLERANCE


SOFT = priors.SoftWalls(
    priors.Flat(), [1.0, 2.0, 5.0], [1.0, 3.0, 1.0], [0.5, -0.3, -1.0], [0.5, -0.3, 1.0]
)


def soft_moments() -> tuple[np.ndarray, np.ndarray]:
    """By quadrature over each parameter."""
    grid = np.linspace(-9, 9, 90_001)
    laws = np.exp(-SOFT.energy(tf.constant(np.repeat(grid[:, None], 3, axis=1))).numpy())
    laws /= integrate.simpson(laws, x=grid, axis=0)
    return tuple(
        integrate.simpson(laws * grid[:, None] ** power, x=grid, axis=0) for power in (1, 2)
    )


@pytest.mark.parametrize(
    ("sampler", "step_size", "num_steps"),
    [
        pytest.param(Splitting("BAOAB"), 0.05, 300, marks=pytest.mark.slow),
        (HamiltonianMonteCarlo(20, 0.5), 0.05, 12),
    ],
)
def test_tethers_and_soft_walls_have_the_moments_of_quadrature(sampler, step_size, num_steps):
    """The first parameter, on a spring of strength 1, has the variance 1, where TATi's GLA moves it
    by 0.498.
    """
    means, squares = soft_moments()
    assert squares[0] - means[0] ** 2 == pytest.approx(1.0, abs=1e-9)
    found = positions_after(sampler, SOFT, step_size, num_steps, [0.5, -0.3, 0.0])
    assert deviations(found, means, squares).max() < TOLERANCE
    assert found[:, 0].var() > 0.9


class LostDenominator(priors.SoftWalls):
    """An energy that is not the integral of the force."""

    def energy(self, position):
        return super().energy(position) * (self._rows[2] + 1)


def test_energy_is_conserved_to_the_order_of_the_leapfrog_scheme():
    """Half the step, a quarter of the error; where the force is not the slope of U the error
    stays.
    """

    def error(prior, step_size: float) -> float:
        potential = FunctionPotential(lambda x: 0.0 * tf.reduce_sum(x, -1), 3, prior=prior)
        evaluate = potential.bind(Rung(*(tf.ones((1,), tf.float64),) * 3))
        at, momentum = (
            tf.constant([[0.9, 0.4, 0.95]], tf.float64),
            tf.constant([[0.3, -0.8, 0.4]], tf.float64),
        )
        energy = evaluate(at)
        rung = Rung(
            tf.ones((1,), tf.float64),
            tf.ones((1,), tf.float64),
            tf.constant([step_size], tf.float64),
        )
        start = LangevinState(
            at, momentum, energy.gradient, energy.potential, energy.loss, energy.log_prior, rung
        )
        return float(
            np.abs(energy_change(start, leapfrog(start, evaluate, round(0.5 / step_size)))[0])
        )

    springs = priors.SoftWalls(priors.Flat(), SOFT.factor, SOFT.power, SOFT.lower, SOFT.lower)
    assert 0.2 < error(springs, 0.01) / error(springs, 0.02) < 0.3
    assert error(SOFT, 0.005) < 1e-3
    wrong = LostDenominator(priors.Flat(), SOFT.factor, SOFT.power, SOFT.lower, SOFT.upper)
    assert error(wrong, 0.005) > 0.05
