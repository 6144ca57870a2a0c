"""Data and models of users: what comes after a run, in its process and from the disk, labels,
losses, data frames.
"""

from __future__ import annotations

import re
from decimal import Decimal

import keras
import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re import Simulation
from tati_re.cli.predict import main as tati_predict
from tati_re.core.errors import InputError
from tati_re.data import load_data
from tati_re.data.describing import describe_dataset
from tati_re.data.frames import numbers_of
from tests.systems import tables

pytestmark = pytest.mark.filterwarnings("ignore:Predictions average")
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 2)).astype("float32")
Y = X @ [1.0, -2.0]
SHORT = {
    "sampler": "BAOAB",
    "step_size": 0.01,
    "num_steps": 12,
    "num_burnin_steps": 2,
    "trajectory_every": 2,
}
SHORT |= {"record_every": 2, "execution": "eager", "verbose": 0}


class Own(keras.Model):
    """A model that cannot be written to a file: its class has no config."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.inside, self.outside = keras.layers.Dense(units, "tanh"), keras.layers.Dense(1)

    def call(self, x):
        return self.outside(self.inside(x))


def own(seed: int = 1) -> Own:
    keras.utils.set_random_seed(seed)
    model = Own(2)
    model(X[:1])
    return model


def net(units: int, activation: str | None = None, compiled=None):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units, activation)])
    if compiled is not None:
        model.compile("sgd", compiled)
    return model


def test_a_data_frame_with_its_labels():
    frame = pd.DataFrame({"target": Y, "b": X[:, 1], "a": X[:, 0]})
    sim = Simulation(data=frame, standardize="none", noise_std=1.0, **SHORT)
    assert sim.dataset.name == "a data frame with labels target" and sim.dataset.feature_names == (
        "b",
        "a",
    )
    plain = Simulation(data=(X[:, ::-1], Y), standardize="none", noise_std=1.0, **SHORT)
    assert sim.potential() == pytest.approx(plain.potential(), rel=1e-6)
    assert (
        load_data(frame).num_classes is None
        and load_data(frame.rename(columns={"target": "y"})).feature_names[0] == "y"
    )
    classes = frame.assign(label=(Y > 0).astype(int), w=np.arange(40.0) + 1)
    found = load_data(
        classes, sample_weights="w", test_data=classes[:5], input_columns=["a", "b^2"]
    )
    assert found.num_classes == 2 and found.weights[3] == 4 and found.test_inputs.shape[0] == 5
    assert load_data(classes, label_columns=["a"]).feature_names == ("target", "b", "label", "w")
    with pytest.raises(InputError, match="column 'b' has missing values"):
        load_data(frame.mask(frame["b"] > 0, np.nan).assign(target=Y))
    with pytest.raises(InputError, match="label_columns: the data frame has no column 'q'"):
        load_data(frame, label_columns=["q"])


# What comes after a run


def test_a_run_keeps_its_data_and_model_in_its_process_and_is_given_them_from_the_disk(tmp_path):
    model, folder = own(), str(tmp_path / "run")
    before = model.get_weights()
    weights = np.linspace(0.5, 1.5, 40)
    sim = Simulation(model, (X, Y, weights), test_fraction=0.25, **SHORT)
    run = sim.sample(output=folder)
    found = run.predict()
    assert found.targets.shape == (10, 1) and np.isfinite(found.scores()["negative_log_likelihood"])
    assert run.predict(X).mean.shape == (40, 1)
    assert tati_re.landscape.input_space(run).inputs.shape[1] == 2
    assert tati_re.predict([run, run]).num_draws == 2 * found.num_draws
    again = Simulation.from_folder(run)
    again.parameters = run.parameters(12)
    sim.parameters = run.parameters(12)
    assert again.potential() == sim.potential(), "the same data, weights and model"
    with pytest.raises(
        InputError,
        match=r"cannot be written to a file\. Received: Own\. Expected: a model with get_con",
    ):
        run.save_model("mean", tmp_path / "own.keras")
    assert not (tmp_path / "own.keras").exists()
    # From the disk.
    alone = tati_re.load(folder)
    with pytest.raises(
        InputError,
        match=r"data were given in Python\. Expected: run\.predict\(inputs, labels\), or tati",
    ):
        alone.predict()
    with pytest.raises(
        InputError, match=r"contains no model\. Expected: .*tati_re\.load\('.*run', model=model\)"
    ):
        alone.predict(X)
    with pytest.raises(InputError, match="used no prior given in Python"):
        tati_re.load(folder, prior=1)
    with pytest.raises(InputError, match="the data differ from the run's"):
        tati_re.load(folder, data=(X, 2 * Y, weights), model=model).predict()
    loaded = tati_re.load(folder, data=(X, Y, weights), model=own(seed=2))
    assert loaded.predict().mean.tolist() == found.mean.tolist()
    # The end of a longer run is that of one that never stopped.
    longer = Simulation.resume(run, 20)
    whole = Simulation(own(), (X, Y, weights), test_fraction=0.25, **SHORT | {"num_steps": 20})
    assert tables(longer.folder) == tables(whole.sample(output=str(tmp_path / "whole")).folder)
    assert longer.predict().num_draws > found.num_draws
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_images_without_a_channel_are_predicted_from_the_disk(tmp_path):
    np.savez(tmp_path / "images.npz", x=RANDOM.normal(size=(20, 3, 3)), y=np.arange(20) % 3)
    layers = [keras.Input((3, 3, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
    sim = Simulation(keras.Sequential(layers), data=str(tmp_path / "images.npz"), **SHORT)
    run = sim.sample(output=str(tmp_path / "run"))
    assert tati_re.load(tmp_path / "run").predict().scores() == run.predict().scores()


# Labels and losses


def test_a_built_network_that_ends_in_a_sigmoid_has_one_output_for_two_classes():
    """Two sigmoids were taken as two logits, whose odds cannot exceed e."""
    built = {"hidden": [3], "output_activation": "sigmoid", **SHORT}
    for labels in (Y > 0, np.array(["no", "yes"])[(Y > 0).astype(int)], np.sign(Y).astype(int)):
        sim = Simulation(data=(X, labels), **built)
        assert sim.system.potential(sim.options).loss.name == "binary_crossentropy"
        assert sim.predict(X).shape == (40, 1)
    with pytest.raises(InputError, match="class logits"):
        Simulation(data=(X, np.arange(40) % 3), **built)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    assert Simulation(data=(X, Y > 0), hidden=[3], loss=loss, **SHORT).predict(X).shape == (40, 1)


@pytest.mark.parametrize(
    ("model", "labels", "loss", "task", "sentence"),
    [
        (lambda: net(1, "sigmoid"), Y > 0, "binary_crossentropy", "classification", None),
        (
            lambda: net(1, "sigmoid"),
            (Y > 0).astype(float)[:, None],
            "binary_crossentropy",
            "classification",
            None,
        ),
        (
            lambda: net(1),
            Y > 0,
            "gaussian",
            "regression",
            "from 0 to 1, are regression targets, because the model",
        ),
        (
            lambda: net(1),
            np.arange(40) % 9,
            "gaussian",
            "regression",
            "from 0 to 8, are regression targets",
        ),
        (
            lambda: net(1, "sigmoid"),
            np.arange(40) % 9,
            "gaussian",
            "regression",
            "Classes need one output each.",
        ),
        (
            lambda: net(2),
            (Y > 0).astype(int),
            "sparse_categorical_crossentropy",
            "classification",
            None,
        ),
        (
            *(lambda: net(300, "softmax"), np.arange(40) * 7),
            *(
                "sparse_categorical_crossentropy",
                "classification",
                "are 300 classes, one for each output of the model; 40",
            ),
        ),
        (lambda: net(1, "sigmoid"), np.sign(Y).astype(int), "binary_crossentropy", "signs", None),
        (lambda: net(1, "tanh"), np.sign(Y).astype(int), "mean_squared_error", "signs", None),
    ],
)
def test_labels_mean_what_the_outputs_of_a_model_can_say(model, labels, loss, task, sentence):
    sim = Simulation(model(), (X, labels), **SHORT)
    used = sim.system.potential(sim.options).loss
    assert (used.name, sim.dataset.task) == (loss, task)
    said = " ".join(sim.system.notes)
    parts = ("are regression targets", "one for each output", "A sigmoid")
    assert any(part in said for part in parts) == (sentence is not None)
    assert sentence is None or said.count(sentence) == 1
    # The potential is N times the mean loss by hand, of logits or probabilities.
    outputs = sim.predict(X)
    if loss == "binary_crossentropy":
        right = np.where(np.ravel(labels) > 0, outputs[:, 0], 1 - outputs[:, 0])
        assert sim.loss() == pytest.approx(-np.log(right).mean(), rel=1e-5)


def test_models_that_were_not_called_yet_are_built_from_the_data(tmp_path):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.inside, self.last = keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)

        def call(self, inputs):
            return self.last(self.inside(inputs))

    tokens = RANDOM.integers(0, 9, (40, 4))
    words = [
        keras.layers.Embedding(9, 2),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ]
    plain = [keras.layers.Dense(3), keras.layers.Dense(1)]
    for model, inputs, size in (
        (Own(), X, 13),
        (keras.Sequential(plain), X, 13),
        (keras.Sequential(words), tokens, 21),
    ):
        sim = Simulation(model, (inputs, Y), **SHORT, noise_std=1.0)
        assert sim.num_parameters() == size
        np.testing.assert_allclose(sim.predict(inputs), model(inputs), rtol=1e-5, atol=1e-6)
    Simulation(Own(), (X, Y), **SHORT).sample(output=str(tmp_path / "run"))
    with pytest.raises(
        InputError, match=r"Keras does not know\. Received: .*tati_re\.load\('.*run', model=model\)"
    ):
        tati_re.load(tmp_path / "run").predict(X)
    said = " ".join(Simulation(keras.Sequential(words), (tokens, 1e3 * Y), **SHORT).system.notes)
    assert "The targets are standardized" in said and "standardize='none' turns this off" in said


def test_labels_that_do_not_fit_the_outputs_say_which_do():
    with pytest.raises(
        InputError,
        match=r"labels up to 3 and a model with 3 outputs. Expected: .* or labels from 0 to 2.",
    ):
        Simulation(net(3, "softmax"), (X, np.arange(40) % 4), **SHORT).potential()
    with pytest.raises(InputError, match="Expected: equal shapes, for -1 and 1 one output"):
        Simulation(net(2, "softmax"), (X, np.sign(Y)), **SHORT).potential()
    with pytest.raises(
        InputError,
        match=r"sampler: optimizers do not sample\. Received: 'Adam'\. Expected: sim\.fit",
    ):
        Simulation(data=(X, Y), **SHORT | {"sampler": "Adam"}).sample()


def fourth_power(targets, outputs):
    return keras.ops.mean((targets - outputs) ** 4, axis=-1)


SMOOTH = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)


@pytest.mark.parametrize(
    ("loss", "units", "labels"),
    [
        pytest.param(keras.losses.Huber(), 1, Y, marks=pytest.mark.slow),
        (fourth_power, 1, Y),
        (SMOOTH, 3, np.eye(3)[np.arange(40) % 3]),
    ],
)
def test_a_loss_that_was_an_object_scores_predictions_in_the_process(tmp_path, loss, units, labels):
    """The mean loss of each draw is that of the run's rows; from the disk the object is asked for,
    and taken.
    """
    run = Simulation(net(units), (X, labels), **SHORT, loss=loss).sample(
        output=str(tmp_path / "run")
    )
    found = run.predict(X, labels).draw_losses
    rows = run.run_info[run.run_info["step"] > 2]
    np.testing.assert_allclose(found, rows["loss"], rtol=1e-5)
    lost = r"loss was an object.*tati_re\.load\(folder, loss=loss\)"
    if units == 1:
        without = tati_re.load(tmp_path / "run").predict(X, labels)
        assert without.draw_losses is None and re.search(lost, " ".join(without.notes))
    else:
        with pytest.raises(InputError, match=lost):
            tati_re.load(tmp_path / "run").predict(X, labels)
    np.testing.assert_array_equal(
        tati_re.load(tmp_path / "run", loss=loss).predict(X, labels).draw_losses, found
    )


def test_a_compiled_loss_that_is_not_used_is_named(capsys):
    for model, sentence in (
        (
            net(1, None, "mae"),
            "Using the loss gaussian, not the model's compiled loss mean_absolute_error. Set loss=model.loss",
        ),
        (net(1, None, keras.losses.Huber()), "compiled loss huber"),
        (net(1, None, "gaussian"), None),
    ):
        Simulation(model, (X, Y), **SHORT | {"num_steps": 4, "verbose": 1}).sample()
        said = " ".join(capsys.readouterr().out.split())
        assert (
            said.count("not the model's compiled loss") == (sentence is not None)
            and (sentence or "") in said
        )
    assert (
        Simulation(net(1, "sigmoid", "bce"), (X, Y > 0), **SHORT).system.compiled
        == "binary_crossentropy"
    )


def test_a_regression_on_whole_numbers_is_the_same_from_its_folder(tmp_path):
    np.savez(tmp_path / "data.npz", x=X, y=np.arange(40) % 9)
    sim = Simulation(net(1), data=str(tmp_path / "data.npz"), **SHORT)
    run = sim.sample(output=str(tmp_path / "run"))
    assert (
        run.manifest["options"]["num_classes"] == 0 and "num_classes" not in run.manifest["given"]
    )
    assert tati_re.load(tmp_path / "run").predict().scores() == run.predict().scores()
    assert Simulation.from_folder(tmp_path / "run").dataset.task == "regression"
    assert Simulation.resume(str(tmp_path / "run"), 14).predict().num_draws == 6
    with pytest.raises(
        InputError,
        match=r"needs one output per class\. Received: labels up to \d+ and a model with 1 outputs",
    ):
        Simulation(net(1), (X, np.arange(40) % 9), num_classes=9, **SHORT).sample()
    declared = Simulation(net(1), (X, (Y > 0).astype(int)), num_classes=2, **SHORT).sample()
    assert declared.manifest["loss"] | {"noise_std": 1.0} == {
        "loss": "binary_crossentropy",
        "from_logits": True,
        "noise_std": 1.0,
    }


def test_words_of_others_and_positions_that_are_not_there():
    sim = Simulation(net(1), (X, Y), **SHORT)
    with pytest.raises(InputError, match=r"each half of the walkers .* a multiple of 100"):
        sim.sample(sampler="EQN")
    with pytest.raises(InputError, match=r"Received: 'NUTS'\. Expected: HMC or MAMS"):
        sim.sample(sampler="NUTS")
    run = sim.sample(trajectory_every=20)
    with pytest.raises(
        InputError,
        match=r"No positions are left .* trajectory_every 20\. Expected: a smaller traject",
    ):
        run.predict(X)


# Data frames, without TensorFlow


FRAME = pd.DataFrame({"age": [1.5, 2.5, 3.5], "city": ["Bonn", "Rome", "Bonn"]})
DAYS = pd.date_range("2020-02-28", periods=3)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (
            FRAME,
            (
                "data: column 'city' contains text. Received: 'Bonn'. Expected: numbers: "
                "convert text to columns of 0 and 1 with pandas.get_dummies or OneHot"
            ),
        ),
        (FRAME.astype({"city": "category"}), "column 'city' contains text"),
        (FRAME.to_numpy(), "column '1' contains text"),
        (
            FRAME.assign(city=DAYS),
            r"column 'city' contains dates\. Received: .*2020-02-28.*Expected: .*days since",
        ),
        (FRAME.assign(city=DAYS.date), "column 'city' contains dates"),
        (
            FRAME.assign(city=[1.0, None, None]),
            r"'city' has missing values\. Received: 2, the first in row 1, counting from 0\. .*dropna",
        ),
        (FRAME.assign(city=["Bonn", None, "Rome"]), "column 'city' has missing values"),
        (
            FRAME.assign(city=pd.array([1, 2, None], dtype="Int64")),
            "column 'city' has missing values",
        ),
        (
            FRAME.assign(city=DAYS - DAYS[0]),
            r"column 'city' contains Timedelta\. .*Expected: .*Timedelta",
        ),
        (FRAME.assign(city=[1, "Rome", 2]), "column 'city' contains text. Received: 'Rome'"),
        (
            FRAME.assign(city=["St. Gallen", "a", "b"]),
            "of scikit-learn; convert sentences to numbers with TextVectorization of Keras before the model, not in",
        ),
    ],
)
def test_columns_that_hold_no_numbers_are_named(frame, sentence):
    with pytest.raises(InputError, match=sentence):
        load_data((frame, [1.0, 2.5, 3.5]))
    with pytest.raises(InputError, match=sentence):
        load_data(([[1.0], [2.0], [3.0]], frame))


@pytest.mark.parametrize(
    "labels", [FRAME["city"], FRAME["city"].astype("category"), ["Bonn", "Rome", "Bonn"]]
)
def test_one_column_of_text_as_labels_is_the_names_of_classes(labels):
    data = load_data(([[1.0], [2.0], [3.0]], labels))
    assert (data.task, data.class_names, data.targets.tolist()) == (
        "classification",
        ("Bonn", "Rome"),
        [0, 1, 0],
    )
    frame = load_data(pd.DataFrame({"target": labels, "x": [1.0, 2.0, 3.0]}))
    assert frame.class_names == data.class_names and frame.fingerprint() == data.fingerprint()
    other = load_data(([[1.0], [2.0], [3.0]], ["a", "b", "a"]))
    assert other.targets.tolist() == [0, 1, 0] and other.fingerprint() != data.fingerprint()


def test_names_of_classes_are_those_of_predictions_also_from_the_disk(tmp_path, capsys):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.where(Y > 0, "up", "down"))
    frame.to_csv(tmp_path / "own.csv", index=False)
    sim = Simulation(
        net(2), tmp_path / "own.csv", seed=1, **SHORT | {"verbose": 1}, stream_predictions=2
    )
    run = sim.sample(output=str(tmp_path / "run"))
    assert "The labels down, up are the classes 0 to 1, in this order." in capsys.readouterr().out
    found = run.predict(X, frame["kind"])
    assert set(found.frame()["label"]) == {"up", "down"} and {"p[down]", "p[up]"} <= {
        *found.frame()
    }
    again = tati_re.load(tmp_path / "run")
    assert (
        again.predict(X, frame["kind"]).scores() == found.scores() == run.predict(X, Y > 0).scores()
    )
    assert again.predict().predicted.tolist() == run.predict().predicted.tolist()
    longer = Simulation.resume(tmp_path / "run", num_steps=14, verbose=0)
    assert longer.predict().class_values.tolist() == ["down", "up"]
    assert (
        tati_predict([str(tmp_path / "run"), "--data", str(tmp_path / "own.csv"), "--quiet"]) == 0
    )
    written = pd.read_csv(tmp_path / "run" / "predictions" / "predictions.csv")
    assert written["label"].tolist() == frame["kind"].tolist() and set(written["predicted"]) <= {
        "up",
        "down",
    }
    with pytest.raises(
        InputError,
        match=r"labels: unknown class\. Did you mean 'up'\? Received: ups\. Expec",
    ):
        again.predict(X[:1], ["ups"])
    numbered = Simulation(net(2), (X, (Y > 0).astype(int)), **SHORT).sample()
    with pytest.raises(
        InputError,
        match=r"The runs predict different quantities. Received: classification of 2 down, up and",
    ):
        tati_re.predict([run, numbered], X)
    with pytest.raises(
        InputError, match=r"Received: down\. Expected: numbers, as in the data of the run"
    ):
        numbered.predict(X, frame["kind"])
    short = SHORT | {"stream_predictions": 2, "trajectory_every": 0}
    other = Simulation(net(2), tmp_path / "own.csv", seed=1, **short).sample()
    assert {*other.predict().frame()["label"]} <= {"up", "down"}


def test_a_logit_for_two_named_classes_has_the_binary_cross_entropy():
    sim = Simulation(net(1), (X, np.where(Y > 0, "up", "down")), **SHORT)
    assert sim._engine().potential.loss.name == "binary_crossentropy"
    with pytest.raises(InputError, match="one output per class"):
        Simulation(net(1), (X, np.resize(["up", "down", "even"], 40)), **SHORT).potential()


def test_frames_of_numbers_of_several_types_are_numbers():
    found = numbers_of(
        pd.get_dummies(FRAME).assign(count=pd.array([1, 2, 3], dtype="Int64")), "data"
    )
    assert (
        found.tolist() == [[1.5, 1, 0, 1], [2.5, 0, 1, 2], [3.5, 1, 0, 3]]
        and found.dtype == np.float64
    )
    assert numbers_of(FRAME[["age"]].astype("float32"), "data").dtype == np.float32
    assert numbers_of(pd.Series([1, 2]), "data").dtype == np.int64
    assert numbers_of(np.array([1, 2.5], object), "data").tolist() == [1, 2.5]
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(X)
    with pytest.raises(
        InputError, match=r"Received: csr_matrix\. Expected: an array, such as toarray\(\)"
    ):
        load_data((sparse, Y))


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("Bonn", "get_dummies"),
        ("2020-02-28", "days since"),
        ("", "dropna"),
        ("NA", "SimpleImputer"),
    ],
)
def test_tables_say_what_to_do_with_other_cells(cell, words, tmp_path):
    (tmp_path / "a.csv").write_text(f"x,y\n{cell},1\n")
    with pytest.raises(
        InputError, match=rf"column 'x' is not a finite number\. Received: .* Expected: .*{words}"
    ):
        load_data(tmp_path / "a.csv")


def test_a_pipeline_of_scikit_learn_makes_numbers_of_any_columns():
    compose, preprocessing = (
        pytest.importorskip("sklearn.compose"),
        pytest.importorskip("sklearn.preprocessing"),
    )
    parts = [("city", preprocessing.OneHotEncoder(sparse_output=False), ["city"])]
    data = load_data(
        (
            compose.ColumnTransformer(parts, remainder="passthrough").fit_transform(FRAME),
            [1.5, 2, 3],
        )
    )
    assert data.inputs.tolist() == [[1, 0, 1.5], [0, 1, 2.5], [1, 0, 3.5]]


def said_at_the_start(capsys, model, data, **options):
    sim = Simulation(
        model, data, **{**SHORT, "num_steps": 2, "num_burnin_steps": 0, "verbose": 2, **options}
    )
    sim.sample(step_size=1e-6)
    return " ".join(capsys.readouterr().out.split())


def sequential(*layers, shape=(8, 8, 1)) -> keras.Model:
    return keras.Sequential([keras.Input(shape), *layers])


def test_pixels_as_bytes_under_a_model_that_does_not_scale_them_are_told(capsys):
    """Before the fits, which diverge or stick with them."""
    pixels, classes = RANDOM.integers(0, 256, (12, 8, 8, 1)).astype("uint8"), np.arange(12) % 2
    pixels[0, 0, 0, 0] = 255
    sentence = 'Set standardize="pixels" to divide them by 255'
    given = {"batch_size": 4, "num_walkers": 2, "walker_start": "fit", "fit_steps": 1}
    for images in (pixels, pixels.astype("float32")):
        model = sequential(keras.layers.Flatten(), keras.layers.Dense(2))
        said = said_at_the_start(capsys, model, (images, classes), **given)
        assert said.count(sentence) == 1
        assert "notes The inputs are pixels from 0 to 255" in said
        assert said.index(sentence) < said.index("fitting")
    rescaling = sequential(keras.layers.Rescaling(1 / 255), *model.layers)
    for one, mode in ((rescaling, "auto"), (model, "pixels")):
        said = said_at_the_start(capsys, one, (pixels, classes), standardize=mode, **given)
        assert "pixels from 0 to 255" not in said
    words = sequential(
        keras.layers.Embedding(256, 1), keras.layers.Flatten(), keras.layers.Dense(2), shape=(4,)
    )
    assert "far from order 1" not in said_at_the_start(
        capsys, words, (pixels.reshape(12, -1)[:, :4], classes)
    )


def test_bytes_are_not_scaled_twice(tmp_path):
    """By 1/255 in the file and once more in the model: a posterior came out of inputs below
    1/255.
    """
    pixels, classes = RANDOM.integers(0, 256, (12, 8, 8, 1)).astype("uint8"), np.arange(12) % 2
    np.savez(tmp_path / "bytes.npz", x=pixels, y=classes)
    np.savez(tmp_path / "floats.npz", x=pixels.astype("float32"), y=classes)
    rest = keras.layers.Flatten(), keras.layers.Dense(2)
    model = sequential(keras.layers.Rescaling(1 / 255), *rest)
    with pytest.raises(
        InputError,
        match=r"its layer Rescaling rescales bytes, but they are already multiplied by 1/255",
    ):
        Simulation(model, tmp_path / "bytes.npz", verbose=0)
    for data in (tmp_path / "floats.npz", (pixels, classes)):
        Simulation(model, data, verbose=0)
    Simulation(
        sequential(keras.layers.Rescaling(2.0, -1.0), *rest), tmp_path / "bytes.npz", verbose=0
    )
    adapted, ready = keras.layers.Normalization(axis=None), keras.layers.Normalization(axis=None)
    adapted.adapt(pixels)
    ready.adapt(pixels / 255)
    for flat in (
        sequential(adapted, *rest),
        keras.Sequential([keras.layers.Flatten(), adapted, keras.layers.Dense(2)]),
    ):
        with pytest.raises(
            InputError,
            match=r"its layer Normalization rescales bytes, but they are already multiplied by 1/255",
        ):
            Simulation(flat, tmp_path / "bytes.npz", verbose=0)
    Simulation(sequential(adapted, *rest), (pixels, classes), verbose=0)
    Simulation(sequential(ready, *rest), tmp_path / "bytes.npz", verbose=0)
    Simulation(
        sequential(keras.layers.Rescaling(255.0), adapted, *rest), tmp_path / "bytes.npz", verbose=0
    )


def test_counts_are_told_from_classes(capsys):
    """Where the network is built for them: a given one has as many outputs."""
    data, model = (
        (RANDOM.normal(size=(54, 8)), np.arange(54) % 18),
        sequential(keras.layers.Dense(18), shape=(8,)),
    )
    sentence = "Labels 0 to 17 are treated as classes. If they are counts, set num_classes = 0 for a regression."
    assert sentence in said_at_the_start(capsys, None, data)
    assert "num_classes" not in said_at_the_start(capsys, None, (data[0], data[1] % 10))
    assert "num_classes" not in said_at_the_start(capsys, model, data)


def test_many_examples_in_each_step_are_told(capsys):
    data, sentence = (
        (np.zeros((6000, 2)), np.arange(6000) % 2),
        "Each step uses all 6,000 rows; mini-",
    )
    model = sequential(keras.layers.LayerNormalization(), keras.layers.Dense(2), shape=(2,))
    assert sentence in said_at_the_start(capsys, model, data)
    for options in ({"batch_size": 100}, {"sampler": "HMC", "num_leapfrog_steps": 1}):
        assert "Each step uses all" not in said_at_the_start(capsys, model, data, **options)


def test_labels_of_0_and_1_at_several_places_are_told(capsys):
    images = RANDOM.normal(size=(12, 8, 8, 1))
    masks, sentence = (
        (images > 0).astype(int),
        "Labels 0 and 1 in several columns are treated as regression targets",
    )
    model = sequential(keras.layers.Conv2D(1, 3, padding="same"))
    assert sentence in said_at_the_start(capsys, model, (images, masks))
    assert sentence not in said_at_the_start(capsys, model, (images, masks), loss="gaussian")
    assert sentence not in said_at_the_start(capsys, model, (images, images))
    said = said_at_the_start(capsys, model, (images, masks), loss="binary_crossentropy")
    assert "a Bernoulli likelihood for each of 64 labels" in said and sentence not in said


def test_labels_of_several_outputs_are_refused_as_those():
    x = keras.Input((2,))
    first, second = keras.layers.Dense(1)(x), keras.layers.Dense(2)(x)
    for outputs, labels in (
        ([first, second], [Y, X]),
        ({"u": first, "v": second}, {"u": Y, "v": X}),
    ):
        with pytest.raises(InputError, match="The model has several outputs"):
            Simulation(keras.Model(x, outputs), (X, labels), verbose=0)


def test_a_run_on_a_file_says_which_column_are_the_labels(tmp_path, capsys):
    pd.DataFrame({"a": X[:, 0], "price": Y, "b": X[:, 1]}).to_csv(tmp_path / "own.csv", index=False)
    data = str(tmp_path / "own.csv")
    assert "The labels are in the column b (label_columns)." in said_at_the_start(
        capsys, None, data
    )
    assert "The labels are in" not in said_at_the_start(capsys, None, data, label_columns=["price"])
    pd.DataFrame({"a": X[:, 0], "label_u": X[:, 1], "label_v": Y}).to_csv(
        tmp_path / "own.csv", index=False
    )
    assert "The labels are in the columns label_u, label_v (label_columns)." in said_at_the_start(
        capsys, None, data
    )


def test_a_counter_among_the_inputs_and_rows_in_both_parts_are_told(tmp_path, capsys):
    """Where rows are sorted by their class, their number is the class; a row in both parts is no
    test of anything.
    """
    frame = pd.DataFrame({"id": np.arange(1, 41), "a": X[:, 0], "b": X[:, 1], "price": Y})
    frame.to_csv(tmp_path / "own.csv", index=False)
    said = said_at_the_start(capsys, None, str(tmp_path / "own.csv"))
    assert (
        "The input id is the row number, 1 to 40. It carries information if the rows "
        "are sorted. Exclude it with input_columns."
    ) in said
    assert "also occur in the training data" not in said
    for columns in (["a", "b"], ["id^2", "a"]):
        assert "row number" not in said_at_the_start(
            capsys, None, str(tmp_path / "own.csv"), input_columns=columns
        )
    shuffled = frame.sample(frac=1, random_state=1)
    assert "row number" not in said_at_the_start(capsys, None, shuffled)
    assert "row number" not in said_at_the_start(capsys, None, frame[["id", "price"]])
    parts = (X[:20], Y[:20]), (X[15:35], Y[15:35])
    told = "5 of 20 test rows also occur in the training data; test scores will be optimistic."
    assert told in said_at_the_start(capsys, None, parts)
    assert told in describe_dataset(load_data(parts))
    others = (X[:20], Y[:20]), (X[15:35], Y[15:35] + 1)
    assert "also occur in the training data" not in said_at_the_start(capsys, None, others)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("01.02.2020", "days since a first date"),
        ("31/12/2020 08:00", "days since a first date"),
        ("1,234", "plain numbers"),
        ("-0,1257", "plain numbers"),
        ("−1.5", "plain numbers"),
        ("1.234.567", "plain numbers"),
        ("$12.50", "plain numbers"),
        ("0.5%", "plain numbers"),
        ("1.2.3", "get_dummies"),
        ("20-30", "get_dummies"),
    ],
)
def test_a_cell_that_is_no_number_is_told_what_to_become(tmp_path, cell, expected):
    """Dates, percents and thousands were told to become columns of 0 and 1."""
    rows = "".join(f'"{cell}",{k}.5\n' for k in range(4))
    (tmp_path / "a.csv").write_text("a,y\n" + rows)
    for data in (tmp_path / "a.csv", pd.DataFrame({"a": [cell] * 4, "y": [0.5, 1.5, 2.5, 3.5]})):
        with pytest.raises(
            InputError, match=rf"column 'a' .*Expected: numbers?.*{expected}|Expected: {expected}"
        ):
            load_data(data)


@pytest.mark.parametrize("form", ["−{}.5", "{}.250.000", '"-{},5"'])
def test_numbers_as_spreadsheets_write_them_are_no_names_of_classes(tmp_path, form):
    """A typographic minus and points between thousands were 40 classes without a word, a decimal
    comma had no place.
    """
    rows = [f"{i}," + form.format(i) for i in range(1, 41)]
    (tmp_path / "t.csv").write_text("\n".join(["a,price", *rows]), encoding="utf-8")
    with pytest.raises(
        InputError,
        match=r"t\.csv, line 2: the cell in column 'price' is not a finite number\. Received: ",
    ):
        load_data(tmp_path / "t.csv")


def test_numbers_that_are_text_are_no_names():
    with pytest.raises(
        InputError, match=r"Received: '0\.25'\. Expected: numbers: x\.astype\(float\)"
    ):
        load_data((np.array([["0.25"]] * 4), np.arange(4) * 0.5))
    prices = np.array(["$1,200", "$900", "$1,100", "$900"])
    with pytest.raises(
        InputError,
        match=r"is not a class name.*Received: targets\[\d\] = .*Expected: plain numbers",
    ):
        load_data((np.zeros((4, 1)), prices))


def test_booleans_as_r_and_excel_write_them(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\nTRUE,0.5\nFALSE,1.5\ntrue,2.5\nFalse,3.5\n")
    assert load_data(tmp_path / "a.csv", 0.0).inputs[:, 0].tolist() == [1, 0, 1, 0]


def test_a_frame_is_named_among_the_forms_of_data():
    with pytest.raises(InputError, match=r"Received: dict\. Expected: .*a pandas\.DataFrame"):
        load_data({"a": [1.0], "y": [2.0]})


def test_decimals_and_frames_without_rows():
    """The second was an IndexError."""
    with pytest.raises(
        InputError,
        match=r"contains Decimal\. Received: Decimal\('1\.5'\)\. Expected: integers or floats",
    ):
        load_data((np.array([[Decimal("1.5")]] * 4), np.arange(4) * 0.5))
    with pytest.raises(InputError, match="There are no examples"):
        load_data(pd.DataFrame({"a": [], "y": []}))
