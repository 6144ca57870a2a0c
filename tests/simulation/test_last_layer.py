"""The last layer alone is sampled: on features that are computed once, with predictions, run folders
and files that take the inputs of the data.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tati_re
from tati_re import InputError, Simulation
from tati_re.cli import sample
from tati_re.core.backend import keras, tf
from tati_re.launch.goal import with_goal
from tati_re.launch.request import is_cheap
from tati_re.models.last_layer import LastLayer, flat_model
from tati_re.models.names import tensor_names
from tati_re.options.make import make_options

L = keras.layers
RANDOM = np.random.default_rng(3)
IMAGES = RANDOM.normal(size=(60, 6, 6, 1)).astype("float32")
VALUES = np.tanh(IMAGES.mean(axis=(1, 2, 3)) * 4)[:, None].astype("float32")
SHORT = {"sampler": "HMC", "step_size": 0.02, "num_leapfrog_steps": 5, "num_burnin_steps": 0}
QUIET = {"loss": "gaussian", "noise_std": 0.3, "verbose": 0, "seed": 2, "walker_start": "same"}


def convolutional():
    """A small convolution whose batch normalization has seen data."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            L.Conv2D(3, 3, activation="relu"),
            L.BatchNormalization(),
            L.Flatten(),
            L.Dropout(0.5),
            L.Dense(4, activation="tanh"),
            L.Dense(1),
        ]
    )
    model.layers[1].moving_mean.assign([0.2, -0.1, 0.3])
    model.layers[1].moving_variance.assign([0.5, 2.0, 1.5])
    return model


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run of the last layer of a simulation of all layers, and its folder."""
    folder = tmp_path_factory.mktemp("last") / "run"
    model = convolutional()
    data = ((IMAGES, VALUES), (IMAGES[:20] + 0.1, VALUES[:20]))
    sim = Simulation(model, data=data, num_walkers=2, **QUIET)
    run = sim.sample(layers="last", num_steps=40, output=folder, **SHORT)
    return model, sim, run, folder


def by_keras(model, inputs, vector):
    """Outputs of a copy of the model whose last layer has this kernel and bias."""
    copied = keras.models.clone_model(model)
    copied.set_weights(model.get_weights())
    copied.layers[-1].set_weights([vector[:4, None], vector[4:]])
    return copied(inputs, training=False).numpy()


def test_only_the_last_layer_moves(ended):
    model, sim, run, _ = ended
    assert run.manifest.parameters.num == 5
    assert run.manifest.options.layers == "last"
    start = np.concatenate([v.numpy().ravel() for v in model.trainable_variables])
    assert sim.num_parameters() == len(start)
    assert sim.parameters.shape == (2, len(start))
    assert (sim.parameters[:, :-5] == start[:-5]).all()
    assert (sim.parameters[:, -5:] != start[-5:]).any(axis=1).all()


def test_a_line_says_what_is_frozen(capsys):
    sim = Simulation(convolutional(), data=(IMAGES, VALUES), **{**QUIET, "verbose": 1})
    sim.sample(layers="last", num_steps=4, **SHORT)
    said = " ".join(capsys.readouterr().out.split())
    assert "Sampling the last layer only: dense_1 (5 parameters) on 4 features; 238 weights" in said


def test_energies_are_those_of_the_whole_network(ended):
    model, _, _, _ = ended
    data = (IMAGES, VALUES)
    options = {**QUIET, "dtype": "float64"}
    whole = Simulation(model, data=data, prior="none", **options)
    part = Simulation(model, data=data, prior="none", layers="last", **options)
    assert part.num_parameters() == 5
    np.testing.assert_allclose(part.loss(), whole.loss(), rtol=1e-12)
    np.testing.assert_allclose(part.gradients(), whole.gradients()[-5:], rtol=1e-9)
    np.testing.assert_allclose(part.predict(IMAGES), whole.predict(IMAGES), rtol=1e-12)


def test_features_are_computed_once(monkeypatch):
    rows = []
    features = LastLayer.features

    def counted(self, x):
        result = features(self, x)
        tf.py_function(lambda n: rows.append(int(n)), [tf.shape(x)[0]], [])
        return result

    monkeypatch.setattr(LastLayer, "features", counted)
    sim = Simulation(convolutional(), data=(IMAGES, VALUES), layers="last", **QUIET)
    sim.sample(num_steps=30, trajectory_every=0, **SHORT)
    sim.sample(num_steps=30, trajectory_every=0, **SHORT)
    # The end of a run predicts for some of the rows.
    assert sum(rows) <= 3 * len(IMAGES)


def test_predictions_take_the_inputs_of_the_data(ended):
    model, _, run, folder = ended
    inputs = IMAGES[:7] * 0.9
    values = run.trajectory[[name for name in run.trajectory.columns if name.startswith("dense")]]
    expected = np.mean([by_keras(model, inputs, row) for row in values.to_numpy()], axis=0)
    np.testing.assert_allclose(run.predict(inputs).mean, expected, rtol=1e-4, atol=1e-5)
    again = tati_re.load(folder).predict(inputs).mean
    np.testing.assert_array_equal(again, run.predict(inputs).mean)


def test_a_run_resumes_byte_for_byte(ended, tmp_path):
    model, _, run, _ = ended
    data = ((IMAGES, VALUES), (IMAGES[:20] + 0.1, VALUES[:20]))
    folder = tmp_path / "run"
    sim = Simulation(model, data=data, num_walkers=2, **QUIET)
    sim.sample(layers="last", num_steps=25, output=folder, **SHORT)
    longer = Simulation.resume(folder, num_steps=40, data=data[0], test_data=data[1], verbose=0)
    for name in ("run.csv", "trajectory.csv"):
        assert (folder / name).read_bytes() == (run.folder / name).read_bytes()
    np.testing.assert_array_equal(longer.predict(IMAGES[:3]).mean, run.predict(IMAGES[:3]).mean)


def test_the_folder_makes_the_simulation_again(ended):
    _, _, run, folder = ended
    sim = Simulation.from_folder(folder, data=(IMAGES, VALUES), test_data=None, parameters=folder)
    assert sim.num_parameters() == 5
    last = run.trajectory.iloc[-2:][[c for c in run.trajectory.columns if c.startswith("dense")]]
    np.testing.assert_allclose(sim.parameters, last.to_numpy(), rtol=1e-6)


def test_compressed_and_exported(ended, tmp_path):
    _, _, run, _ = ended
    inputs = IMAGES[:6]
    small = run.compress(members=8)
    expected = small.predict(inputs).mean
    np.testing.assert_allclose(expected, run.predict(inputs).mean, atol=0.05)
    plain = small.to_keras()
    found = np.asarray(plain(inputs)["mean"])
    np.testing.assert_allclose(found.ravel(), expected.ravel(), rtol=1e-4, atol=1e-5)
    # The frozen layers stand once in the file.
    assert sum(layer.name == "trunk" for layer in plain.layers) == 1
    small.save(tmp_path / "small.tati")
    loaded = tati_re.Predictor.load(tmp_path / "small.tati")
    np.testing.assert_array_equal(loaded.predict(inputs).mean, expected)


def test_loo_uses_the_rows_of_the_data(ended):
    _, _, run, _ = ended
    found = run.loo()
    assert found.elpd.shape == (len(IMAGES),)
    assert np.isfinite(found.elpd).all()


def test_a_trained_network_is_frozen_where_it_is():
    data = (IMAGES.reshape(60, -1), VALUES)
    sim = Simulation(data=data, hidden=[5], **QUIET)
    with pytest.raises(InputError, match="have not been trained"):
        sim.sample(layers="last", num_steps=4, **SHORT)
    with pytest.raises(InputError, match="have not been trained"):
        Simulation(data=data, hidden=[5], layers="last", **QUIET)
    sim.fit(num_steps=30, learning_rate=0.01)
    there = sim.parameters.copy()
    run = sim.sample(layers="last", num_steps=6, **SHORT)
    assert (sim.parameters[:-6] == there[:-6]).all()
    np.testing.assert_allclose(
        sim.predict(data[0][:4]), run.predict(data[0][:4], parameters=None).mean, atol=0.5
    )
    other = Simulation(data=data, hidden=[5], layers="last", parameters=there, **QUIET)
    assert other.num_parameters() == 6
    np.testing.assert_array_equal(other.parameters, there[-6:])
    with pytest.raises(InputError, match="layers of this Simulation are frozen"):
        other.sample(layers="all", num_steps=4)


def test_walkers_with_different_frozen_layers_are_refused():
    sim = Simulation(convolutional(), data=(IMAGES, VALUES), num_walkers=2, **QUIET)
    sim.parameters = sim.parameters + np.arange(2)[:, None]
    with pytest.raises(InputError, match="different weights before the last layer"):
        sim.sample(layers="last", num_steps=4, **SHORT)


def test_copies_and_pickles_keep_the_features():
    sim = Simulation(convolutional(), data=(IMAGES, VALUES), layers="last", **QUIET)
    loss = sim.loss()
    assert copy.deepcopy(sim).loss() == loss
    assert pickle.loads(pickle.dumps(sim)).loss() == loss


def nested():
    inner = keras.Sequential([keras.Input((4,)), L.Dense(3), L.Dense(2)])
    start = keras.Input((4,))
    return keras.Model(start, L.Activation("tanh")(inner(start)))


def frozen_base():
    base = keras.Sequential([keras.Input((4,)), L.Dense(3)])
    base.trainable = False
    return keras.Sequential([keras.Input((4,)), base, L.Dense(2)])


def in_units():
    behind = L.Normalization(mean=[1.0], variance=[4.0], invert=True)
    return keras.Sequential([keras.Input((4,)), L.Dense(3), L.Dense(1), behind])


def several_inputs():
    first = keras.Input((3,), name="first")
    second = keras.Input((1,), name="second")
    joined = L.Dense(3)(L.Concatenate()([first, second]))
    return keras.Model({"first": first, "second": second}, L.Dense(2)(joined))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (nested, ["sequential/dense_1/kernel", "sequential/dense_1/bias"]),
        (frozen_base, ["dense/kernel", "dense/bias"]),
        (in_units, ["dense_1/kernel", "dense_1/bias"]),
        (several_inputs, ["dense_1/kernel", "dense_1/bias"]),
    ],
)
def test_the_last_layer_is_found(make, names):
    model = make()
    flat = flat_model(model, None, "last")
    assert flat.tensor_names == names
    assert set(names) <= set(tensor_names(model))
    x = tf.constant(RANDOM.normal(size=(5, 4)).astype("float32"))
    found, _ = flat.call(flat.split_one(tf.constant(flat.get())), flat.auxiliary, x)
    parts = {"first": x[:, :3], "second": x[:, 3:]} if make is several_inputs else x
    np.testing.assert_array_equal(found, model(parts, training=False))


def branched():
    start = keras.Input((4,))
    return keras.Model(start, L.Add()([L.Dense(2)(start), L.Dense(2)(start)]))


def repeated():
    start = keras.Input((4,))
    first = L.Dense(4)
    last = L.Dense(4)
    return keras.Model(start, last(first(last(start))))


def masked():
    start = keras.Input((4,), dtype="int32")
    return keras.Model(start, L.LSTM(2)(L.Embedding(5, 3, mask_zero=True)(start)))


def without_weights():
    model = frozen_base()
    model.trainable = False
    return model


class OwnClass(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = L.Dense(3)
        self.last = L.Dense(2)

    def call(self, x):
        return self.last(self.first(x))


def own_class():
    model = OwnClass()
    model(np.zeros((1, 4), "float32"))
    return model


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (branched, "branches before it has met its last layer"),
        (repeated, "also acts earlier in the model"),
        (masked, "masks the inputs of its last layer"),
        (without_weights, "no layer of the model has trainable weights"),
        (own_class, "the last layer of this model is not known"),
    ],
)
def test_models_without_one_last_layer_are_refused(make, sentence):
    with pytest.raises(InputError, match=f"^layers: .*{sentence}"):
        flat_model(make(), None, "last")


def test_a_model_of_one_layer_is_sampled_as_a_whole(capsys):
    model = keras.Sequential([keras.Input((6, 6, 1)), L.Flatten(), L.Dense(1)])
    options = {**QUIET, "verbose": 1}
    sim = Simulation(model, data=(IMAGES, VALUES), layers="last", **options)
    sim.sample(num_steps=4, **SHORT)
    assert "one layer with weights, so nothing is frozen" in capsys.readouterr().out


def test_the_command_samples_the_last_layer(tmp_path, capsys):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((2,)), L.Dense(5, activation="tanh"), L.Dense(1)])
    model.save(tmp_path / "net.keras")
    common = [
        "--data",
        "two_clusters",
        "--num-steps",
        "4",
        "--sampler",
        "HMC",
        "--step-size",
        "0.01",
    ]
    given = [*common, "--model", str(tmp_path / "net.keras"), "--layers", "last"]
    assert sample.main([*given, "--output", str(tmp_path / "run")]) == 0
    assert "6 parameters" in capsys.readouterr().out
    assert tati_re.load(tmp_path / "run").manifest.parameters.num == 6
    (tmp_path / "run.toml").write_text('layers = "last"\nhidden = [3]\n')
    assert sample.main([*common, "--config", str(tmp_path / "run.toml")]) == 2
    assert "layers: the layers to freeze have not been trained" in capsys.readouterr().err


def test_many_rows_are_sampled_exactly_and_not_for_predictions():
    """The features of 6,000 rows are all seen in each step, by a posterior run."""
    rows = 6_000
    data = (np.tile(IMAGES, (100, 1, 1, 1)), np.tile(VALUES, (100, 1)))
    sim = Simulation(convolutional(), data=data, layers="last", **QUIET)
    assert sim.system.dataset.num_examples == rows
    assert is_cheap(sim.system)
    options = make_options(sim.options, walker_start="same")
    assert with_goal(options, sim.objects, sim.system, placed=False).goal is None
