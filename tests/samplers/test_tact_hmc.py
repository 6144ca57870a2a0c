"""A tempering variable ξ beside θ: the law at every ξ, ξ itself, and wrong variants that must fail.

Laws: on U = sum of θ²/2 the configurational temperature is T/λ(ξ) in every bin of ξ, T on the
plateau. With Ū a constant c, W = -λ c, and the density of ξ is λ^(-P/2) exp(λ c/T) on [-1, 1]. A
double well has its masses by quadrature. Gradient noise of variance Σ and noise of U of variance σ²
move the thermostats to s = γ + hΣ/(2T) and z = hσ²/(2mT).

Power: float64, 5.5 standard errors from the spread over independent walkers resolve 2 % to 4 % of a
temperature in a bin of ξ, 4 % of an occupancy, 0.04 of a mass, 2 % and 8 % of the two frictions.
Without W', without λ' and without thermostats the results are off by 20 % or more.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.protocol import Clock
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import Splitting
from tati_re.samplers.tact_hmc import TactHMC, reflected
from tests.scenarios import (
    TOLERANCE,
    NoisyEvaluate,
    NoisyPotential,
    NumpyEvaluate,
    NumpyNoise,
    averages,
    mean_and_error,
    rung_of,
)

EDGES = np.array([0.0, 0.1, 0.25, 0.4, 0.6, 0.8, 1.0])


def well(position):
    return 0.5 * tf.reduce_sum(position * position, axis=-1)


def binned(sampler, *values):
    """An observer: in each bin of |ξ| the occupancy, then the given functions of the state in
    it.
    """

    def observe(old, state, info):
        where = tf.abs(state.tempering)
        inside = [
            tf.cast((where > a) & (where <= b), tf.float64) for a, b in itertools.pairwise(EDGES)
        ]
        return [
            one * value
            for value in (tf.ones_like(where), *(f(state) for f in values))
            for one in inside
        ]

    return observe


def ratio_and_error(values, weights) -> tuple[float, float]:
    """Of the sums over walkers, and its standard error to first order."""
    ratio = values.mean() / weights.mean()
    return ratio, mean_and_error(values - ratio * weights)[1] / weights.mean()


def configurational(sampler):
    return lambda state: (
        sampler.scale(state.tempering)[0] * tf.reduce_mean(state.position * state.gradient, -1)
    )


def gaussian_start(walkers, parameters, temperature=1.0):
    return np.random.default_rng(2).normal(size=(walkers, parameters)) * np.sqrt(temperature)


# -------------------------------------------------------------------------------------------------
# the law at every ξ


@pytest.mark.slow
@pytest.mark.parametrize(("parameters", "temperature"), [(3, 1.0), (10, 2.0)])
def test_every_xi_has_its_temperature_and_is_visited_alike(parameters, temperature):
    """T_conf λ/T = 1 in each of six bins, the momenta T (1 - h²λ/4); a flat histogram of ξ within
    10 %.
    """
    sampler = TactHMC(tempering_steps=40.0)
    potential = FunctionPotential(lambda x: well(x) + 1000.0, parameters)
    rung = rung_of(np.full(500, 0.2), temperature)
    observe = binned(
        sampler, configurational(sampler), lambda state: tf.reduce_mean(state.momentum**2, -1)
    )
    start = gaussian_start(500, parameters, temperature)
    values = averages(
        sampler, potential, rung, start, 4_000, observe, seed=4, num_burnin_steps=2_500
    )
    occupied, conf, kinetic = values.reshape(3, len(EDGES) - 1, -1)
    for i, width in enumerate(np.diff(EDGES)):
        value, error = ratio_and_error(conf[i] / temperature, occupied[i])
        momenta, other = ratio_and_error(kinetic[i] / temperature, occupied[i])
        print(
            f"|xi| <= {EDGES[i + 1]:g}: {occupied[i].mean() / width:.3f}, {value:.4f} +- {error:.4f}, {momenta:.4f}"
        )
        assert abs(value - 1) < TOLERANCE * error < 0.04
        assert 0.985 - TOLERANCE * other < momenta < 1 + TOLERANCE * other
        assert abs(occupied[i].mean() / width - 1) < 0.1


def frozen_occupancy(sampler, height=2.0, num_steps=4_000) -> list[float]:
    """z-scores of the occupancies under W = -λ c, c the potential at the start, P = 2 and T = 1."""
    start = np.full((1_000, 2), np.sqrt(height))
    potential, rung = FunctionPotential(well, 2), rung_of(np.full(1_000, 0.2))
    values = averages(sampler, potential, rung, start, num_steps, binned(sampler), seed=5)
    xi = (np.arange(200_000) + 0.5) / 200_000
    scale = TactHMC().scale(xi)[0]
    density = np.exp(height * scale) / scale
    scores = []
    for i, found in enumerate(values):
        expected = density[(xi > EDGES[i]) & (xi <= EDGES[i + 1])].sum() / density.sum()
        mean, error = mean_and_error(found)
        print(f"|xi| <= {EDGES[i + 1]:g}: {mean:.4f} +- {error:.4f}, expected {expected:.4f}")
        scores.append((mean - expected) / error)
    return scores


def test_a_frozen_bias_gives_xi_its_density():
    """All walkers start at ξ = 0: 4,000 steps forget that."""
    assert np.abs(frozen_occupancy(TactHMC(tempering_steps=20.0))).max() < TOLERANCE


def test_wrong_forces_on_xi_are_rejected(monkeypatch):
    """No W' in the force; no λ' U in it."""
    sampler = TactHMC(tempering_steps=20.0)
    with monkeypatch.context() as patch:
        patch.setattr(TactHMC, "mean_potential", lambda self, state: 0.0 * state.potential)
        assert np.abs(frozen_occupancy(sampler, num_steps=600)).max() > 2 * TOLERANCE
    with monkeypatch.context() as patch:
        patch.setattr(TactHMC, "mean_potential", lambda self, state: state.potential)
        assert np.abs(frozen_occupancy(sampler, num_steps=600)).max() > 2 * TOLERANCE


@pytest.mark.slow
def test_kicks_that_are_not_scaled_are_rejected(monkeypatch):
    """p <- p - t ∇U in place of t λ ∇U: T at every ξ."""
    right = TactHMC.scale
    sampler = TactHMC(tempering_steps=40.0)
    observe = binned(sampler, configurational(sampler))
    monkeypatch.setattr(TactHMC, "scale", lambda self, xi: (1.0 + 0.0 * xi, right(self, xi)[1]))
    rung = rung_of(np.full(200, 0.2))
    values = averages(
        sampler, FunctionPotential(well, 3), rung, gaussian_start(200, 3), 1_000, observe, seed=4
    )
    occupied, conf = values.reshape(2, len(EDGES) - 1, -1)
    monkeypatch.setattr(TactHMC, "scale", right)
    middle = 0.5 * (EDGES[3] + EDGES[4])
    expected = float(1 / sampler.scale(np.array([middle]))[0][0])
    value, error = ratio_and_error(conf[3], occupied[3])
    print(f"{value:.3f} +- {error:.3f}; wanted about {expected:.3f}")
    assert abs(value - expected) > TOLERANCE * error


# -------------------------------------------------------------------------------------------------------
# two wells


def double_well(position):
    """A barrier of 12 T between wells of which the left one is deeper by about T."""
    x = position[:, 0]
    return 12.0 * (x * x - 1.0) ** 2 + 0.5 * x


def left_mass() -> float:
    x = np.linspace(-3, 3, 600_001)
    density = np.exp(-(12.0 * (x * x - 1.0) ** 2 + 0.5 * x))
    return density[x < 0].sum() / density.sum()


@pytest.mark.slow
def test_masses_of_two_wells_that_a_plain_sampler_does_not_connect():
    """All walkers start on the right. 12 T are 2 T at the hot end."""

    def sides(old, state, info):
        left = tf.cast(state.position[:, 0] < 0, tf.float64)
        weight = getattr(state, "weight", tf.ones_like(left))
        return [weight * left, weight]

    potential, start = FunctionPotential(double_well, 1), np.ones((500, 1))
    rung = rung_of(np.full(500, 0.08))
    plain = averages(Splitting("BADODAB"), potential, rung, start, 5_000, sides, seed=4)
    assert plain[0].mean() < 0.01
    sampler = TactHMC(tempering_steps=60.0)
    left, weight = averages(
        sampler, potential, rung, start, 20_000, sides, seed=4, num_burnin_steps=5_000
    )
    value, error = ratio_and_error(left, weight)
    print(
        f"{value:.4f} +- {error:.4f}, quadrature {left_mass():.4f}; {weight.mean():.4f} of the steps count"
    )
    assert abs(value - left_mass()) < TOLERANCE * error < 0.06


# ------------------------------------------------------------------------------------- the bias,
# walls, conservation


def test_the_bias_is_learnt_by_all_walkers_of_a_rung_and_frozen_afterwards():
    """Rungs of two temperatures: each learns its own Ū, its walkers the same; nothing changes after
    the burn-in.
    """
    temperature = np.repeat([0.5, 2.0], 4)
    evaluate = NumpyEvaluate(rung_of(np.full(8, 0.1), temperature, numpy=True))
    sampler = TactHMC(tempering_steps=20.0, tempering_nodes=5)
    state = sampler.init(gaussian_start(8, 3), evaluate, NumpyNoise(0))
    for step in range(1, 801):
        evaluate.clock = Clock(np.int64(step), np.bool_(step <= 600), np.int32(0))
        before, (state, _) = state, sampler.step(state, evaluate, NumpyNoise(step))
        changed = (state.bias_mean != before.bias_mean).any()
        assert changed == (step <= 600 and step % 10 == 0)
    np.testing.assert_allclose(state.bias_count[:4] - state.bias_count[:1], 0, atol=1e-9)
    np.testing.assert_allclose(state.bias_mean[:4] - state.bias_mean[:1], 0, atol=1e-9)
    assert (state.bias_mean[4] != state.bias_mean[0]).all()
    assert state.bias_count[0].sum() == pytest.approx(4 * 60)


def test_means_forget_the_start():
    """Looks at U = 1, 2, ..., k weigh 1, 2, ..., k: the mean is (2k + 1)/3."""
    evaluate = NumpyEvaluate(rung_of(np.full(2, 0.1), numpy=True))
    sampler = TactHMC(tempering_nodes=3)
    state = sampler.init(np.ones((2, 1)), evaluate, NumpyNoise(0))
    for k in range(1, 11):
        count, mean = sampler._learnt(state._replace(potential=np.full(2, float(k))))
        state = state._replace(bias_count=count, bias_mean=mean)
    np.testing.assert_allclose(state.bias_mean[:, 0], 21 / 3, rtol=1e-12)
    np.testing.assert_allclose(state.bias_mean[:, 1:], 0.75, rtol=1e-12)


def test_reflection_keeps_xi_inside_and_its_speed():
    xi = np.linspace(-6.9, 6.9, 1001)
    inside, turned = reflected(xi)
    assert (np.abs(inside) <= 1).all() and set(turned) == {-1.0, 1.0}
    np.testing.assert_allclose(inside, 2 / np.pi * np.arcsin(np.sin(np.pi * xi / 2)), atol=1e-12)
    back, again = reflected(inside - turned * (xi - 0.3))
    np.testing.assert_allclose(back, reflected(np.full_like(xi, 0.3))[0], atol=1e-12)
    np.testing.assert_allclose(again, turned)


def energy_errors(step_size, monkeypatch, **options) -> tuple[np.ndarray, np.ndarray]:
    """Largest change of H = λ(U - c) + p'p/2 + ρ²/2 of each walker over a time of 8, without baths
    and thermostats, and whether it stayed away from the ends of ξ.
    """
    monkeypatch.setattr(TactHMC, "_baths", lambda self, state, noise: state)
    monkeypatch.setattr(TactHMC, "_thermostats", lambda self, state, time: state)
    evaluate = NumpyEvaluate(rung_of(np.full(100, step_size), numpy=True))
    sampler = TactHMC(tempering_steps=1.0 / step_size, **options)
    state = sampler.init(gaussian_start(100, 3), evaluate, NumpyNoise(0))
    height, energies, furthest = state.potential, [], 0.0
    for _ in range(round(8 / step_size)):
        scale = sampler.scale(state.tempering)[0]
        kinetic = 0.5 * (state.momentum**2).sum(-1) + 0.5 * state.tempering_momentum**2
        energies.append(scale * (state.potential - height) + kinetic)
        furthest = np.maximum(furthest, np.abs(state.tempering))
        state, _ = sampler.step(state, evaluate, NumpyNoise(0))
    assert furthest.max() <= 1
    return np.abs(np.array(energies) - energies[0]).max(axis=0), furthest < 0.95


def test_the_energy_is_kept_by_reflections(monkeypatch):
    """To second order in h where no force meets the wall (M = 1), and away from it."""
    (coarse, inside), (fine, also) = (
        energy_errors(step, monkeypatch, max_temperature=1.0) for step in (0.02, 0.01)
    )
    assert (~inside).sum() > 50
    assert fine.max() < 0.01 and 3.7 < np.median(coarse / fine) < 4.3
    (coarse, inside), (fine, also) = (energy_errors(step, monkeypatch) for step in (0.02, 0.01))
    away = inside & also
    print(
        away.sum(),
        coarse[away].max(),
        fine[away].max(),
        np.median((coarse / fine)[away]),
        fine.max(),
    )
    assert 20 < away.sum() < 80
    assert fine[away].max() < 0.05 and 3.7 < np.median((coarse / fine)[away]) < 4.3


def test_a_constant_in_the_potential_means_nothing():
    """Positions to 1e-9 after 200 steps of the burn-in."""
    ends = []
    for constant in (0.0, 1000.0):
        evaluate = NumpyEvaluate(
            rung_of(np.full(6, 0.1), numpy=True),
            lambda x, c=constant: (0.5 * x * x).sum(-1) + c,
            lambda x: x,
        )
        sampler = TactHMC(tempering_steps=20.0)
        state = sampler.init(gaussian_start(6, 3), evaluate, NumpyNoise(0))
        for step in range(1, 201):
            evaluate.clock = Clock(np.int64(step), np.bool_(True), np.int32(0))
            state, _ = sampler.step(state, evaluate, NumpyNoise(step))
        ends.append(state)
    np.testing.assert_allclose(ends[0].position, ends[1].position, atol=1e-9)
    np.testing.assert_allclose(ends[0].tempering, ends[1].tempering, atol=1e-9)


# --------------------------------------------------------------------------------------------------
# noisy mini-batches


class NoisyInBoth(NoisyPotential):
    """Noise in the gradient, and of the standard deviation 8 in the potential."""

    def bind(self, rung, batch=None, auxiliary=(), clock=None):
        return _NoisyInBoth(self, rung, clock)


class _NoisyInBoth(NoisyEvaluate):
    def __call__(self, position):
        energy = super().__call__(position)
        seed = tf.stack([tf.constant(99, tf.int64), tf.cast(self.clock.step, tf.int64)])
        noise = tf.random.stateless_normal(position.shape[:1], seed, dtype=tf.float64, alg="philox")
        return energy._replace(potential=energy.potential + 8.0 * noise)


def noisy_run(num_steps, num_burnin_steps=2_000):
    sampler = TactHMC(tempering_steps=40.0)
    potential, rung = NoisyInBoth(well, 10, 9.0, seed=7), rung_of(np.full(500, 0.1), 2.0)
    bins = binned(
        sampler,
        lambda state: (
            tf.reduce_mean(state.position**2, -1) / 2.0 * sampler.scale(state.tempering)[0]
        ),
    )

    def observe(old, state, info):
        return [
            *bins(old, state, info),
            state.thermostat,
            state.tempering_thermostat,
            state.tempering_momentum**2 / 2,
        ]

    start = gaussian_start(500, 10, 2.0)
    return averages(
        sampler,
        potential,
        rung,
        start,
        num_steps,
        observe,
        seed=4,
        num_burnin_steps=num_burnin_steps,
    )


@pytest.mark.slow
def test_thermostats_absorb_the_noise_of_gradient_and_potential():
    """s = 1 + 0.1 9/4 = 1.225 and z = σ²/(2 T² K² h) = 0.05; T at every ξ, and of ρ."""
    *bins, s, z, own = noisy_run(3_000)
    occupied, conf = np.reshape(bins, (2, len(EDGES) - 1, -1))
    for i in range(len(EDGES) - 1):
        value, error = ratio_and_error(conf[i], occupied[i])
        print(f"|xi| <= {EDGES[i + 1]:g}: {value:.4f} +- {error:.4f}")
        assert abs(value - 1) < TOLERANCE * error < 0.04
    for what, values, expected, resolution in (
        ("s", s, 1.225, 0.02),
        ("z", z, 0.05, 0.3),
        ("rho", own, 1.0, 0.03),
    ):
        value, error = mean_and_error(values)
        print(f"{what}: {value:.5f} +- {error:.5f}, expected {expected}")
        assert abs(value - expected) < TOLERANCE * error + 0.01 * expected
        assert TOLERANCE * error < resolution * expected


@pytest.mark.slow
def test_without_thermostats_the_noise_heats(monkeypatch):
    monkeypatch.setattr(TactHMC, "_thermostats", lambda self, state, time: state)
    *bins, _, _, _ = noisy_run(400, 200)
    occupied, conf = np.reshape(bins, (2, len(EDGES) - 1, -1))
    value, error = ratio_and_error(conf[0], occupied[0])
    assert value > 1.1 and value - 1 > TOLERANCE * error


# -------------------------------------------------------------------------------------------------------
# runs, refusals


def test_a_run_shows_temperature_and_weight():
    sim = Simulation(data="two_clusters", seed=1, verbose=0, num_walkers=4)
    run = sim.sample(
        sampler=TactHMC(tempering_steps=20.0),
        step_size=0.01,
        num_steps=600,
        num_burnin_steps=300,
        trajectory_every=0,
    )
    rows = run.run_info
    assert (rows["tempering"].abs() <= 1).all()
    assert ((rows["tempering"].abs() <= 0.1) == (rows["weight"] == 1)).all()
    expected = 1 / TactHMC().scale(rows["tempering"].to_numpy())[0]
    np.testing.assert_allclose(rows["temperature"], expected, rtol=1e-9)
    assert rows["temperature"].max() > 1.5


def test_the_option_max_temperature_is_that_of_the_ends():
    sim = Simulation(
        potential=lambda x: 0.5 * tf.reduce_sum(x * x, -1),
        dimension=2,
        verbose=0,
        execution="eager",
    )
    own = {
        "sampler": "TACT-HMC",
        "step_size": 0.1,
        "num_steps": 2,
        "num_burnin_steps": 1,
        "temperature": 2.0,
    }
    assert sim.sample(**own, max_temperature=8.0).manifest["method"]["max_temperature"] == 4.0
    assert sim.sample(**own).manifest["method"]["max_temperature"] == 6.0
    with pytest.raises(
        InputError,
        match=r"^max_temperature is below the target's temperature. Received: 1.5. Expected: 2 or more",
    ):
        sim.sample(**own, max_temperature=1.5)


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"friction": 0.0}, "friction"),
        ({"friction": "auto"}, "friction"),
        ({"thermal_mass": 0.0}, "thermal_mass"),
        ({"max_temperature": 0.5}, "max_temperature"),
        ({"max_temperature": float("inf")}, "max_temperature"),
        ({"tempering_plateau": 0.0}, "tempering_plateau"),
        ({"tempering_plateau": 1.0}, "tempering_plateau"),
        ({"tempering_steps": 0.0}, "tempering_steps"),
        ({"tempering_nodes": 1}, "tempering_nodes"),
    ],
)
def test_values_out_of_range_get_one_sentence(wrong, what):
    with pytest.raises(InputError, match=f"^{what}[: ]"):
        TactHMC(**wrong)
