"""Tables of others: separators, decimal commas, booleans, an index; data frames with columns in any
order.
"""

from __future__ import annotations

import re
import time
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from tati_re import Simulation, load
from tati_re.cli.predict import main as tati_predict
from tati_re.core.errors import InputError
from tati_re.data import load_data
from tati_re.data.frames import in_order

RANDOM = np.random.default_rng(0)
FRAME = pd.DataFrame(RANDOM.normal(size=(30, 3)), columns=list("abc"))
FRAME["y"] = FRAME["a"] - 2 * FRAME["b"] + 3 * FRAME["c"]
INPUTS, TURNED = FRAME[["a", "b", "c"]], FRAME[["c", "y", "b", "a"]]


def read(tmp_path, text: str, name: str = "own.csv", **options):
    (tmp_path / name).write_text(text)
    return load_data(tmp_path / name, 0, **options)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("own.csv", "a;b;y\n1.5;2;3.5\n-4e1;5;6.5\n"),
        ("own.csv", "a;b;y\n1,5;2;3,5\n-4e1;5;6,5\n"),
        ("own.csv", '"a";"b, as measured";"y"\n"1,5";"2";"3,5"\n"-4e1";"5";"6,5"\n'),
        ("own.csv", "a\tb\ty\n1.5\t2\t3.5\n-4e1\t5\t6.5\n"),
        ("own.tsv", "a\tb\ty\n1.5\t2\t3.5\n-4e1\t5\t6.5\n"),
    ],
)
def test_semicolons_tabs_and_decimal_commas(tmp_path, name, text):
    data = read(tmp_path, text, name)
    assert data.inputs.tolist() == [[1.5, 2], [-40, 5]] and data.targets.tolist() == [3.5, 6.5]


def test_names_of_classes_and_text_between_semicolons(tmp_path):
    data = read(
        tmp_path, "a;city;label\n1,5;St. Gallen;iris, rare\n4;Bonn;rose\n", input_columns=["a"]
    )
    assert data.class_names == ("iris, rare", "rose") and data.inputs.tolist() == [[1.5], [4]]


def test_booleans_are_numbers_as_in_a_data_frame(tmp_path):
    frame = pd.get_dummies(pd.DataFrame({"city": ["Bonn", "Rome", "Bonn"], "y": [1.5, 2.5, 3.0]}))[
        ::-1
    ]
    data = read(tmp_path, frame[["city_Bonn", "city_Rome", "y"]].to_csv(index=False))
    assert data.inputs.tolist() == [[1, 0], [0, 1], [1, 0]] and data.targets.tolist() == [
        3,
        2.5,
        1.5,
    ]
    told = frame.assign(y=[True, False, True])[["city_Bonn", "y"]]
    for dtype in (
        "bool",
        "boolean",
        "bool[pyarrow]",
    ):  # the last is what a comparison of texts gives
        data = load_data(told.astype(dtype))
        assert (
            data.inputs.tolist() == [[1], [0], [1]]
            and data.targets.tolist() == [1, 0, 1]
            and data.num_classes == 2
        )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "a;b;y\n1,500;2.5;3\n",
            r"numbers with commas and numbers with points\. Received: 2\.5\. Expected: decimal commas",
        ),
        (
            "a;b;y\n1.000,5;2;3\n",
            r"numbers with commas and numbers with points\. Received: 1\.000,5",
        ),
        ('a,b,y\n"1,000",2,3\n', r"column 'a' is not a finite number\. Received: 1,000"),
        ("a,b,y\n1_000,2,3\n", r"column 'a' is not a finite number\. Received: 1_000"),
        ("a,b,y\n1,inf,3\n", r"column 'b' is not a finite number\. Received: inf\. .*dropna"),
        (
            "a\n1\n",
            r"single column\. Received: a\. Expected: at least two, separated by commas, semicolons, tabs or \|",
        ),
        (
            ",a,y\n0,2,3\n",
            "a column without a name. Received: , a, y. .*input_columns; index=False keeps pandas from writing its index",
        ),
        ("Unnamed: 0,a,y\n0,2,3\n", r"a column without a name\. Received: Unnamed: 0, a, y\."),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, text, sentence):
    with pytest.raises(InputError, match=sentence):
        read(tmp_path, text)


def test_an_index_is_left_out_by_the_names_of_the_inputs(tmp_path):
    assert read(tmp_path, ",a,y\n7,2,3.5\n", input_columns=["a"]).inputs.tolist() == [[2]]


def test_the_column_target_holds_the_labels_of_a_file_as_of_a_data_frame(tmp_path):
    table = FRAME.rename(columns={"b": "target"})
    data = read(tmp_path, table.to_csv(index=False))
    assert (
        data.feature_names == ("a", "c", "y")
        and data.fingerprint() == load_data(table).fingerprint()
    )


# Data frames


def test_columns_of_a_data_frame_have_names_and_no_order(tmp_path):
    path = tmp_path / "own.csv"
    FRAME.to_csv(path, index=False)
    wanted = load_data(FRAME, test_data=FRAME[:5]).fingerprint()
    for source, test in (
        (FRAME, TURNED[:5]),
        (path, TURNED[:5]),
        ((INPUTS, FRAME["y"]), (TURNED[:5], FRAME["y"][:5])),
    ):
        assert load_data(source, 0, test_data=test).fingerprint() == wanted
    assert load_data(((INPUTS, FRAME["y"]), (TURNED[:5], FRAME["y"][:5]))).fingerprint() == wanted
    with pytest.raises(
        InputError, match=r"^test_data: the data frame has no column 'a'\. Received: c, y, b"
    ):
        load_data(FRAME, test_data=TURNED[["c", "y", "b"]])
    with pytest.raises(InputError, match="the test file has a different header"):
        load_data(TURNED, test_data=path)
    counted = INPUTS.set_axis(range(3), axis=1)
    assert (
        load_data((INPUTS, FRAME["y"]), test_data=(counted, FRAME["y"])).test_inputs
        == INPUTS.to_numpy()
    ).all()
    assert load_data(FRAME.set_axis(range(4), axis=1), label_columns=[0]).feature_names == (
        "1",
        "2",
        "3",
    )


@pytest.mark.filterwarnings("ignore:Predictions average")
def test_predictions_take_columns_by_their_names(tmp_path):
    options = {
        "sampler": "BAOAB",
        "step_size": 0.01,
        "num_steps": 4,
        "trajectory_every": 2,
        "execution": "eager",
    }
    sim = Simulation(data=FRAME, seed=1, verbose=0, **options)
    run = sim.sample(output=str(tmp_path / "run"))
    wanted = run.predict(INPUTS.to_numpy()).mean
    TURNED.to_csv(tmp_path / "turned.csv", index=False)
    assert (
        tati_predict([str(tmp_path / "run"), "--data", str(tmp_path / "turned.csv"), "--quiet"])
        == 0
    )
    said = pd.read_csv(tmp_path / "run" / "predictions" / "predictions.csv")["mean"]
    for found in (
        run.predict(TURNED).mean,
        load(tmp_path / "run").predict(TURNED, FRAME["y"]).mean,
    ):
        assert np.array_equal(found, wanted)
    scores = run.predict(
        TURNED.astype(object)
    ).scores()  # as the rows of a table with other columns come
    assert scores == run.predict(TURNED).scores() and "rmse" in scores
    assert np.allclose(said, wanted[:, 0], rtol=1e-5)
    assert np.array_equal(sim.predict(TURNED), sim.predict(INPUTS.to_numpy()))
    for wrong, sentence in (
        (
            TURNED[["a", "c"]],
            r"^inputs: the data frame has no column 'b'\. Received: a, c\. Expected: a, b, c\.",
        ),
        (INPUTS[:0], r"^There are no inputs to predict\. Received: \(0, 3\)\."),
        (3.0, r"^The inputs to predict are a single number\. Received: 3\.0\."),
        ([[1.0, 1e40, 2.0]], r"^An input to predict is too large for float32\. Received: 1e\+40\."),
    ):
        with pytest.raises(InputError, match=sentence):
            run.predict(wrong)
    with pytest.raises(InputError, match="The labels are not finite numbers"):
        run.predict(INPUTS[:2], [1.0, np.nan])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            (INPUTS, FRAME["y"].sample(frac=1, random_state=1)),
            "labels have the same index as the inputs, but in another order",
        ),
        (
            FRAME.set_axis(["a", "a", "b", "y"], axis=1),
            "the data frame has several columns with the same name. Received: a",
        ),
        (
            FRAME.set_axis(["Unnamed: 0", "a", "b", "y"], axis=1),
            "the data frame has a column without a name",
        ),
        (FRAME.assign(a=FRAME["a"] + 1j), "column 'a' contains complex"),
    ],
)
def test_frames_that_would_be_misread_are_refused(data, sentence):
    with pytest.raises(InputError, match=sentence):
        load_data(data)
    other = (INPUTS.set_axis(range(100, 130)), FRAME["y"])
    assert load_data(other).targets.tolist() == FRAME["y"].tolist(), (
        "parts of one frame, numbered anew"
    )


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (
            [10**20] * 30,
            r"integers of more than 64 bits\. Received: 100000000000000000000\. .*astype",
        ),
        ([1, 2.5, True] * 10, r"truth values and numbers\. Received: True"),
        ([{"q": 1.5}] * 30, r"contains dict\. .* pandas\.DataFrame\(rows\) makes columns"),
        ([Decimal("1.5")] * 30, r"contains Decimal\. .* integers or floats: x\.astype\(float\)"),
    ],
)
def test_objects_that_are_no_floats_say_what_to_do(cells, sentence):
    """The sentence asked for integers or floats, and had received an integer."""
    with pytest.raises(InputError, match=rf"column 'a'.*{sentence}"):
        load_data(FRAME.assign(a=pd.Series(cells, dtype=object)))


def test_tables_of_other_libraries_keep_their_names():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pandas(FRAME, preserve_index=False)
    wanted = load_data(FRAME)
    for source in (table, FRAME.to_records(index=False), (table.drop(["y"]), table.select(["y"]))):
        data = load_data(source)
        assert data.feature_names == wanted.feature_names and data.label_names == ("y",)
        np.testing.assert_array_equal(data.inputs, wanted.inputs)
        np.testing.assert_array_equal(data.targets, wanted.targets)
    other = load_data(FRAME, test_data=table.select([*reversed(table.column_names)]))
    np.testing.assert_array_equal(other.test_inputs, wanted.inputs)


def test_decimals_of_a_parquet_file_are_numbers(tmp_path):
    pytest.importorskip("pyarrow")
    cells = [Decimal(number) / 4 for number in range(30)]
    FRAME.assign(b=cells, y=cells[::-1]).to_parquet(tmp_path / "own.parquet")
    data = load_data(tmp_path / "own.parquet", 0)
    assert data.inputs[:, 1].tolist() == [float(cell) for cell in cells]
    assert data.targets.tolist() == [float(cell) for cell in cells[::-1]]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("duration[s]", r"days since a first date"),
        ("time32[s]", r"minutes since midnight"),
        ("null", r"numbers in all rows: use dropna"),
    ],
)
def test_other_types_of_a_parquet_file_say_what_to_do(tmp_path, kind, sentence):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = pyarrow.nulls(30)
    if kind != "null":
        column = pyarrow.array(range(30), pyarrow.int32())
        column = column.cast("int64" if kind.startswith("duration") else "int32").cast(kind)
    table = pyarrow.table({"a": column, "b": FRAME["b"], "y": FRAME["y"]})
    parquet.write_table(table, tmp_path / "own.parquet")
    with pytest.raises(InputError, match=rf"column 'a' does not hold numbers\. .*{sentence}"):
        load_data(tmp_path / "own.parquet", 0)


@pytest.mark.parametrize("name", ["frame", "own.csv", "own.npz"])
def test_a_test_set_of_a_data_set_is_matched_by_names(tmp_path, name):
    """Columns in another order became other inputs, and the last one the labels."""
    table = TURNED.assign(more="text")
    if name == "own.npz":
        np.savez(tmp_path / name, x=INPUTS, y=FRAME["y"])
    table.to_csv(tmp_path / "own.csv", index=False)
    test = table if name == "frame" else tmp_path / name
    data = load_data(load_data(FRAME), test_data=test)
    np.testing.assert_allclose(data.test_inputs, INPUTS)
    np.testing.assert_allclose(data.test_targets, FRAME["y"])
    with pytest.raises(InputError, match=r"test_data: .*no column 'b'"):
        load_data(load_data(FRAME), test_data=FRAME.drop(columns="b"))


def test_a_label_column_that_is_named_twice():
    with pytest.raises(InputError, match=r"label_columns names a column twice\. Received: y, y"):
        load_data(FRAME, label_columns=["y", "y"])


@pytest.mark.parametrize("cell", ["1e400", "-Infinity"])
def test_numbers_beyond_all_bounds_are_no_categories(tmp_path, cell):
    for row in (f"{cell},1,2", f"1,1,{cell}"):
        (tmp_path / "own.csv").write_text(f"a,b,y\n1,2,3.5\n{row}\n")
        with pytest.raises(
            InputError, match=rf"Received: {cell}\. Expected: finite numbers in all"
        ):
            load_data(tmp_path / "own.csv", 0)


def test_tables_of_many_columns_take_no_time(tmp_path):
    """Expressions of genes: the time of 20,000 columns grew with their square, to minutes."""
    names = [f"gene{number}" for number in range(20_000)]
    lines = [",".join(names), *(",".join([str(row)] * len(names)) for row in range(3))]
    (tmp_path / "own.csv").write_text("\n".join([*lines, ""]))
    began = time.process_time()
    data = load_data(tmp_path / "own.csv", 0)
    in_order(pd.DataFrame(data.inputs, columns=names[:-1]), names[:-1], "inputs")
    assert time.process_time() - began < 20
    assert data.inputs.shape == (3, 19_999)


NUMBERS = "".join(f"{i},{i * 0.5},{i * 2}\n" for i in range(10))
TEXTS = "".join(f"{'uv'[i % 2]},{i * 0.5},{i * 2}\n" for i in range(10))


@pytest.mark.parametrize("error", ["#N/A", "#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!"])
@pytest.mark.parametrize("start", ["a,b,y\n", f"a,b,y\n{NUMBERS}", "sep=,\na,b,y\n"])
def test_a_row_that_begins_with_an_error_of_excel_is_no_comment(tmp_path, start, error):
    """It was left out without a word."""
    line = start.count("\n") + 1
    words = rf"line {line}: the cell in column 'a' is not a finite number\. Received: {re.escape(error)}\."
    with pytest.raises(InputError, match=words):
        read(tmp_path, f"{start}{error},1,2\n{NUMBERS}")
    assert len(read(tmp_path, f"a,b,y\n{NUMBERS}#N/Acorn, DIV,REF\n").targets) == 10


@pytest.mark.parametrize("start", ["a,b,y\n", f"a,b,y\n{TEXTS}"])
def test_a_line_that_may_be_a_row_or_a_comment_is_refused(tmp_path, start):
    with pytest.raises(InputError, match=r"begins with # and has as many cells as a row\. Rec"):
        read(tmp_path, f"{start}#tag,1,2\n{TEXTS}")
    with pytest.raises(InputError, match=r"begins with # and has as many cells as a row\. Rec"):
        read(tmp_path, f"{start}#tag,1,2\n{TEXTS}".replace(",", " "), "own.dat")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f"a,b,y\n{TEXTS}# tag,1,2\n", 10),
        (f"a,b,y\n{TEXTS}#tag 1 2\n", 10),
        (f"a,b,y\n{TEXTS}#1,1,2\n", 10),
        (f'a,b,y\n{TEXTS}"#tag",1,2\n"#tag",1,3\n', 12),
        (f"a,b,y\n{NUMBERS}#tag,1,2\n", 10),
        (f"#x,y,z\na,b,y\n{TEXTS}", 10),
    ],
)
def test_comments_and_texts_that_begin_with_a_number_sign(tmp_path, text, count):
    assert len(read(tmp_path, text).targets) == count


MISSING_NUMBERS = ["", "NA", "?", "-", ".", "N.A.", "#N/A", "<NA>", "missing", "Unknown", "1.#QNAN"]


@pytest.mark.parametrize("cell", MISSING_NUMBERS)
@pytest.mark.parametrize("column", ["b", "y"])
def test_what_stands_for_a_missing_number_is_called_missing(tmp_path, column, cell):
    row = {"a": "1", "b": "2", "y": "3.5"} | {column: cell}
    words = (
        rf"line 12: the cell in column '{column}' is not a finite number\. .*: use dropna or fillna"
    )
    with pytest.raises(InputError, match=words):
        read(tmp_path, f"a,b,y\n{NUMBERS}{','.join(row.values())}\n")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [5.0, 6.5]}).astype(object)
    frame.loc[1, column] = cell or None
    words = rf"column '{column}' (has missing values|contains text)\. .*: use dropna or fillna"
    with pytest.raises(InputError, match=words):
        load_data(frame, 0)


def test_a_missing_text_asks_for_a_text(tmp_path):
    words = r"fillna\('missing'\) makes empty cells a category"
    with pytest.raises(
        InputError, match=rf"line 12: the cell in column 'a' has no category\. .*{words}"
    ):
        read(tmp_path, f"a,b,y\n{TEXTS},1,2\n")
    frame = pd.DataFrame({"a": ["u", "v"] * 5, "b": np.arange(10.0), "y": np.arange(10.0)})
    frame.loc[3, "a"] = None
    with pytest.raises(InputError, match=rf"1, the first in row 3, counting from 0\. .*{words}"):
        load_data(frame, 0)
    frame.to_parquet(tmp_path / "own.parquet")
    with pytest.raises(InputError, match=rf"'a' has an empty cell\. Received: row 3.*{words}"):
        load_data(tmp_path / "own.parquet", 0)
    filled = load_data(frame.fillna("missing"), 0)
    assert filled.input_categories[0].texts == ("missing", "u", "v")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_the_column_of_an_infinite_value(tmp_path, value):
    frame = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10.0), "y": np.arange(10.0)})
    frame.loc[3, "b"] = value
    words = rf"column 'b' has values that are not finite\. Received: {value} in row 3, counting"
    with pytest.raises(InputError, match=words):
        load_data(frame, 0)
    frame.to_parquet(tmp_path / "own.parquet")
    with pytest.raises(InputError, match=words):
        load_data(tmp_path / "own.parquet", 0)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_rows_as_dicts_become_a_frame(count):
    """Two rows were taken for inputs and labels: `input a is not an array of numbers`."""
    rows = [{"a": float(k), "y": 2.0 * k} for k in range(count)]
    with pytest.raises(InputError, match=rf"Received: {count} rows as dicts\. Expected: pandas"):
        load_data(rows)
    assert load_data(pd.DataFrame(rows), 0).inputs.shape == (count, 1)
