"""Inputs to predict are those of the data, before any scaling, whatever their type; labels those
that were trained.
"""

from __future__ import annotations

import keras
import numpy as np
import pandas as pd
import pytest

from tati_re import InputError, Simulation, load
from tati_re.data import load_data
from tati_re.prediction.inputs import read_inputs

GRAPH = {
    "sampler": "BAOAB",
    "step_size": 0.01,
    "num_steps": 40,
    "trajectory_every": 20,
    "execution": "graph",
}
RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 60, (60, 4, 4))
CLASSES = np.arange(60) % 3
PIXELS[np.arange(60), CLASSES, :] += 150
NUMBERS = RANDOM.normal(size=(60, 2)).astype("float32")


@pytest.fixture(scope="module")
def of_bytes(tmp_path_factory):
    """A run on an NPZ file of bytes, and its simulation."""
    folder = tmp_path_factory.mktemp("bytes")
    np.savez(folder / "pixels.npz", x=PIXELS.astype(np.uint8), y=CLASSES)
    sim = Simulation(data=folder / "pixels.npz", hidden=[3], seed=1, verbose=0, standardize="none")
    return sim.sample(**GRAPH, output=folder / "run"), sim


def test_bytes_integers_and_floats_are_the_same_inputs(of_bytes):
    run, sim = of_bytes
    wanted = run.predict(PIXELS.astype(np.uint8)).probabilities
    outputs = sim.predict(PIXELS.astype(np.uint8))
    for kind in (np.int64, np.float32, np.float64):
        np.testing.assert_allclose(
            run.predict(PIXELS.astype(kind)).probabilities, wanted, rtol=1e-4
        )
        np.testing.assert_allclose(sim.predict(PIXELS.astype(kind)), outputs, rtol=1e-4, atol=1e-5)


def test_the_file_and_its_arrays_are_predicted_alike(of_bytes):
    run, sim = of_bytes
    inputs = sim.dataset.test_inputs
    np.testing.assert_allclose(
        run.predict().probabilities, run.predict(inputs.astype(float)).probabilities, rtol=1e-4
    )


@pytest.mark.parametrize("which", [0, 1])
def test_what_was_divided_already_is_refused(of_bytes, which):
    with pytest.raises(InputError, match="multiplied by 1/255 here, but seem to be scaled already"):
        of_bytes[which].predict(PIXELS / 255)


def test_several_inputs_of_a_file_are_scaled_as_there(tmp_path):
    np.savez(tmp_path / "several.npz", image=PIXELS.astype(np.uint8), numbers=NUMBERS, y=CLASSES)
    image, numbers = keras.Input((4, 4), name="image"), keras.Input((2,), name="numbers")
    joined = keras.layers.Concatenate()([keras.layers.Flatten()(image), numbers])
    keras.Model([image, numbers], keras.layers.Dense(3)(joined)).save(tmp_path / "net.keras")
    keys = ["image+numbers", "y"]
    sim = Simulation(
        tmp_path / "net.keras",
        tmp_path / "several.npz",
        data_keys=keys,
        seed=1,
        verbose=0,
        test_fraction=0,
    )
    run = load(sim.sample(**GRAPH, output=tmp_path / "run").folder)
    flat = np.concatenate([PIXELS.reshape(60, -1) / 255, NUMBERS], axis=1)
    parameters = run.parameters(40).reshape(-1)
    kernel, bias = parameters[:54].reshape(18, 3), parameters[54:]
    for kind in (np.uint8, np.float64):
        given = [PIXELS.astype(kind), NUMBERS]
        np.testing.assert_allclose(sim.predict(given), flat @ kernel + bias, rtol=1e-4, atol=1e-5)
    same = [
        run.predict([PIXELS.astype(kind), NUMBERS]).probabilities
        for kind in (np.uint8, np.int64, np.float64)
    ]
    np.testing.assert_allclose(same[1:], same[:1] * 2, rtol=1e-5)
    with pytest.raises(
        InputError, match=r"names\. Received: image, numbers\. Expected: a list of 2 arrays"
    ):
        run.predict({"image": PIXELS, "numbers": NUMBERS})
    with pytest.raises(InputError, match="but seem to be scaled already"):
        run.predict([PIXELS / 255, NUMBERS])


LINEAR = {"hidden": [], "noise_std": 0.1, "seed": 1, "verbose": 0, "test_fraction": 0.0}


def table(path, **more) -> pd.DataFrame:
    a, b = np.random.default_rng(1).normal(size=(2, 30))
    frame = pd.DataFrame({"a": a, "b": b, **more, "y": a - 2 * b})
    frame.to_csv(path, index=False)
    return frame


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_labels_are_the_columns_that_were(tmp_path, suffix):
    """A column that is left is none, nor is the last."""
    frame = table(tmp_path / "t.csv")
    run = Simulation(data=tmp_path / "t.csv", **LINEAR).sample(**GRAPH, output=tmp_path / "run")
    for columns in (["a", "b", "customer"], ["a", "b"], ["y", "a", "b", "customer"]):
        new = frame.assign(customer=range(100, 130))[columns]
        path = tmp_path / f"new.{suffix}"
        new.to_csv(path, index=False) if suffix == "csv" else new.to_parquet(path)
        inputs, labels = read_inputs(str(path), load(run.folder))
        np.testing.assert_allclose(inputs, frame[["a", "b"]])
        assert labels is None if "y" not in columns else np.allclose(labels, frame["y"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_labels_that_nobody_knows_are_none(tmp_path, suffix):
    """The usual table to predict; labels of some rows alone are not used, and a warning says so."""
    frame = table(tmp_path / "t.csv")
    run = Simulation(data=tmp_path / "t.csv", **LINEAR).sample(**GRAPH, output=tmp_path / "run")
    write, path = (
        {"csv": pd.DataFrame.to_csv, "parquet": pd.DataFrame.to_parquet}[suffix],
        tmp_path / f"new.{suffix}",
    )
    write(frame.assign(y=np.nan), path, index=False)
    inputs, labels = read_inputs(str(path), run)
    np.testing.assert_allclose(inputs, frame[["a", "b"]])
    assert labels is None and run.predict(frame.assign(y=np.nan)).targets is None
    frame.loc[3:, "y"] = np.nan
    with pytest.warns(
        UserWarning, match=r"^The labels of 27 of 30 rows are missing: predictions have no labels"
    ):
        assert run.predict(frame).targets is None
    write(frame, path, index=False)
    with pytest.warns(UserWarning, match=r"^The labels of 27 of 30 rows are missing: predictions"):
        inputs, labels = read_inputs(str(path), run)
    np.testing.assert_allclose(inputs, frame[["a", "b"]])
    assert labels is None


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_row_that_lacks_one_of_several_labels_counts_once(tmp_path, suffix):
    frame = table(tmp_path / "t.csv", z=np.arange(30.0))
    options = LINEAR | {"label_columns": ["y", "z"]}
    run = Simulation(data=tmp_path / "t.csv", **options).sample(**GRAPH, output=tmp_path / "run")
    frame.loc[:1, "y"] = np.nan
    frame.loc[1:4, "z"] = np.nan
    path = tmp_path / f"new.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    with pytest.warns(UserWarning, match=r"^The labels of 5 of 30 rows are missing"):
        assert read_inputs(str(path), run)[1] is None


def test_a_column_that_a_file_has_twice_is_refused(tmp_path):
    """Its last copy was predicted from, without a word."""
    frame = table(tmp_path / "t.csv")
    run = Simulation(data=tmp_path / "t.csv", **LINEAR).sample(**GRAPH, output=tmp_path / "run")
    twice = pd.concat([frame[["a", "b"]], 2 * frame[["a"]]], axis=1)
    twice.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(
        InputError, match=r"new\.csv has several columns with the same name\. .* a\."
    ):
        read_inputs(str(tmp_path / "new.csv"), run)
    with pytest.raises(InputError, match="inputs: the data frame has 2 columns 'a'"):
        run.predict(twice)


def test_columns_of_truth_values_alone(tmp_path):
    """Indicators of pandas are of this type; the folder of such a run could not be opened."""
    frame = table(tmp_path / "t.csv")
    of_truth = frame.assign(a=frame["a"] > 0, b=frame["b"] > 0)
    run = Simulation(data=of_truth, **LINEAR).sample(**GRAPH, output=tmp_path / "run")
    wanted = run.predict(of_truth[["a", "b"]].astype(float)).mean
    again = load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(of_truth[["b", "a"]]).mean, wanted)
    ranges = again.manifest.dataset.input_ranges
    assert list(ranges.low) == [0, 0] and list(ranges.high) == [1, 1]


def test_a_file_of_one_column_is_one_input(tmp_path):
    """It was refused for its single column, also by a run that has one input."""
    frame = table(tmp_path / "t.csv")
    options = {**LINEAR, "input_columns": ["a"]}
    run = Simulation(data=tmp_path / "t.csv", **options).sample(**GRAPH, output=tmp_path / "run")
    for name in ("new.csv", "new.txt", "new.csv.gz"):
        frame[["a"]].to_csv(tmp_path / name, index=False)
        inputs, labels = read_inputs(str(tmp_path / name), load(run.folder))
        np.testing.assert_allclose(inputs, frame[["a"]])
        assert labels is None
    frame[["b"]].to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InputError, match=r"lacks a column .*Received: b\. Expected: a"):
        read_inputs(str(tmp_path / "new.csv"), run)
    with pytest.raises(InputError, match=r"single column"):
        load_data(tmp_path / "new.csv")


def test_weights_are_no_labels(tmp_path):
    frame = table(tmp_path / "w.csv", w=np.linspace(0.5, 2, 30))
    run = Simulation(data=tmp_path / "w.csv", sample_weights="w", **LINEAR).sample(
        **GRAPH, output=tmp_path / "run"
    )
    frame[["a", "b", "w"]].to_csv(tmp_path / "new.csv", index=False)
    inputs, labels = read_inputs(str(tmp_path / "new.csv"), run)
    assert labels is None and inputs.shape == (30, 2)
    np.testing.assert_allclose(read_inputs(str(tmp_path / "w.csv"), run)[1], frame["y"])


def test_labels_that_were_named_are_looked_for_by_name(tmp_path):
    frame = table(tmp_path / "id.csv", id=np.arange(30), name=[f"n{i}" for i in range(30)])
    sim = Simulation(
        data=tmp_path / "id.csv", input_columns=["a", "b"], label_columns=["y"], **LINEAR
    )
    run = sim.sample(**GRAPH, output=tmp_path / "run")
    for column in ("id", "name"):
        frame[["a", column, "b"]].to_csv(tmp_path / "new.csv", index=False)
        inputs, labels = read_inputs(str(tmp_path / "new.csv"), run)
        assert labels is None
        np.testing.assert_allclose(inputs, frame[["a", "b"]])
    np.testing.assert_allclose(read_inputs(str(tmp_path / "id.csv"), run)[1], frame["y"])


def test_columns_are_found_by_name_whatever_the_case_of_the_suffix(tmp_path):
    frame = table(tmp_path / "t.csv")
    run = Simulation(data=tmp_path / "t.csv", **LINEAR).sample(**GRAPH, output=tmp_path / "run")
    frame[["y", "b", "a"]].to_csv(tmp_path / "N.CSV", index=False)
    inputs, labels = read_inputs(str(tmp_path / "N.CSV"), run)
    np.testing.assert_allclose(inputs, frame[["a", "b"]])
    np.testing.assert_allclose(labels, frame["y"])


def test_a_run_on_arrays_takes_as_many_columns_as_its_network(tmp_path):
    """Not as many as its first parameters have rows: those of an embedding, or what is left where
    some are fixed.
    """
    tokens = np.random.default_rng(2).integers(0, 20, (40, 6))
    layers = keras.layers
    network = keras.Sequential(
        [keras.Input((6,)), layers.Embedding(20, 2), layers.Flatten(), layers.Dense(2)]
    )
    embedded = Simulation(network, (tokens, tokens[:, 0] % 2), seed=1, verbose=0).sample(
        **GRAPH, output=tmp_path / "e"
    )
    pd.DataFrame(tokens, columns=list("abcdef")).assign(label=0).to_csv(
        tmp_path / "tokens.csv", index=False
    )
    inputs, labels = read_inputs(str(tmp_path / "tokens.csv"), embedded)
    np.testing.assert_array_equal(inputs, tokens)
    assert len(labels) == 40
    x = NUMBERS[:30]
    fixed = Simulation(
        data=(x, x.sum(1)), fix_parameters="dense/kernel", hidden=[3], noise_std=0.1, verbose=0
    )
    table(tmp_path / "t.csv")
    assert read_inputs(str(tmp_path / "t.csv"), fixed.sample(**GRAPH, output=tmp_path / "f"))[
        0
    ].shape == (30, 2)


def test_weights_of_test_data_are_kept_however_they_come(tmp_path):
    x, y, w = np.ones((4, 2)), np.array([0.5, 1.5, 2, 3]), np.array([1.0, 2, 3, 4])
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "y": y, "w": w})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for data in (
        load_data(((x, y, w), (x, y, w))),
        load_data((x, y, w), test_data=(x, y, w)),
        load_data(frame, test_data=frame, sample_weights="w"),
        load_data(str(tmp_path / "t.csv"), test_data=str(tmp_path / "t.csv"), sample_weights="w"),
    ):
        assert data.test_weights.tolist() == [1, 2, 3, 4]
