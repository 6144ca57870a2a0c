"""Columns of text among the inputs: which are categories, and what the network gets of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tati_re import InputError
from tati_re.data.categories import Categories, categories_note, with_codes
from tati_re.data.describing import describe_dataset
from tati_re.data.loading import load_data
from tati_re.data.packing import as_packed

REGIONS = ["north", "south", "east", "south"] * 10
TABLE = pd.DataFrame(
    {"age": np.arange(40) + 0.5, "region": REGIONS, "cost": np.arange(40) ** 2 + 0.25}
)
KNOWN = (Categories("region", ("east", "north", "south")),)
NAMES = ("age", "region=east", "region=north", "region=south")


def written(folder, name: str, table: pd.DataFrame = TABLE):
    path = folder / name
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if name.endswith(".tsv") else ",")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "frame", "pair"])
def test_every_source_gives_one_input_for_each_category(tmp_path, name):
    if name == "frame":
        data = load_data(TABLE.astype({"region": "category"}))
    elif name == "pair":
        data = load_data((TABLE[["age", "region"]], TABLE["cost"]))
    else:
        data = load_data(written(tmp_path, name), 0)
    assert data.input_categories == KNOWN and data.feature_names == ("age", "region")
    codes = [KNOWN[0].texts.index(region) for region in REGIONS]
    assert data.inputs[:, 1].tolist() == codes

    prepared = data.prepared()
    assert prepared.feature_names == NAMES and prepared.input_categories == ()
    indicators = pd.get_dummies(TABLE["region"]).to_numpy(float)
    assert np.array_equal(prepared.inputs[:, 1:], indicators)
    assert prepared.inputs[:, 0].tolist() == TABLE["age"].tolist()


def test_indicators_are_not_the_numbers_of_the_categories(tmp_path):
    """A network that got the numbers would take east, north and south for a scale."""
    prepared = load_data(TABLE, standardize="inputs").prepared()
    assert prepared.inputs.shape == (40, 4)
    assert len({*map(tuple, prepared.inputs[:, 1:].tolist())}) == 3


def test_derived_inputs_expand_a_column_of_text():
    data = load_data(TABLE, input_columns=["region", "age^2"])
    assert data.prepared().feature_names == (*NAMES[1:], "age^2")
    for form in ("region^2", "sin(region)"):
        with pytest.raises(InputError, match=r"column 'region' holds text\. .* its name alone"):
            load_data(TABLE, input_columns=["age", form])


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([f"id {k}" for k in range(40)], "get_dummies"),
        (["only"] * 40, "get_dummies"),
        (["9 cm", "8 cm"] * 20, "plain numbers"),
        (["1,234", "2,345"] * 20, "plain numbers"),
        (["2020-01-02", "2020-01-03"] * 20, "days since"),
        (["north", "North"] * 20, "differ only in upper and lower case"),
        (["north", "south "] * 19 + ["north", ""], "dropna"),
        (["north", "7"] * 20, "get_dummies"),
    ],
)
def test_other_text_is_refused_as_before(tmp_path, cells, words):
    table = TABLE.assign(region=cells)
    with pytest.raises(InputError, match=rf"column 'region'.*{words}"):
        load_data(written(tmp_path, "a.csv", table), 0)
    if "" not in cells:
        with pytest.raises(InputError, match=rf"column 'region'.*{words}"):
            load_data(table)


def test_quoted_texts_behind_spaces(tmp_path):
    lines = [f'{age}, "the {region}, far", {age}.5' for age, region in enumerate(REGIONS)]
    (tmp_path / "a.csv").write_text("\n".join(["age, region, cost", *lines, ""]))
    found = load_data(tmp_path / "a.csv", 0)
    texts = ("the east, far", "the north, far", "the south, far")
    assert found.input_categories == (Categories("region", texts),)
    assert found.inputs[:, 1].tolist() == [KNOWN[0].texts.index(region) for region in REGIONS]


@pytest.mark.parametrize("name", ["a.csv", "frame"])
def test_true_and_false_are_categories_beside_other_texts(tmp_path, name):
    """Alone they are numbers in a file."""
    table = TABLE.assign(region=["True", "False", "unknown", "True"] * 10)
    data = load_data(table) if name == "frame" else load_data(written(tmp_path, name, table), 0)
    assert data.input_categories == (Categories("region", ("False", "True", "unknown")),)
    alone = TABLE.assign(member=[True, False] * 20)[["member", *TABLE]]
    found = load_data(written(tmp_path, "b.csv", alone), 0)
    assert found.input_categories == KNOWN and {*found.inputs[:, 0]} == {0.0, 1.0}


def test_a_row_without_a_category_is_refused_in_a_frame():
    with pytest.raises(InputError, match=r"column 'region' has missing values"):
        load_data(TABLE.assign(region=[None, *REGIONS[1:]]))


def test_a_test_part_has_the_categories_of_the_training_part(tmp_path):
    """Without them the numbers of north and south would be 0 and 1."""
    later = TABLE[TABLE["region"] != "east"]
    for test in (later, written(tmp_path, "test.csv", later)):
        data = load_data(written(tmp_path, "a.csv"), test_data=test)
        assert {*data.test_inputs[:, 1]} == {1.0, 2.0}
    other = later.assign(region="west")
    with pytest.raises(InputError, match=r"'region' holds a category that the training data lack"):
        load_data(TABLE, test_data=other)
    with pytest.raises(
        InputError, match=r"test\.csv, line 2: the cell in column 'region' holds a category"
    ):
        load_data(TABLE, test_data=written(tmp_path, "test.csv", other))


def test_several_files_have_the_categories_of_all(tmp_path):
    first = written(tmp_path, "a.csv", TABLE[TABLE["region"] != "south"])
    second = written(tmp_path, "b.csv", TABLE[TABLE["region"] != "east"])
    data = load_data([first, second], 0)
    assert data.input_categories == KNOWN
    assert {*data.inputs[-20:, 1]} == {1.0, 2.0}


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame({"region": ["south", "east"], "age": [1.0, 2.0], "more": ["a", "b"]}),
        [{"age": 1.0, "region": "south"}, {"region": "east", "age": 2.0}],
        np.array([[1.0, "south"], [2.0, "east"]], object),
        [[1.0, "south"], [2.0, "east"]],
        np.array([[1.0, 2.0], [2.0, 0.0]]),
    ],
)
def test_rows_to_predict_in_every_form(rows):
    packed = as_packed(rows, (), ("age", "region"), categories=KNOWN)
    assert packed.tolist() == [[1.0, 2.0], [2.0, 0.0]]


def test_numbers_that_are_no_category_are_refused():
    for wrong in (3.0, 0.5, -1.0):
        with pytest.raises(InputError, match=r"column 'region' holds categories.*0 to 2"):
            as_packed(np.array([[1.0, wrong]]), (), ("age", "region"), categories=KNOWN)
    with pytest.raises(InputError, match=r"Did you mean 'south'\? Received: 'soth'"):
        as_packed([{"age": 1.0, "region": "soth"}], (), ("age", "region"), categories=KNOWN)


def test_a_data_set_keeps_its_categories():
    """Candidates of a run for predictions are built from the data set without its preparation."""
    data = load_data(TABLE)
    again = load_data(replace(data, preparation=None))
    assert again.prepared().feature_names == NAMES
    standardized = load_data(data, standardize="inputs")
    assert standardized.prepared().feature_names == NAMES
    chosen = load_data(data, input_columns=["region"])
    assert chosen.prepared().feature_names == NAMES[1:]


def test_a_description_lists_the_categories():
    text = describe_dataset(load_data(TABLE))
    assert "  region: east, north, south" in text and "region  " not in text


def test_points_in_names_are_not_decimal_points(tmp_path):
    """Between semicolons numbers have decimal commas."""
    towns = ["St. Louis", "Bonn"] * 4
    lines = [f"{k},5;{town};{k},25" for k, town in enumerate(towns)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["age;town;cost", *lines]) + "\n")
    data = load_data(path, 0)
    assert data.input_categories[0].texts == ("Bonn", "St. Louis")
    assert data.inputs[:2].tolist() == [[0.5, 1.0], [1.5, 0.0]]


def test_arrays_without_names_stay_as_they_are():
    values = np.array([["a", 1.0]], object)
    assert with_codes(values, None, (), "data")[0] is values


def test_the_note_says_how_text_is_encoded():
    sex = Categories("sex", ("f", "m"))
    assert categories_note(KNOWN) == (
        "Text column region is one-hot encoded: 3 categories, one input each."
    )
    assert categories_note((*KNOWN, sex)) == (
        "Text columns are one-hot encoded, one input per category: region (3), sex (2)."
    )
