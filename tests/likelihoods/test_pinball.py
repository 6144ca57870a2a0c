"""The pinball loss: its values and its minimum are those of a quantile, and it has no density."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tati_re import InputError, Simulation
from tati_re.likelihoods.quantile import Pinball
from tati_re.posterior.losses import Loss

RANDOM = np.random.default_rng(4)
X = RANDOM.uniform(-1, 1, (400, 1))
Y = 2 * X[:, 0] + RANDOM.exponential(1.0, 400)


def test_the_loss_is_that_of_the_definition():
    targets, outputs = np.array([[1.0], [1.0]]), np.array([[0.0], [3.0]])
    expected = [0.9 * 1.0, 0.1 * 2.0]
    loss = Loss(Pinball(0.9))
    np.testing.assert_allclose(
        loss.per_example(tf.constant(targets), tf.constant(outputs)), expected
    )
    np.testing.assert_allclose(Pinball(0.9).losses(outputs, targets), expected)
    # The wrong side is another number.
    assert not np.allclose(Pinball(0.1).losses(outputs, targets), expected)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_the_minimum_is_the_quantile(level):
    outputs = np.linspace(0, 4, 2_001)
    noise = Y - 2 * X[:, 0]
    losses = Pinball(level).losses(
        outputs[:, None, None] * np.ones((1, len(noise), 1)), noise[:, None]
    )
    best = outputs[losses.mean(axis=1).argmin()]
    assert best == pytest.approx(np.quantile(noise, level), abs=0.02)


def test_a_fit_has_the_quantile_and_no_density(tmp_path):
    sim = Simulation(
        data=(X, Y),
        loss="pinball",
        quantile_level=0.9,
        prior="none",
        seed=1,
        verbose=0,
    )
    assert any("not a normalized likelihood" in said for said in sim._engine().potential.notices())
    sim.fit(fit_steps=1_500, learning_rate=0.02)
    below = (np.asarray(sim.predict(X)).ravel() > Y).mean()
    assert below == pytest.approx(0.9, abs=0.02)
    run = sim.sample(sampler="BAOAB", step_size=0.02, num_steps=60, output=str(tmp_path / "run"))
    assert run.manifest["loss"]["quantile_level"] == 0.9
    prediction = run.predict(X, Y)
    assert prediction.noise_std is None and prediction.log_density is None
    assert any("does not model the noise" in note for note in prediction.notes)
    assert prediction.scores()["mean_loss"] > 0


def test_a_level_that_is_no_probability_is_refused():
    with pytest.raises(InputError, match="quantile_level"):
        Pinball(1.0)
