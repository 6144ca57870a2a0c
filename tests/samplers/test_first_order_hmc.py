"""First-order HMC is exact because the order of its two maps is random; with one order it is not.

Laws: <x²> = 1 on U = x²/2 and 2 Γ(3/4)/Γ(1/4) = 0.6760 on U = x⁴/4, T = 1. With one order alone, 40
trajectories from exact draws, the last 20 averaged: 0.283 (drift first) and 9.58 (kick first, still
growing) on the harmonic well at h = 0.9, L = 3; 0.620 and 0.786 on the quartic one at h = 0.3, L =
5.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from tati_re.core.backend import tf
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import FirstOrderHMC
from tati_re.samplers.hmc import leapfrog, trajectory
from tati_re.samplers.splitting import LangevinState
from tests.scenarios import TOLERANCE, NumpyEvaluate, NumpyNoise, averages, mean_and_error, rung_of

WALKERS = 100_000
QUARTIC = 2 * math.gamma(0.75) / math.gamma(0.25)
WELLS = {"harmonic": (lambda x: 0.5 * x * x, 0.9, 3), "quartic": (lambda x: 0.25 * x**4, 0.3, 5)}


class OneOrder(FirstOrderHMC):
    """Drift first (0) or kick first (1) in every trajectory, as TATi has it."""

    def __init__(self, length: int, before: float) -> None:
        super().__init__(length, 0.0)
        self.before = before

    def step(self, state, evaluate, noise):
        return trajectory(state, evaluate, noise, self.lengths, before=self.before)


@cache
def start(well: str) -> np.ndarray:
    random = np.random.default_rng(1)
    if well == "harmonic":
        return random.normal(size=(WALKERS, 1))
    # x⁴/4 is Gamma distributed with shape 1/4.
    return ((4 * random.gamma(0.25, size=WALKERS)) ** 0.25 * random.choice([-1, 1], WALKERS))[
        :, None
    ]


def mean_square(well: str, before: float | None) -> tuple[float, float]:
    """<x²> of trajectories 21 to 40 and its standard error."""
    function, step_size, length = WELLS[well]
    potential = FunctionPotential(lambda q: tf.reduce_sum(function(q), axis=-1), 1)
    sampler = FirstOrderHMC(length, 0.0) if before is None else OneOrder(length, before)

    def observe(old, state, info):
        return [state.position[:, 0] ** 2]

    found = [
        num_steps
        * averages(
            sampler,
            potential,
            rung_of(np.full(WALKERS, step_size)),
            start(well),
            num_steps,
            observe,
        )
        for num_steps in (20, 40)
    ]
    return mean_and_error((found[1] - found[0])[0] / 20)


@pytest.mark.parametrize(
    ("well", "law"), [pytest.param("harmonic", 1.0, marks=pytest.mark.slow), ("quartic", QUARTIC)]
)
def test_the_random_order_is_exact(well, law):
    """100,000 walkers: 5.5 standard errors resolve 1.6 % of <x²>."""
    mean, error = mean_square(well, None)
    print(
        f"{well}: {mean:.4f}, z {(mean - law) / error:.2f}, resolution {100 * TOLERANCE * error / law:.2f} %"
    )
    assert abs(mean - law) < TOLERANCE * error < 0.02 * law


@pytest.mark.parametrize(
    ("well", "before", "published"),
    [
        pytest.param("harmonic", 0.0, 0.283, marks=pytest.mark.slow),
        pytest.param("harmonic", 1.0, 9.579, marks=pytest.mark.slow),
        pytest.param("quartic", 0.0, 0.620, marks=pytest.mark.slow),
        ("quartic", 1.0, 0.786),
    ],
)
def test_one_order_alone_is_rejected(well, before, published):
    """It has the published wrong <x²> within 2 % (5 % of the one that grows), outside of 5.5
    standard errors of the right one.
    """
    mean, error = mean_square(well, before)
    print(f"{well}, {'kick' if before else 'drift'} first: {mean:.3f} +- {error:.3f}")
    assert mean == pytest.approx(published, rel=0.05 if published > 9 else 0.02)
    assert abs(mean - (1.0 if well == "harmonic" else QUARTIC)) > TOLERANCE * error


def state_of(q, p, evaluate):
    energy = evaluate.full(q)
    return LangevinState(
        q, p, energy.gradient, energy.potential, energy.loss, energy.log_prior, evaluate.rung
    )


def test_a_trajectory_equals_symplectic_euler_written_out_and_the_orders_undo_each_other():
    random = np.random.default_rng(1)
    q, p = random.normal(size=(2, 6, 4))
    h = np.linspace(0.05, 0.2, 6)[:, None]
    evaluate = NumpyEvaluate(rung_of(h[:, 0], numpy=True))
    drift_first = np.array([1, 0, 1, 0, 0, 1], bool)[:, None]
    before = np.where(drift_first, 0.0, 1.0)
    end = leapfrog(state_of(q, p, evaluate), evaluate, 5, before=before)
    x, y = q, p
    for _ in range(5):
        first, second = x + h * y, y - h * (x**3 + x)
        x, y = (
            np.where(drift_first, first, x + h * second),
            np.where(drift_first, y - h * (first**3 + first), second),
        )
    np.testing.assert_allclose(end.position, x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(end.momentum, y, rtol=0, atol=1e-12)
    back = leapfrog(end._replace(momentum=-end.momentum), evaluate, 5, before=1 - before)
    np.testing.assert_allclose(back.position, q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(back.momentum, -p, rtol=0, atol=1e-12)
    again = leapfrog(end._replace(momentum=-end.momentum), evaluate, 5, before=before)
    assert np.abs(again.position - q).max() > 0.01


def test_each_order_is_drawn_for_half_of_the_walkers():
    """10,000 walkers, one leapfrog step at L = 1: where the drift is first the new position is q +
    h p. Half of them within 5.5 standard errors, 2.75 %.
    """
    walkers = 10_000
    evaluate = NumpyEvaluate(rung_of(np.full(walkers, 0.01), numpy=True))
    sampler = FirstOrderHMC(1, 0.0)
    noise = NumpyNoise(3)
    old = sampler.init(np.ones((walkers, 1)), evaluate, NumpyNoise(0))
    new, _ = sampler.step(old, evaluate, noise)
    p = noise.drawn[1]
    moved = (new.position != old.position)[:, 0]
    drifted = np.isclose(new.position, 1 + 0.01 * p, rtol=0, atol=1e-12)[:, 0]
    kicked = np.isclose(new.position, 1 + 0.01 * (p - 0.02), rtol=0, atol=1e-12)[:, 0]
    assert (drifted ^ kicked)[moved].all() and moved.mean() > 0.9
    assert abs(drifted[moved].mean() - 0.5) < TOLERANCE * 0.5 / math.sqrt(moved.sum())
