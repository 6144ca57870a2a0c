"""The likelihood of a network that predicts means and logarithms of standard deviations."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

import tati_re
from tati_re import InputError, Simulation
from tati_re.core.backend import keras
from tati_re.engine.prediction_averages import PredictionAverages
from tati_re.likelihoods.gaussian import LEAST_LOG_STD, PredictedGaussian
from tati_re.posterior.losses import Loss
from tati_re.posterior.predictive import Predictive
from tati_re.prediction.averaging import average
from tests.posterior.test_predictive import Linear, weighted

HETEROSCEDASTIC = PredictedGaussian.name
RANDOM = np.random.default_rng(8)
N, COLUMNS, DRAWS = 7, 2, 5
TARGETS = RANDOM.normal(size=(N, COLUMNS))
OUTPUTS = RANDOM.normal(size=(N, 2 * COLUMNS))
MEAN, STD = OUTPUTS[:, :COLUMNS], np.exp(OUTPUTS[:, COLUMNS:])
QUICK = {"loss": HETEROSCEDASTIC, "dtype": "float64", "verbose": 0, "execution": "graph", "seed": 2}


def predictive(**around) -> Predictive:
    return Predictive(
        {"loss": HETEROSCEDASTIC, "noise_std": 1.0}, "regression", None, 2 * COLUMNS, **around
    )


def predicted(one: Predictive, draws: np.ndarray, targets: np.ndarray, weights: np.ndarray):
    """The average over outputs `(draws, n, outputs)`, which a linear network has at the unit
    vectors.
    """
    network = Linear(one)
    network.prepared_targets = lambda targets: (targets - one.mean) / one.deviation
    return average(
        [(network, weighted(draws.reshape(len(draws), -1), weights))], np.eye(N), targets
    )


def test_the_loss_is_the_negative_log_density():
    outputs = tf.constant(OUTPUTS)
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        losses = Loss(PredictedGaussian()).per_example(tf.constant(TARGETS), outputs)
    expected = -stats.norm(MEAN, STD).logpdf(TARGETS).sum(1)
    np.testing.assert_allclose(losses, expected, rtol=1e-14)
    np.testing.assert_allclose(predictive().losses(OUTPUTS[None], TARGETS)[0], expected, rtol=1e-14)
    away = (TARGETS - MEAN) / STD
    gradient = np.concatenate([-away / STD, 1 - away**2], axis=1)
    np.testing.assert_allclose(tape.gradient(losses, outputs), gradient, rtol=1e-13)
    # The wrong law, with variances in place of deviations, is another number.
    assert not np.allclose(
        expected, -stats.norm(MEAN, np.sqrt(STD)).logpdf(TARGETS).sum(1), rtol=1e-2
    )


@pytest.mark.parametrize("log_std", [-1e4, LEAST_LOG_STD, 50.0, 1e4])
def test_no_deviation_overflows(log_std):
    """Below exp(-15) it counts as that, so that the loss of float32 is finite wherever targets and
    means are.
    """
    outputs = tf.constant([[1e3, log_std]], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = Loss(PredictedGaussian()).per_example(tf.constant([[-1e3]]), outputs)
    least = max(log_std, LEAST_LOG_STD)
    assert loss.numpy()[0] == pytest.approx(
        2e6 * np.exp(-2 * least) + least + 0.5 * np.log(2 * np.pi), rel=1e-5
    )
    assert np.isfinite(tape.gradient(loss, outputs)).all()


def test_predictions_are_mixtures_in_the_units_of_the_data():
    mean, deviation = np.array([30.0, -4.0]), np.array([5.0, 0.1])
    one = predictive(mean=mean, deviation=deviation)
    draws = RANDOM.normal(size=(DRAWS, N, 2 * COLUMNS))
    values, noise = (
        mean + deviation * draws[..., :COLUMNS],
        deviation * np.exp(draws[..., COLUMNS:]),
    )
    y = mean + deviation * TARGETS
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    found = predicted(one, draws, y, weights)
    weights = weights / weights.sum()
    np.testing.assert_allclose(found.mean, np.tensordot(weights, values, 1), rtol=1e-13)
    # The law of total variance: of the means over the draws, and the mean of the variances.
    spread = np.tensordot(weights, noise**2 + (values - found.mean) ** 2, 1)
    np.testing.assert_allclose(found.std**2, spread, rtol=1e-12)
    each = stats.norm(values, noise)
    density = np.tensordot(weights, each.pdf(y).prod(-1), 1)
    np.testing.assert_allclose(found.log_density, np.log(density), rtol=1e-12)
    assert found.scores()["negative_log_likelihood"] == pytest.approx(
        -np.log(density).mean(), rel=1e-12
    )
    np.testing.assert_allclose(found.pit, np.tensordot(weights, each.cdf(y), 1), rtol=1e-12)
    at = np.tensordot(weights, stats.norm(values, noise).cdf(found.upper), 1)
    np.testing.assert_allclose(at, 0.95, rtol=1e-8)
    pairs = np.abs(values[:, None] - values)
    sums = np.hypot(noise[:, None], noise)
    distance = stats.foldnorm(pairs / sums, scale=sums).mean()
    away = stats.foldnorm(np.abs(y - values) / noise, scale=noise).mean()
    crps = np.tensordot(weights, away, 1) - 0.5 * np.einsum(
        "i,j,ij...->...", weights, weights, distance
    )
    np.testing.assert_allclose(found.crps, crps, rtol=1e-10)
    again = one.drawn(np.repeat(draws, 4000, 0), None, np.random.default_rng(1)).reshape(
        DRAWS, 4000, N, COLUMNS
    )
    errors = (again.mean(1) - values) / (noise / np.sqrt(4000))
    assert np.abs(errors).max() < 5.5 and np.abs(again.std(1) / noise - 1).max() < 5.5 / np.sqrt(
        2 * 4000
    )


def test_averages_of_a_run_are_those_of_its_draws():
    one, draws = predictive(deviation=2.0), RANDOM.normal(size=(DRAWS, N, 2 * COLUMNS))
    rows = iter(draws)
    kept = PredictionAverages(lambda *_: next(rows)[None], one, np.zeros((N, 1)), TARGETS, 1)
    kept.add(np.zeros((DRAWS, 3)), [], np.ones(DRAWS))
    arrays = {name.removeprefix("predictions/"): value for name, value in kept.arrays().items()}
    stored = predicted(one, draws, TARGETS, np.ones(DRAWS))
    np.testing.assert_allclose(arrays["noise_variance"], stored.noise_std**2, rtol=1e-12)
    np.testing.assert_allclose(
        arrays["log_density"] - np.log(DRAWS), stored.log_density, rtol=1e-12
    )
    np.testing.assert_allclose(arrays["mean"], stored.mean, rtol=1e-12)


def test_hidden_builds_two_outputs_a_target_and_others_are_refused():
    x = RANDOM.normal(size=(30, 3))
    y = x[:, 0] + np.exp(x[:, 1]) * RANDOM.normal(size=30)
    sim = Simulation(data=(x, y), hidden=[4], prior="none", **QUICK)
    assert sim.predict(x).shape == (30, 2) and sim.parameter_names()[-1] == "dense_1/bias[1]"
    assert Simulation(data=(x, np.stack([y, y], 1)), hidden=[4], **QUICK).predict(x).shape == (
        30,
        4,
    )
    outputs = sim.predict(x)
    density = stats.norm(outputs[:, 0], np.exp(outputs[:, 1])).logpdf(y)
    assert sim.potential() == pytest.approx(-density.sum(), rel=1e-12)
    one = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    with pytest.raises(
        InputError, match=r"two outputs for each target of a regression\. Received: 1 outputs"
    ):
        Simulation(model=one, data=(x, y), **QUICK).sample(step_size=0.001, num_steps=1)


@pytest.mark.slow
def test_a_run_learns_where_the_noise_is_large(tmp_path):
    """The whole product by its defaults, raw units: y = 200 + 50 x with a noise of 5 where x < 0,
    of 50 elsewhere.
    """
    x = RANDOM.uniform(-1, 1, 600)
    y = 200 + 50 * x + np.where(x < 0, 5.0, 50.0) * RANDOM.normal(size=600)
    given = {"hidden": [10], "activation": "tanh", "loss": HETEROSCEDASTIC, "test_fraction": 0.2}
    sim = Simulation(data=(x, y), seed=2, verbose=0, **given)
    sim.fit(num_steps=1500)
    run = sim.sample(
        num_steps=40,
        num_burnin_steps=0,
        step_size=1e-3,
        trajectory_every=4,
        output=str(tmp_path / "run"),
    )
    found = run.predict(np.array([[-0.5], [0.5]]))
    assert 3 < found.noise_std[0, 0] < 9 and 30 < found.noise_std[1, 0] < 75
    scores = run.predict().scores()
    assert (
        scores
        == tati_re.Simulation.resume(str(tmp_path / "run"), data=(x, y))
        .predict(*_test(sim))
        .scores()
    )
    alone = stats.norm(sim.dataset.targets.mean(), sim.dataset.targets.std())
    assert scores["negative_log_likelihood"] < -alone.logpdf(sim.dataset.test_targets).mean() - 0.3


def _test(sim) -> tuple:
    return sim.dataset.test_inputs, sim.dataset.test_targets
