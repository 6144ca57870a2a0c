"""Doors to the data: several files, test files, tables, chosen arrays, parquet, TFRecord, tf.data,
Keras.
"""

import gzip
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tati_re.core.errors import InputError
from tati_re.data import load_data, loading
from tati_re.data.dataset import Dataset
from tati_re.data.source import source_of

GENERATOR = np.random.default_rng(3)
IMAGES = GENERATOR.integers(0, 256, (7, 4, 5), dtype=np.uint8)
LABELS = np.arange(7) % 3


def write(path, text):
    path.write_text(text)
    return path


def said(call, *args, **kwargs) -> str:
    with pytest.raises(InputError) as error:
        call(*args, **kwargs)
    assert "\n" not in str(error.value)
    return str(error.value)


# Several files, test files


def test_files_are_joined_in_order(tmp_path):
    one = write(tmp_path / "a.csv", "x1,x2,label\n1,2,0\n3,4,1\n")
    two = write(tmp_path / "b.csv", "# more\nx1,x2,label\n5,6,2\n")
    data = load_data([one, str(two)], 0)
    assert data.inputs.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert data.targets.tolist() == [0, 1, 2]
    assert data.name == "a.csv and 1 more"
    assert len(load_data((one, two), shuffle=False).test_inputs) == 1


def test_files_that_cannot_be_joined(tmp_path):
    one = write(tmp_path / "a.csv", "x1,x2,label\n1,2,0\n")
    two = write(tmp_path / "b.csv", "x1,x3,label\n1,2,0\n")
    assert (
        said(load_data, [one, two])
        == "b.csv has a different header from a.csv. Received: x1, x3, label. Expected: x1, x2, label."
    )
    np.savez(tmp_path / "c.npz", x=np.ones((2, 2)), y=LABELS[:2])
    np.savez(tmp_path / "d.npz", x=np.ones((2, 3)), y=LABELS[:2])
    np.savez(tmp_path / "e.npz", x=np.ones((2, 2), np.uint8), y=LABELS[:2])
    np.savez(
        tmp_path / "f.npz",
        x_train=np.ones((2, 2)),
        y_train=LABELS[:2],
        x_test=np.ones((1, 2)),
        y_test=[0],
    )
    assert "files of different types cannot be joined. Received: .csv and .npz." in said(
        load_data, [one, tmp_path / "c.npz"]
    )
    assert "hold inputs of different shapes" in said(
        load_data, [tmp_path / "c.npz", tmp_path / "d.npz"]
    )
    assert "inputs of different types" in said(load_data, [tmp_path / "c.npz", tmp_path / "e.npz"])
    assert "Only one of c.npz and f.npz has a test set" in said(
        load_data, [tmp_path / "c.npz", tmp_path / "f.npz"]
    )
    assert said(load_data, []).startswith("data contains no file names.")


def test_a_test_file(tmp_path):
    one = write(tmp_path / "a.csv", "x1,x2,label\n1,2,0\n3,4,1\n")
    two = write(tmp_path / "b.csv", "x1,x2,label\n5,6,2\n")
    data = load_data(one, test_data=two)
    assert (data.num_examples, data.test_inputs.tolist(), data.num_classes) == (2, [[5, 6]], 3)
    assert load_data(one, test_data=[two, two]).test_targets.tolist() == [2, 2]
    assert load_data((np.ones((2, 2)), [0, 1]), test_data=(np.zeros((1, 2)), [2])).num_classes == 3
    assert load_data(one, 0.5, test_data=two).num_examples == 2
    assert load_data("two_circles", test_data=(np.zeros((1, 2)), [[1]])).test_targets.tolist() == [
        1
    ]
    data = load_data(
        one, test_data=two, label_columns=["x1"], input_columns=["x2^2"], standardize="inputs"
    )
    assert data.prepared().test_inputs.tolist() == [[(36 - 10) / 6]]


def test_test_files_that_do_not_fit(tmp_path):
    one = write(tmp_path / "a.csv", "x1,x2,label\n1,2,0\n3,4,1\n")
    two = write(tmp_path / "b.csv", "x1,label\n5,2\n")
    assert "test_data: the test file has a different header. Received: x1, label." in said(
        load_data, one, test_data=two
    )
    text = said(load_data, one, test_data=tmp_path / "c.csv")
    assert text.startswith("test_data: the file does not exist.") and text.endswith(
        " or .tfrecord file."
    )
    what = "data: the file does not exist. Received: moved/d.csv. Expected: a .csv, .txt, .npz, .parquet or .tfrecord"
    assert said(load_data, "moved/d.csv") == f"{what} file, in {Path.cwd()} or with its path."
    assert said(load_data, one, test_data=3).startswith("test_data has the wrong form.")
    np.savez(tmp_path / "a.npz", x=IMAGES, y=LABELS)
    assert "differ in type from the training" in said(
        load_data, tmp_path / "a.npz", test_data=(np.ones((1, 4, 5)), [0])
    )


def test_the_end_of_the_file_is_kept_for_testing_when_nothing_is_shuffled():
    x, y = np.arange(10.0), np.linspace(0, 1, 10)
    data = load_data((x, y), 0.3, shuffle=False)
    assert data.inputs[:, 0].tolist() == list(range(7))
    assert data.test_inputs[:, 0].tolist() == [7, 8, 9]
    digits = load_data("digits", shuffle=False)
    assert digits.fingerprint() != load_data("digits").fingerprint()
    assert len(digits.test_inputs) == 359


# Tables separated by white space


def test_table_of_numbers_has_the_target_last(tmp_path):
    path = write(tmp_path / "a.txt", "# measured\n 1.5 2\t 0.25 \n\n3 4 \t-7.5\n")
    data = load_data(path, 0)
    assert data.inputs.tolist() == [[1.5, 2], [3, 4]]
    assert data.targets.tolist() == [0.25, -7.5]
    assert data.feature_names == ("x1", "x2") and data.task == "regression"
    assert load_data(path, 0, label_columns=["x1", "x2"]).targets.tolist() == [[1.5, 2], [3, 4]]
    named = write(tmp_path / "b.dat", "speed label\n1 0\n2 1\n")
    assert load_data(named, 0).feature_names == ("speed",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("1 2\n3\n", "line 2 has the wrong number of cells. Received: 1. Expected: 2."),
        ("1 2\n3 nan\n", "line 2: the cell in column 'x2' is not a finite number. Received: nan."),
        ("1\n2\n", "single column. Received: 1. Expected: at least two, separated by white space."),
        ("a b\n", "no examples"),
    ],
)
def test_bad_table_of_numbers(tmp_path, text, words):
    assert words in said(load_data, write(tmp_path / "a.txt", text))


def test_names_of_classes_are_numbered_in_sorted_order(tmp_path):
    path = write(tmp_path / "a.csv", 'size,kind,year\n1,setosa,1\n2,"iris, rare",2\n3,setosa,3\n')
    more = write(tmp_path / "b.csv", "size,kind,year\n4,blue,4\n")
    data = load_data(path, 0, label_columns=["kind"])
    assert data.class_names == ("iris, rare", "setosa") and data.targets.tolist() == [1, 0, 1]
    assert data.feature_names == ("size", "year") and data.inputs.tolist() == [
        [1, 1],
        [2, 2],
        [3, 3],
    ]
    both = load_data([path, more], 0, label_columns=["kind"])
    assert both.class_names == ("blue", "iris, rare", "setosa") and both.targets.tolist() == [
        2,
        1,
        2,
        0,
    ]
    wrong = said(load_data, path, label_columns=["kind"], test_data=more)
    assert wrong == "test_targets: unknown class. Received: blue. Expected: iris, rare, setosa."
    assert load_data(both, test_data=([[1, 2]], ["blue"])).test_targets.tolist() == [0]
    for classes, words in ((0, "Expected: numbers, or"), (3, "Expected: num_classes = 2, or")):
        assert words in said(load_data, path, label_columns=["kind"], num_classes=classes)
    words = said(load_data, (np.zeros((202, 1)), [f"flower {k % 101}" for k in range(202)]))
    assert words.startswith(
        "The labels are text. Received: 101 texts, such as 'flower 0'. Expected: 2 to 100 of them"
    )


def test_a_name_that_is_nearly_that_of_a_file(tmp_path, monkeypatch):
    write(tmp_path / "own.csv", "x,y\n1,2\n")
    monkeypatch.chdir(tmp_path)
    assert said(load_data, "own.cvs").startswith(
        "data: unknown file or data set. Did you mean 'own.csv'? Received: own.cvs."
    )


# NPZ


def test_chosen_arrays(tmp_path):
    np.savez(
        tmp_path / "a.npz", pictures=IMAGES, kinds=LABELS, more=IMAGES[:2], kinds_of_more=LABELS[:2]
    )
    data = load_data(tmp_path / "a.npz", 0, data_keys=["pictures", "kinds"])
    np.testing.assert_array_equal(data.inputs, IMAGES)
    assert data.input_scale == 1 / 255 and data.test_inputs is None
    data = load_data(tmp_path / "a.npz", data_keys=["pictures", "kinds", "more", "kinds_of_more"])
    assert (data.num_examples, len(data.test_inputs)) == (7, 2)
    text = said(load_data, tmp_path / "a.npz", data_keys=["pictures", "kind"])
    assert "data_keys: a.npz has no array 'kind'. Did you mean 'kinds'?" in text
    assert "data_keys needs two names. Received: kinds." in said(
        load_data, tmp_path / "a.npz", data_keys=["kinds"]
    )
    path = write(tmp_path / "a.csv", "x,y\n1,2\n")
    assert "data_keys applies only to NPZ and TFRecord files" in said(
        load_data, path, data_keys=["x", "y"]
    )


@pytest.mark.parametrize("kind", ["U", "S"])
def test_arrays_of_text_and_of_bytes_are_names_of_classes(tmp_path, kind):
    names = np.array(["ähre", "b", "ähre"])
    labels = names if kind == "U" else np.char.encode(names, "utf-8")
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 1)), y=labels[:, None])
    for data in (load_data(tmp_path / "a.npz", 0), load_data((np.zeros((3, 1)), labels))):
        assert data.class_names == ("b", "ähre") and data.targets.tolist() == [1, 0, 1]
    np.savez(tmp_path / "b.npz", x=np.zeros((3, 1)), y=names.astype(object))
    assert "class names as np.array(labels, str)" in said(load_data, tmp_path / "b.npz")


def test_a_pickled_npz_is_not_opened(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("the pickle was run",))

    np.savez(tmp_path / "a.npz", x=np.array([Trap()], object), y=np.ones(1))
    text = said(load_data, tmp_path / "a.npz")
    assert text.startswith(
        f"{tmp_path / 'a.npz'} cannot be read as an NPZ file of numbers. Received: pickled Python"
    )


@pytest.mark.parametrize("suffix", [".csv", ".TSV", ".txt"])
def test_compressed_tables_of_text(tmp_path, suffix):
    mark = {".csv": ",", ".TSV": "\t", ".txt": " "}[suffix]
    text = "".join(
        f"{mark.join(map(str, row))}\n"
        for row in [("a", "b", "y"), *np.arange(30.0).reshape(10, 3)]
    )
    (plain := tmp_path / f"t{suffix}").write_text(text)
    (packed := tmp_path / f"t{suffix}.gz").write_bytes(gzip.compress(text.encode()))
    assert load_data(packed).fingerprint() == load_data(plain).fingerprint()
    assert load_data(packed).feature_names == ("a", "b")
    packed.write_bytes(gzip.compress(text.encode())[:-9])
    assert f"{packed.name} cannot be read: Compressed file ended before" in said(load_data, packed)
    packed.write_bytes(text.encode())
    assert f"{packed.name} cannot be read: Not a gzipped file" in said(load_data, packed)


# Parquet


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    text = said(load_data, write(tmp_path / "a.parquet", "PAR1"))
    assert text == (
        "a.parquet: parquet files need the package pyarrow, which is not installed. "
        "Expected: pip install 'tati_re[parquet]', or a .csv or .npz file."
    )


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def stored(name, **columns):
        parquet.write_table(pyarrow.table(columns), tmp_path / name)
        return tmp_path / name

    path = stored("a.parquet", id=["a", "b"], x1=[1.5, 2.5], x2=[3, 4], label=[1, 0])
    data = load_data(path, 0, input_columns=["x2", "x1^2"])
    assert data.inputs.tolist() == [[3, 1.5], [4, 2.5]] and data.task == "classification"
    data = load_data([path, path], 0, input_columns=["x1"], label_columns=["x2", "label"])
    assert data.targets.tolist() == [[3, 1], [4, 0], [3, 1], [4, 0]]
    assert "a.parquet: column 'id' contains text. Received: 'a'." in said(load_data, path)
    import pandas

    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.5, 1.5, 2.5], "y": [1.1, 2.2, 3.3]})
    frame.loc[[2, 0, 1]].to_parquet(tmp_path / "part.parquet")
    assert "part.parquet has a column without a name" in said(load_data, tmp_path / "part.parquet")
    frame.set_index("b").to_parquet(tmp_path / "index.parquet")
    indexed = load_data(tmp_path / "index.parquet", 0)
    assert indexed.feature_names == ("b", "a") and indexed.targets.tolist() == [1.1, 2.2, 3.3]
    holes = stored("b.parquet", x=[1.0, None], label=[0, 1])
    assert "b.parquet, column 'x' has an empty cell. Received: row 1" in said(load_data, holes)
    assert "no examples" in said(
        load_data, stored("c.parquet", x=pyarrow.array([], "f8"), y=pyarrow.array([], "f8"))
    )
    assert "cannot be read as a parquet file" in said(
        load_data, write(tmp_path / "d.parquet", "x,y\n")
    )
    assert "a different header" in said(load_data, [path, holes], label_columns=["label"])
    texts = pyarrow.array(["up", "down", "up"])
    for name, column in (
        ("e", texts),
        ("f", texts.dictionary_encode()),
        ("g", texts.cast("large_string")),
    ):
        data = load_data(stored(f"{name}.parquet", x=[1.0, 2.0, 3.0], kind=column), 0)
        assert data.class_names == ("down", "up") and data.targets.tolist() == [1, 0, 1]
        words = said(load_data, tmp_path / f"{name}.parquet", label_columns=["x"])
        assert words.startswith(f"{name}.parquet: column 'kind' contains text.")
    number = stored("h.parquet", x=[1.0, 2.0], kind=pyarrow.array([1, 0]).dictionary_encode())
    assert load_data(number, 0).targets.tolist() == [1, 0]
    assert "has an empty cell" in said(
        load_data, stored("i.parquet", x=[1.0, 2.0], kind=["up", None])
    )


# TFRecord and tf.data


@pytest.fixture(scope="module")
def tf():
    from tati_re.core.backend import tf

    return tf


def records(tf, path, examples, compressed=False):
    """Writes dictionaries of bytes, integers and floats as examples."""

    def feature(value):
        if isinstance(value, bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        value = np.atleast_1d(value)
        if value.dtype.kind == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=value))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=value))

    with tf.io.TFRecordWriter(str(path), "GZIP" if compressed else "") as writer:
        for example in examples:
            features = tf.train.Features(
                feature={key: feature(value) for key, value in example.items()}
            )
            writer.write(tf.train.Example(features=features).SerializeToString())
    return path


def images(count=7, **more):
    return [
        {"image_raw": image.tobytes(), "label": int(label)} | more
        for image, label in zip(IMAGES[:count], LABELS[:count], strict=True)
    ]


def test_tfrecord_of_images(tf, tmp_path):
    path = records(tf, tmp_path / "a.tfrecords", images(height=4, width=5, depth=1))
    data = load_data(path, 0)
    np.testing.assert_array_equal(data.inputs, IMAGES)
    assert data.inputs.dtype == np.uint8 and data.input_scale == 1 / 255
    assert data.targets.tolist() == LABELS.tolist() and data.task == "classification"
    coloured = records(tf, tmp_path / "b.tfrecord", images(height=2, width=2, depth=5))
    assert load_data(coloured, 0).inputs.shape == (7, 2, 2, 5)
    flat = records(tf, tmp_path / "c.tfrecord.gz", images(), compressed=True)
    assert load_data(flat, 0).inputs.shape == (7, 20)
    shard = records(tf, tmp_path / "c.tfrecord-00001-of-00002", images())
    assert load_data([flat, shard], 0).num_examples == 14
    assert load_data(path, test_data=[path]).test_inputs.shape == (7, 4, 5)


def test_tfrecord_of_numbers(tf, tmp_path):
    examples = [
        {"x": np.array([i, 0.5]), "y": np.array([i / 2, -i], float), "kind": i % 2}
        for i in range(5)
    ]
    path = records(tf, tmp_path / "a.tfrecord", examples)
    data = load_data(path, 0, data_keys=["x", "y"])
    assert data.inputs.tolist() == [[i, 0.5] for i in range(5)] and data.input_scale == 1.0
    assert data.targets.tolist() == [[i / 2, -i] for i in range(5)] and data.task == "regression"
    assert load_data(path, 0, data_keys=["x", "kind"]).task == "classification"
    assert load_data(
        path, 0, data_keys=["x", "kind"], input_columns=["x1^2"]
    ).prepared().inputs.shape == (5, 1)


def test_bad_tfrecord(tf, tmp_path):
    path = records(tf, tmp_path / "a.tfrecord", images())
    assert said(load_data, path, data_keys=["image", "label"]) == (
        "data_keys: record 0 of a.tfrecord has no feature 'image'. Did you mean 'image_raw'? Received: image_raw, "
        "label. Expected: the names of the inputs and of the labels."
    )
    later = records(tf, tmp_path / "b.tfrecord", [*images(3), {"image_raw": b"1"}])
    assert "record 3 of b.tfrecord has no feature 'label'" in said(load_data, later)
    turned = [*images(3, height=4, width=5, depth=1), *images(1, height=5, width=4, depth=1)]
    assert "d.tfrecord: the records differ in 'height'" in said(
        load_data, records(tf, tmp_path / "d.tfrecord", turned)
    )
    named = records(tf, tmp_path / "e.tfrecord", [image | {"label": b"cat"} for image in images()])
    assert (
        "e.tfrecord: feature 'label' contains text. Received: cat. Expected: the class number"
        in said(load_data, named)
    )
    odd = records(tf, tmp_path / "c.tfrecord", [*images(3), {"image_raw": b"123", "label": 1}])
    assert (
        "c.tfrecord: the records differ in the number of bytes of feature 'image_raw'. Received: 3 in record 3"
        in (said(load_data, odd))
    )
    kinds = records(tf, tmp_path / "d.tfrecord", [*images(3), {"image_raw": b"1", "label": 0.5}])
    assert (
        "Record 3 of d.tfrecord has a feature 'label' unlike the first record's. Received: 1 of type float."
        in (said(load_data, kinds))
    )
    assert "does not match their bytes" in said(
        load_data, records(tf, tmp_path / "e.tfrecord", images(height=4, width=4, depth=1))
    )
    assert "holds encoded images. Received: PNG." in said(
        load_data, records(tf, tmp_path / "f.tfrecord", [{"image_raw": b"\x89PNG\r\n", "label": 1}])
    )
    assert "no examples" in said(load_data, records(tf, tmp_path / "g.tfrecord", []))
    for name, content in (
        ("h.tfrecord", b"no record at all"),
        ("i.tfrecord", path.read_bytes()[:-5]),
    ):
        (tmp_path / name).write_bytes(content)
        assert "cannot be read as a TFRecord file" in said(load_data, tmp_path / name)
    with tf.io.TFRecordWriter(str(tmp_path / "j.tfrecord")) as writer:
        writer.write(b"\xffno example")
    assert "records of another kind" in said(load_data, tmp_path / "j.tfrecord")
    assert "data_keys needs two names" in said(
        load_data, path, data_keys=["image_raw", "label", "a", "b"]
    )


def test_tf_data(tf):
    whole = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))
    for stream in (whole, whole.batch(3), whole.batch(7, drop_remainder=True)):
        data = load_data(stream)
        np.testing.assert_array_equal(data.inputs, IMAGES)
        assert data.targets.tolist() == LABELS.tolist() and data.input_scale == 1 / 255
    data = load_data(whole.batch(2), test_data=whole.take(2), standardize="inputs")
    assert data.test_inputs.shape == (2, 4, 5) and abs(data.prepared().inputs.mean()) < 1e-6
    one_hot = tf.data.Dataset.from_tensor_slices((IMAGES, np.eye(3)[LABELS]))
    assert load_data(one_hot).task == "one_hot"


def test_tf_data_that_may_be_examples_or_batches(tf):
    """As many labels as inputs: rows of two were torn into scalars."""
    rows = tf.data.Dataset.from_tensor_slices(
        (np.arange(12.0).reshape(6, 2), np.eye(2)[[0, 1] * 3])
    )
    assert (
        "could be examples or batches of numbers. Received: inputs and labels of shape (2,)"
        in said(load_data, rows)
    )
    data = load_data(rows.batch(4))
    assert data.inputs.shape == (6, 2) and data.task == "one_hot"
    data = load_data(
        tf.data.Dataset.from_tensor_slices((np.arange(16.0).reshape(8, 2), np.arange(8) % 2)).batch(
            2, True
        )
    )
    assert data.inputs.shape == (8, 2), "whole batches of two"


def test_bad_tf_data(tf):
    whole = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))
    assert "is infinite. Received: an infinite one. Expected: a data set without repeat()" in said(
        load_data, whole.repeat()
    )
    assert "has no examples" in said(load_data, whole.take(0))
    assert "wrong form. Received: elements of 4 parts." in said(
        load_data, tf.data.Dataset.from_tensor_slices((IMAGES, LABELS, LABELS, LABELS))
    )
    assert "wrong form. Received: dict." in said(
        load_data, tf.data.Dataset.from_tensor_slices({"x": IMAGES})
    )
    uneven = tf.data.Dataset.from_generator(
        lambda: iter([(np.ones((2, 3)), np.ones(2)), (np.ones((2, 4)), np.ones(2))]),
        output_signature=(tf.TensorSpec((None, None)), tf.TensorSpec((None,))),
    )
    assert "unequal shapes" in said(load_data, uneven)


def test_tf_data_without_an_end(tf, monkeypatch):
    def endless():
        while True:
            yield np.zeros((500_000, 1), np.float32), np.zeros(500_000, np.int64)

    form = (tf.TensorSpec((None, 1), tf.float32), tf.TensorSpec((None,), tf.int64))
    stream = tf.data.Dataset.from_generator(endless, output_signature=form)
    monkeypatch.setattr("tati_re.data.tf_datasets.free_bytes", lambda: 25e6)
    with pytest.warns(
        UserWarning,
        match=r"does not state its length; 1,500,000 examples are read so far; take",
    ):
        sentence = said(load_data, stream)
    assert sentence == (
        "data: the tf.data.Dataset does not state its length; 2,500,000 examples are "
        "read, and fill the memory. Expected: a data set without repeat(), or with "
        "take(n)."
    )


# Keras' image sets


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10"])
def test_image_sets_of_keras(name, monkeypatch):
    from tati_re.core.backend import keras

    loaded = (
        (IMAGES, LABELS[:, None].astype(np.uint8)),
        (IMAGES[:2], LABELS[:2, None].astype(np.uint8)),
    )
    monkeypatch.setattr(getattr(keras.datasets, name), "load_data", lambda: loaded)
    data = load_data(name)
    assert (data.name, data.num_examples, len(data.test_inputs), data.num_classes) == (
        name,
        7,
        2,
        3,
    )
    assert data.input_scale == 1 / 255 and data.targets.shape == (7,)

    def no_network():
        raise OSError(
            "URL fetch failure on https://x: None -- [Errno -2] Name or service not known"
        )

    monkeypatch.setattr(getattr(keras.datasets, name), "load_data", no_network)
    text = said(load_data, name)
    assert text.startswith(f"{name} could not be downloaded by Keras. Received: URL fetch failure")
    assert text.endswith(
        "Expected: a network connection, or the path of an NPZ file with the arrays x_train, y_train, x_test, y_test."
    )


def test_the_same_from_a_file(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:2], y_test=LABELS[:2])
    (tmp_path / "mnist.npz").write_bytes(buffer.getvalue())
    data = load_data(tmp_path / "mnist.npz")
    assert (data.num_examples, len(data.test_inputs), data.input_scale) == (7, 2, 1 / 255)


# What data are given as


@pytest.mark.parametrize(
    ("given", "kind", "is_table"),
    [
        ("harmonic", "generated", False),
        ("mnist", "images", False),
        ("a.csv", "files", True),
        ([Path("a.npz"), "b.csv"], "files", True),
        (Path("a.npz"), "files", False),
        (["harmonic"], "files", False),
        ((), "files", False),
        (pd.DataFrame({"x": [1.0], "y": [2.0]}), "frame", False),
        ((IMAGES, LABELS), "arrays", False),
        (7, "arrays", False),
        (Dataset(IMAGES / 255.0, LABELS), "dataset", False),
    ],
)
def test_what_data_are_is_decided_before_they_are_read(given, kind, is_table):
    source = source_of(given)
    assert source.kind == kind
    assert source.is_table == is_table
    assert source.is_named == (kind in ("generated", "images", "files"))
    assert source.has_columns == (is_table or kind == "frame")


def test_sources_are_told_apart_at_one_place(tmp_path, monkeypatch):
    """Training data and test data are looked at once each, however they are read."""
    looked = []

    def counting(given):
        looked.append(given)
        return source_of(given)

    monkeypatch.setattr(loading, "source_of", counting)
    paths = [write(tmp_path / f"{name}.csv", "x,label\n1,0\n3,1\n") for name in "ab"]
    load_data(paths[0], 0, test_data=paths[1])
    assert looked == paths
