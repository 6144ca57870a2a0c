"""Walkers that change their rung by themselves: the joint law of rung and position, and wrong
variants that must fail.

Laws: position and rung have the law exp(-u_k(θ) + g_k), so that rung k is visited Z_k e^(g_k) /
(sum of these) of the time and θ has exp(-u_k)/Z_k there, both by quadrature; with HMC inside both
are exact. Walkers start in that law.

Power: 2,000 walkers, float64, 5.5 standard errors from their spread resolve 2 % to 4 % of an
occupancy and 0.02 of a mass. A wrong sign of g, momenta that are not scaled, noisy energies and a
forgotten λ are off by 10 % or more.
"""

from __future__ import annotations

import ast
import itertools

import numpy as np
import pytest

from tati_re import Simulation, analyse
from tati_re.analysis import averages as averages_of_run
from tati_re.analysis import coordinate_of, stored_positions, trajectory_averages
from tati_re.core import ops
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.protocol import Clock
from tati_re.launch.request import make_request
from tati_re.options.make import make_options
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.priors import Gaussian
from tati_re.prediction.arviz import to_arviz
from tati_re.prediction.draws import independent_draws
from tati_re.prediction.quantities import quantities
from tati_re.samplers import HamiltonianMonteCarlo, Splitting
from tati_re.samplers.tact_hmc import TactHMC
from tati_re.samplers.wrappers.control_variate import ControlVariate
from tati_re.samplers.wrappers.eqn import EnsembleQuasiNewton
from tati_re.samplers.wrappers.simulated_tempering import _LEARNT, SimulatedTempering
from tati_re.samplers.wrappers.step_size_tuning import StepSizeTuning
from tati_re.testing import CHECKS
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

WALKERS = 2_000
BETAS = [1.0, 0.5, 0.25, 0.12]
GRID = np.linspace(-15, 15, 600_001)
HMC = HamiltonianMonteCarlo(4, 0.5)


def double_well(x):
    """A barrier of 8 T between wells of which the left one is deeper by about T; numpy or
    TensorFlow.
    """
    return 8.0 * (x * x - 1.0) ** 2 + 0.5 * x


class Law:
    """Rungs exp(-u_k) on one parameter.

    Args:
        reduced: u of each rung on `GRID`.
        log_weights: g; default -ln Z.
    """

    def __init__(self, reduced, log_weights=None) -> None:
        density = np.exp(-np.stack(reduced))
        z = density.sum(axis=1) * (GRID[1] - GRID[0])
        self.flat = -np.log(z) + np.log(z[0])
        self.log_weights = self.flat if log_weights is None else np.asarray(log_weights, np.float64)
        share = z * np.exp(self.log_weights)
        self.share, self.density = share / share.sum(), density / density.sum(axis=1, keepdims=True)

    def mean(self, values) -> np.ndarray:
        """Of a function on `GRID`, at each rung."""
        return self.density @ values

    def draw(self, seed=3) -> tuple[np.ndarray, np.ndarray]:
        """Rungs and positions `(walkers, 1)` in the joint law."""
        random = np.random.default_rng(seed)
        index = random.choice(len(self.share), WALKERS, p=self.share)
        uniform, position = random.uniform(size=WALKERS), np.empty(WALKERS)
        for k, density in enumerate(self.density):
            position[index == k] = np.interp(uniform[index == k], np.cumsum(density), GRID)
        return index.astype(np.int32), position[:, None]


class StartedAt(SimulatedTempering):
    """Walkers that start at given rungs."""

    index, heat = None, None

    def init(self, position, evaluate, noise):
        state = super().init(position, evaluate, noise)
        rung = self.rung_of(evaluate.rung, tf.constant(self.index))
        if self.tempers_likelihood:
            inner = self.inner.init(position, evaluate.at(rung), noise)
            names = ("gradient", "potential", "loss", "log_prior")
            state = state._replace(**{name: getattr(inner, name) for name in names})
        if self.heat is not None:
            thermostats = 0.0 * state.thermostats + tf.constant(self.heat, tf.float64)
            state = state._replace(
                thermostats=thermostats, thermostat=tf.gather(thermostats[0], self.index)
            )
        return state._replace(
            rung_index=tf.constant(self.index),
            temperature=rung.temperature,
            weight=tf.cast(tf.constant(self.index) == 0, tf.float64),
        )


def by_rung(num_rungs, *values):
    """An observer: the occupancy of each rung, then the given functions of the state at it."""

    def observe(old, state, info):
        at = [tf.cast(state.rung_index == k, tf.float64) for k in range(num_rungs)]
        return [
            one * value
            for value in (tf.ones_like(at[0]), *(f(state) for f in values))
            for one in at
        ]

    return observe


def ratio_and_error(values, weights) -> tuple[float, float]:
    """Of the sums over walkers, and its standard error to first order."""
    ratio = values.mean() / weights.mean()
    return ratio, mean_and_error(values - ratio * weights)[1] / weights.mean()


def measured(
    law,
    inner,
    values,
    *,
    betas=BETAS,
    step_size=0.12,
    num_steps=800,
    potential=None,
    every=2,
    heat=None,
    **options,
):
    """Averages `(1 + values, rungs, walkers)` of walkers that start in the law."""
    index, start = law.draw()
    options = {"log_weights": law.log_weights, "move_every": every} | options
    sampler = StartedAt(inner, betas, **options)
    sampler.index, sampler.heat = index, heat
    potential = potential or FunctionPotential(lambda x: double_well(x[:, 0]), 1)
    momentum = None
    if inner.has_momentum:
        momentum = (
            np.random.default_rng(5).normal(size=(WALKERS, 1))
            / np.sqrt(np.array(betas)[index])[:, None]
        )
    rung = rung_of(np.full(WALKERS, step_size))
    found = averages(
        sampler, potential, rung, start, num_steps, by_rung(len(betas), *values), momentum, seed=4
    )
    return found.reshape(1 + len(values), len(betas), WALKERS)


def deviations(law, found, expected=()) -> list[float]:
    """z-scores of occupancies, and of the means at each rung; `expected` are `(rungs,)` each."""
    scores = []
    for k, share in enumerate(law.share):
        mean, error = mean_and_error(found[0, k])
        print(f"rung {k}: {mean:.4f} +- {error:.4f}, expected {share:.4f}")
        assert TOLERANCE * error < 0.06 * share
        scores.append((mean - share) / error)
        for values, wanted in zip(found[1:, k], expected, strict=True):
            mean, error = ratio_and_error(values, found[0, k])
            print(f"    {mean:.4f} +- {error:.4f}, expected {wanted[k]:.4f}")
            scores.append((mean - wanted[k]) / error)
    return scores


def left(state):
    return tf.cast(state.position[:, 0] < 0, tf.float64)


def energy(state):
    return state.potential


def law_of_wells(log_weights=None):
    return Law([beta * double_well(GRID) for beta in BETAS], log_weights)


def expected_in_wells(law):
    return law.mean(GRID < 0), law.mean(double_well(GRID))


# -------------------------------------------------------------------------------------------------
# the law of the rungs


@pytest.mark.parametrize(
    "log_weights",
    [
        pytest.param(None, id="g = -ln Z", marks=pytest.mark.slow),
        pytest.param([0.0, 0.4, -0.5, 0.1], id="another g"),
    ],
)
def test_rung_and_position_have_their_joint_law(log_weights):
    """Visits are alike at g = -ln Z and Z e^g for any other; masses and mean potentials at each
    rung by quadrature.
    """
    law = law_of_wells(log_weights)
    if log_weights is None:
        np.testing.assert_allclose(law.share, 0.25)
    found = measured(law, HMC, (left, energy))
    assert np.abs(deviations(law, found, expected_in_wells(law))).max() < TOLERANCE


@pytest.mark.slow
def test_a_wrong_sign_of_g_is_rejected():
    law = law_of_wells()
    found = measured(law, HMC, (), num_steps=200, log_weights=-law.log_weights)
    assert np.abs(deviations(law, found)).max() > 2 * TOLERANCE


def test_a_wrong_sign_of_u_is_rejected(monkeypatch):
    """u_l - u_k in place of u_k - u_l."""
    law = law_of_wells()
    right = SimulatedTempering._reduced
    monkeypatch.setattr(SimulatedTempering, "_reduced", lambda self, *given: -right(self, *given))
    found = measured(law, HMC, (left, energy), num_steps=200)
    assert np.abs(deviations(law, found, expected_in_wells(law))).max() > 2 * TOLERANCE


@pytest.mark.slow
def test_masses_of_two_wells_that_a_plain_sampler_does_not_connect():
    """All start on the right, at rung 0; g is found in the burn-in. A barrier of 8 T is 1 T at the
    hot end.
    """
    sampler = SimulatedTempering(HMC, BETAS, move_every=2)
    potential, start = FunctionPotential(lambda x: double_well(x[:, 0]), 1), np.ones((500, 1))
    rung = rung_of(np.full(500, 0.12))
    weighted = lambda state: [state.weight * left(state), state.weight]  # noqa: E731
    observe = by_rung(4, *([lambda state, k=k: state.log_weights[:, k] for k in range(4)]))
    everything = lambda old, state, info: [*weighted(state), *observe(old, state, info)]  # noqa: E731
    found = averages(
        sampler, potential, rung, start, 4_000, everything, seed=4, num_burnin_steps=3_000
    )
    law = law_of_wells()
    mass, error = ratio_and_error(found[0], found[1])
    print(f"{mass:.4f} +- {error:.4f}, quadrature {law.mean(GRID < 0)[0]:.4f}")
    assert abs(mass - law.mean(GRID < 0)[0]) < TOLERANCE * error < 0.05
    occupied, weights = (
        found[2:6].mean(axis=1),
        found[6:].reshape(4, 4, 500).sum(axis=1).mean(axis=1),
    )
    print(occupied, weights, law.flat)
    assert np.abs(occupied / 0.25 - 1).max() < 0.15 and np.abs(weights - law.flat).max() < 0.15


# ----------------------------------------------------------------------------------------------------------
# momenta


def kinetic(state):
    return tf.cast(state.momentum[:, 0], tf.float64) ** 2 / state.temperature


def harmonic_momenta(num_steps):
    """p²/T at each rung under a bath that forgets in a thousand steps, a move each step."""
    law = Law([0.5 * beta * GRID**2 for beta in (1.0, 0.3)])
    well = FunctionPotential(lambda x: 0.5 * x[:, 0] ** 2, 1)
    found = measured(
        law,
        Splitting("OBABO", 0.01),
        (kinetic,),
        betas=[1.0, 0.3],
        step_size=0.1,
        num_steps=num_steps,
        potential=well,
        every=1,
    )
    return [ratio_and_error(found[1, k], found[0, k]) for k in range(2)]


def test_momenta_follow_the_temperature(monkeypatch):
    """p²/T = 1 at both rungs under OBABO; unscaled momenta are colder at the hot rung and hotter at
    the cold one.
    """
    for value, error in harmonic_momenta(4_000):
        print(f"{value:.4f} +- {error:.4f}")
        assert abs(value - 1) < TOLERANCE * error < 0.07
    monkeypatch.setattr(
        "tati_re.samplers.wrappers.simulated_tempering.ops.sqrt", lambda x: 1.0 + 0.0 * x
    )
    assert any(abs(value - 1) > TOLERANCE * error for value, error in harmonic_momenta(300))


def numpy_steps(sampler, walkers=8, num_steps=200, burnin=100, evaluate=None):
    """States after each step, in plain numpy."""
    evaluate = evaluate or NumpyEvaluate(rung_of(np.full(walkers, 0.1), numpy=True))
    state = sampler.init(
        np.random.default_rng(0).normal(size=(walkers, 3)), evaluate, NumpyNoise(0)
    )
    states = [state]
    for step in range(1, num_steps + 1):
        evaluate.clock = Clock(np.int64(step), np.bool_(step <= burnin), np.int32(0))
        state, _ = sampler.step(state, evaluate, NumpyNoise(step))
        states.append(state)
    return states


def test_a_move_scales_momenta_exactly_and_lets_positions_be():
    """The step of the sampler inside at the old rung, then p sqrt(T_l/T_k)."""
    inner, betas = Splitting("BAOAB"), np.array([1.0, 0.7, 0.5])
    sampler = SimulatedTempering(inner, betas, move_every=1)
    states, moved = numpy_steps(sampler), 0
    for step, (before, after) in enumerate(itertools.pairwise(states), 1):
        rung = rung_of(np.full(8, 0.1), 1 / betas[before.rung_index], numpy=True)
        noise = NumpyNoise(step)
        noise.uniform((8,))
        plain = (
            type(before)
            .base(*(getattr(before, name) for name in type(before).base._fields))
            ._replace(rung=rung)
        )
        wanted, _ = inner.step(plain, NumpyEvaluate(rung), noise)
        factor = np.sqrt(betas[before.rung_index] / betas[after.rung_index])[:, None]
        np.testing.assert_allclose(after.position, wanted.position, rtol=0, atol=1e-12)
        np.testing.assert_allclose(after.momentum, wanted.momentum * factor, rtol=0, atol=1e-12)
        np.testing.assert_allclose(after.temperature, 1 / betas[after.rung_index], rtol=1e-12)
        bound = sampler.ladder.bound(after, NumpyEvaluate(rung_of(np.full(8, 0.1), numpy=True)))
        np.testing.assert_allclose(bound.rung.temperature, after.temperature, rtol=1e-12)
        np.testing.assert_array_equal(after.weight, after.rung_index == 0)
        moved += (before.rung_index != after.rung_index).sum()
    assert moved > 100


# ------------------------------------------------------------------------------------------ what
# adapts, and when


def test_g_is_adapted_in_the_burn_in_by_all_walkers_and_frozen_afterwards():
    states = numpy_steps(SimulatedTempering(HMC, BETAS, move_every=5), num_steps=300, burnin=200)
    for step, (before, after) in enumerate(itertools.pairwise(states), 1):
        learns = step <= 200 and step % 5 == 0
        assert (after.moves != before.moves).all() == learns
        assert learns or all(
            (getattr(after, name) == getattr(before, name)).all() for name in _LEARNT
        )
        assert step % 5 == 0 or (after.rung_index == before.rung_index).all()
    np.testing.assert_allclose(after.log_weights - after.log_weights[:1], 0, atol=1e-12)
    assert (after.log_weights[:, 0] == 0).all() and (after.moves == 40).all()


def test_the_increment_is_halved_when_visits_are_even_and_never_below_one_over_n():
    """By hand, two rungs and four walkers: shares of 1 and 0 move g by M δ, shares of 1/2 not at
    all.
    """
    sampler = SimulatedTempering(Splitting(), [1.0, 0.5])
    evaluate = NumpyEvaluate(rung_of(np.full(4, 0.1), numpy=True))
    evaluate.clock = Clock(np.int64(10), np.bool_(True), np.int32(0))
    state = sampler.init(np.ones((4, 1)), evaluate, NumpyNoise(0))
    own = {name: getattr(state, name) for name in ("log_weights", "visits", "increment", "moves")}
    even = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    there = own | sampler._learnt(own, np.array([[1.0, 0]] * 4), evaluate)
    np.testing.assert_allclose(there["log_weights"][:, 1] - own["log_weights"][:, 1], 2 * 0.5)
    own = {**own, "log_weights": 0 * own["log_weights"]}
    for _ in range(20):
        own |= sampler._learnt(own, even, evaluate)
    np.testing.assert_allclose(own["increment"], 0.25)
    np.testing.assert_allclose(own["visits"], 0)
    np.testing.assert_allclose(own["log_weights"], 0, atol=1e-12)
    own |= {"moves": own["moves"] + 977}
    own |= {"increment": 0 * own["increment"]}
    own |= sampler._learnt(own, np.array([[1.0, 0]] * 4), evaluate)
    np.testing.assert_allclose(own["log_weights"][:, 1], 2 / 1000)


def test_walkers_of_other_temperatures_learn_their_own_g():
    temperature = np.repeat([0.5, 2.0], 4)
    evaluate = NumpyEvaluate(rung_of(np.full(8, 0.1), temperature, numpy=True))
    last = numpy_steps(SimulatedTempering(HMC, [1.0, 0.5], move_every=2), evaluate=evaluate)[-1]
    np.testing.assert_allclose(last.log_weights[:4, 1] - last.log_weights[0, 1], 0, atol=1e-12)
    np.testing.assert_allclose(last.log_weights[4:, 1] - last.log_weights[4, 1], 0, atol=1e-12)
    assert last.log_weights[0, 1] != last.log_weights[4, 1]


# ------------------------------------------------------------------------- likelihood tempering,
# thermostats, noise


LAMBDAS = [1.0, 0.3, 0.0]


def regression(inner):
    """L = 4 (x - 1)², V = x²/2, λ from the posterior to the prior, one β below 1."""
    betas, loss, penalty = (
        [1.0, 0.8, 1.0],
        4.0 * (GRID - 1.0) ** 2,
        0.5 * GRID**2 + 0.5 * np.log(2 * np.pi),
    )
    law = Law([b * (weight * loss + penalty) for b, weight in zip(betas, LAMBDAS, strict=True)])
    potential = FunctionPotential(lambda x: 4.0 * (x[:, 0] - 1.0) ** 2, 1, prior=Gaussian(1.0))
    position = lambda state: tf.cast(state.position[:, 0], tf.float64)  # noqa: E731
    found = measured(
        law,
        inner,
        (position, energy),
        betas=betas,
        potential=potential,
        likelihood_weights=LAMBDAS,
        step_size=0.2,
    )
    wanted = [
        law.mean(GRID),
        np.array([law.density[k] @ (LAMBDAS[k] * loss + penalty) for k in range(3)]),
    ]
    return deviations(law, found, wanted)


def test_likelihood_weights_temper_the_loss_alone():
    assert np.abs(regression(HMC)).max() < TOLERANCE


def test_a_forgotten_likelihood_weight_is_rejected(monkeypatch):
    """Energies of the old λ after a move."""
    monkeypatch.setattr(
        "tati_re.samplers.wrappers.simulated_tempering.with_energy", lambda state, energy: state
    )
    assert np.abs(regression(HMC)).max() > TOLERANCE


@pytest.mark.slow
def test_every_rung_has_a_thermostat_of_its_own():
    """BADODAB under noise of variance Σ = 8: s_k = γ + hΣ/(2 T_k), 1.4 and 1.2, and Var s_k =
    T_k/μ, 0.1 and 0.2.
    """
    betas = [1.0, 0.5]
    law = Law([0.5 * beta * GRID**2 for beta in betas])
    potential = NoisyPotential(lambda x: 0.5 * tf.reduce_sum(x * x, -1), 1, 8.0, seed=7)
    found = measured(
        law,
        Splitting("BADODAB", 1.0, 10.0),
        (lambda s: s.thermostat, lambda s: s.thermostat**2),
        betas=betas,
        step_size=0.1,
        num_steps=3_000,
        potential=potential,
        every=5,
        heat=[1.4, 1.2],
    )
    for k, (mean, variance) in enumerate(((1.4, 0.1), (1.2, 0.2))):
        value, error = ratio_and_error(found[1, k], found[0, k])
        spread = found[2, k].mean() / found[0, k].mean() - value**2
        print(
            f"{value:.4f} +- {error:.4f}, expected {mean}; variance {spread:.4f}, expected {variance}"
        )
        assert abs(value - mean) < TOLERANCE * error + 0.003 and abs(spread / variance - 1) < 0.1


class NoisyEnergies(NoisyPotential):
    """U of mini-batches has noise of the standard deviation 2, its gradient none."""

    exact = False

    def bind(self, rung, batch=None, auxiliary=(), clock=None):
        bound = _NoisyEnergies(self, rung, clock)
        bound.exact = self.exact
        return bound


class _NoisyEnergies(NoisyEvaluate):
    def __call__(self, position):
        energy = super().__call__(position)
        seed = tf.stack([tf.constant(99, tf.int64), tf.cast(self.clock.step, tf.int64)])
        noise = 2.0 * tf.random.stateless_normal(
            position.shape[:1], seed, dtype=tf.float64, alg="philox"
        )
        return energy._replace(potential=energy.potential + noise, loss=energy.loss + noise)


def noisy_moves(exact: bool):
    betas = [1.0, 0.3]
    law = Law([0.5 * beta * GRID**2 for beta in betas])
    potential = NoisyEnergies(lambda x: 0.5 * tf.reduce_sum(x * x, -1), 1, 0.0)
    potential.exact = exact
    square = lambda state: tf.cast(state.position[:, 0], tf.float64) ** 2  # noqa: E731
    found = measured(
        law, Splitting("BAOAB"), (square,), betas=betas, step_size=0.2, potential=potential, every=2
    )
    return deviations(law, found, [law.mean(GRID**2)])


@pytest.mark.slow
def test_energies_at_a_move_are_those_of_all_data():
    """With noisy mini-batches the moves see exact energies; noisy ones are caught."""
    assert np.abs(noisy_moves(exact=False)).max() < TOLERANCE
    assert np.abs(noisy_moves(exact=True)).max() > TOLERANCE


# -------------------------------------------------------------------------------------------------------------
# protocol


# The count of gradients is not tried: a copy of the evaluation at other rungs keeps its own.
TEMPERED = {
    "BAOAB": SimulatedTempering(move_every=2),
    "BADODAB": SimulatedTempering(Splitting("BADODAB"), [1.0, 0.5], move_every=1),
}
COMPILED = "eager, graph and XLA"


@pytest.mark.parametrize(
    ("inner", "what"),
    [
        pytest.param(
            inner, what, marks=pytest.mark.slow if (inner, what) == ("BADODAB", COMPILED) else ()
        )
        for inner in TEMPERED
        for what in CHECKS
        if what != "gradients"
    ],
)
def test_protocol(inner, what):
    CHECKS[what](TEMPERED[inner])


def test_the_configuration_tells_the_ladder():
    config = SimulatedTempering(HMC, [1.0, 0.5], [1.0, 0.0], 5).get_config()
    assert (
        config["sampler"] == "HMC"
        and config["num_leapfrog_steps"] == 4
        and config["move_every"] == 5
    )
    assert config["simulated_tempering"] == [1.0, 0.5] and config["likelihood_weights"] == [
        1.0,
        0.0,
    ]


def test_starts_are_one_position_a_walker():
    """The walkers of simulated tempering are no replicas: `starts` has one temperature, not one a
    rung.
    """
    sim = Simulation(data="two_clusters", num_walkers=2, seed=1, verbose=0)
    starts = np.array([[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]])
    options = {
        "exchange": "tempering",
        "temperatures": [1.0, 2.0, 4.0],
        "num_steps": 4,
        "num_burnin_steps": 2,
    }
    sim.sample(starts=starts, step_size=1e-9, execution="graph", **options)
    np.testing.assert_allclose(sim.parameters, starts[0], atol=1e-5)
    with pytest.raises(InputError, match="starts: wrong shape"):
        sim.sample(starts=np.repeat(starts, 3, axis=0), execution="graph", **options)


def test_a_run_shows_rung_and_weight():
    sim = Simulation(data="two_clusters", seed=1, verbose=0, num_walkers=4, dtype="float64")
    with pytest.raises(InputError, match="num_burnin_steps"):
        sim.sample(step_size=0.001, sampler=SimulatedTempering(), num_steps=10, num_burnin_steps=0)
    tempering = {
        "temperatures": [1.0, 2.0],
        "exchange": "tempering",
        "num_steps": 10,
        "num_burnin_steps": 4,
    }
    with pytest.raises(InputError, match="step_sizes: simulated tempering uses a single step size"):
        sim.sample(step_sizes=[0.02, 0.02], **tempering)
    run = sim.sample(
        sampler=SimulatedTempering(
            ControlVariate(Splitting("BAOAB")), [1.0, 0.5, 0.25], move_every=2
        ),
        step_size=0.01,
        batch_size=20,
        num_steps=400,
        num_burnin_steps=200,
        trajectory_every=0,
    )
    rows = run.run_info
    assert ((rows["rung"] == 0) == (rows["weight"] == 1)).all()
    np.testing.assert_allclose(rows["temperature"], 2.0 ** rows["rung"], rtol=1e-12)
    assert set(rows["rung"]) == {0, 1, 2}


@pytest.mark.parametrize(("temperatures", "every"), [([1.0], 32), ([1.0, 2.0, 4.0, 8.0], 8)])
def test_a_thousand_positions_at_the_target_are_stored(temperatures, every):
    """Of 32,000 that four walkers pass after the burn-in; of four rungs a fourth of the positions
    counts, which was 250 where an effective size of 400 is asked for.
    """
    sim = Simulation(
        potential=lambda x: 0.5 * ops.sum_of_products(x, x), dimension=2, num_walkers=4, verbose=0
    )
    asked = {"sampler": "HMC", "step_size": 0.5, "num_steps": 10_000, "num_burnin_steps": 2_000}
    asked |= (
        {"temperatures": temperatures, "exchange": "tempering"} if len(temperatures) > 1 else {}
    )
    options = make_options(sim.options, **asked)
    assert make_request("sample", options, {}, sim.system, sim.limits).trajectory_every == every


def test_the_log_weights_that_a_run_has_found_are_told(capsys):
    """On a well of 2 coordinates Z_k is T_k: g = 0, -log 2, in the end, and a run may start from
    it.
    """
    sim = Simulation(
        potential=lambda x: 0.5 * ops.sum_of_products(x, x),
        dimension=2,
        num_walkers=8,
        seed=1,
        verbose=2,
    )
    tempering = {
        "temperatures": [1.0, 2.0],
        "exchange": "tempering",
        "exchange_every": 1,
        "execution": "graph",
    }
    run = sim.sample(sampler="HMC", step_size=0.8, num_steps=310, num_burnin_steps=300, **tempering)
    found = run.manifest["burnin_found"]
    assert f"Burn-in of 300 steps: {found}." in capsys.readouterr().out
    weights = ast.literal_eval(found.removeprefix("log_weights "))
    assert weights[0] == 0.0 and abs(weights[1] + np.log(2)) < 0.35
    assert (
        SimulatedTempering(HamiltonianMonteCarlo(), [1.0, 0.5], log_weights=weights).log_weights
        == weights
    )


def test_a_step_size_that_is_tuned_around_it_is_the_one_that_walkers_move_by():
    """One trajectory of HMC on a well, with a step that the tuner has made 1 in place of the run's
    0.01.
    """
    tuner = StepSizeTuning(SimulatedTempering(HamiltonianMonteCarlo(1), [1.0, 0.5]), 0.8)
    evaluate = NumpyEvaluate(rung_of(np.full(8, 0.01), numpy=True))
    evaluate.clock = Clock(np.int64(1), np.bool_(True), np.int32(0))
    state = tuner.init(np.ones((8, 2)), evaluate, NumpyNoise(0))
    moved, _ = tuner.step(
        state._replace(next_factor=state.next_factor + 99.0), evaluate, NumpyNoise(1)
    )
    assert np.abs(moved.position - state.position).max() > 0.5  # by 0.01 it would be some 0.03


def test_the_burn_in_of_a_ladder_that_learns_is_inside_where_walkers_agree_since():
    sim = Simulation(
        potential=lambda x: 0.5 * ops.sum_of_products(x, x),
        dimension=1,
        num_walkers=8,
        seed=1,
        verbose=0,
    )
    tempering = {
        "temperatures": [1.0, 2.0],
        "exchange": "tempering",
        "exchange_every": 1,
        "execution": "graph",
    }
    run = sim.sample(sampler="HMC", num_leapfrog_steps=4, num_steps=1_500, **tempering)
    row = run.certificate.detailed().set_index("check").loc["burn-in"]
    learnt = "the ladder or the bias, which are not tested, but the draws since then have converged"
    assert (row["verdict"], row["note"]) == (
        "passed",
        f"not settled: {learnt}",
    )


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"inverse_temperatures": [2.0, 1.0]}, "inverse_temperatures"),
        ({"inverse_temperatures": [1.0]}, "inverse_temperatures"),
        ({"inverse_temperatures": [1.0, 0.0]}, "inverse_temperatures"),
        ({"likelihood_weights": [1.0, 0.5]}, "likelihood_weights"),
        ({"likelihood_weights": [1.0, 0.5, -0.1]}, "likelihood_weights"),
        ({"move_every": 0}, "move_every"),
        ({"log_weights": [0.0, 1.0]}, "log_weights"),
        ({"inner": TactHMC()}, "simulated tempering"),
        ({"inner": EnsembleQuasiNewton()}, "simulated tempering"),
    ],
)
def test_bad_values_get_one_sentence(wrong, what):
    with pytest.raises(InputError, match=f"^{what}[: ]"):
        SimulatedTempering(**wrong)


@pytest.mark.slow
def test_a_coordinate_has_all_rows_of_walkers_that_come_and_go():
    """Those elsewhere count nothing; cut to the walker with fewest at the target, what others found
    there was lost.
    """
    sim = Simulation(
        potential=lambda x: 0.5 * x[:, 0] ** 2, dimension=1, num_walkers=3, seed=1, verbose=0
    )
    options = {
        "exchange": "tempering",
        "temperatures": [1.0, 2.0],
        "num_steps": 400,
        "num_burnin_steps": 100,
    }
    run = sim.sample(sampler="BAOAB", step_size=0.3, record_every=1, execution="graph", **options)
    found = coordinate_of(run, "potential")
    at_target = run.run_info.query("step > 100 and rung == 0").groupby("walker").size()
    assert found.values.shape == (3, 300) and at_target.nunique() > 1
    np.testing.assert_array_equal((found.weights > 0).sum(1), at_target)


@pytest.mark.parametrize("every", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_averages_over_positions_have_all_rows_of_walkers_that_come_and_go(every):
    """Cut to the walker with fewest at the target they were those of other steps, which is a
    bias.
    """

    def wells(x):
        return -tf.reduce_logsumexp([-0.5 * ((x - 2) / 0.5) ** 2, -0.5 * (x + 2) ** 2], 0)[:, 0]

    sim = Simulation(potential=wells, dimension=1, num_walkers=4, seed=1, verbose=0)
    options = {
        "exchange": "tempering",
        "temperatures": [1.0, 5.0],
        "num_steps": 600,
        "num_burnin_steps": 200,
    }
    options |= {
        "record_every": every,
        "trajectory_every": every,
        "trajectory_format": "h5",
        "execution": "graph",
    }
    run = sim.sample(sampler="HMC", step_size=0.3, num_leapfrog_steps=5, **options)
    [found] = trajectory_averages(run, {"x": lambda x: x[:, 0]}).to_dict("records")
    blocks = [(p.walker, p.parameters[0]) for p in stored_positions(run)]
    each = np.unique([walker for walker, _ in blocks], return_counts=True)[1]
    assert len(each) == 4 and np.ptp(each) > 0 and found["rows"] == len(blocks)
    assert found["mean"] == pytest.approx(np.mean([x for _, x in blocks]), rel=1e-6)
    along = coordinate_of(run, "x[0]")
    np.testing.assert_array_equal(along.weights.sum(1), each)
    assert np.average(along.values, weights=along.weights) == pytest.approx(found["mean"], rel=1e-6)


def test_predictions_left_out_examples_and_ends_use_all_draws_of_walkers_that_come_and_go():
    """Cut to the walker with fewest at the target half of the draws were lost; one with less than
    four made all count as independent.
    """
    random = np.random.default_rng(0)
    x = random.standard_normal((30, 2))
    y = x @ [1.0, -0.5] + 0.3 * random.standard_normal(30)
    sim = Simulation(
        data=(x, y),
        noise_std=0.3,
        standardize="none",
        num_walkers=4,
        test_fraction=0.2,
        verbose=0,
        seed=4,
    )
    sim.parameters = np.tile([1.0, -0.5, 0.0], (4, 1))
    options = {
        "exchange": "tempering",
        "num_replicas": 4,
        "max_temperature": 20.0,
        "execution": "graph",
    }
    options |= {
        "num_steps": 500,
        "num_burnin_steps": 200,
        "trajectory_every": 1,
        "until": "mcse(potential)<1e-6",
    }
    run = sim.sample(sampler="HMC", step_size=0.02, num_leapfrog_steps=3, **options)
    [known] = averages_of_run(run, ["potential"]).to_dict("records")
    assert run.manifest["convergence"]["mcse"]["potential"] == pytest.approx(
        known["error"], rel=1e-9
    )
    rows = run.trajectory.query("rung == 0")
    each = rows.groupby("walker").size()
    assert 4 * each.min() < 0.7 * len(rows)
    weights = rows[["dense/kernel[0,0]", "dense/kernel[1,0]", "dense/bias[0]"]].to_numpy()
    inputs, targets = sim.dataset.inputs, np.ravel(sim.dataset.targets)
    away = (targets - weights[:, :2] @ inputs.T - weights[:, 2:]) / 0.3
    logs = -(away**2) / 2 - np.log(0.3 * np.sqrt(2 * np.pi))
    raw = -np.log(np.mean(np.exp(-logs), axis=0))
    even = logs.var(axis=0) < 0.02
    assert even.sum() > 4 and (run.loo().elpd - raw)[even] == pytest.approx(0, abs=1e-3)
    first = quantities(run)[1]
    assert first.weights.sum() == len(rows) == (first.weights > 0).sum()
    values, step, walker = weights[:, :1], rows["step"].to_numpy(), rows["walker"].to_numpy()
    ones = np.ones(len(rows))
    alone = [
        independent_draws(values[k], step[k], walker[k], ones[k])
        for k in (walker == w for w in each.index)
    ]
    assert independent_draws(values, step, walker, ones) == pytest.approx(sum(alone), rel=0.5)
    late = (walker != walker[-1]) | (step > step.max() - 2)
    found = independent_draws(values[late], step[late], walker[late], ones[late])
    assert found < 0.5 * late.sum()
    # Nor do ArviZ and the distances between walkers lose any: both were cut to the walker with
    # fewest.
    posterior = to_arviz(run)["posterior"]
    length, left = divmod(len(rows), 4)
    order = np.lexsort((step, walker))[: 4 * length].reshape(4, length)
    np.testing.assert_array_equal(posterior["dense.kernel"][..., 0], weights[order, :2])
    np.testing.assert_array_equal(posterior["walker"], walker[order])
    assert posterior["step"].shape == posterior["walker"].shape == (4, length)
    said = f"{each.min()} to {each.max()} draws, joined one after the other and cut into 4 chains of {length}; {left} of"
    assert said in posterior.attrs["cut"]
    found = analyse(run, ["alignment"])["alignment"]
    means = [weights[walker == w].mean(axis=0) for w in each.index]
    np.testing.assert_allclose(
        found.table["distance"], np.linalg.norm(means - means[0], axis=1), rtol=1e-5
    )
    assert f"total variance: {weights.var(axis=0).sum():.4g}" in found.sentences[0]
    assert (~np.isnan(found.arrays["positions"])).sum(axis=(1, 2)).tolist() == (3 * each).tolist()
