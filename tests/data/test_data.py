"""Data sets: generators against closed forms, files, arrays, splits, and bad input."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tati_re.core.errors import InputError
from tati_re.data import Dataset, load_data
from tati_re.data.generators import digits, gaussian, harmonic, two_clusters


def write(path, text):
    path.write_text(text)
    return path


def test_nothing_here_imports_tensorflow_or_pandas():
    code = "import sys, tati_re.data; print([m for m in ('tensorflow', 'keras', 'pandas', 'sklearn') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# Generators


@pytest.mark.parametrize("n", [1, 2, 10, 128])
def test_gaussian_is_the_quadratic_form_with_the_eigenvalues_asked_for(n):
    data = gaussian(n, condition=100.0, seed=3)
    w = np.random.default_rng(0).normal(size=n)
    c = data.inputs.T @ data.inputs
    np.testing.assert_allclose(
        np.mean((data.inputs @ w - data.targets) ** 2), w @ c @ w / n, rtol=1e-12
    )
    np.testing.assert_allclose(np.linalg.eigvalsh(c), np.linspace(1, 100, n), rtol=1e-10)
    assert np.linalg.matrix_rank(np.outer(data.inputs[0], data.inputs[0])) == 1
    assert data.task == "regression"
    assert data.test_inputs is None


def test_gaussian_vectors_depend_on_the_seed():
    np.testing.assert_array_equal(gaussian(4, seed=1).inputs, gaussian(4, seed=1).inputs)
    assert np.abs(gaussian(4, seed=1).inputs - gaussian(4, seed=2).inputs).max() > 0.1


def test_harmonic_loss_has_force_constant_2a():
    data = harmonic(a=4.0)
    assert data.inputs.tolist() == [[2.0]]
    assert data.targets.tolist() == [0.0]
    assert np.mean((data.inputs[:, 0] * 3.0 - data.targets) ** 2) == 4.0 * 3.0**2
    assert data.task == "regression"


def test_two_clusters_moments():
    """20,000 points: the mean of each coordinate within z = 5.5 (0.055), its variance too
    (0.078).
    """
    data = two_clusters(20_000, seed=4, std=1.0)
    for label in (1.0, -1.0):
        points = data.inputs[data.targets == label]
        assert len(points) == 10_000
        assert np.abs(points.mean(0) - 2 * label).max() < 5.5 / 100
        assert np.abs(points.var(0) - 1).max() < 5.5 * np.sqrt(2) / 100
    assert data.task == "signs"
    assert data.num_classes == 2
    assert len(data.test_inputs) == 5000
    assert two_clusters(std=0.0001, test_fraction=0).inputs[0] == pytest.approx([2, 2], abs=1e-2)
    assert two_clusters(test_fraction=0).test_inputs is None
    np.testing.assert_array_equal(two_clusters(test_fraction=0).inputs, two_clusters().inputs)


def test_digits():
    data = digits()
    assert data.inputs.dtype == np.uint8
    assert data.inputs.shape == (1438, 64)
    assert data.test_inputs.shape == (359, 64)
    assert data.input_scale == 1 / 16
    assert data.inputs.max() == 16
    assert data.num_classes == 10
    assert data.task == "classification"
    assert digits(seed=0).fingerprint() == data.fingerprint() != digits(seed=1).fingerprint()


# What targets are


@pytest.mark.parametrize(
    ("targets", "task", "num_classes", "dtype"),
    [
        ([0, 2, 1], "classification", 3, np.int32),
        (np.array([0, 2, 1], np.uint8), "classification", 3, np.int32),
        ([[0], [2], [1]], "classification", 3, np.int32),
        ([True, False, True], "classification", 2, np.int32),
        ([0.0, 1.0, 1.0], "classification", 2, np.int32),
        ([-1, 1, 1], "signs", 2, np.float64),
        ([-1.0, 1.0, 1.0], "signs", 2, np.float64),
        ([0.0, 2.0, 1.0], "regression", None, np.float64),
        ([0.0, 0.0, 0.0], "regression", None, np.float64),
        ([-2, 0, 1], "regression", None, np.float64),
        ([0, 1, 100], "regression", None, np.float64),
        (np.array([0.5, 1, 2], np.float32), "regression", None, np.float32),
        ([[1, 0], [0, 1], [0, 1]], "one_hot", 2, np.float64),
        ([[1, 2], [0, 1], [0, 1]], "regression", None, np.float64),
    ],
)
def test_task(targets, task, num_classes, dtype):
    data = load_data((np.zeros((3, 2)), targets))
    assert (data.task, data.num_classes) == (task, num_classes)
    assert data.targets.dtype == dtype
    assert data.targets.reshape(-1).tolist() == np.asarray(targets).reshape(-1).tolist()


def test_classes_of_the_test_part_count():
    data = load_data(((np.zeros((2, 1)), [0, 1]), (np.zeros((1, 1)), [3])))
    assert data.num_classes == 3 and data.class_names == (0, 1, 3)
    assert data.test_targets.tolist() == [2]


# Arrays and splits


def test_arrays_are_kept_whole_unless_asked():
    x, y = np.arange(10.0), np.linspace(0, 1, 10)
    data = load_data((x, y))
    assert data.num_examples == 10
    assert data.test_inputs is None
    assert data.inputs.shape == (10, 1)
    data = load_data((x, y), test_fraction=0.3, seed=1)
    assert (data.num_examples, len(data.test_inputs)) == (7, 3)
    assert sorted([*data.inputs[:, 0], *data.test_inputs[:, 0]]) == x.tolist()
    assert (np.diff(data.inputs[:, 0]) > 0).all()
    assert (
        load_data((x, y), 0.3, 2).fingerprint()
        != data.fingerprint()
        == load_data((x, y), 0.3, 1).fingerprint()
    )
    assert load_data(data) is data


def test_nested_lists_are_arrays_and_tuples_are_parts():
    assert load_data(([[1.0, 2.0], [3.0, 4.0]], [0.5, 0.7])).inputs.shape == (2, 2)
    assert load_data([[[1.0, 2.0], [3.0, 4.0]], [[0.5, 0.1], [0.7, 0.1]]]).targets.shape == (2, 2)
    assert load_data((([[1.0]], [0.5]), ([[2.0]], [0.7]))).test_inputs.tolist() == [[2.0]]


@pytest.mark.parametrize("count", [1, 2])
def test_a_file_of_few_examples_has_no_test_part(tmp_path, count):
    """ "test_fraction: no example would be kept apart" was said to those who had given none."""
    (path := tmp_path / "few.csv").write_text("a,y\n" + "1,2.5\n" * count)
    assert load_data(path).num_examples == count
    with pytest.raises(InputError, match="no example would be held out"):
        load_data((np.zeros((2, 1)), np.zeros(2)), test_fraction=0.2)


def test_one_example_is_never_split_away():
    assert load_data(([[1.0]], [0.5]), test_fraction=0.9).num_examples == 1


def test_fingerprint_depends_on_values_shapes_types_and_scale():
    x, y = np.arange(12, dtype=np.float32).reshape(6, 2), np.linspace(0, 1, 6)
    same = Dataset(x, y, name="other")
    base = Dataset(x, y).fingerprint()
    assert same.fingerprint() == base
    assert len(base) == 64
    changed = x.copy()
    changed[3, 1] += 1e-5
    for other in (
        Dataset(changed, y),
        Dataset(x.astype(np.float64), y),
        Dataset(x.reshape(6, 2, 1), y),
        Dataset(x, y, input_scale=0.5),
        Dataset(x, y, x, y),
    ):
        assert other.fingerprint() != base
    strided = np.repeat(x, 2, axis=1)[:, ::2]
    assert Dataset(strided, y).fingerprint() == base


# CSV


def test_csv_of_classes(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "# made by hand\nx1, x2,label\n0.5,1,0\n\n# in between\n1.5,2,2\n2.5,3,1\n",
    )
    data = load_data(path, test_fraction=0)
    assert data.inputs.tolist() == [[0.5, 1], [1.5, 2], [2.5, 3]]
    assert data.targets.tolist() == [0, 2, 1]
    assert (data.num_classes, data.feature_names, data.name) == (3, ("x1", "x2"), "a.csv")
    assert len(load_data(str(path), test_fraction=0.4).test_inputs) == 1


def test_csv_of_signs_and_of_values(tmp_path):
    assert load_data(write(tmp_path / "a.csv", "x,y\n1,-1\n2,1\n"), 0).task == "signs"
    assert load_data(write(tmp_path / "b.csv", "x,y\n1,-1.5\n2,1\n"), 0).task == "regression"
    assert load_data(write(tmp_path / "c.csv", "x,y\n1,0\n2,100\n"), 0).task == "regression"


def test_csv_columns(tmp_path):
    path = write(tmp_path / "a.csv", 'label2,id,"x",label1,z\n1,a,2,3,4\n5,b,6,7,8\n')
    with pytest.raises(
        InputError,
        match=r"a\.csv, line 2: the cell in column 'id' is not a finite number\. Received: a\.",
    ):
        load_data(path)
    data = load_data(path, 0, label_columns=["z"], input_columns=["label1", "x"])
    assert data.inputs.tolist() == [[3, 2], [7, 6]]
    assert data.class_names == (4, 8) and data.targets.tolist() == [0, 1]
    data = load_data(write(tmp_path / "b.csv", "label2,x,label1\n1,2,3\n5,6,7\n"), 0)
    assert data.inputs.tolist() == [[2], [6]]
    assert data.targets.tolist() == [[1, 3], [5, 7]]
    with pytest.raises(InputError, match=r"no column 'lable1'\. Did you mean 'label1'\?"):
        load_data(path, label_columns=["lable1"])
    with pytest.raises(InputError, match="only tables have named columns"):
        load_data("digits", label_columns=["z"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("# only this\n", "empty"),
        ("x,y\n", "no examples"),
        ("1,2\n3,4\n", "no header line"),
        ("x\n1\n", "single column"),
        (
            ",x,y\n0,1,2\n1,2,3\n",
            "a column without a name. Received: , x, y. Expected: a name for each column, or input_columns",
        ),
        ("0,1\n1,2\n", "no header line"),
        ("1,2,3\n1,2,4\n", "no header line"),
        ("x,x\n1,2\n", "several columns with the same name"),
        (
            "x,y\n1,2\n\n3,nan\n",
            "line 4: the cell in column 'y' is not a finite number. Received: nan.",
        ),
        (
            "x,y\n1,2\n-inf,3\n",
            "line 3: the cell in column 'x' is not a finite number. Received: -inf.",
        ),
        (
            "x,y\n1,\n",
            "line 2: the cell in column 'y' is not a finite number. Received: an empty cell.",
        ),
        ("x,y\n1,2\n3\n", "line 3 has the wrong number of cells. Received: 1. Expected: 2."),
        ("x,y\n1,2,3\n", "line 2 has the wrong number of cells. Received: 3. Expected: 2."),
        (
            "x,y\n1,two\n",
            "The labels are text. Received: 1 text, such as 'two'. Expected: 2 to 100 of them, or label",
        ),
        (
            "x,y\n1,two\n2,one,3\n",
            "line 3 has the wrong number of cells. Received: 3. Expected: 2.",
        ),
        (
            "x,y\n1,two\n2,\n",
            "not a class name, although others are. Received: a.csv, line 3, column 'y' = ''.",
        ),
        (
            "x,y\n1,2\n2,one\n",
            "line 3: the cell in column 'y' is not a finite number. Received: one. Expected: a number, or a",
        ),
        ("1.5,2,two\n1,3,one\n1,3,two\n", "has no header line. Received: 1.5, 2, two."),
    ],
)
def test_bad_csv(tmp_path, text, words):
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        load_data(write(tmp_path / "a.csv", text))


def test_columns_that_nobody_named_are_counted(tmp_path):
    """As pandas writes a frame that was made of an array."""
    pd.DataFrame(np.arange(30.0).reshape(10, 3) ** 2).to_csv(tmp_path / "a.csv", index=False)
    data = load_data(tmp_path / "a.csv", test_fraction=0)
    assert (data.num_examples, data.feature_names) == (10, ("0", "1"))
    np.testing.assert_allclose(np.ravel(data.targets), np.arange(2.0, 30.0, 3.0) ** 2)


# NPZ


def test_npz(tmp_path):
    images = np.arange(5 * 4 * 4, dtype=np.uint8).reshape(5, 4, 4)
    np.savez(
        tmp_path / "a.npz",
        x_train=images,
        y_train=np.arange(5),
        x_test=images[:2],
        y_test=np.arange(2),
    )
    data = load_data(tmp_path / "a.npz")
    assert data.inputs.dtype == np.uint8
    assert (data.inputs.shape, data.test_inputs.shape) == ((5, 4, 4), (2, 4, 4))
    assert data.input_scale == 1 / 255
    assert data.task == "classification"
    np.savez(tmp_path / "b.npz", x=np.ones((10, 3), np.float32), y=np.linspace(0, 1, 10))
    data = load_data(tmp_path / "b.npz")
    assert (data.num_examples, len(data.test_inputs), data.input_scale) == (8, 2, 1.0)
    assert data.inputs.dtype == np.float32


def test_bad_npz(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.ones(3))
    with pytest.raises(
        InputError,
        match=r"lacks the arrays of a data set\. Received: images\. .*names, a\+b for two inputs\.",
    ):
        load_data(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=np.array([{}], object), y=np.ones(1))
    with pytest.raises(InputError, match=r"cannot be read as an NPZ file"):
        load_data(tmp_path / "b.npz")
    for content in (b"", b"PK not a zip", b"\x93NUMPY"):
        (tmp_path / "c.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"c\.npz cannot be read as an NPZ file"):
            load_data(tmp_path / "c.npz")
    with (tmp_path / "d.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(InputError, match=r"d\.npz cannot be read as an NPZ file"):
        load_data(tmp_path / "d.npz")
    with (tmp_path / "d.npz").open("wb") as file:
        np.savez(file, x=np.ones((3, 1)), y=np.ones(4))
    with pytest.raises(
        InputError,
        match=r"The numbers of inputs and targets differ\. Received: 3 inputs and 4 targets\.",
    ):
        load_data(tmp_path / "d.npz")


# Other bad input


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("digit", "data: unknown file or data set. Did you mean 'digits'? Received: digit."),
        ("nowhere.csv", "does not exist"),
        (3, "wrong form"),
        (([[1.0]],), "wrong form"),
        (([[1.0], [2.0]], [1.0]), "Received: 2 inputs and 1 targets."),
        (([[1.0], [np.nan]], [1.0, 2.0]), "not finite. Received: inputs[1, 0] = nan."),
        (([[1.0], [2.0]], [1.0, np.inf]), "Received: targets[1] = inf."),
        (([["a"], ["b"]], [1.0, 2.0]), "column '0' contains text"),
        (([[1.0], [2.0, 3.0]], [1.0, 2.0]), "rows of unequal lengths"),
        ((np.zeros((0, 2)), np.zeros(0)), "no examples"),
        ((1.0, 2.0), "too few dimensions"),
        (
            ((np.ones((2, 1)), [1.0, 2.0]), (np.ones((2, 3)), [1.0, 2.0])),
            "test_inputs do not fit inputs",
        ),
    ],
)
def test_bad_source(source, words):
    with pytest.raises(InputError) as error:
        load_data(source)
    assert words in str(error.value)


def test_missing_file_names_the_nearest(tmp_path):
    write(tmp_path / "train.csv", "x,y\n1,2\n")
    with pytest.raises(InputError, match=r"does not exist\. Did you mean 'train\.csv'\?"):
        load_data(tmp_path / "trian.csv")
    with pytest.raises(InputError, match="unknown type"):
        load_data(write(tmp_path / "a.doc", "x"))
    with pytest.raises(InputError, match="folder"):
        load_data(tmp_path)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_bad_test_fraction(fraction):
    for source in ("digits", ([[1.0], [2.0]], [1.0, 2.5])):
        with pytest.raises(InputError, match="test_fraction"):
            load_data(source, test_fraction=fraction)
