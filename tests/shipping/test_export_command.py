"""`tati export` and `tati predict` on a file: what they write, print and refuse."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.cli import export, tati
from tati_re.cli import predict as predict_command

# Keras, when it writes a model.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*nats a row on inputs"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (40, 2))
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": x[:, 0] - x[:, 1]})
    folder = tmp_path_factory.mktemp("export")
    table.to_csv(folder / "table.csv", index=False)
    table[["b", "a"]].head(6).to_csv(folder / "new.csv", index=False)
    options = {"hidden": [3], "verbose": 0, "execution": "graph", "seed": 1, "num_walkers": 2}
    sim = tati_re.Simulation(data=str(folder / "table.csv"), **options)
    steps = {"num_steps": 60, "num_burnin_steps": 20, "trajectory_every": 10}
    sim.sample(sampler="BAOAB", step_size=0.01, **steps, output=str(folder / "a"))
    return folder


def test_export_and_predict(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert tati.main(["export", "a", "--members", "all"]) == 0
    out = capsys.readouterr().out
    assert "8 members" in out and "written: a.tati" in out
    assert predict_command.main(["a.tati", "new.csv"]) == 0
    printed = pd.read_csv(io.StringIO(capsys.readouterr().out))
    expected = tati_re.load("a").predict(pd.read_csv("new.csv")).frame()
    np.testing.assert_allclose(printed["mean"], expected["mean"], rtol=1e-6)
    np.testing.assert_allclose(printed["upper"], expected["upper"], rtol=1e-6)
    arguments = ["a.tati", "--data", "table.csv", "--interval", "0.5", "--output", "scored"]
    assert tati.main(["predict", *arguments]) == 0
    out = capsys.readouterr().out
    assert "coverage of 50 % intervals" in out and "written: scored/predictions.csv" in out
    assert len(pd.read_csv(folder / "scored" / "predictions.csv")) == 40


def test_other_forms(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert export.main(["a", "--members", "2", "--tolerance", "9", "--output", "two.tati"]) == 0
    assert "loss inside" in capsys.readouterr().out
    for form, path in (("keras", "m.keras"), ("savedmodel", "m"), ("npz", "m.npz")):
        assert export.main(["two.tati", "--to", form, "--output", path, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    predictor = tati_re.Predictor.load("two.tati")
    with np.load("m.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["members"], predictor.members.vectors)
        assert list(arrays["feature_names"]) == ["a", "b"]
        sizes = [np.prod(json.loads(shape), dtype=int) for shape in arrays["tensor_shapes"]]
        assert sum(sizes) == arrays["members"].shape[1]
    from tati_re.core.backend import keras

    x = pd.read_csv("new.csv")[["a", "b"]].to_numpy()
    found = keras.models.load_model("m.keras")(x)
    np.testing.assert_allclose(found["mean"], predictor.predict(x).mean, rtol=1e-5, atol=1e-6)
    assert (folder / "m" / "saved_model.pb").exists()


WRONG = {
    "none": ([], "needs a run folder"),
    "two": (["a", "b"], "one run at a time"),
    "form": (["a", "--to", "onnx"], "--to has an unknown value"),
    "members": (["a", "--members", "0", "--output", "o.tati"], "--members"),
    "missing": (["no-such-run"], "does not exist"),
    "chosen": (["c.tati", "--members", "3"], "chosen already"),
    "ending": (["a", "--to", "keras", "--output", "m.h5"], "must end in .keras"),
    "there": (["a", "--output", "table.csv"], "there already"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_calls_get_one_sentence(folder, monkeypatch, capsys, kind):
    monkeypatch.chdir(folder)
    arguments, words = WRONG[kind]
    assert export.main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error and "Traceback" not in error


def test_wrong_predictions_get_one_sentence(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert export.main(["a", "--members", "all", "--output", "w.tati", "--quiet"]) == 0
    cases = {
        "one file of inputs": ["w.tati"],
        "belongs to run folders": ["w.tati", "new.csv", "--burnin", "3"],
        "There is no file": ["no.tati", "new.csv"],
        "lacks a column": ["w.tati", "w.csv"],
    }
    pd.DataFrame({"a": [1.0], "c": [1.0]}).to_csv("w.csv", index=False)
    for words, arguments in cases.items():
        assert predict_command.main(arguments) == 2
        assert words in capsys.readouterr().err
