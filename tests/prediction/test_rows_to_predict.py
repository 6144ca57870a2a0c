"""Rows to predict as dicts and series, names that are missing, and inputs outside the training
range.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re import InputError, Simulation
from tati_re.cli.predict import main as tati_predict
from tati_re.prediction.ranges import outside_ranges
from tati_re.runs.manifest_entries import DataEntry

RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame(RANDOM.uniform(size=(40, 3)), columns=["a", "b", "c"])
FRAME["y"] = FRAME["a"] - 2 * FRAME["b"]
STEPS = {
    "sampler": "BAOAB",
    "step_size": 0.01,
    "num_steps": 20,
    "trajectory_every": 4,
    "execution": "graph",
}
OPTIONS = {"hidden": [2], "seed": 1, "verbose": 0, "test_fraction": 0.0}
ROW = {"a": 0.25, "b": 0.5, "c": 0.75}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on a file, its simulation, and their folder."""
    folder = tmp_path_factory.mktemp("rows")
    FRAME.to_csv(folder / "own.csv", index=False)
    sim = Simulation(data=folder / "own.csv", **OPTIONS)
    return sim.sample(output=folder / "run", **STEPS), sim, folder


def test_one_row_and_several_by_name(made):
    run, sim, folder = made
    wanted = run.predict(np.array([[0.25, 0.5, 0.75]])).mean
    series = pd.Series(ROW)
    mixed = pd.Series({"city": "Bonn", "c": 0.75, "b": 0.5, "a": 0.25})
    columns = {"a": [0.25], "b": np.array([0.5]), "c": pd.Series([0.75])}
    for rows in (ROW, [ROW], (ROW,), series, mixed, {**ROW, "id": 7, "city": "Bonn"}, columns):
        for one in (run, tati_re.load(folder / "run")):
            np.testing.assert_array_equal(one.predict(rows).mean, wanted)
        np.testing.assert_array_equal(sim.predict(rows), sim.predict([[0.25, 0.5, 0.75]]))
    several = [{"c": 0.75, "a": 0.25, "b": 0.5}, {"a": 0.1, "b": 0.2, "c": 0.3}]
    found = run.predict(several).mean
    np.testing.assert_array_equal(found[:1], wanted)
    np.testing.assert_array_equal(run.predict(pd.DataFrame(several)).mean, found)
    scored = run.predict({**ROW, "y": -0.75})
    assert scored.targets.tolist() == [[-0.75]]
    assert run.predict(ROW, [-0.75]).scores() == scored.scores()


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            {"a": 1.0, "b": 2.0},
            r"^inputs lacks the column 'c'\. Received: a, b\. Expected: a, b, c",
        ),
        ([ROW, {"a": 1.0, "B": 2.0, "c": 3}], r"inputs: row 1 lacks the column 'b'\. Did you mean"),
        (pd.Series({"a": 1.0, "c": 2.0}), r"inputs lacks the column 'b'"),
        ({"a": 1.0, "b": "9 cm", "c": 2.0}, "column 'b' contains text. Received: '9 cm'.*no units"),
        (
            {"a": 1.0, "b": "old", "c": 2.0},
            "Received: 'old'. Expected: numbers, as in the training",
        ),
        ({"a": 1.0, "b": "58", "c": 2.0}, r"Received: '58'. Expected: numbers: x.astype\(float\)"),
        ({"a": 1.0, "b": None, "c": 2.0}, r"column 'b' has missing values"),
        ({"a": [1.0, 2.0], "b": [1.0], "c": [1.0]}, "columns cannot be combined"),
    ],
)
def test_what_a_row_lacks_is_named(made, rows, sentence):
    for one in made[:2]:
        with pytest.raises(InputError, match=sentence):
            one.predict(rows)


def test_names_go_before_positions(made):
    """Lists of series, named tuples, and tables of pyarrow were read by position."""
    pyarrow = pytest.importorskip("pyarrow")
    run, sim, _ = made
    frame = FRAME[["a", "b", "c"]].iloc[:4]
    wanted = run.predict(frame.to_numpy()).mean
    other = frame[["c", "a", "b"]]
    table = pyarrow.Table.from_pandas(other, preserve_index=False)
    forms = {
        "series": [row for _, row in other.iterrows()],
        "named tuples": [*other.itertuples(index=False)],
        "named tuples with an index": tuple(other.itertuples()),
        "records": other.to_records(index=False),
        "table": table,
        "batch": table.to_batches()[0],
    }
    for name, rows in forms.items():
        np.testing.assert_array_equal(run.predict(rows).mean, wanted, err_msg=name)
        np.testing.assert_array_equal(sim.predict(rows), sim.predict(frame), err_msg=name)
    one = next(other.itertuples(index=False))
    np.testing.assert_allclose(run.predict(one).mean, wanted[:1], rtol=1e-6)
    labels = pyarrow.table({"y": [1.0, 2.0, 3.0, 4.0]})
    assert run.predict(frame, labels).targets[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
    with pytest.raises(InputError, match="inputs: row 0 lacks the column 'b'"):
        run.predict([*other[["c", "a"]].itertuples(index=False)])


def test_columns_of_one_index_in_two_orders(made):
    """By position they would be rows of different examples."""
    frame = FRAME[["a", "b", "c"]].iloc[:4]
    columns = {name: frame[name] for name in frame}
    shuffled = columns | {"b": frame["b"].iloc[::-1]}
    with pytest.raises(InputError, match="the columns have the same index, but in different order"):
        made[0].predict(shuffled)
    more = made[0].predict(columns | {"note": frame["a"].iloc[::-1]}).mean
    np.testing.assert_array_equal(more, made[0].predict(frame).mean)


def test_data_without_names_take_rows_by_position():
    x = FRAME[["a", "b", "c"]]
    run = Simulation(data=(x.to_numpy(), FRAME["y"].to_numpy()), **OPTIONS).sample(**STEPS)
    wanted = run.predict(x.to_numpy()[:2]).mean
    for rows in ([x.iloc[0], x.iloc[1]], [*x[:2].itertuples(index=False)], x[:2].to_records(False)):
        np.testing.assert_array_equal(run.predict(rows).mean, wanted)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([1.0, np.nan], r"labels are not finite numbers\. Received: labels\[1\] = nan"),
        (
            ["u", "v"],
            r"labels are text, but the run has no class names\. Received: u\. Expected: nu",
        ),
    ],
)
def test_labels_that_are_no_values(made, labels, sentence):
    with pytest.raises(InputError, match=sentence):
        made[0].predict([ROW, ROW], labels)


def test_text_in_a_column_of_numbers_of_a_file(made, capsys):
    """The sentence spoke of categories, which only training data may have."""
    folder = made[2]
    FRAME.assign(b=["yes", "no"] * 20).to_csv(folder / "text.csv", index=False)
    assert tati_predict([str(folder / "run"), "--data", str(folder / "text.csv")]) == 2
    sentence = "column 'b' is not a finite number. Received: yes. Expected: numbers, as in the tra"
    assert sentence in capsys.readouterr().err


def test_rows_by_name_need_names():
    run = Simulation(data=(FRAME.to_numpy()[:, :3], FRAME["y"].to_numpy()), **OPTIONS).sample(
        **STEPS
    )
    with pytest.raises(InputError, match=r"the columns of the data have no names\. Received: dict"):
        run.predict(ROW)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            {"a": 5.0, "b": -1.0, "c": 2.0},
            "1 row lies outside the training range in 3 columns: a (5,",
        ),
        (
            [ROW, {**ROW, "b": 7.5}],
            "1 of 2 rows lies outside the training range in 1 column: b (7.5",
        ),
        (
            [{**ROW, "b": 2.0}, {**ROW, "c": -3.0}],
            "2 of 2 rows lie outside the training range in 2 col",
        ),
    ],
)
def test_inputs_outside_the_training_range_are_told(made, rows, sentence, capsys):
    run, _, folder = made
    for one in (run, tati_re.load(folder / "run")):
        with pytest.warns(UserWarning, match="outside the training range") as told:
            one.predict(rows)
        texts = [str(one.message) for one in told]
        assert sum(text.startswith(sentence) for text in texts) == 1
    pd.DataFrame([rows] if isinstance(rows, dict) else rows).to_csv(folder / "new.csv", index=False)
    command = [str(folder / "run"), "--data", str(folder / "new.csv"), "--overwrite"]
    assert tati_predict(command) == 0
    assert capsys.readouterr().out.count(sentence) == 1


@pytest.mark.filterwarnings("error")
def test_inputs_inside_are_not(made):
    run = made[0]
    ranges = run.manifest["dataset"]["input_ranges"]
    np.testing.assert_allclose(ranges["low"], FRAME[["a", "b", "c"]].min(), rtol=1e-12)
    np.testing.assert_allclose(ranges["high"], FRAME[["a", "b", "c"]].max(), rtol=1e-12)
    data = run.manifest.dataset
    ends = FRAME[["a", "b", "c"]].agg(["min", "max"]).to_numpy()
    for inputs in (ends, ends.astype(np.float32), FRAME[["a", "b", "c"]].to_numpy()):
        assert outside_ranges(data, inputs) == ""
    assert outside_ranges(DataEntry(), ends + 100) == "", "runs from before"
    assert outside_ranges(data, ends[:, :2]) == ""


def test_ranges_are_those_of_the_training_part_and_of_tables_alone():
    x = np.arange(20.0)[:, None]
    data = tati_re.data.load_data((x, x[:, 0] / 3), 0.25, shuffle=False)
    assert data.get_config()["input_ranges"] == {"low": [0.0], "high": [14.0]}
    for other in ("digits", (np.zeros((8, 4, 4)), np.linspace(0, 1, 8))):
        assert "input_ranges" not in tati_re.data.load_data(other).get_config()
