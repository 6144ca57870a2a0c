"""HMC on targets with closed moments that are hard to move in, and the ratio of two temperatures.

Banana: x ~ N(0, 1), y = x² - 1 + N(0, 1/4): means 0, variances 1 and 9/4, E[x² y] = 2. Funnel (Neal
2003), in 3 dimensions: v ~ N(0, 1), x₁, x₂ ~ N(0, e^v): E v = 0, E v² = 1, E v⁴ = 3, E x² =
e^(1/2), E[x² exp(-v)] = 1. Compared within 5.5 standard errors from the spread over independent
walkers, started from exact draws.

Two temperatures: p(U; β) = g(U) exp(-β U)/Z, so that ln p(U; β₁)/p(U; β₂) is a line in U of slope
-(β₁ - β₂) whatever g is (Shirts, J. Chem. Theory Comput. 9, 909, 2013). Logistic regression
estimates the slope.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tati_re.core.backend import tf
from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import HamiltonianMonteCarlo, Splitting
from tati_re.samplers.hmc import leapfrog
from tests.scenarios import TOLERANCE, averages, mean_and_error, quartic, rung_of

WALKERS = 4_000


def banana(q):
    x, y = q[:, 0], q[:, 1]
    return 0.5 * x**2 + 2.0 * (y - x**2 + 1.0) ** 2


def banana_start(random):
    x = random.normal(size=WALKERS)
    return np.stack([x, x**2 - 1 + 0.5 * random.normal(size=WALKERS)], axis=1)


def banana_moments(old, state, info) -> list:
    x, y = state.position[:, 0], state.position[:, 1]
    return [x, y, x**2, y**2, x**2 * y]


def funnel(q):
    v, x = q[:, 0], q[:, 1:]
    return 0.5 * v**2 + v + 0.5 * tf.exp(-v) * tf.reduce_sum(x**2, axis=-1)


def funnel_start(random):
    v = random.normal(size=WALKERS)
    return np.concatenate(
        [v[:, None], np.exp(v / 2)[:, None] * random.normal(size=(WALKERS, 2))], axis=1
    )


def funnel_moments(old, state, info) -> list:
    v, x = state.position[:, 0], state.position[:, 1]
    return [v, v**2, v**4, x**2, x**2 * tf.exp(-v)]


# Potential, start, moments, their laws and scales, step size, and what 5.5 standard errors resolve
# of each.
TARGETS = {
    "banana": (
        banana,
        banana_start,
        banana_moments,
        (0, 0, 1, 9 / 4, 2),
        0.15,
        (0.03, 0.05, 0.05, 0.13, 0.16),
    ),
    "funnel": (
        funnel,
        funnel_start,
        funnel_moments,
        (0, 1, 3, math.exp(0.5), 1),
        0.2,
        (0.04, 0.04, 0.10, 0.10, 0.03),
    ),
}


def deviations(sampler, name: str, function=None, num_steps: int = 300):
    """z and 5.5 standard errors of every moment, relative to its law (to 1 where that is 0)."""
    potential, start, moments, laws, step_size, _ = TARGETS[name]
    begin = start(np.random.default_rng(5))
    found = averages(
        sampler,
        FunctionPotential(function or potential, begin.shape[1]),
        rung_of(np.full(WALKERS, step_size)),
        begin,
        num_steps,
        moments,
        seed=4,
    )
    pairs = [mean_and_error(values) for values in found]
    z = np.array([(mean - law) / error for (mean, error), law in zip(pairs, laws, strict=True)])
    return z, np.array(
        [TOLERANCE * error / (law or 1) for (_, error), law in zip(pairs, laws, strict=True)]
    )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "banana")) for name in TARGETS]
)
def test_moments(name):
    """4,000 walkers, 300 trajectories of 5 to 15 steps; the resolution stands in `TARGETS`."""
    z, resolution = deviations(HamiltonianMonteCarlo(10, 0.5), name)
    print(f"{name}: z {z.round(2)}, resolution {resolution.round(4)}")
    assert np.abs(z).max() < TOLERANCE
    assert (resolution < TARGETS[name][-1]).all()


def test_a_funnel_without_its_volume_is_rejected():
    """Without the logarithm of the standard deviations, which is v, the mean of v is 1."""
    z, _ = deviations(HamiltonianMonteCarlo(10, 0.5), "funnel", lambda q: funnel(q) - q[:, 0], 100)
    assert np.abs(z[:2]).max() > TOLERANCE


@pytest.mark.parametrize("name", TARGETS)
def test_an_asymmetric_map_is_rejected(name, monkeypatch):
    """A trajectory without its last half kick is no involution; a third of the steps shows it."""

    def without_last_kick(state, evaluate, length, **split):
        end = leapfrog(state, evaluate, length, **split)
        return end._replace(
            momentum=end.momentum + 0.5 * state.rung.step_size[:, None] * end.gradient
        )

    monkeypatch.setattr("tati_re.samplers.hmc.leapfrog", without_last_kick)
    z, _ = deviations(HamiltonianMonteCarlo(10, 0.5), name, num_steps=100)
    print(name, z.round(1))
    assert np.abs(z).max() > TOLERANCE


# -----------------------------------------------------------------------------------------------------
# two temperatures


def slope(sampler, betas, step_size: float, count: int = 80, every: int = 10, walkers: int = 1_500):
    """The slope of ln p(U; β₁)/p(U; β₂) and its standard error, walkers taken for independent,
    their rows not.
    """
    potential = FunctionPotential(quartic, 4)
    rung = rung_of(np.full(2 * walkers, step_size), np.repeat(1 / np.asarray(betas), walkers))
    loop = Loop(potential, sampler, Observables(sampler, None), rung, 5, "xla", record_every=every)
    carry = loop.start(0.5 * np.random.default_rng(0).normal(size=(2 * walkers, 4)), ())
    step, rows, total = 1, [], every * (count + 20)
    while step <= total:
        chunk = loop.run(carry, step, min(loop.chunk_steps, total + 1 - step))
        rows.append(
            chunk.rows.numpy()[
                : int(chunk.num_rows), :, loop.observables.columns.index("potential")
            ]
        )
        carry, step = chunk.carry, step + int(chunk.taken)
    u = np.concatenate(rows)[20:]
    first = np.repeat([1.0, 0.0], walkers)[None, :]
    design = np.stack([np.ones_like(u), u - u.mean()])
    weights = np.zeros(2)
    for _ in range(30):
        chance = 1 / (1 + np.exp(-np.tensordot(weights, design, 1)))
        information = np.einsum("irw,jrw,rw->ij", design, design, chance * (1 - chance))
        step_of_newton = np.linalg.solve(
            information, np.einsum("irw,rw->i", design, first - chance)
        )
        weights = weights + step_of_newton
        if np.abs(step_of_newton).max() < 1e-13:
            break
    scores = np.einsum("irw,rw->iw", design, first - chance)
    inverse = np.linalg.inv(information)
    return weights[1], math.sqrt((inverse @ scores @ scores.T @ inverse)[1, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "step_size"),
    [
        pytest.param(HamiltonianMonteCarlo(5, 0.5), 0.25, id="HMC"),
        pytest.param(Splitting("BAOAB"), 0.1, id="BAOAB"),
    ],
)
def test_the_ratio_of_two_temperatures(sampler, step_size):
    """β = 1 and 0.5 on U = x⁴/4 + x²/2 in 4 dimensions: the slope is -0.5 within 5.5 standard
    errors, which resolve 4 % of it; the bias of BAOAB at h = 0.1 is far less.
    """
    found, error = slope(sampler, (1.0, 0.5), step_size)
    z = (found + 0.5) / error
    print(
        f"{sampler.name}: slope {found:.4f}, z {z:.2f}, resolution {100 * TOLERANCE * error / 0.5:.1f} %"
    )
    assert abs(z) < TOLERANCE
    assert TOLERANCE * error < 0.04 * 0.5


@pytest.mark.slow
def test_a_wrong_temperature_is_rejected():
    """A method that runs 10 % too hot at one of the two temperatures."""
    found, error = slope(HamiltonianMonteCarlo(5, 0.5), (1.0, 0.5 / 1.1), 0.25)
    assert abs(found + 0.5) > TOLERANCE * error
