"""Batch normalization by the statistics of mini-batches: forces, moving averages, short batches,
resume, refusals.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation, coming_from_tati, load
from tati_re.core.backend import keras, tf
from tati_re.posterior.potential import Batch
from tati_re.runs import checkpoint
from tests.systems import tables

N = 10
GENERATOR = np.random.default_rng(3)
X, Y = GENERATOR.normal(1, 2, size=(N, 2)), GENERATOR.normal(size=N)
MOMENTUM, EPSILON = 0.9, 1e-3
OPTIONS = {
    "noise_std": 1.0,
    "dtype": "float64",
    "verbose": 0,
    "execution": "graph",
    "batch_norm": "batch",
    "step_size": 0.01,
}


def network(*extra):
    keras.utils.set_random_seed(2)
    norm = keras.layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON)
    return keras.Sequential([keras.Input((2,)), norm, *extra, keras.layers.Dense(1)])


def normalised(x):
    return (x - x.mean(0)) / np.sqrt(x.var(0) + EPSILON)


def potential(theta, x, y, num_examples=N) -> float:
    """U with one batch and its own statistics; theta: gamma, beta, kernel, bias."""
    outputs = (normalised(x) * theta[:2] + theta[2:4]) @ theta[4:6] + theta[6]
    return num_examples * np.mean((y - outputs) ** 2 / 2 + np.log(2 * np.pi) / 2) + np.sum(
        theta**2 / 2 + np.log(2 * np.pi) / 2
    )


def batches_of(sim, number):
    indices, sizes = sim._engine().potential.batches.indices(number, 1)
    return indices[0], sizes[0]


@pytest.mark.parametrize("how", ["unrolled", "looped"])
def test_the_potential_of_a_batch_has_its_statistics_also_of_a_short_one(how):
    options = OPTIONS | {
        "batch_size": 4,
        "num_walkers": 2,
        "walker_evaluation": how,
        "potential": "posterior",
    }
    sim = coming_from_tati.Simulation(network(), (X, Y), **options)
    sim.parameters = GENERATOR.normal(size=(2, 7))
    for number in range(2):
        found, slope = sim.potential(), sim.gradients()
        rows, size = batches_of(sim, number)
        assert size == 4
        for walker in range(2):
            x, y, theta = X[rows[walker]], Y[rows[walker]], sim.parameters[walker]
            assert found[walker] == pytest.approx(potential(theta, x, y), rel=1e-12)
            step = 1e-5 * np.eye(7)
            expected = [
                (potential(theta + d, x, y) - potential(theta - d, x, y)) / 2e-5 for d in step
            ]
            np.testing.assert_allclose(slope[walker], expected, rtol=1e-6, atol=1e-6)
    # The last batch of the epoch has two examples, each of them twice for the statistics.
    found = sim.potential()
    rows, size = batches_of(sim, 2)
    assert size == 2
    for walker in range(2):
        own = rows[walker, :2]
        assert found[walker] == pytest.approx(
            potential(sim.parameters[walker], X[own], Y[own]), rel=1e-12
        )


def run_of(folder, steps, **options):
    keywords = (
        OPTIONS
        | {"batch_size": 4, "num_walkers": 2, "record_every": 1, "trajectory_every": 2}
        | options
    )
    return Simulation(network(), (X, Y), **keywords).sample(num_steps=steps, output=str(folder))


def test_the_moving_averages_follow_each_walkers_batches_and_are_resumed(tmp_path):
    whole = run_of(tmp_path / "whole", 7)
    run_of(tmp_path / "halves", 3)
    halves = Simulation.resume(str(tmp_path / "halves"), 7, data=(X, Y))
    assert tables(whole.folder) == tables(halves.folder)
    arrays, again = (checkpoint.load(run.folder)[0] for run in (whole, halves))
    sim = Simulation(network(), (X, Y), **OPTIONS, batch_size=4, num_walkers=2)
    batches = sim._engine().potential.batches
    for walker in range(2):
        mean, variance = np.zeros(2), np.ones(2)
        # One gradient before the first step, on batch 0, and one in each step.
        for number in [0, *range(1, 8)]:
            rows, sizes = batches.indices(number, 1)
            x = X[rows[0, walker, : sizes[0]]]
            mean = MOMENTUM * mean + (1 - MOMENTUM) * x.mean(0)
            variance = MOMENTUM * variance + (1 - MOMENTUM) * x.var(0)
        np.testing.assert_allclose(arrays["auxiliary/0"][walker], mean, rtol=1e-12)
        np.testing.assert_allclose(arrays["auxiliary/1"][walker], variance, rtol=1e-12)
    assert np.abs(np.diff(arrays["auxiliary/0"], axis=0)).max() > 1e-3
    for k in range(2):
        np.testing.assert_array_equal(arrays[f"auxiliary/{k}"], again[f"auxiliary/{k}"])


def test_frozen_statistics_stay_and_make_another_potential(tmp_path):
    run = run_of(tmp_path / "run", 3, batch_norm="frozen")
    arrays = checkpoint.load(run.folder)[0]
    np.testing.assert_array_equal(arrays["auxiliary/0"], np.zeros((2, 2)))
    np.testing.assert_array_equal(arrays["auxiliary/1"], np.ones((2, 2)))
    frozen = Simulation(network(), (X, Y), **OPTIONS | {"batch_norm": "frozen"})
    batch = Simulation(network(), (X, Y), **OPTIONS)
    assert batch.potential() == pytest.approx(potential(batch.parameters, X, Y), rel=1e-12)
    assert abs(frozen.potential() - batch.potential()) > 0.1


@pytest.mark.slow
def test_replicas_swap_by_the_moving_averages_of_each():
    sim = Simulation(network(), (X, Y), batch_size=4, **OPTIONS)
    run = sim.sample(
        num_steps=20, num_replicas=2, max_temperature=2.0, exchange_every=2, record_every=5
    )
    assert np.isfinite(run.run_info["potential"]).all()
    assert len(run.exchanges) == 5
    auxiliary = tuple(map(tf.constant, sim.walkers.auxiliary))
    assert np.abs(auxiliary[0]).min() > 0.1
    engine = sim._engine()
    evaluate = engine.potential.bind(engine._rung, Batch(*engine.batch(0)), auxiliary)
    position, expected = (
        tf.constant(sim.walkers.position),
        np.mean((Y - sim.predict(X)[:, 0]) ** 2 / 2 + np.log(2 * np.pi) / 2),
    )
    assert float(evaluate.full(position).loss[0]) == pytest.approx(expected, rel=1e-12)
    assert float(evaluate.mean_loss(position)[0]) == pytest.approx(expected, rel=1e-12)
    assert abs(float(evaluate(position).loss[0]) - expected) > 1e-3


@pytest.mark.slow
def test_halves_that_take_turns_keep_their_own_averages():
    sim = Simulation(network(), (X, Y), **OPTIONS | {"batch_size": 4, "num_walkers": 4})
    sim.sample(num_steps=8, covariance_blending=0.1, covariance_after_steps=2)
    means = sim.walkers.auxiliary[0]
    assert np.abs(means).min() > 0.01
    assert len(np.unique(means[:, 0])) == 4


def test_it_is_said_once(capsys):
    options = OPTIONS | {"verbose": 1, "batch_size": 4}
    Simulation(network(), (X, Y), **options).sample(num_steps=2)
    said = capsys.readouterr()
    assert (said.out + said.err).count("uses the statistics of each mini-batch") == 1


@pytest.mark.parametrize(
    ("options", "layers", "words"),
    [
        ({}, [keras.layers.Dropout(0.5)], "Received: Dropout"),
        ({"sampler": "HMC", "batch_size": None}, [], "HMC uses energies of all data"),
        ({"sampler": "CCAdL"}, [], "CCAdL needs gradients of single examples"),
        (
            {"sampler": "SGHMC", "gradient_noise": "estimate", "num_burnin_steps": 2},
            [],
            "SGHMC needs gradients",
        ),
        ({"control_variate": True}, [], "control_variate assumes that mini-batch gradients"),
    ],
)
def test_what_needs_fixed_statistics_is_refused(options, layers, words):
    with pytest.raises(InputError, match=r"^batch_norm: ") as refused:
        Simulation(network(*layers), (X, Y), **OPTIONS | {"batch_size": 4}).sample(
            num_steps=4, **options
        )
    assert words in str(refused.value)


def test_a_model_without_batch_normalisation_is_told():
    with pytest.raises(InputError, match="the model has no trainable batch normalization"):
        Simulation(data=(X, Y), **OPTIONS).sample(num_steps=2)


def test_a_stored_run_names_its_statistics(tmp_path):
    assert load(run_of(tmp_path / "run", 2).folder).manifest["options"]["batch_norm"] == "batch"


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            [keras.layers.Dropout(0.5)],
            "Sampling keeps batch normalization at its moving statistics and dropout off.",
        ),
        ([], "Sampling keeps batch normalization at its moving statistics."),
    ],
)
def test_what_is_off_while_sampling_is_named(layers, words, capsys):
    options = OPTIONS | {"verbose": 1, "batch_norm": "frozen"}
    Simulation(network(*layers), (X, Y), **options).sample(num_steps=2)
    assert words in capsys.readouterr().out


def test_stored_draws_predict_with_statistics_of_their_own():
    """Training data of four batches; those with which the walker ended are off by hundredths."""
    sim = Simulation(
        network(), (X[:8], Y[:8]), **OPTIONS | {"batch_size": 2, "step_size": 0.1, "seed": 5}
    )
    run = sim.sample(sampler="BAOAB", num_steps=60, num_burnin_steps=0, trajectory_every=20)
    found = run.predict(X, thin=1)
    draws = run.trajectory.filter(like="/").to_numpy()
    assert found.num_draws == len(draws) == 3
    outputs = []
    for theta in draws:
        batches = X[:8].reshape(4, 2, 2)
        mean, variance = batches.mean(1).mean(0), batches.var(1).mean(0)
        inputs = (X - mean) / np.sqrt(variance + EPSILON)
        outputs.append((inputs * theta[:2] + theta[2:4]) @ theta[4:6] + theta[6])
    np.testing.assert_allclose(found.mean[:, 0], np.mean(outputs, axis=0), rtol=1e-6)
    ended = np.mean([sim.predict(X, theta)[:, 0] for theta in draws], axis=0)
    assert abs(ended - found.mean[:, 0]).max() > 0.02
    with pytest.warns(UserWarning, match="batch normalization statistics from the end"):
        load(run.folder).predict(X, thin=1)
