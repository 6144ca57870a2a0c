"""Classes of integer labels are the values that occur, and are called so in predictions; many
values, and those of columns with decimal points, are targets of a regression.
"""

from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re import InputError, Simulation
from tati_re.cli.predict import main as tati_predict
from tati_re.data import Dataset, labels, load_data
from tati_re.data.labels import MOST_VALUES
from tati_re.likelihoods import Ordinal

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 1))
CODES = np.array([1, 4, 7])[np.arange(60) % 3]
QUICK = {"hidden": [3], "seed": 1, "verbose": 0}
STEPS = {
    "sampler": "BAOAB",
    "step_size": 0.01,
    "num_steps": 40,
    "trajectory_every": 4,
    "execution": "graph",
}


def sources(folder, y, number=None):
    """The same labels as arrays, a frame, and files."""
    frame = pd.DataFrame({"x": X[: len(y), 0], "y": y})
    frame.to_csv(folder / "a.csv", index=False)
    frame.to_parquet(folder / "a.parquet")
    np.savez(folder / "a.npz", x=X[: len(y)], y=y)
    return [(X[: len(y)], y), frame, *(folder / f"a.{end}" for end in ("csv", "parquet", "npz"))]


@pytest.mark.parametrize("codes", [[1, 2, 3], [1, 4, 7], [0, 2, 5], [10, 20], [3, 99]])
def test_classes_are_the_values_that_occur(tmp_path, codes):
    y = np.array(codes)[np.arange(60) % len(codes)]
    for data in sources(tmp_path, y):
        found = load_data(data, 0)
        assert (found.task, found.num_classes) == ("classification", len(codes))
        assert found.class_names == tuple(codes) and found.targets.dtype == np.int32
        assert np.array(codes)[found.targets].tolist() == y.tolist()
        assert found.as_labels(found.targets).tolist() == y.tolist()
    assert Simulation(data=(X, y), **QUICK).num_parameters() == 6 + 4 * len(codes)


@pytest.mark.parametrize("codes", [[0, 1, 2], [0, 1]])
def test_labels_that_count_from_0_keep_their_numbers_and_have_no_names(tmp_path, codes):
    y = np.array(codes)[np.arange(60) % len(codes)]
    for data in sources(tmp_path, y):
        found = load_data(data, 0)
        assert found.class_names == () and found.targets.tolist() == y.tolist()
        assert "class_names" not in found.get_config()
    assert load_data("digits").num_classes == 10 and not load_data("digits").class_names


def test_many_values_and_those_that_hardly_repeat_are_of_a_regression(tmp_path):
    for y in (np.arange(60) % (MOST_VALUES + 1), 18 + np.arange(60) % 55, 5 + np.arange(12)):
        for data in sources(tmp_path, y):
            assert load_data(data, 0).task == "regression"
    most = load_data((X, np.arange(60) % MOST_VALUES))
    assert (most.task, most.num_classes) == ("classification", MOST_VALUES)
    ages = load_data((X, 18 + np.arange(60) % 30), num_classes=30)
    assert ages.num_classes == 30 and ages.class_names[:2] == (18, 19)


def test_values_of_a_column_of_floats_are_of_a_regression(tmp_path):
    """Whatever brings it; 0 and 1, and -1 and 1, are two classes in any form."""
    for data in sources(tmp_path, CODES.astype(float)):
        assert load_data(data, 0).task == "regression"
    for data in sources(tmp_path, (np.arange(60) % 2).astype(float)):
        assert load_data(data, 0).task == "classification"
    for data in sources(tmp_path, (2.0 * (np.arange(60) % 2) - 1)):
        assert load_data(data, 0).task == "signs"
    (tmp_path / "b.csv").write_text("x;y\n" + "1,5;1\n2,5;4\n" * 9 + "1,5;7,0\n")
    assert load_data(tmp_path / "b.csv", 0).task == "regression"
    (tmp_path / "b.csv").write_text("x;y\n" + "1,5;1\n2,5;4\n" * 9)
    assert load_data(tmp_path / "b.csv", 0).class_names == (1, 4)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "Int64", "object", "category", "int64[pyarrow]"]
)
def test_integers_of_all_types_are_integers(dtype):
    frame = pd.DataFrame({"x": X[:, 0], "y": pd.Series(CODES).astype(dtype)})
    assert load_data(frame).class_names == (1, 4, 7)
    assert load_data((X, frame["y"])).class_names == (1, 4, 7)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (CODES, "The labels 1, 4, 7 are 3 classes, in this order. Set num_classes=0 for a"),
        (18 + np.arange(60) % 30, "(30 different values) are treated as regression targets. Set"),
        (
            CODES.astype(float),
            "Labels 1, 4, 7 are treated as regression targets. Set num_classes = 3",
        ),
    ],
)
def test_a_run_says_in_one_line_what_its_labels_are(capsys, labels, sentence):
    Simulation(data=(X, labels), **QUICK | {"verbose": 1}).sample(**STEPS | {"num_steps": 2})
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.count(sentence) == 1


def test_predictions_scores_and_files_have_the_labels_of_the_data(tmp_path, capsys):
    frame = pd.DataFrame({"x": X[:, 0], "y": CODES})
    frame.to_csv(tmp_path / "a.csv", index=False)
    sim = Simulation(data=tmp_path / "a.csv", **QUICK, stream_predictions=2)
    run = sim.sample(output=tmp_path / "run", **STEPS)
    own = run.predict()
    truth = frame["y"][np.isin(X[:, 0], sim.dataset.test_inputs[:, 0])]
    assert {*own.predicted.tolist()} <= {1, 4, 7} and own.frame()["label"].tolist() == [*truth]
    assert own.scores()["accuracy"] == np.mean(own.predicted == truth)
    assert {"p[1]", "p[4]", "p[7]"} <= {*own.frame()}
    given = run.predict(X, CODES)
    assert given.scores()["accuracy"] == np.mean(given.predicted == CODES)
    assert run.predict(frame).scores() == given.scores() == run.predict(X, CODES * 1.0).scores()
    loaded = tati_re.load(tmp_path / "run")
    assert loaded.predict().scores() == own.scores()
    assert tati_predict([str(tmp_path / "run"), "--data", str(tmp_path / "a.csv"), "--quiet"]) == 0
    written = pd.read_csv(tmp_path / "run" / "predictions" / "predictions.csv")
    assert written["label"].tolist() == CODES.tolist() and {*written["predicted"]} <= {1, 4, 7}
    longer = Simulation.resume(tmp_path / "run", num_steps=44, verbose=0)
    assert longer.predict().class_values.tolist() == [1, 4, 7]
    assert Simulation.from_folder(tmp_path / "run", verbose=0).dataset.class_names == (1, 4, 7)
    # Labels that the run has not seen, also where they look like numbers of classes.
    for unseen in (5, 0, 2):
        with pytest.raises(InputError, match=rf"Received: {unseen}\. Expected: 1, 4, 7"):
            loaded.predict(X[:1], [unseen])
        frame.assign(y=[unseen, *CODES[1:]]).to_csv(tmp_path / "b.csv", index=False)
        data = ["--data", str(tmp_path / "b.csv"), "--overwrite", "--quiet"]
        assert tati_predict([str(tmp_path / "run"), *data]) == 2
        assert f"Received: {unseen}. Expected: 1, 4, 7" in capsys.readouterr().err


def test_a_run_of_few_labels_maps_new_labels_as_it_was_trained(tmp_path):
    """A table to predict in which one label is missing has the numbers of the run, not its own."""
    run = Simulation(data=(X, CODES), **QUICK).sample(**STEPS)
    some = CODES > 1
    found = run.predict(X[some], CODES[some])
    assert found.scores()["accuracy"] == np.mean(found.predicted == CODES[some])
    assert found.labels.tolist() == (CODES[some] // 3).tolist()


def network(count: int, activation=None) -> keras.Model:
    return keras.Sequential([keras.Input((1,)), keras.layers.Dense(count, activation=activation)])


def test_outputs_of_a_given_model_say_what_labels_are():
    """A model with an output for each integer up to the largest label keeps the labels' numbers."""
    for count, names, numbers in (
        (3, (1, 4, 7), [0, 1, 2]),
        (8, (), [1, 4, 7]),
        (9, (), [1, 4, 7]),
    ):
        for more in ({}, {"loss": "sparse_categorical_crossentropy"}):
            data = Simulation(network(count), (X, CODES), verbose=0, **more).dataset
            assert (data.num_classes, data.class_names) == (count, names)
            assert data.targets[:3].tolist() == numbers
        data = Dataset.from_arrays(X, CODES)
        assert Simulation(network(count), data, verbose=0).dataset.targets[:3].tolist() == numbers
    for count in (2, 4, 7):
        with pytest.raises(InputError, match=r"3 outputs, one for each label .* or at least 8"):
            Simulation(network(count), (X, CODES), verbose=0)
    two = Simulation(network(1, "sigmoid"), (X, 1 + np.arange(60) % 2), verbose=0).dataset
    assert two.class_names == (1, 2)
    assert Simulation(network(1), (X, CODES), verbose=0).dataset.targets[:3].tolist() == [1, 4, 7]


@pytest.mark.parametrize(
    "loss", ["mean_absolute_error", "poisson", keras.losses.MeanSquaredError()]
)
def test_losses_of_values_see_the_values(loss):
    for data in ((X, CODES), Dataset.from_arrays(X, CODES)):
        if loss == "poisson" and isinstance(data, Dataset):
            continue
        how = QUICK | {"output_activation": "softplus"}
        found = Simulation(data=data, loss=loss, **how).dataset
        assert found.targets[:3].tolist() == [1, 4, 7] and found.class_names == ()


def test_a_loss_of_class_numbers_makes_classes_of_many_values_and_of_floats():
    for y in (np.arange(60) % 30, CODES.astype(float), 1000 + np.arange(60) % 30):
        for loss in (
            "sparse_categorical_crossentropy",
            keras.losses.SparseCategoricalCrossentropy(True),
        ):
            sim = Simulation(data=(X, y), loss=loss, **QUICK)
            assert sim.dataset.num_classes == len({*y.tolist()})


def test_options_name_classes_by_their_labels(tmp_path):
    data = load_data((X, CODES), class_weights={"4": 2.0, 7: 0.5})
    assert {*zip(CODES.tolist(), data.weights.tolist(), strict=True)} == {(1, 1), (4, 2), (7, 0.5)}
    with pytest.raises(InputError, match=r"unknown class\. Received: 2\. Expected: 1, 4, 7"):
        load_data((X, CODES), class_weights={2: 1.0})
    assert load_data((X, CODES), test_data=(X[:2], [7, 1])).test_targets.tolist() == [2, 0]
    known = Dataset.from_arrays(X, CODES)
    assert load_data(known, test_data=(X[:2], [7, 1])).test_targets.tolist() == [2, 0]
    with pytest.raises(InputError, match=r"test_data: unknown class\. Received: 2"):
        load_data(known, test_data=(X[:2], [7, 2]))


def test_sets_that_are_written_are_read_as_they_were(tmp_path):
    from tati_re.data.writing import write_dataset

    for end in ("csv", "npz"):
        write_dataset(load_data((X, CODES)), tmp_path / f"out.{end}")
        again = load_data(tmp_path / f"out.{end}", 0)
        assert again.class_names == (1, 4, 7) and again.targets[:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize("loss", ["ordinal", Ordinal()])
@pytest.mark.parametrize("codes", [[1, 2, 3, 4, 5], [-1, 0, 1], [10, 20, 40]])
def test_grades_are_the_values_that_occur(loss, codes):
    """No grade between them, below them or above them has a probability."""
    y = np.array(codes)[np.arange(60) % len(codes)]
    sim = Simulation(data=(X, y), loss=loss, test_fraction=0.3, **QUICK)
    run = sim.sample(**STEPS)
    assert sim.dataset.num_classes == len(codes)
    prediction = run.predict()
    assert prediction.probabilities.shape[1] == len(codes)
    assert {*run.predict(X).predicted.tolist()} <= {*codes}
    assert np.isfinite(list(prediction.scores().values())).all()


def test_a_grade_that_only_the_test_part_has():
    """The highest and the lowest grade, of which training knows nothing."""
    for lone in (9, 0):
        y = np.array([1, 2, 3, *([2] * 56), lone])
        sim = Simulation(data=(X[:40], y[:40]), test_data=(X[40:], y[40:]), loss="ordinal", **QUICK)
        assert np.isfinite(list(sim.sample(**STEPS).predict().scores().values())).all()


@pytest.mark.parametrize(
    "loss", [{}, {"loss": "sparse_categorical_crossentropy"}, {"loss": "ordinal"}]
)
def test_runs_from_before_labels_had_names_open_and_go_on(tmp_path, monkeypatch, loss):
    """Their classes are the numbers from 0 to the largest label."""
    frame = pd.DataFrame({"x": X[:, 0], "y": 1 + np.arange(60) % 3})
    frame.to_csv(tmp_path / "a.csv", index=False)
    with monkeypatch.context() as patch:
        before = lambda *given: labels.kind_of(*given[:5], "numbers")  # noqa: E731
        patch.setattr("tati_re.data.dataset.kind_of", before)
        sim = Simulation(data=tmp_path / "a.csv", **QUICK, **loss)
        run = sim.sample(output=tmp_path / "run", **STEPS)
        assert run.manifest["dataset"]["num_classes"] == 4
        wanted = run.predict().scores()
    assert tati_re.load(tmp_path / "run").predict().scores() == wanted
    again = Simulation.from_folder(tmp_path / "run", verbose=0).dataset
    assert again.targets.min() == 1 and again.num_classes == 4
    found = tati_re.load(tmp_path / "run").predict(frame)
    assert found.frame()["label"].tolist() == frame["y"].tolist()
    longer = Simulation.resume(tmp_path / "run", num_steps=44, verbose=0)
    assert longer.predict().class_values.tolist() == [0, 1, 2, 3]


def test_front_doors_agree(tmp_path):
    model = network(3)
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    run = tati_re.sample(model, (X, CODES), **STEPS, verbose=0)
    assert {*run.predict(X, CODES).predicted.tolist()} <= {1, 4, 7}
    classifier = tati_re.sklearn.BayesianClassifier(hidden=(3,), members=1, **STEPS).fit(X, CODES)
    assert {*classifier.predict(X).tolist()} <= {1, 4, 7}
    pd.DataFrame({"x": X[:, 0], "y": CODES}).to_csv(tmp_path / "a.csv", index=False)
    words = [sys.executable, "-m", "tati_re.cli.dataset", "--inspect", str(tmp_path / "a.csv")]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "labels y: 3 classes" in said and "class 7" in said and "class 2" not in said
