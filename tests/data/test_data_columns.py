"""Derived inputs and standardization: what the network sees, and what `prepare` does with new
inputs.
"""

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.data import Dataset, load_data
from tati_re.data.columns import parse_columns

GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(3.0, 2.0, (50, 2))
Y = GENERATOR.normal(-7.0, 4.0, 50)


def test_columns_are_powers_sines_and_cosines():
    columns = parse_columns(["x1", "x1^2", " sin(x1) ", "cos( x2 )", "2", "x2 ^ 3"], ["x1", "x2"])
    a, b = X.T
    np.testing.assert_allclose(
        columns(X), np.stack([a, a**2, np.sin(a), np.cos(b), b, b**3], axis=1), rtol=1e-14
    )
    assert columns(X.astype(np.float32)).dtype == np.float32
    assert columns(np.array([[2, 3]], np.uint8)).tolist()[0][:2] == [2.0, 4.0]
    assert columns(np.array([[200, 3]], np.uint8))[0, 1] == 40_000


def test_a_name_goes_before_a_number():
    columns = parse_columns(["x2", "x1", "speed^2", "3"], ["x2", "x1", "speed"])
    assert columns(np.array([[1.0, 2.0, 3.0]])).tolist() == [[1.0, 2.0, 9.0, 3.0]]
    odd = parse_columns(["a^2", "sin(b)"], ["sin(b)", "a^2"])
    assert odd(np.array([[1.0, 2.0]])).tolist() == [[2.0, 1.0]]
    assert not odd.plain and parse_columns(["a", "b"], ["a", "b"]).plain
    assert (
        not parse_columns(["a"], ["a", "b"]).plain
        and not parse_columns(["a^2", "b"], ["a", "b"]).plain
    )


def test_only_the_columns_that_are_used():
    columns = parse_columns(["cos(c)", "a", "c^2"], ["a", "b", "c"]).of_used()
    assert columns.names == ("c", "a")
    np.testing.assert_allclose(columns(np.array([[2.0, 5.0]])), [[np.cos(2.0), 5.0, 4.0]])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "tan(x1)",
            "input_columns: one entry cannot be parsed. Received: tan(x1). Expected: x1, x1^2, sin(x1) or cos(x1),",
        ),
        (
            "x1,x2",
            "there are several columns in one entry. Received: x1,x2. Expected: an entry for",
        ),
        ("x1^0", "one entry cannot be parsed. Received: x1^0."),
        ("x1^-1", "one entry cannot be parsed. Received: x1^-1."),
        ("x1*x2", "one entry cannot be parsed. Received: x1*x2."),
        ("x3", "Received: x3. Expected: columns of x1, x2."),
        ("sin(x0)", "there is no column 'x0'."),
        ("", "there is no column ''."),
        ("0", "there is no column '0'."),
    ],
)
def test_columns_that_are_not_there(text, sentence):
    with pytest.raises(InputError) as error:
        parse_columns([text], ["x1", "x2"])
    assert sentence in str(error.value)


def test_no_columns_and_inputs_that_do_not_fit():
    with pytest.raises(InputError, match=r"input_columns are empty\."):
        parse_columns([], ["x1"])
    columns = parse_columns(["x1"], ["x1", "x2"])
    with pytest.raises(
        InputError,
        match=r"do not fit the inputs\. Received: inputs of shape \(3,\)\. Expected: 2 col",
    ):
        columns(np.ones((4, 3)))
    with pytest.raises(InputError, match="needs inputs in columns"):
        load_data((np.ones((4, 2, 2)), Y[:4]), input_columns=["x1"])


def test_a_data_set_keeps_what_was_read_and_prepares_it():
    data = load_data((X, Y), 0.2, 1, input_columns=["x1^2", "x2"])
    ready = data.prepared()
    assert data.inputs.shape == (40, 2) and data.feature_names == ()
    np.testing.assert_allclose(
        ready.inputs, np.stack([data.inputs[:, 0] ** 2, data.inputs[:, 1]], axis=1)
    )
    np.testing.assert_allclose(ready.test_inputs[:, 0], data.test_inputs[:, 0] ** 2)
    assert (
        ready.feature_names == ("x1^2", "x2")
        and ready.preparation is None
        and ready.prepared() is ready
    )
    np.testing.assert_array_equal(data.prepare(data.inputs), ready.inputs)
    np.testing.assert_array_equal(data.restore(data.targets), data.targets)
    assert load_data((X, Y), input_columns=["x1", "2"]).preparation is None


def test_columns_of_a_file_are_read_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("id,speed,angle,label\na,2,0,1\nb,3,0,0\n")
    data = load_data(tmp_path / "a.csv", 0, input_columns=["cos(angle)", "speed^2"])
    assert data.feature_names == ("angle", "speed") and data.inputs.tolist() == [[0, 2], [0, 3]]
    assert data.prepared().inputs.tolist() == [[1, 4], [1, 9]]
    with pytest.raises(InputError, match=r"no column 'label'"):
        load_data(tmp_path / "a.csv", 0, input_columns=["label"])


def test_standardised_on_the_training_part_alone():
    data = load_data((X, Y), 0.2, 1, standardize="all")
    ready = data.prepared()
    np.testing.assert_allclose(ready.inputs.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(ready.inputs.std(0), 1, rtol=1e-12)
    np.testing.assert_allclose([ready.targets.mean(), ready.targets.std()], [0, 1], atol=1e-12)
    mean, deviation = data.inputs.mean(0), data.inputs.std(0)
    np.testing.assert_allclose(ready.test_inputs, (data.test_inputs - mean) / deviation, rtol=1e-12)
    # Measured on all examples, the means would be others.
    assert np.abs(X.mean(0) - mean).max() > 0.01
    assert np.abs(ready.test_inputs.mean(0)).max() > 0.01
    np.testing.assert_allclose(
        data.restore(ready.test_targets[:, None])[:, 0], data.test_targets, rtol=1e-12
    )
    np.testing.assert_array_equal(data.prepare(data.test_inputs), ready.test_inputs)
    only = load_data((X, Y), 0.2, 1, standardize="inputs")
    np.testing.assert_array_equal(only.prepared().targets, only.targets)
    assert len({d.fingerprint() for d in (data, only, ready, load_data((X, Y), 0.2, 1))}) == 4


@pytest.mark.parametrize("standardize", ["all", "inputs"])
def test_numbers_without_a_deviation_are_refused(standardize):
    """Of 1e300 it is inf, and the column was zero."""
    huge = X.copy()
    huge[0, 0] = 1e300
    with pytest.raises(
        InputError, match=r"too large for a standard deviation\. Received: 1e\+300\. Expected: "
    ):
        load_data((huge, Y), 0.0, 1, standardize=standardize).prepared()


def test_several_targets_are_standardised_one_by_one():
    targets = np.stack([Y, 100 * Y**2], axis=1)
    data = load_data((X, targets), standardize="all")
    ready = data.prepared()
    np.testing.assert_allclose(ready.targets.std(0), [1, 1], rtol=1e-12)
    np.testing.assert_allclose(data.restore(ready.targets), targets, rtol=1e-10)


def test_labels_of_classes_stay_and_constant_columns_become_zero():
    inputs = np.concatenate([X, np.full((50, 1), 0.1)], axis=1)
    data = load_data((inputs, np.arange(50) % 3), standardize="all").prepared()
    assert data.targets.dtype == np.int32 and data.num_classes == 3
    assert np.abs(data.inputs[:, 2]).max() < 1e-15
    signs = load_data((X, np.where(Y > -7, 1, -1)), standardize="all")
    assert set(signs.prepared().targets) == {-1.0, 1.0} and signs.restore(np.ones(2)).tolist() == [
        1,
        1,
    ]


def test_images_have_one_mean_or_one_of_each_channel():
    images = GENERATOR.integers(0, 256, (20, 4, 4), dtype=np.uint8)
    data = Dataset.from_arrays(images, np.arange(20) % 2, input_scale=1 / 255)
    ready = load_data(data, standardize="inputs").prepared()
    assert ready.inputs.dtype == np.float32 and ready.input_scale == 1.0
    values = images / 255
    np.testing.assert_allclose(
        ready.inputs, (values - values.mean()) / values.std(), rtol=1e-4, atol=1e-5
    )
    coloured = GENERATOR.normal(size=(20, 4, 4, 3)) * [1, 2, 3] + [4, 5, 6]
    ready = load_data((coloured, np.arange(20) % 2), standardize="inputs").prepared()
    np.testing.assert_allclose(ready.inputs.std((0, 1, 2)), 1, rtol=1e-12)
    with pytest.raises(InputError, match="differ in shape from those that were standardized"):
        load_data((coloured, np.arange(20) % 2), standardize="inputs").prepare(
            np.ones((2, 4, 4, 1))
        )


def test_columns_are_derived_before_they_are_standardised():
    data = load_data((X, Y), input_columns=["x1^2", "sin(x2)"], standardize="inputs")
    derived = np.stack([X[:, 0] ** 2, np.sin(X[:, 1])], axis=1)
    np.testing.assert_allclose(
        data.prepare(X), (derived - derived.mean(0)) / derived.std(0), rtol=1e-12
    )


def test_a_word_that_is_not_known():
    with pytest.raises(
        InputError,
        match=r"standardize has an unknown value\. Received: yes\. Expected: 'none', 'inputs', 't",
    ):
        load_data((X, Y), standardize="yes")
