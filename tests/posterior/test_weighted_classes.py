"""Class weights and what predictions are under them; losses that are means of several numbers."""

import keras
import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.posterior.potential import ModelPotential

RNG = np.random.default_rng(6)
X = RNG.normal(size=(600, 1))
RARE = (RNG.random(600) < 0.05).astype(int)
SHORT = {
    "hidden": [],
    "sampler": "HMC",
    "step_size": 0.05,
    "num_leapfrog_steps": 8,
    "num_steps": 600,
    "num_burnin_steps": 100,
    "trajectory_every": 5,
    "seed": 1,
}


def words(found):
    return " ".join(str(found).split())


@pytest.mark.parametrize("how", ["class_weights", "named", "sample_weights", "stream"])
def test_probabilities_of_weighted_classes_say_so_and_can_be_corrected(how, capsys):
    """1 : 20 on 5 % positives gave a mean probability of a half for .05."""
    labels = np.array(["no", "yes"])[RARE] if how == "named" else RARE
    given = {
        "class_weights": {"class_weights": [1.0, 20.0]},
        "named": {"class_weights": {"yes": 20.0}},
        "sample_weights": {"sample_weights": np.where(RARE, 20.0, 1.0)},
        "stream": {"class_weights": [1.0, 20.0], "stream_predictions": 5},
    }[how]
    sim = tati_re.Simulation(data=(X, labels), test_fraction=0.25, verbose=1, **SHORT, **given)
    run = sim.sample()
    assert "The classes are weighted 1 : 20" in words(capsys.readouterr().out)
    found = run.predict()
    if how == "stream":
        sim.sample(trajectory_every=0)
    assert "divide each p[c] by the weight of class c" in words(found)
    weighted, corrected = found.probabilities[:, 1], found.without_class_weights()
    assert weighted.mean() > 0.3
    odds = weighted / (1 - weighted) / 20
    np.testing.assert_allclose(corrected[:, 1], odds / (1 + odds), rtol=1e-9)
    # 23 of 450 rows are positive: a share of .05 with a standard error of .01 and a weak prior.
    assert abs(corrected[:, 1].mean() - RARE.mean()) < 0.05
    np.testing.assert_allclose(corrected.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "given", [{}, {"class_weights": [3.0, 3.0]}, {"sample_weights": RNG.random(600) + 0.5}]
)
def test_weights_that_are_not_of_classes_say_nothing(given, capsys):
    sim = tati_re.Simulation(data=(X, RARE), verbose=1, **SHORT, **given)
    run = sim.sample(num_steps=150)
    assert "classes are weighted" not in capsys.readouterr().out
    found = run.predict(X)
    assert "weighted" not in words(found)
    assert found.without_class_weights() is found.probabilities


def smoothed(labels, outputs):
    return keras.ops.mean(keras.ops.square(labels - outputs), axis=-1)


def summed(labels, outputs):
    return keras.ops.sum(keras.ops.square(labels - outputs), axis=-1)


THREE = np.eye(3)[RNG.integers(0, 3, 600)]
VALUES = RNG.normal(size=(600, 3))


@pytest.mark.parametrize(
    "loss, labels, count",
    [
        (keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1), THREE, 1),
        (summed, VALUES, 1),
        ("kl_divergence", THREE, 1),
        ("mean_absolute_error", VALUES, 3),
        ("huber", VALUES, 3),
        (keras.losses.LogCosh(), VALUES, 3),
        (
            keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.1),
            (THREE > 0.5).astype(float),
            3,
        ),
    ],
)
def test_a_loss_is_said_to_be_a_mean_only_where_it_is_one(loss, labels, count):
    given = {"num_classes": 0} if not np.array_equal(labels, THREE) else {}
    model = [keras.Input((1,)), keras.layers.Dense(3)]
    model += [keras.layers.Softmax()] if loss == "kl_divergence" else []
    sim = tati_re.Simulation(keras.Sequential(model), (X, labels), loss=loss, verbose=0, **given)
    potential = sim.system.potential(sim.options, sim.objects)
    assert isinstance(potential, ModelPotential)
    said = " ".join(potential.notices())
    assert "is not a normalized likelihood" in said
    assert (f"a mean over {count} numbers" in said) is (count > 1)
    assert ("It is a mean over" in said) is (count > 1)


def test_a_table_of_weights_in_the_run_folder_keeps_them(tmp_path):
    table = pd.DataFrame({"x": X[:, 0], "label": RARE})
    table.to_csv(tmp_path / "rare.csv", index=False)
    run = tati_re.Simulation(
        data=str(tmp_path / "rare.csv"),
        class_weights=[1.0, 20.0],
        output=str(tmp_path / "run"),
        verbose=0,
        **SHORT,
    ).sample(num_steps=200)
    opened = tati_re.load(run.folder).predict(X)
    assert opened.class_weights == (1.0, 20.0) and "1 : 20" in words(opened)
