"""Overdamped methods beyond SGLD: Leimkuhler-Matthews, and SGLD with a preconditioner.

Laws on U = θ²/2, T = 1: the frozen preconditioner G of a walker gives it the variance 1/(1 - hG/2),
compared within 5.5 standard errors, which resolve 1 %. One that depends on the place without the
divergence Γ has the law exp(-U)/G, for λ = 0.1 and no memory the variance 1.889, far from 1
(resolved to 4 %). In a box without forces the law of Leimkuhler-Matthews is uniform, the mean
square 1/3 (resolved to 1 %). Its variance on a well is in `test_noisy_gradients.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from tati_re import InputError, Simulation, priors
from tati_re.core.backend import tf
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import LeimkuhlerMatthews, PreconditionedSGLD
from tests.scenarios import (
    TOLERANCE,
    NumpyEvaluate,
    NumpyNoise,
    averages,
    mean_and_error,
    overdamped_law,
    rung_of,
)

OFFSET = 0.1


def well(stiffness):
    return FunctionPotential(lambda q: 0.5 * tf.reduce_sum(stiffness * q * q, -1), 2)


def squares(old, state, info) -> list:
    return tf.unstack(state.position**2, axis=1)


def test_leimkuhler_matthews_is_its_formula_and_uses_each_random_number_twice():
    evaluate = NumpyEvaluate(rung_of(np.full(3, 0.2), 1.5, numpy=True))
    sampler, noise = LeimkuhlerMatthews(), NumpyNoise(0)
    state = sampler.init(np.ones((3, 2)), evaluate, noise)
    q = state.position
    for _ in range(4):
        state, _ = sampler.step(state, evaluate, noise)
        q = q - 0.2 * (q**3 + q) + np.sqrt(0.2 * 1.5 / 2) * (noise.drawn[-2] + noise.drawn[-1])
        np.testing.assert_allclose(state.position, q, rtol=0, atol=1e-13)


class Unturned(LeimkuhlerMatthews):
    """A wrong variant: the walls turn the walker and leave the random numbers."""

    def step(self, state, evaluate, noise):
        confine = evaluate.confine
        evaluate.confine = lambda position, random: (confine(position, None)[0], random)
        return super().step(state, evaluate, noise)


def test_leimkuhler_matthews_in_a_box_is_uniform():
    potential = FunctionPotential(lambda q: 0.0 * tf.reduce_sum(q, -1), 2, priors.Box(1.0))
    start = np.random.default_rng(0).uniform(-1, 1, size=(1_000, 2))
    rung = rung_of(np.full(1_000, 0.2))
    values = averages(LeimkuhlerMatthews(), potential, rung, start, 2_000, squares, seed=1)
    mean, error = mean_and_error(values.mean(axis=0))
    print(f"{mean:.5f} +- {error:.5f}")
    assert abs(mean - 1 / 3) < TOLERANCE * error < 0.01 / 3
    mean, error = mean_and_error(
        averages(Unturned(), potential, rung, start, 500, squares, seed=1).mean(axis=0)
    )
    assert abs(mean - 1 / 3) > TOLERANCE * error


# -------------------------------------------------------------------------------------------------------
# preconditioner


def run_psgld(sampler, step_size, num_steps, num_burnin_steps, stiffness=1.0, walkers=1_000):
    """Mean squares of two parameters and the mean of the preconditioners, `(4, walkers)`."""

    def observe(old, state, info):
        scale = 1.0 / (sampler.preconditioner_offset + tf.sqrt(state.square))
        return [*squares(old, state, info), *tf.unstack(scale, axis=1)]

    start = np.random.default_rng(3).normal(size=(walkers, 2)) / np.sqrt(stiffness)
    rung = rung_of(np.full(walkers, step_size))
    return averages(
        sampler,
        well(stiffness),
        rung,
        start,
        num_steps,
        observe,
        seed=2,
        num_burnin_steps=num_burnin_steps,
    )


def test_a_frozen_preconditioner_has_the_law_of_its_step_sizes():
    """k = 1 and 25: G of each walker from 300 steps of burn-in; the stiff parameter gets the
    smaller step.
    """
    stiffness = np.array([1.0, 25.0])
    values = run_psgld(
        PreconditionedSGLD(preconditioner_offset=OFFSET), 0.05, 16_000, 300, stiffness
    )
    for k, square, scale in zip(stiffness, values[:2], values[2:], strict=True):
        expected = (1 / (1 - 0.05 * scale * k / 2)) / k
        mean, error = mean_and_error(square - expected)
        size = expected.mean()
        print(f"k = {k}: {square.mean() * k:.5f}, expected {size * k:.5f}, error {error * k:.5f}")
        assert abs(mean) < TOLERANCE * error < 0.01 * size
    assert 3.5 < values[2].mean() / values[3].mean() < 6.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decay", "corrects", "step_size", "expected"),
    [(0.0, False, 0.001, 1.872), (0.0, True, 0.001, 1.024), (0.9, True, 0.01, 1.595)],
)
def test_a_preconditioner_that_goes_on_adapting_is_wrong_but_for_the_published_divergence_without_memory(
    decay, corrects, step_size, expected
):
    """No memory, λ = 0.1: <θ²> = 1.889 without Γ (1.87 at h = 0.001), 1.02 with it; with memory 0.9
    and h = 0.01 the published Γ leaves 1.60. The numbers are simulated ones, to 0.03.
    """
    weight = {
        power: quad(lambda q, n=power: q**n * (OFFSET + q) * np.exp(-q * q / 2), 0, 20)[0]
        for power in (0, 2)
    }
    assert weight[2] / weight[0] == pytest.approx(1.8886, abs=1e-4)
    values = run_psgld(
        PreconditionedSGLD("adaptive", decay, OFFSET, corrects), step_size, 36_000, 4_000
    )
    mean, error = mean_and_error(values[:2].mean(axis=0))
    print(f"{mean:.4f} +- {error:.4f}")
    assert abs(mean - expected) < 0.03 + TOLERANCE * error and TOLERANCE * error < 0.06


def test_the_divergence_is_the_derivative_of_the_preconditioner():
    """One step from given numbers: without memory Γ = -G² sign(g) U'', here with U = θ⁴/4 +
    θ²/2.
    """
    evaluate = NumpyEvaluate(rung_of(np.full(4, 0.01), 2.0, numpy=True))
    position = np.linspace(-2, 2, 4)[:, None]
    moved = {}
    for corrects in (False, True):
        sampler = PreconditionedSGLD("adaptive", 0.0, OFFSET, corrects)
        state = sampler.init(position, evaluate, NumpyNoise(0))
        moved[corrects] = sampler.step(state, evaluate, NumpyNoise(1))[0].position
    scale = 1 / (OFFSET + np.abs(position**3 + position))
    divergence = -(scale**2) * np.sign(position) * (3 * position**2 + 1)
    np.testing.assert_allclose(moved[True] - moved[False], 0.01 * 2.0 * divergence, rtol=1e-5)
    assert PreconditionedSGLD("adaptive").gradients_per_step == 2.0


def test_a_preconditioner_that_could_not_learn_is_refused():
    sim = Simulation(data=(np.ones((8, 1)), np.ones(8)), verbose=0)
    with pytest.raises(
        InputError, match=r"^preconditioner: a frozen .*num_burnin_steps = 0. .* such as 1000."
    ):
        sim.sample(sampler="pSGLD", step_size=0.001, num_steps=2, num_burnin_steps=0)
    for wrong in (
        {"preconditioner": "warm"},
        {"preconditioner_decay": 1.0},
        {"preconditioner_offset": 0.0},
    ):
        with pytest.raises(InputError, match=f"^{next(iter(wrong))}: "):
            PreconditionedSGLD(**wrong)


def test_without_anything_learned_it_is_sgld():
    law = overdamped_law(0.2 / (1 + OFFSET))
    values = run_psgld(PreconditionedSGLD(preconditioner_offset=OFFSET), 0.2, 1_500, 0)
    mean, error = mean_and_error(values[:2].mean(axis=0))
    assert abs(mean - law.covariance[0, 0]) < TOLERANCE * error < 0.015
