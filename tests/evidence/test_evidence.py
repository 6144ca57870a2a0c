"""log Z of Keras models by every method, against closed forms."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tati_re import InputError, Simulation, gaussian_approximation
from tati_re.core.backend import keras, tf
from tati_re.evidence import (
    bayes_factors,
    chains,
    energies_of_run,
    estimated,
    log_evidence,
    log_evidences,
    sample_energies,
)
from tati_re.evidence.energies import Energies
from tati_re.evidence.grids import gauss_legendre
from tati_re.runs.manifest import Manifest
from tests import regression as known

Z = 5.5
FAST = {"execution": "graph", "num_leapfrog_steps": 5}


def linear(features: np.ndarray, targets: np.ndarray, **options) -> Simulation:
    model = keras.Sequential(
        [keras.Input((features.shape[1],)), keras.layers.Dense(1, use_bias=False)]
    )
    return Simulation(
        data=(features, targets[:, None]), model=model, dtype="float64", verbose=0, **options
    )


def regression(features: int = 3, **options) -> Simulation:
    options = {"noise_std": known.NOISE, "prior_std": known.PRIOR, "seed": 1, **options}
    return linear(known.FEATURES[:, :features], known.Y, **options)


@pytest.fixture(scope="module")
def energies():
    """80 independent ladders."""
    return sample_energies(regression(), num_walkers=80, num_steps=240, **FAST)


@pytest.mark.parametrize(
    "method",
    ["thermodynamic_integration", "stepping_stone", pytest.param("mbar", marks=pytest.mark.slow)],
)
def test_methods_from_the_prior(energies, method):
    if method == "mbar":
        pytest.importorskip("pymbar", reason="the extra evidence brings pymbar")
    found = estimated(energies, method, gauss_legendre(16))
    print(found, energies.acceptance.round(2), energies.step_size.round(3))
    assert abs(found.log_z - known.LOG_Z[3]) < min(Z * found.error, 0.05)
    assert not found.notes


def scaled_line(**options) -> tuple[Simulation, float]:
    """A line through targets of deviation 79, which are standardized, and log Z in their units."""
    inputs, targets = 7 * known.X[:, None] + 30, 100 * known.Y + 500
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    sim = Simulation(
        data=(inputs, targets[:, None]),
        model=model,
        loss="gaussian",
        noise_std=0.5,
        prior_std=known.PRIOR,
        standardize="all",
        dtype="float64",
        seed=1,
        verbose=0,
        **options,
    )
    features = np.stack([np.ones(20), known.X / known.X.std()], axis=1)
    standardized = (targets - targets.mean()) / targets.std()
    inside = known.closed_form(features, standardized, 0.5, known.PRIOR)
    return sim, inside - 20 * np.log(targets.std())


@pytest.mark.parametrize(
    "method",
    [
        "stepping_stone",
        "thermodynamic_integration",
        "frenkel_ladd",
        pytest.param("smc", marks=pytest.mark.slow),
    ],
)
def test_log_z_is_in_the_units_of_the_data(method):
    """In standardized targets log Z is 87 nats larger."""
    sim, exact = scaled_line()
    sizes = {"num_walkers": 12, "num_steps": 120, "evidence_nodes": 10}
    populations = {"num_populations": 8, "num_particles": 60}
    found = log_evidence(sim, method, **sizes, **populations, **FAST)
    assert abs(found.log_z - exact) < Z * found.error < 1
    assert "in the units of the data" in found.summary()
    curve = found.curve
    area = curve["weight"] @ curve["mean"] if "weight" in curve else curve["log_ratio"].sum()
    assert area == pytest.approx(found.log_z, abs=0.1)
    assert found.repeats.mean() == pytest.approx(found.log_z, abs=1)


def test_the_evidence_of_laplace_is_in_the_units_of_the_data():
    sim, exact = scaled_line()
    sim.fit(optimizer="barzilai_borwein", num_steps=300)
    found = gaussian_approximation(sim).log_evidence
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_energies_of_a_run_are_in_the_units_of_the_data():
    sim, exact = scaled_line(num_walkers=4)
    hmc = {"sampler": "HMC", "num_leapfrog_steps": 5, "step_size": 0.1, "execution": "graph"}
    run = sim.sample(**hmc, tempering="likelihood", num_replicas=8, num_steps=400)
    found = estimated(energies_of_run(run), "stepping_stone")
    assert abs(found.log_z - exact) < Z * found.error < 2


def test_means_at_every_point_are_exact(energies):
    """Within 5.5 errors at each of the 18 points; weights λ taken the other way round would show at
    once.
    """
    found = estimated(energies, "thermodynamic_integration", gauss_legendre(16)).curve
    exact = np.array([-known.mean_energy(weight) for weight in energies.path])
    scores = (found["mean"] - exact) / found["error"]
    assert np.abs(scores).max() < Z
    assert np.abs((found["mean"][::-1].to_numpy() - exact) / found["error"]).max() > 100


def test_error_bars_of_twenty_runs_cover_the_truth(energies):
    """20 runs of 4 walkers: 0.44 to 1.67 but for one time in 10,000."""
    scores = []
    for group in np.split(energies.values, 20, axis=1):
        found = estimated(
            energies._replace(values=group), "thermodynamic_integration", gauss_legendre(16)
        )
        scores.append((found.log_z - known.LOG_Z[3]) / found.error)
    print(np.round(scores, 2))
    assert 0.44 < np.sqrt(np.mean(np.square(scores))) < 1.67


@pytest.mark.parametrize(
    ("method", "seeds"),
    [("frenkel_ladd", (0, 3)), pytest.param("smc", (0, 1), marks=pytest.mark.slow)],
)
def test_chains_of_neighboring_seeds_have_noise_of_their_own(method, seeds, monkeypatch):
    keys, drawn = [], chains.draw_numbers
    monkeypatch.setattr(
        chains, "draw_numbers", lambda *given: keys.append(given[1:3]) or drawn(*given)
    )
    sizes = {
        "num_walkers": 2,
        "num_steps": 10,
        "evidence_nodes": 2,
        "num_populations": 2,
        "num_particles": 50,
    }
    sim = regression()
    for seed in seeds:
        log_evidence(sim, method, **sizes, num_moves=1, descent_steps=10, seed=seed, **FAST)
    assert len(keys) > 10 and len(keys) == len({*keys})


@pytest.mark.slow
def test_frenkel_ladd():
    """From springs the error is 0.01 with a hundredth of the draws."""
    found = log_evidence(
        regression(), "frenkel_ladd", num_walkers=8, num_steps=150, evidence_nodes=8, **FAST
    )
    print(found)
    assert abs(found.log_z - known.LOG_Z[3]) < min(Z * found.error, 0.05)


@pytest.mark.slow
def test_sequential_monte_carlo():
    found = log_evidence(
        regression(), "smc", num_populations=16, num_particles=300, num_moves=10, **FAST
    )
    print(found)
    assert abs(found.log_z - known.LOG_Z[3]) < min(Z * found.error, 0.05)
    assert found.curve["next"].iloc[-1] == 1.0 and len(found.repeats) == 16
    assert found.curve["acceptance"].min() > 0.5


@pytest.mark.slow
def test_two_features_are_picked():
    """-67.081, -15.901 and -18.075 by sampling at one point after the other."""
    found = {}
    for count in known.LOG_Z:
        options = {
            "evidence_nodes": 8,
            "num_walkers": 40,
            "num_steps": 60,
            "num_leapfrog_steps": 4,
            "execution": "graph",
        }
        found[count] = log_evidence(
            regression(count), "stepping_stone", evidence_sampling="sequential", **options
        )
        assert abs(found[count].log_z - known.LOG_Z[count]) < Z * found[count].error < 1
    table = bayes_factors(found)
    print(table)
    assert list(table["model"]) == [2, 3, 1]
    assert table["probability"][0] == pytest.approx(
        1 / (1 + np.exp(known.LOG_Z[3] - known.LOG_Z[2])), abs=0.05
    )


@pytest.mark.slow
def test_gaussian_in_twenty_dimensions():
    """Every direction of its own: y_i = θ_i + noise; exact within 5.5 errors, which resolve 0.4 of
    26.8.
    """
    targets = np.random.default_rng(2).normal(size=20)
    sim = linear(np.eye(20), targets, noise_std=0.5, prior_std=1.0, seed=3)
    exact = known.closed_form(np.eye(20), targets, 0.5, 1.0)
    found = log_evidences(
        sim, ["thermodynamic_integration", "stepping_stone"], num_walkers=40, num_steps=200, **FAST
    )
    print(found.summary(), exact)
    for each in found:
        assert abs(each.log_z - exact) < Z * each.error < 0.4
    assert not found.disagreements


def test_a_prior_that_is_not_drawn_exactly_is_caught(monkeypatch):
    """Draws of half the width at λ = 0, by stepping stone on a coarse path."""
    from tati_re.posterior.priors import Gaussian

    monkeypatch.setattr(Gaussian, "standard_from_normal", lambda self, normal: 0.5 * normal)
    coarse = {
        "evidence_grid": "trapezoid",
        "evidence_power": 3.0,
        "evidence_nodes": 8,
        "num_walkers": 80,
    }
    found = log_evidence(
        regression(),
        "stepping_stone",
        num_steps=60,
        evidence_sampling="sequential",
        **coarse,
        **FAST,
    )
    print(found)
    assert abs(found.log_z - known.LOG_Z[3]) > Z * found.error


@pytest.mark.slow
def test_a_box_prior_by_quadrature():
    """One weight in a box whose wall cuts the posterior in two parts of unequal size."""
    x, y = np.linspace(-1, 1, 6)[:, None], 1.1 * np.linspace(-1, 1, 6)
    grid = np.linspace(-1, 1, 200_001)
    log_likelihood = -0.5 * (((y - grid[:, None] * x[:, 0]) / 0.5) ** 2).sum(1) - 6 * np.log(
        0.5 * np.sqrt(2 * np.pi)
    )
    exact = np.log(np.trapezoid(np.exp(log_likelihood), grid) / 2)
    sim = linear(x, y, noise_std=0.5, prior="box", prior_bound=1.0, seed=1)
    short = {
        "num_walkers": 24,
        "num_steps": 100,
        "evidence_nodes": 8,
        "evidence_sampling": "sequential",
    }
    for each in log_evidences(sim, ["stepping_stone", "frenkel_ladd"], **short, **FAST):
        assert abs(each.log_z - exact) < Z * each.error < 0.4


@pytest.mark.slow
def test_classes_under_a_heavy_tailed_prior_by_quadrature():
    """Logistic regression with one weight and one bias, Student-t prior, by BAOAB at a small
    step.
    """
    from scipy.stats import t as student

    x, labels = np.linspace(-2, 2, 12)[:, None], (np.arange(12) > 4).astype(int)
    w = np.sinh(np.linspace(-6, 6, 1201))
    weight, bias = np.meshgrid(w, w, indexing="ij")
    log_likelihood = sum(
        -np.logaddexp(0, -(2 * label - 1) * (weight * value + bias))
        for value, label in zip(x[:, 0], labels, strict=True)
    )
    density = np.exp(log_likelihood + student.logpdf(weight, 3) + student.logpdf(bias, 3))
    exact = np.log(np.trapezoid(np.trapezoid(density, w), w))
    sim = Simulation(
        data=(x, labels),
        loss="binary_crossentropy",
        prior="student_t",
        dtype="float64",
        test_fraction=0.0,
        seed=1,
        verbose=0,
        num_walkers=40,
    )
    assert sim.num_parameters() == 2
    options = {
        "num_steps": 600,
        "evidence_nodes": 8,
        "evidence_sampling": "sequential",
        "execution": "graph",
    }
    found = log_evidence(
        sim, "stepping_stone", sampler="BAOAB", step_size=0.4, friction=1.0, **options
    )
    print(found, exact)
    assert abs(found.log_z - exact) < min(Z * found.error + 0.01, 0.1)


@pytest.mark.slow
def test_two_modes_by_quadrature():
    """w2 tanh(w1 x) does not change when both signs do: from the prior both modes count, from
    springs at one of them that one alone, log 2 less.
    """
    x = np.linspace(-1, 1, 10)
    y = 1.5 * np.tanh(1.5 * x)
    w = np.linspace(-9, 9, 721)
    outputs = w[None, :, None] * np.tanh(w[:, None, None] * x)
    log_likelihood = -0.5 * (((y - outputs) / 0.2) ** 2).sum(-1) - 10 * np.log(
        0.2 * np.sqrt(2 * np.pi)
    )
    log_prior = -0.5 * (w[:, None] ** 2 + w**2) / 4 - np.log(2 * np.pi * 4)
    exact = np.log(np.exp(log_likelihood + log_prior).sum()) + 2 * np.log(w[1] - w[0])
    layers = [
        keras.layers.Dense(1, activation="tanh", use_bias=False),
        keras.layers.Dense(1, use_bias=False),
    ]
    model = keras.Sequential([keras.Input((1,)), *layers])
    options = {"dtype": "float64", "noise_std": 0.2, "prior_std": 2.0, "seed": 1, "verbose": 0}
    sim = Simulation(data=(x[:, None], y[:, None]), model=model, **options)
    short = {"num_walkers": 20, "num_steps": 200, "evidence_nodes": 10}
    both = log_evidences(sim, ["stepping_stone", "frenkel_ladd"], **short, **FAST)
    print(both, exact)
    assert abs(both[0].log_z - exact) < Z * both[0].error < 0.5
    assert abs(both[1].log_z - (exact - np.log(2))) < Z * both[1].error + 0.02 < 0.5
    assert len(both.disagreements) == 1


@pytest.mark.slow
def test_a_run_on_a_ladder_of_likelihood_weights():
    """The rungs of the run are the points; burn-in is left out."""
    sim = regression(2, num_walkers=20)
    run = sim.sample(
        sampler="HMC",
        num_leapfrog_steps=5,
        step_size=0.2,
        target_acceptance=0.8,
        tempering="likelihood",
        num_replicas=10,
        num_steps=200,
        num_burnin_steps=100,
        record_every=1,
        trajectory_every=0,
        execution="graph",
    )
    energies = energies_of_run(run)
    assert energies.values.shape == (10, 20, 100)
    for method in ("stepping_stone", "thermodynamic_integration"):
        found = estimated(energies, method)
        print(found, found.notes)
        if method == "stepping_stone":
            assert abs(found.log_z - known.LOG_Z[2]) < Z * found.error < 1
    with pytest.raises(InputError, match="ladder"):
        energies_of_run(sim.sample(step_size=0.001, num_steps=2, execution="graph"))
    for wrong in ("mbarr", "smc", "stepping-stone"):
        with pytest.raises(InputError, match="method: unknown name"):
            estimated(energies, wrong)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sample_weights": np.full(20, 3.0)}, "example weights"),
        ({"regularizer": 0.1}, "weight regularizers"),
        ({"temperature_schedule": [(1, 5.0)]}, "at T = 1"),
    ],
)
def test_runs_whose_energies_have_no_normalization_are_refused(options, said):
    """Three times the data, a penalty, or T = 5 gave the numbers of another integral."""
    options = dict(options)
    penalty = (
        keras.regularizers.L2(options.pop("regularizer")) if "regularizer" in options else None
    )
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_regularizer=penalty)])
    x = np.linspace(-1, 1, 20)[:, None]
    sim = Simulation(
        data=(x, x),
        model=model,
        loss="gaussian",
        noise_std=1.0,
        sampler="HMC",
        tempering="likelihood",
        num_replicas=2,
        num_steps=4,
        num_burnin_steps=2,
        step_size=0.1,
        exchange="none",
        verbose=0,
        **options,
    )
    run = sim.sample(execution="graph")
    with pytest.raises(InputError, match=said):
        energies_of_run(run)


def test_runs_with_statistics_of_batches_are_refused():
    options = {"num_burnin_steps": 0, "batch_norm": "batch"}
    said = {
        "options": options,
        "method": {"likelihood_weights": [1.0, 0.0]},
        "loss": {"loss": "gaussian"},
    }
    rows = pd.DataFrame(
        {"step": [1], "rung": [0], "walker": [0], "loss": [0.0], "temperature": [1.0]}
    )
    run = SimpleNamespace(
        manifest=Manifest.of(said | {"prior_proper": True}), folder="run", ladder=None
    )
    run.run_info = rows
    with pytest.raises(InputError, match="statistics that changed"):
        energies_of_run(run)


def test_evidence_says_what_it_is(energies):
    found = estimated(energies, "thermodynamic_integration", gauss_legendre(16))
    assert repr(found).startswith(
        "Evidence(log_z=-18."
    ) and "method='thermodynamic_integration'" in repr(found)
    assert "log Z = -18." in found.summary() and "±" in found.summary()
    assert list(found.curve.columns)[:3] == ["path", "mean", "error"]


def test_energies_that_drift_are_said():
    """Seen where the drift is three quarters of a nat a half; twenty runs without one say
    nothing.
    """
    grid = gauss_legendre(16)

    def notes(slope: float, seed: int) -> tuple[str, ...]:
        values = known.drawn(grid.path, 4, 200, seed, 0.5) + np.linspace(slope, 0, 200)
        ones = np.ones(len(grid.path))
        return estimated(
            Energies(grid.path, values, ones, ones, 0.0, ones), "thermodynamic_integration", grid
        ).notes

    assert not any(notes(0.0, seed) for seed in range(20))
    assert "second half" in notes(3.0, 0)[0]


def test_disagreement_is_said(energies):
    from dataclasses import replace

    from tati_re.evidence import Evidences

    found = estimated(energies, "stepping_stone")
    off = replace(found, method="smc", log_z=found.log_z + 1.0)
    both = Evidences([found, off])
    assert len(both.disagreements) == 1 and "disagree" in both.summary()
    assert not Evidences([found, replace(off, log_z=found.log_z)]).disagreements
    assert both["smc"] is off and len(both.table) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "mean_squared_error"}, "is not a normalized likelihood"),
        ({"prior": "none"}, "proper"),
        ({"temperature": 2.0}, "temperature"),
        ({"batch_size": 5}, "batch_size"),
        ({"potential": "mean_loss"}, "potential"),
        ({"num_replicas": 4, "max_temperature": 3.0}, "num_replicas"),
        ({"sampler": "CCAdL", "num_burnin_steps": 5}, "sampler"),
        ({"evidence_grid": "simpson"}, "odd"),
        ({"num_steps": 5}, "num_steps"),
    ],
)
def test_what_has_no_evidence_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        log_evidence(regression(**options))


def test_unknown_methods_are_refused_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'mbar'"):
        log_evidence(regression(), "mbra")


def test_weight_regularisers_are_refused():
    layer = keras.layers.Dense(1, use_bias=False, kernel_regularizer="l2")
    model = keras.Sequential([keras.Input((3,)), layer])
    sim = Simulation(data=(known.FEATURES, known.Y[:, None]), model=model, verbose=0)
    with pytest.raises(InputError, match="regularizers"):
        log_evidence(sim)


def test_walkers_that_never_left_the_prior_are_told():
    """Two of forty walkers say thousands of nats less: the error covers it, and the mean is no
    estimate any more.
    """
    grid = gauss_legendre(8)
    generator, ones = np.random.default_rng(0), np.ones((10, 40))

    def notes(stuck: float) -> tuple[str, ...]:
        values = 10.0 + generator.standard_normal((10, 40, 200))
        values[:, :2] += stuck
        return estimated(
            Energies(grid.path, values, ones, ones, 0.0, ones), "thermodynamic_integration", grid
        ).notes

    assert not notes(0.0)
    assert notes(5e4)[-1].startswith("2 of 40 walkers are far from the median, -10.")


def test_energies_of_a_run_on_a_function():
    """A Gaussian likelihood of deviation 0.3 at 1 and the prior N(0, 1), two coordinates, in closed
    form.
    """
    sim = Simulation(
        potential=lambda w: tf.reduce_sum(0.5 * ((w - 1) / 0.3) ** 2, -1),
        dimension=2,
        prior="gaussian",
        num_walkers=20,
        seed=1,
        verbose=0,
        execution="graph",
    )
    run = sim.sample(
        sampler="HMC",
        num_leapfrog_steps=4,
        step_size=0.1,
        target_acceptance=0.8,
        tempering="likelihood",
        num_replicas=8,
        num_steps=300,
        num_burnin_steps=100,
        record_every=1,
        trajectory_every=0,
    )
    found = estimated(energies_of_run(run), "stepping_stone")
    exact = 2 * (np.log(0.3 / np.sqrt(1.09)) - 0.5 / 1.09)
    assert abs(found.log_z - exact) < Z * found.error < 0.5
