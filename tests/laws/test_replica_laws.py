"""Laws of replica exchange: every rung samples its own, swaps come at their exact rates, and wrong
variants fail.

Laws: on harmonic wells of d dimensions at a ratio R of temperatures Metropolis' swaps have the mean
acceptance 2 I_{1/(1+R)}(d/2, d/2), Barker's the mean of 1/(1 + e^-D) over the energies, two gamma
variables; for other systems quadrature. BAOAB and HMC inside sample the positions of Gaussians
exactly.

Power: errors come from independent ladders, so that nothing about autocorrelations is assumed. 5.5
of them resolve 1 % of an acceptance and 0.5 % of an energy; a lost factor of the momenta, the wrong
sign of D, and noise that is ignored are caught at 11 errors or more.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc, expit
from scipy.stats import gamma, kstest

import tati_re
from tati_re.analysis.convergence import effective_sample_size
from tati_re.core.backend import keras, tf
from tati_re.exchange.ladder import make_ladder
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.exchange.swap_rules import Barker, BarkerCompensated, Metropolis, Naive, Penalty
from tati_re.posterior.priors import Gaussian
from tati_re.samplers import HamiltonianMonteCarlo, Splitting
from tests.ladders import (
    Examples,
    FunctionPotential,
    NoisyEnergies,
    exchanging,
    five_gaussians,
    harmonic,
    run_ladder,
)
from tests.scenarios import TOLERANCE, mean_and_error

BAOAB = Splitting("BAOAB", 1.0)


def z_scores(values: np.ndarray, expected) -> np.ndarray:
    """Of the means of `(rows, rungs, ladders)` values at each rung, from the spread of the
    ladders.
    """
    by_rung = [mean_and_error(values[:, rung].mean(axis=0)) for rung in range(values.shape[1])]
    for (mean, error), wanted in zip(by_rung, expected, strict=True):
        print(f"{mean:.5f} +- {error:.5f}, expected {wanted:.5f}")
    return np.array(
        [(mean - wanted) / error for (mean, error), wanted in zip(by_rung, expected, strict=True)]
    )


def of_each_ladder(events: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Means over the attempts of each ladder."""
    walker = events[:, 9].astype(int)
    return np.bincount(walker, values) / np.bincount(walker)


# -----------------------------------------------------------------------------------------------------
# harmonic ladders


def acceptance_of(rule, d: int, ratio: float) -> float:
    if isinstance(rule, Metropolis):
        return float(2 * betainc(d / 2, d / 2, 1 / (1 + ratio)))
    quantiles = gamma(d / 2).ppf((np.arange(2_000) + 0.5) / 2_000)
    return float(expit((1 - 1 / ratio) * (quantiles[:, None] - ratio * quantiles)).mean())


def harmonic_ladder(
    d, ratio, rule, ladders, num_steps, kind=ReplicaExchange, potential=None, rungs=4
):
    """Walkers that start in their law, BAOAB with h = 0.5, rows right after each swap round."""
    method = exchanging(
        BAOAB,
        make_ladder(num_replicas=rungs, temperature_ratio=ratio, step_size=0.5),
        rule,
        ladders=ladders,
        kind=kind,
        batch_size=16,
    )
    temperature = method.rungs.temperature
    start = np.repeat(np.sqrt(temperature), ladders)[:, None]
    start = start * np.random.default_rng(d).normal(size=(rungs * ladders, d))
    run = run_ladder(method, potential or FunctionPotential(harmonic, d), start, num_steps, 4)
    return run, temperature


def check_harmonic(d, ratio, rule, ladders, num_steps):
    run, temperature = harmonic_ladder(d, ratio, rule, ladders, num_steps)
    exact = acceptance_of(rule, d, ratio)
    accepted, error = mean_and_error(of_each_ladder(run.events, run.events[:, 8]))
    chances = np.asarray(
        rule.expected(run.events[:, 5], run.events[:, 6], 1e15 + 0 * run.events[:, 6])
    )
    expected, less_error = mean_and_error(of_each_ladder(run.events, chances))
    print(
        f"accepted {accepted:.5f} +- {error:.5f}, expected {expected:.5f} +- {less_error:.5f}, exact {exact:.5f}"
    )
    assert abs(accepted / exact - 1) < 0.01 and abs(accepted - exact) < TOLERANCE * error
    assert abs(expected / exact - 1) < 0.01 and abs(expected - exact) < TOLERANCE * less_error
    energies = 0.5 * d * temperature
    assert np.abs(z_scores(run.column("potential"), energies)).max() < TOLERANCE
    assert (
        np.abs(z_scores(run.column("kinetic_energy"), energies * (1 - 0.5**2 / 4))).max()
        < TOLERANCE
    )


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(Metropolis(), id="metropolis"),
        pytest.param(Barker(), id="barker", marks=pytest.mark.slow),
    ],
)
def test_acceptance_and_energies_of_a_harmonic_ladder(rule):
    """Potential energies d T/2, kinetic ones d T/2 (1 - h²/4) right after the swaps; acceptance
    0.5331 and 0.3521.
    """
    check_harmonic(10, 1.5, rule, 400, 1_600)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [Metropolis(), Barker()], ids=["metropolis", "barker"])
def test_acceptance_and_energies_of_a_stiff_harmonic_ladder(rule):
    """100 dimensions at R = 1.2: 0.3635 and 0.2543."""
    check_harmonic(100, 1.2, rule, 400, 4_000)


class Unscaled(ReplicaExchange):
    """Momenta are left as they are: a wrong variant."""

    def exchanged(self, inner, *others):
        return super().exchanged(inner, *others) | {"momentum": inner.momentum}


def test_momenta_that_are_not_scaled_are_caught():
    run, temperature = harmonic_ladder(10, 1.5, Metropolis(), 200, 200, Unscaled)
    kinetic = 5 * temperature * (1 - 0.5**2 / 4)
    assert np.abs(z_scores(run.column("kinetic_energy"), kinetic)).max() > 2 * TOLERANCE


# -------------------------------------------------------------------------------------------------------
# noisy energies


class WrongSign(Penalty):
    """Swaps by -D: a wrong variant."""

    def accept(self, log_ratio, *others):
        return super().accept(-log_ratio, *others)


def noisy_ladder(rule):
    """z-scores of the potential energies at R = 2 in 4 dimensions, D with noise of variance 1."""
    potential = NoisyEnergies(harmonic, 4, 0.0, 2.0)
    run, temperature = harmonic_ladder(4, 2.0, rule, 500, 800, potential=potential, rungs=2)
    assert abs(run.events[:, 6].mean() - 1) < 0.01
    return z_scores(run.column("potential"), 2 * temperature)


@pytest.mark.slow
def test_noisy_energies_are_made_up_for():
    assert np.abs(noisy_ladder(Penalty(target_variance=None))).max() < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(Naive(), id="noise ignored"),
        pytest.param(WrongSign(target_variance=None), id="wrong sign"),
    ],
)
def test_noise_that_is_not_made_up_for_is_caught(rule):
    """The cold rung is too hot."""
    assert noisy_ladder(rule)[0] > 2 * TOLERANCE


# ----------------------------------------------------------------------------------------------------------
# double well

GRID = np.linspace(-6, 6, 60_001)


def double_well(x):
    """A barrier of 14 between wells of which the left one is deeper by about 1; numpy or
    TensorFlow.
    """
    return 14.0 * (x * x - 1.0) ** 2 + 0.5 * x


def wells(rule):
    """`(rows, rungs, ladders)` of walkers that all start on the right, and the temperatures."""
    ladder = make_ladder(temperatures=[1.0, 2.0, 4.0, 8.0, 14.0], step_size=0.08)
    method = exchanging(HamiltonianMonteCarlo(4), ladder, rule, every=1, ladders=200)
    potential = FunctionPotential(lambda x: double_well(x[:, 0]), 1)
    run = run_ladder(method, potential, np.ones((1_000, 1)), 2_000, 5, 400, trajectory_every=5)
    return run, ladder.temperature


@pytest.mark.slow
def test_masses_of_two_wells_that_a_single_rung_does_not_connect():
    """Masses and mean energies of all rungs by quadrature; without swaps the coldest one stays
    where it began.
    """
    run, temperature = wells(Metropolis())
    weights = np.exp(-double_well(GRID) / temperature[:, None])
    weights /= weights.sum(axis=1, keepdims=True)
    left = (run.positions[..., 0] < 0).astype(float)
    assert np.abs(z_scores(left, weights @ (GRID < 0))).max() < TOLERANCE
    assert (
        np.abs(z_scores(run.column("potential")[80:], weights @ double_well(GRID))).max()
        < TOLERANCE
    )
    assert mean_and_error(left[:, 0].mean(axis=0))[1] < 0.015
    alone, _ = wells(None)
    left = (alone.positions[..., 0] < 0).mean(axis=(0, 2))
    print(left)
    assert left[0] < 0.05 * (weights @ (GRID < 0))[0]


# -------------------------------------------------------------------------------------------------------
# five Gaussians

CENTRES = np.array([[0, 0], [3, 3], [3, -3], [-3, 3], [-3, -3]], float)
TEMPERATURES = 1.5 ** np.arange(7)
EVERY, RATES = 20, (0.464, 0.478)


def nearest(positions: np.ndarray) -> np.ndarray:
    return np.argmin(((positions[..., None, :] - CENTRES) ** 2).sum(-1), axis=-1)


def five_by_quadrature():
    """Masses of the cells about each center, `(rungs, 5)`, and mean energies."""
    axis = np.linspace(-14, 14, 561)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    energy, cell = five_gaussians(tf.constant(grid)).numpy(), np.eye(5)[nearest(grid)]
    weights = np.exp(-energy / TEMPERATURES[:, None])
    weights /= weights.sum(axis=1, keepdims=True)
    return weights @ cell, weights @ energy


def five(rule, ladders: int, samples: int, ladder=None, seed=1):
    """BADODAB with h = 0.05, 20 steps a sample, noise of variance 0.25 on gradients and energies;
    all start in the middle. A fifth as many steps come first and are not counted.
    """
    ladder = ladder or make_ladder(num_replicas=7, temperature_ratio=1.5, step_size=0.05)
    word = Splitting("BADODAB", 1.0, bath_noise=1.0)
    method = exchanging(word, ladder, rule, every=EVERY, ladders=ladders, batch_size=64)
    potential = NoisyEnergies(five_gaussians, 2, 0.25, 0.25)
    start = 0.5 * np.random.default_rng(seed).normal(size=(method.num_replicas, 2))
    burnin = samples // 5 * EVERY
    run = run_ladder(
        method, potential, start, burnin + samples * EVERY, EVERY, burnin, trajectory_every=EVERY
    )
    return run._replace(rows=run.rows[samples // 5 :], events=run.events[run.events[:, 0] > burnin])


def check_five(run):
    """Occupation and mean energy of every rung by quadrature, h² of BADODAB aside."""
    masses, energies = five_by_quadrature()
    cells = nearest(run.positions)
    found = np.stack([(cells == k).mean(axis=(0, 2)) for k in range(5)], axis=-1)
    print(np.round(found, 4))
    for k in range(5):
        assert np.abs(z_scores((cells == k).astype(float), masses[:, k])).max() < TOLERANCE
    by_rung = [mean_and_error(run.column("potential")[:, rung].mean(axis=0)) for rung in range(7)]
    for (mean, error), expected in zip(by_rung, energies, strict=True):
        print(f"{mean:.4f} +- {error:.4f}, expected {expected:.4f}")
        assert abs(mean - expected) < TOLERANCE * error + 0.002
    return found[0], by_rung[0][0]


def rates(run) -> np.ndarray:
    return np.array([run.events[run.events[:, 1] == pair, 8].mean() for pair in range(6)])


def size_a_sample(run) -> float:
    """Effective sample size a sample of the coldest rung, the smaller of those of x and y."""
    x = run.positions[:, 0]
    return min(effective_sample_size(x[:, :, k].T, "mean") for k in range(2)) / (
        x.shape[0] * x.shape[1]
    )


def changes(run) -> float:
    """How often a sample lies in another cell than the one before."""
    cells = nearest(run.positions[:, 0])
    return float((np.diff(cells, axis=0) != 0).mean())


@pytest.mark.slow
def test_five_gaussians_of_noisy_energies():
    run = five(BarkerCompensated(0.2), 60, 600)
    masses, _ = check_five(run)
    print(rates(run), size_a_sample(run))
    assert np.abs(masses - 0.2).max() < 0.06
    assert (rates(run) > RATES[0] - 0.015).all() and (rates(run) < RATES[1] + 0.015).all()


class WrongSignCompensated(BarkerCompensated):
    """Swaps by -D, as a published formula has it: a wrong variant."""

    def accept(self, log_ratio, *others):
        return super().accept(-log_ratio, *others)


@pytest.mark.slow
def test_the_wrong_sign_of_five_gaussians_is_caught():
    """The cold rung then has <U> = 3.235 in place of 3.061."""
    run = five(WrongSignCompensated(0.2), 60, 300)
    mean, error = mean_and_error(run.column("potential")[:, 0].mean(axis=0))
    print(f"{mean:.4f} +- {error:.4f}")
    assert mean - 3.061 > 2 * TOLERANCE * error


@pytest.mark.slow
def test_a_single_rung_of_five_gaussians_stays_in_its_mode():
    run = five(None, 60, 300, make_ladder(num_replicas=2, temperature_ratio=1.0001, step_size=0.05))
    masses = (nearest(run.positions[:, 0]) == 0).mean()
    print(masses, changes(run))
    assert changes(run) < 0.001 and masses > 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [BarkerCompensated(0.2), Penalty(target_variance=None)], ids=["compensated", "penalty"]
)
def test_three_hundred_thousand_samples_of_five_gaussians(rule):
    """Published: an effective sample size of 0.0416 a sample; the centers are ours."""
    run = five(rule, 60, 5_000)
    assert run.positions.shape[:3] == (5_000, 7, 60)
    masses, energy = check_five(run)
    size = size_a_sample(run)
    print(masses, energy, rates(run), size, changes(run))
    assert np.abs(masses - 0.2).max() < 0.018
    assert abs(energy - 3.061) < 0.010
    assert size >= 0.0416
    assert changes(run) > 0.1
    if isinstance(rule, BarkerCompensated):
        assert (rates(run) > RATES[0] - 0.01).all() and (rates(run) < RATES[1] + 0.01).all()
    else:
        assert (rates(run) > 0.6).all()


# -------------------------------------------------------------------------------------------------
# likelihood tempering

DATA = np.random.default_rng(8).normal(0.7, 1.0, (40, 2))
INSIDE = {
    "HMC": (HamiltonianMonteCarlo(4), Metropolis(), 0.15),
    "BAOAB": (BAOAB, Metropolis(), 0.05),
    "BAOAB, mini-batches": (BAOAB, Penalty(target_variance=1.0), 0.05),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", INSIDE)
def test_likelihood_tempering_of_gaussians(case):
    """40 examples N(θ, 1), θ ~ N(0, 4): Gaussian at each λ, of precision 40 λ + 1/4; the last rung
    is drawn anew.

    The steps of BAOAB are short: its momenta are colder by 1 - h²ω²/4 on stiff rungs, and one that
    comes from a softer rung brings its own, which is a bias of order h².
    """
    inner, rule, step_size = INSIDE[case]
    ladder = make_ladder(num_replicas=5, tempering="likelihood", step_size=step_size)
    method = exchanging(inner, ladder, rule, every=2, ladders=300, batch_size=20)
    precision = 40 * ladder.likelihood_weight + 0.25
    centre = 40 * ladder.likelihood_weight[:, None] / precision[:, None] * DATA.mean(axis=0)
    start = (
        np.random.default_rng(3).normal(size=(5, 300, 2)) / np.sqrt(precision)[:, None, None]
        + centre[:, None]
    )
    run = run_ladder(
        method, Examples(DATA, Gaussian(2.0)), start.reshape(-1, 2), 700, 1, trajectory_every=1
    )
    for k in range(2):
        assert np.abs(z_scores(run.positions[..., k], centre[:, k])).max() < TOLERANCE
        squares = (run.positions[..., k] - centre[:, k, None]) ** 2
        assert np.abs(z_scores(squares, 1 / precision)).max() < TOLERANCE
    # Steps without a swap round: no replica has just come to the last rung.
    fresh = run.positions[::2, -1]
    assert kstest(fresh.reshape(-1), "norm", (0, 2)).pvalue > 1e-4
    for shift in (1, 2):
        product = (fresh[shift:] * fresh[:-shift] / 4).mean(axis=(0, 2))
        assert abs(mean_and_error(product)[0]) < TOLERANCE * mean_and_error(product)[1]
    for pair in range(4):
        assert run.events[run.events[:, 1] == pair, 8].mean() > 0.03


def centered(x):
    return 0.5 * (x[:, 0] - 1) ** 2


def flat(x):
    return 0.05 * x[:, 0] ** 2


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
def test_a_ladder_to_the_prior_keeps_its_law_at_other_temperatures(temperature):
    """N(1/2, T/2); draws of the prior in place of its power make .124 of .05, and .82 of 1.5."""
    given = {"dimension": 1, "prior": "gaussian", "num_walkers": 50, "temperature": temperature}
    sim = tati_re.Simulation(potential=centered, seed=1, verbose=0, **given)
    ladder = {
        "tempering": "likelihood",
        "num_replicas": 2,
        "exchange_every": 1,
        "swap_schedule": "all_pairs",
    }
    hmc = {"sampler": "HMC", "num_leapfrog_steps": 4, "step_size": 0.3}
    run = sim.sample(
        **hmc, **ladder, num_steps=800, num_burnin_steps=100, trajectory_every=1, execution="graph"
    )
    x = run.trajectory.groupby("walker")["x[0]"]
    for values, exact in (
        (x.mean(), 0.5),
        (x.apply(lambda x: ((x - 0.5) ** 2).mean()), temperature / 2),
    ):
        assert abs(values.mean() - exact) < 5.5 * values.std() / 50**0.5
    assert x.mean().std() / 50**0.5 < 0.02 * (1 + temperature)


@pytest.mark.slow
def test_a_ladder_of_a_model_with_a_weight_regularizer():
    """Gaussians of precision 1 + 40 + Σx² and, at λ = 0, 41; draws of the prior alone made 1 of the
    latter.
    """
    x = np.random.default_rng(0).normal(size=(10, 1))
    penalty = keras.regularizers.L2(2.0)
    layers = [keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_regularizer=penalty)]
    given = {
        "prior": "gaussian",
        "prior_std": 1.0,
        "noise_std": 1.0,
        "num_walkers": 10,
        "dtype": "float64",
    }
    sim = tati_re.Simulation(
        model=keras.Sequential(layers), data=(x, 0 * x), loss="gaussian", verbose=0, **given
    )
    ladder = {
        "tempering": "likelihood",
        "num_replicas": 2,
        "exchange_every": 1,
        "swap_schedule": "all_pairs",
    }
    hmc = {"sampler": "HMC", "num_leapfrog_steps": 5, "step_size": 0.1}
    run = sim.sample(
        **hmc, **ladder, num_steps=700, num_burnin_steps=100, execution="graph", seed=1
    )
    squares, late = float((x**2).sum()), run.run_info.query("step > 100")
    for rung, precision in ((0, 41 + squares), (1, 41)):
        loss = late[late["rung"] == rung].groupby("walker")["loss"].mean()
        variance = (loss - 0.5 * np.log(2 * np.pi)) / (0.05 * squares)
        error = variance.std() / 10**0.5
        assert error < 0.05 / precision and abs(variance.mean() - 1 / precision) < 5.5 * error


def wall(x):
    """A Gaussian of deviation 0.1 at 0.5; no number, with its gradient, below 0: for half of the
    prior's draws.
    """
    return 50.0 * (x[:, 0] - 0.5) ** 2 + 0.0 * tf.sqrt(x[:, 0])


@pytest.mark.parametrize("exchange", ["pairs", pytest.param("infinite", marks=pytest.mark.slow)])
def test_draws_of_the_prior_may_be_where_the_likelihood_is_none(exchange):
    """λ L was no number at λ = 0 either, and the run ended."""
    given = {
        "dimension": 1,
        "prior": "gaussian",
        "num_walkers": 20,
        "parameters": np.full((20, 1), 0.5),
    }
    sim = tati_re.Simulation(potential=wall, seed=3, verbose=0, **given)
    ladder = {
        "tempering": "likelihood",
        "num_replicas": 3,
        "exchange_every": 1,
        "exchange": exchange,
    }
    moves = {
        "sampler": "HMC",
        "num_leapfrog_steps": 4,
        "step_size": 0.05,
        "num_steps": 250,
        "num_burnin_steps": 50,
    }
    rows = {"trajectory_every": 5, "trajectory_rungs": "all", "record_every": 5, "full_every": 5}
    run = sim.sample(**moves, **ladder, **rows, execution="graph")
    assert (
        np.isnan(run.at_rung(2)["loss"]).mean() > 0.2
        and np.isfinite(run.run_info["potential"]).all()
    )
    cold, hot = (run.trajectory.query(f"rung == {rung} and step > 50")["x[0]"] for rung in (0, 2))
    assert abs(cold.mean() - 50 / 101) < 0.03 and cold.std() == pytest.approx(101**-0.5, rel=0.2)
    assert abs(hot.mean()) < 5.5 / 800**0.5 and hot.std() == pytest.approx(1, rel=5.5 / 1600**0.5)
    assert np.isfinite(run.ladder["expected_acceptance"][:-1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
def test_draws_of_the_prior_leave_no_gradient_of_elsewhere(every):
    """BAOAB is exact here, and momenta at the prior have 1 - h²/4; foreign gradients make .87 and
    .59.
    """
    start = np.random.default_rng(0).normal(size=(200, 1)) * 0.95
    given = {"dimension": 1, "prior": "gaussian", "num_walkers": 200, "parameters": start}
    sim = tati_re.Simulation(potential=flat, seed=3, verbose=0, **given)
    ladder = {
        "tempering": "likelihood",
        "num_replicas": 2,
        "exchange_every": every,
        "swap_schedule": "all_pairs",
    }
    baoab = {"sampler": "BAOAB", "friction": 0.03, "step_size": 1.0}
    few = {"num_steps": 1500, "num_burnin_steps": 500, "record_every": 5, "trajectory_every": 5}
    run = sim.sample(**baoab, **ladder, **few, execution="graph")
    variances = run.trajectory.groupby("walker")["x[0]"].apply(lambda x: (x**2).mean()) * 1.1
    kinetic = run.at_rung(1).query("step > 500").groupby("walker")["kinetic_energy"].mean() * 2
    error = variances.std() / 200**0.5
    assert error < 0.015 and abs(variances.mean() - 1) < 5.5 * error
    assert abs(kinetic.mean() - 0.75) < 0.05
