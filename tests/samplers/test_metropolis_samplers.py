"""MALA, GHMC, RWMH and first-order HMC beside HMC: what one step computes, detailed balance, and
laws that are exact at every step size.

Laws on a Gaussian of 10 dimensions whose stiffnesses reach from 1 to 100: mean 0, variance T/k of
every coordinate, E[cos s] = exp(-T/2) with s = sum of sqrt(k_i) q_i / sqrt(10), and E[exp(-β ΔH)] =
1 for the proposals. Compared within 5.5 standard errors from the spread over independent walkers;
each test asserts what that resolves.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import (
    MALA,
    FirstOrderHMC,
    GeneralizedHMC,
    HamiltonianMonteCarlo,
    Info,
    RandomWalkMetropolis,
    ghmc,
    mala,
    rwmh,
)
from tests.scenarios import (
    TOLERANCE,
    NumpyEvaluate,
    NumpyNoise,
    averages,
    mean_and_error,
    quartic,
    rung_of,
)
from tests.systems import harmonic_well

DIMENSIONS, WALKERS, NUM_STEPS = 10, 1_200, 600
STIFFNESS = np.geomspace(1.0, 100.0, DIMENSIONS)
TEMPERATURES = (1.0, 0.5)


class Prescribed:
    """Gives the numbers it was made with, in order."""

    def __init__(self, *numbers) -> None:
        self.numbers = list(numbers)

    def normal(self, shape):
        return self._next(shape)

    uniform = normal

    def _next(self, shape):
        values = np.asarray(self.numbers.pop(0))
        assert values.shape == tuple(shape)
        return values


def numpy_evaluate(step_sizes, temperatures) -> NumpyEvaluate:
    return NumpyEvaluate(rung_of(step_sizes, temperatures, numpy=True))


# -------------------------------------------------------------------------------------------------------------
# one step


WALK = {"step_size": np.linspace(0.2, 0.7, 40), "temperature": np.linspace(0.5, 2.0, 40)}


def one_step(sampler):
    evaluate = numpy_evaluate(WALK["step_size"], WALK["temperature"])
    old = sampler.init(np.random.default_rng(1).normal(size=(40, 2)), evaluate, NumpyNoise(0))
    noise = NumpyNoise(3)
    new, info = sampler.step(old, evaluate, noise)
    return old, new, info, noise.drawn, WALK["step_size"][:, None], WALK["temperature"][:, None]


def gradient(q):
    return q**3 + q


def check(new, info, proposal, old, change, uniform):
    """The state is the proposal where log u < -β ΔH, and info says so."""
    ratio = -change / WALK["temperature"]
    accepted = np.log(uniform) < ratio
    assert 3 <= (~accepted).sum() <= 37
    np.testing.assert_allclose(
        new.position, np.where(accepted[:, None], proposal, old.position), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(new.potential, quartic(new.position), rtol=0, atol=1e-12)
    np.testing.assert_allclose(new.gradient, gradient(new.position), rtol=0, atol=1e-12)
    np.testing.assert_allclose(info.energy_change, change, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(info.acceptance, np.exp(np.minimum(ratio, 0)), rtol=0, atol=1e-11)
    return accepted


def test_mala_equals_the_formula_written_out():
    old, new, info, (normal, uniform), h, t = one_step(MALA())
    q = old.position
    there = q - h * gradient(q) + np.sqrt(2 * h * t) * normal
    forward = ((there - q + h * gradient(q)) ** 2).sum(1)
    backward = ((q - there + h * gradient(there)) ** 2).sum(1)
    change = quartic(there) - quartic(q) - (forward - backward) / (4 * h[:, 0])
    check(new, info, there, old, change, uniform)


def test_mala_is_hmc_with_one_leapfrog_step_of_root_2h():
    old, new, info, (normal, uniform), h, _ = one_step(MALA())
    hmc = HamiltonianMonteCarlo(1, 0.0)
    evaluate = numpy_evaluate(np.sqrt(2 * h[:, 0]), WALK["temperature"])
    same = hmc.init(old.position, evaluate, NumpyNoise(0))
    same, other = hmc.step(same, evaluate, Prescribed(normal, np.float64(0.5), uniform))
    np.testing.assert_allclose(new.position, same.position, rtol=0, atol=1e-12)
    np.testing.assert_allclose(info.energy_change, other.energy_change, rtol=0, atol=1e-11)


def test_random_walk_equals_the_formula_written_out():
    old, new, info, (normal, uniform), h, t = one_step(RandomWalkMetropolis())
    there = old.position + h * np.sqrt(t) * normal
    check(new, info, there, old, quartic(there) - quartic(old.position), uniform)


@pytest.mark.parametrize("length", [1, 3])
def test_generalized_hmc_equals_the_formula_written_out(length):
    """Two half refreshes of friction time γLh/2 around the trajectory, the momentum turned where it
    is rejected.
    """
    old, new, info, (first, uniform, second), h, t = one_step(GeneralizedHMC(1.3, length))
    c = np.exp(-1.3 * length * h / 2)
    q, p = old.position, c * old.momentum + np.sqrt((1 - c * c) * t) * first
    start = p
    for _ in range(length):
        p = p - h / 2 * gradient(q)
        q = q + h * p
        p = p - h / 2 * gradient(q)
    change = quartic(q) - quartic(old.position) + ((p**2).sum(1) - (start**2).sum(1)) / 2
    accepted = check(new, info, q, old, change, uniform)
    expected = c * np.where(accepted[:, None], p, -start) + np.sqrt((1 - c * c) * t) * second
    np.testing.assert_allclose(new.momentum, expected, rtol=0, atol=1e-12)


def test_wrong_arguments_are_refused():
    for friction in (0.0, -1.0, float("nan")):
        with pytest.raises(
            InputError, match=r"^friction: without it the momenta are never refreshed\. Received: "
        ):
            GeneralizedHMC(friction)
    for make in (FirstOrderHMC, lambda length: GeneralizedHMC(1.0, length)):
        with pytest.raises(InputError, match=r"^num_leapfrog_steps: too few\. Received: 0\."):
            make(0)


@pytest.mark.parametrize(
    "sampler", [MALA(), RandomWalkMetropolis(), GeneralizedHMC(1.0, 2), FirstOrderHMC(4, 0.0)]
)
def test_a_proposal_that_is_not_finite_is_rejected(sampler):
    evaluate = FunctionPotential(quartic, 2).bind(rung_of(np.array([1e200, 0.1])))

    class Noise:
        def normal(self, shape):
            return tf.ones(shape, tf.float64)

        def uniform(self, shape):
            return tf.fill(shape, tf.constant(0.1, tf.float64))

    old = sampler.init(tf.ones((2, 2), tf.float64), evaluate, Noise())
    new, info = sampler.step(old, evaluate, Noise())
    np.testing.assert_array_equal(new.position[0], old.position[0])
    assert (new.position[1] != old.position[1]).numpy().all()
    assert info.acceptance.numpy()[0] == 0.0 < info.acceptance.numpy()[1]
    assert all(np.isfinite(value).all() for value in new[:-1])


# -----------------------------------------------------------------------------------------------------
# detailed balance


def flow(sampler, here, there, step_size, temperature, mean, spread):
    """ln of π(x) q(x -> y) a(x -> y) for pairs of points, from a step that was given the noise that
    leads from x to y.
    """
    evaluate = numpy_evaluate(np.full(len(here), step_size), np.full(len(here), temperature))
    normal = (there - mean(here)) / spread
    state = sampler.init(here[:, None], evaluate, None)
    new, info = sampler.step(
        state, evaluate, Prescribed(normal[:, None], np.full(len(here), 1e-300))
    )
    np.testing.assert_allclose(new.position[:, 0], there, rtol=0, atol=1e-12)
    return -quartic(here[:, None]) / temperature - normal**2 / 2 + np.log(info.acceptance)


@pytest.mark.parametrize("name", ["MALA", "RWMH"])
def test_detailed_balance_on_a_grid(name):
    """π(x) K(x, y) = π(y) K(y, x) to 1e-10 of its logarithm, for all pairs of 61 points on U = x⁴/4
    + x²/2, T = 0.7.
    """
    h, t = 0.3, 0.7
    points = np.linspace(-2.5, 2.5, 61)
    x, y = (values.ravel() for values in np.meshgrid(points, points))
    x, y = x[x != y], y[x != y]
    if name == "MALA":
        sampler, mean, spread = MALA(), lambda q: q - h * gradient(q), math.sqrt(2 * h * t)
    else:
        sampler, mean, spread = RandomWalkMetropolis(), lambda q: q, h * math.sqrt(t)
    there, back = (flow(sampler, *pair, h, t, mean, spread) for pair in ((x, y), (y, x)))
    assert np.abs(there - back).max() < 1e-10
    assert np.ptp(there) > 10


# -----------------------------------------------------------------------------------------------------------------
# laws


def gaussian() -> FunctionPotential:
    return harmonic_well(DIMENSIONS, STIFFNESS)


def observe(old, state, info) -> list:
    """exp(-β ΔH), acceptance, cos s, then mean and scaled square of every coordinate."""
    scaled = state.position * np.sqrt(STIFFNESS)
    along = tf.reduce_sum(scaled, axis=-1) / math.sqrt(DIMENSIONS)
    weight = tf.exp(-state.rung.inverse_temperature * info.energy_change)
    return [
        weight,
        info.acceptance,
        tf.cos(along),
        *tf.unstack(scaled, axis=-1),
        *tf.unstack(scaled**2, axis=-1),
    ]


def law_of(
    sampler, step_size: float, num_steps: int = NUM_STEPS
) -> tuple[np.ndarray, np.ndarray, float]:
    """z and resolution of [E exp(-β ΔH), E cos s, 10 means, 10 variances] at both temperatures,
    `(2, 22)` each (a mean in standard deviations, the others relative), and the acceptance.
    """
    temperature = np.repeat(TEMPERATURES, WALKERS)
    random = np.random.default_rng(7)
    start = np.sqrt(temperature[:, None] / STIFFNESS) * random.normal(
        size=(2 * WALKERS, DIMENSIONS)
    )
    rung = rung_of(np.full(2 * WALKERS, step_size), temperature)
    found = averages(sampler, gaussian(), rung, start, num_steps, observe, seed=2).reshape(
        -1, 2, WALKERS
    )
    z, resolution = [], []
    for i, t in enumerate(TEMPERATURES):
        laws = [1.0, None, math.exp(-t / 2), *[0.0] * DIMENSIONS, *[t] * DIMENSIONS]
        rows = []
        for values, law in zip(found[:, i], laws, strict=True):
            if law is not None:
                mean, error = mean_and_error(values)
                rows.append([(mean - law) / error, TOLERANCE * error / (law or math.sqrt(t))])
        z.append([row[0] for row in rows])
        resolution.append([row[1] for row in rows])
    return np.array(z), np.array(resolution), float(found[1].mean())


# Step sizes for an acceptance between 0.4 and 0.85, and the resolution of exp(-β ΔH), cos s, means
# and variances.
CASES = {
    "HMC": (HamiltonianMonteCarlo(5, 0.5), 0.14, (0.008, 0.008, 0.025, 0.025)),
    "HMC1": (FirstOrderHMC(5, 0.5), 0.08, (0.015, 0.012, 0.05, 0.05)),
    "GHMC": (GeneralizedHMC(2.0, 3), 0.12, (0.003, 0.008, 0.03, 0.045)),
    "GHMC, one leapfrog step": (GeneralizedHMC(2.0, 1), 0.14, (0.015, 0.015, 0.065, 0.07)),
    "MALA": (MALA(), 0.012, (0.03, 0.025, 0.11, 0.12)),
    "RWMH": (RandomWalkMetropolis(), 0.09, (0.04, 0.045, 0.15, 0.19)),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow if case.startswith(("GHMC", "HMC")) else ())
        for case in CASES
    ],
)
def test_the_law_is_exact_at_condition_number_100(case):
    """It resolves E exp(-β ΔH), E cos s, means and variances to the numbers in `CASES`; the worst
    is that of the soft directions, which small steps cross slowly.
    """
    sampler, step_size, limits = CASES[case]
    z, resolution, acceptance = law_of(sampler, step_size)
    groups = [resolution[:, 0], resolution[:, 1], resolution[:, 2:12], resolution[:, 12:]]
    worst = [float(group.max()) for group in groups]
    print(
        f"{case}: acceptance {acceptance:.2f}, largest z {np.abs(z).max():.2f}, resolution {np.round(worst, 4)}"
    )
    assert np.abs(z).max() < TOLERANCE
    assert 0.2 < acceptance < 0.95
    assert all(found < limit for found, limit in zip(worst, limits, strict=True))


# -------------------------------------------------------------------------------------------------------
# wrong variants


def accept_all(proposal, kept, change, noise):
    noise.uniform(kept.potential.shape)
    return proposal, Info(tf.exp(tf.minimum(-change, 0.0)), change)


def without_flip(end, kept, change, noise, rule=ghmc.accept_or_keep):
    """The momentum is kept where a proposal is rejected."""
    return rule(end, kept._replace(momentum=-kept.momentum), change, noise)


def only_potential(proposal, kept, change, noise, rule=mala.accept_or_keep):
    """The proposal is taken for symmetric."""
    return rule(proposal, kept, proposal.potential - kept.potential, noise)


@pytest.mark.parametrize(
    ("case", "module", "wrong"),
    [
        pytest.param("MALA", mala, accept_all, marks=pytest.mark.slow),
        ("MALA", mala, only_potential),
        pytest.param("RWMH", rwmh, accept_all, marks=pytest.mark.slow),
        pytest.param("GHMC", ghmc, accept_all, marks=pytest.mark.slow),
        ("GHMC, one leapfrog step", ghmc, without_flip),
    ],
)
def test_a_wrong_metropolis_test_is_rejected(case, module, wrong, monkeypatch):
    """A third of the steps shows a variance outside of 5.5 standard errors."""
    monkeypatch.setattr(module, "accept_or_keep", wrong)
    sampler, step_size, _ = CASES[case]
    z, _, _ = law_of(sampler, step_size, NUM_STEPS // 3)
    print(case, wrong.__name__, np.abs(z[:, 12:]).max(1).round(1))
    assert np.abs(z[:, 12:]).max(1).min() > TOLERANCE
