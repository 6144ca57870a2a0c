"""Labels that the user has counted are checked; several columns of 0 and 1 must be one-hot."""

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.data import load_data

X = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("targets", "num_classes", "task", "values"),
    [
        ([0, 1, 1], 5, "classification", [0, 1, 1]),
        ([0.0, 2.0, 1.0], 3, "classification", [0, 2, 1]),
        ([0, 150, 1], 200, "classification", [0, 150, 1]),
        ([[0], [2], [1]], 3, "classification", [0, 2, 1]),
        ([-1, 1, 1], 2, "signs", [-1, 1, 1]),
        ([0, 1, 3], 3, "classification", [0, 1, 2]),
        ([0, -1, 2], 3, "classification", [1, 0, 2]),
        ([7.0, 150.0, 7.0], 2, "classification", [0, 1, 0]),
        ([[1, 0, 0], [0, 1, 0], [0, 1, 0]], 3, "one_hot", [[1, 0, 0], [0, 1, 0], [0, 1, 0]]),
        ([0, 1, 1], 0, "regression", [0, 1, 1]),
        ([[1, 1], [0, 1], [0, 0]], 0, "regression", [[1, 1], [0, 1], [0, 0]]),
    ],
)
def test_labels_that_were_counted(targets, num_classes, task, values):
    data = load_data((X, targets), num_classes=num_classes)
    assert (data.task, data.num_classes) == (task, num_classes or None)
    assert data.targets.tolist() == values


@pytest.mark.parametrize(
    ("targets", "num_classes", "sentence"),
    [
        (
            [0, 0.5, 1],
            3,
            "The labels are not integers. Received: targets[1] = 0.5. Expected: integers from 0 to 2.",
        ),
        (
            [0, 1, 3],
            2,
            "A label is not one of the classes. Received: targets[2] = 3. Expected: integers from 0 to 1.",
        ),
        (
            [0, -1, 2],
            4,
            "A label is not one of the classes. Received: targets[1] = -1. Expected: integers from 0 to 3.",
        ),
        (
            [[1, 0], [0, 0], [0, 1]],
            2,
            "One-hot labels do not sum to one. Received: targets[1] = [0, 0], sum 0. Expected: a single 1 in each row.",
        ),
        (
            [[1, 0], [0.5, 0.5], [0, 1]],
            2,
            "are not one-hot. Received: targets[1] = [0.5, 0.5], sum 1.",
        ),
        (
            [[1, 0], [0, 1], [0, 1]],
            3,
            "The labels do not fit num_classes. Received: targets of shape (3, 2).",
        ),
        (
            [0, 1, 1],
            1,
            "num_classes is out of range. Received: 1. Expected: at least 2, or 0 for regression.",
        ),
        (
            [[1, 0], [1, 1], [0, 1]],
            None,
            (
                "One-hot labels do not sum to one. Received: targets[1] = [1, 1], sum 2. "
                "Expected: a single 1 in each row, loss = 'binary_crossentropy' for several "
                "labels per example, or num_classes = 0 for regression."
            ),
        ),
    ],
)
def test_labels_that_are_wrong(targets, num_classes, sentence):
    with pytest.raises(InputError) as error:
        load_data((X, targets), num_classes=num_classes)
    assert sentence in str(error.value)


def test_the_test_part_is_checked_too():
    with pytest.raises(
        InputError, match=r"not one of the classes\. Received: test_targets\[0\] = 3\."
    ):
        load_data(((X, [0, 1, 2]), (X[:1], [3])), num_classes=3)
    with pytest.raises(InputError, match=r"not sum to one\. Received: test_targets\[0\]"):
        load_data(((X, [[1, 0], [0, 1], [0, 1]]), (X[:1], [[0, 0]])))
    with pytest.raises(
        InputError,
        match=r"not one of the classes\. Received: test_targets\[1\] = 0\. Expected: -1 or 1,",
    ):
        load_data("two_clusters", test_data=(X[:2], [1, 0]))


def test_a_data_set_that_was_counted_already():
    data = load_data((X, [0, 1, 2]))
    assert load_data(data, num_classes=3).num_classes == 3
    with pytest.raises(
        InputError,
        match=r"num_classes contradicts the data set. Received: 4. Expected: 3.",
    ):
        load_data(data, num_classes=4)


@pytest.mark.parametrize("text", ["{:.3f}", "{:.2e}"])
def test_values_written_as_text_are_no_names_of_classes(text):
    """Ten rows of a regression, each a class of its own."""
    values = [text.format(value) for value in np.linspace(0.1, 20.3, 10)]
    for labels in (values, [value.replace(".", ",") for value in values]):
        with pytest.raises(
            InputError, match=r"the labels are numbers stored as text\. Received: '"
        ):
            load_data((np.zeros((10, 2)), labels))
    assert load_data((np.zeros((4, 2)), ["1.0", "2.0", "1.0", "2.0"])).class_names == ("1.0", "2.0")
    assert load_data((np.zeros((4, 2)), ["v1.5", "v2", "v2", "v1.5"])).class_names == ("v1.5", "v2")
