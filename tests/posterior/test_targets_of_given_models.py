"""Targets far from order 1 under a given Keras model: standardized unless the model scales its
outputs.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tati_re
from tati_re.core.errors import InputError
from tati_re.sklearn import BayesianRegressor

RNG = np.random.default_rng(4)
X = RNG.normal(size=(150, 2)).astype("float32")
MPG = 24 + 8 * np.tanh(X[:, 0]) + 2 * RNG.normal(size=150)
SHORT = {"sampler": "BAOAB", "step_size": 0.005, "num_steps": 200, "seed": 1, "verbose": 0}
layers = keras.layers


class Own(keras.Model):
    def __init__(self, scale=1.0, offset=0.0):
        super().__init__()
        self.inside, self.last = layers.Dense(4, "tanh"), layers.Dense(1)
        self.scale, self.offset = scale, offset

    def call(self, inputs):
        return self.last(self.inside(inputs)) * self.scale + self.offset


def plain(*last):
    keras.utils.set_random_seed(3)
    return keras.Sequential([keras.Input((2,)), layers.Dense(4, "tanh"), layers.Dense(1), *last])


def branches():
    inputs = keras.Input((2,))
    return keras.Model(inputs, layers.Dense(1)(inputs) + layers.Dense(1)(layers.Dense(3)(inputs)))


def built(model):
    model(X[:1])
    return model


def trained():
    model = plain()
    model.compile("adam", "mse")
    model.fit(X, MPG, epochs=1, verbose=0)
    return model


ORDER_ONE = {
    "Sequential": plain,
    "two branches": branches,
    "own class": lambda: built(Own()),
    "nested": lambda: keras.Sequential([keras.Input((2,)), plain()]),
    "function": lambda: plain,
}
IN_UNITS = {
    "Rescaling": lambda: plain(layers.Rescaling(8.0, 24.0)),
    "Rescaling of a mean": lambda: plain(layers.Rescaling(1.0, 24.0)),
    "Normalization": lambda: plain(layers.Normalization(mean=24.0, variance=64.0, invert=True)),
    "nested": lambda: keras.Sequential([keras.Input((2,)), plain(layers.Rescaling(8.0, 24.0))]),
    "arithmetic": lambda: built(Own(8.0, 24.0)),
    "softplus": lambda: plain(layers.Activation("softplus")),
    "bias": lambda: keras.Sequential(
        [keras.Input((2,)), layers.Dense(1, bias_initializer=keras.initializers.Constant(24.0))]
    ),
    "trained": trained,
}


def target_standard(sim):
    preparation = sim.dataset.preparation
    return None if preparation is None else preparation.target_standard


@pytest.mark.parametrize("how", ORDER_ONE)
def test_targets_of_a_model_of_order_one_are_standardized(how):
    sim = tati_re.Simulation(ORDER_ONE[how](), (X, MPG), **SHORT)
    standard = target_standard(sim)
    assert standard.mean == pytest.approx(MPG.mean()) and standard.deviation == pytest.approx(
        MPG.std()
    )
    assert sim.dataset.preparation.input_standard is None
    assert sim.system.resolved(sim.options).standardize == "targets"
    off = tati_re.Simulation(ORDER_ONE[how](), (X, MPG), standardize="none", **SHORT)
    assert target_standard(off) is None


@pytest.mark.parametrize("how", IN_UNITS)
def test_targets_of_a_model_that_scales_its_outputs_stay(how):
    sim = tati_re.Simulation(IN_UNITS[how](), (X, MPG), **SHORT)
    assert target_standard(sim) is None


def test_small_targets_are_standardized_and_those_of_order_one_stay():
    small = tati_re.Simulation(plain(), (X, 1e-3 * MPG - 0.02), **SHORT)
    assert target_standard(small) is not None
    near = tati_re.Simulation(plain(), (X, (MPG - 24) / 8), **SHORT)
    assert target_standard(near) is None


@pytest.mark.parametrize("given", [{"noise_std": 2.0}, {"loss": "mean_absolute_error"}])
def test_targets_stay_in_the_units_of_what_was_given(given):
    assert target_standard(tati_re.Simulation(plain(), (X, MPG), **SHORT, **given)) is None


def test_predictions_are_in_units_in_every_way(tmp_path, capsys):
    """Mean 24 and deviation 8: under the prior of order 1 the posterior pulled them toward 0."""
    given = SHORT | {"num_steps": 2000, "step_size": 0.02, "test_fraction": 0.2, "verbose": 1}
    sim = tati_re.Simulation(plain(), (X, MPG), output=str(tmp_path / "run"), **given)
    run = sim.sample()
    said = " ".join(capsys.readouterr().out.split())
    assert "The targets are standardized" in said and "standardize='none' turns this off" in said
    found = run.predict()
    assert abs(found.mean.mean() - 24) < 3 and found.scores()["rmse"] < 6
    assert abs(sim.predict(X).mean() - 24) < 5
    run.save_model("mean", tmp_path / "model.keras")
    plain_keras = keras.models.load_model(tmp_path / "model.keras")
    assert abs(np.asarray(plain_keras(X)).mean() - 24) < 4
    opened = tati_re.load(tmp_path / "run")
    np.testing.assert_allclose(opened.predict(X).mean, run.predict(X).mean, rtol=1e-5)
    again = tati_re.Simulation.resume(tmp_path / "run", 2100, data=(X, MPG), verbose=0)
    assert again.manifest["dataset"]["preparation"] == run.manifest["dataset"]["preparation"]
    repeated = tati_re.Simulation.from_folder(tmp_path / "run", data=(X, MPG), verbose=0)
    assert target_standard(repeated) is not None
    further = tati_re.Simulation(
        plain(), (X, MPG), parameters=str(tmp_path / "run"), **(given | {"verbose": 0})
    )
    assert target_standard(further).mean == target_standard(sim).mean


def test_an_old_run_in_raw_units_stays_in_them(tmp_path):
    old = tati_re.Simulation(
        plain(), (X, MPG), output=str(tmp_path / "run"), standardize="none", **SHORT
    ).sample()
    again = tati_re.Simulation.from_folder(old.folder, data=(X, MPG), verbose=0)
    assert target_standard(again) is None
    assert (
        tati_re.Simulation.resume(old.folder, 220, data=(X, MPG)).manifest["options"]["standardize"]
        == "none"
    )


def test_data_of_tensorflow_and_estimators():
    pairs = tf.data.Dataset.from_tensor_slices((X, MPG[:, None].astype("float32"))).batch(32)
    assert target_standard(tati_re.Simulation(plain(), pairs, **SHORT)) is not None
    regressor = BayesianRegressor(plain(), members=2, **(SHORT | {"num_steps": 1000})).fit(X, MPG)
    assert abs(regressor.predict(X).mean() - 24) < 4


def test_standardize_targets_is_an_option_of_its_own():
    sim = tati_re.Simulation(data=(X, MPG), hidden=[3], standardize="targets", **SHORT)
    preparation = sim.dataset.preparation
    assert preparation.input_standard is None and preparation.target_standard is not None
    with pytest.raises(InputError, match="targets keep their units"):
        tati_re.Simulation(data=(X, MPG), loss="poisson", standardize="targets", **SHORT)
