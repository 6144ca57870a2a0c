"""Every reader of the registry keeps the contract; other packages add readers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.core.errors import InputError
from tati_re.data import load_data
from tati_re.data.contents import Contents
from tati_re.data.readers import Reader, TableReader, add_reader, readers, registry
from tati_re.data.readers.registry import READERS, reader_of
from tati_re.prediction.inputs import read_inputs
from tati_re.testing import check_reader
from tests.product.test_userguide import blocks

COUNT = 40
RANDOM = np.random.default_rng(2)
INPUTS = np.round(RANDOM.normal(size=(COUNT, 3)), 6)
LABELS = np.arange(COUNT) % 3
NAMES = ["width", "height", "depth"]
TABLE = pd.DataFrame(INPUTS, columns=NAMES).assign(kind=LABELS)


def text_with(separator):
    return lambda path: TABLE.to_csv(path, sep=separator, index=False)


def npz(path):
    np.savez(path, x=INPUTS, y=LABELS)


def parquet(path):
    pytest.importorskip("pyarrow")
    TABLE.to_parquet(path, index=False)


def tfrecord(path):
    from tati_re.core.backend import tf

    with tf.io.TFRecordWriter(str(path)) as file:
        for label in LABELS:
            feature = {
                "image_raw": tf.train.Feature(
                    bytes_list=tf.train.BytesList(value=[bytes([label, 1, 2])])
                ),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            file.write(example.SerializeToString())


SAMPLES = {
    ".csv": text_with(","),
    ".tsv": text_with("\t"),
    ".txt": text_with(" "),
    ".dat": text_with(";"),
    ".data": text_with("\t"),
    ".parquet": parquet,
    ".npz": npz,
    ".tfrecord": tfrecord,
    ".tfrecords": tfrecord,
}
"""How to write a sample file with `INPUTS` and `LABELS` for each suffix of the registry."""

BYTES = np.stack([LABELS, np.ones(COUNT), np.full(COUNT, 2)], axis=1)


@pytest.fixture
def feather_reader(tmp_path, monkeypatch):
    """The class that the page on own readers shows, from a file in the working folder."""
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "feather_reader", raising=False)
    text = next(text for _, file, text in blocks("userguide/own_reader.md") if file)
    Path("feather_reader.py").write_text(text)
    import feather_reader

    return feather_reader.FeatherReader


@pytest.fixture
def added(feather_reader, monkeypatch):
    monkeypatch.setattr(registry, "_added", {})
    add_reader(feather_reader())
    return feather_reader


def said(call, *arguments, **options) -> str:
    with pytest.raises(InputError) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# The contract


def test_every_reader_has_a_sample_here():
    assert set(SAMPLES) == set(READERS)


@pytest.mark.parametrize("suffix", SAMPLES)
def test_the_contract_holds(suffix, tmp_path):
    path = tmp_path / f"sample{suffix}"
    SAMPLES[suffix](path)
    inputs = BYTES if "tfrecord" in suffix else INPUTS
    reader = reader_of(path)
    assert suffix in reader.suffixes
    assert all(type(reader_of(Path(f"a{each}"))) is type(reader) for each in reader.suffixes)
    check_reader(reader, path, inputs, LABELS)


@pytest.mark.parametrize("labels", [LABELS, np.array(["a", "bb", "c"])[LABELS]])
def test_the_page_keeps_the_contract(feather_reader, labels):
    TABLE.assign(kind=labels).to_feather("a.feather")
    check_reader(feather_reader(), "a.feather", INPUTS, labels)


class JsonReader(Reader):
    """A file of lists, `{"x": [[...]], "y": [...]}`."""

    suffixes = (".json",)

    def read(self, path, request):
        found = json.loads(path.read_text())
        return Contents(np.array(found["x"]), np.array(found["y"]), name=path.name)


class JsonTable(TableReader):
    """A file of columns, `{"name": [...]}`."""

    suffixes = (".json",)

    def column_names(self, path, request):
        return list(json.loads(path.read_text()))

    def frame(self, path, columns, request):
        return pd.DataFrame(json.loads(path.read_text()))[list(columns)]


class OrderOfTheFile(JsonTable):
    """A wrong variant: the columns come in the order of the file."""

    def frame(self, path, columns, request):
        found = pd.DataFrame(json.loads(path.read_text()))
        kept = found[[name for name in found if name in columns]]
        return kept.set_axis(list(columns), axis=1)


class OtherErrors(JsonTable):
    """A wrong variant: a damaged file raises what is a fault of the program."""

    def column_names(self, path, request):
        try:
            return super().column_names(path, request)
        except ValueError as error:
            raise KeyError("names") from error


class SilentlyEmpty(JsonTable):
    """A wrong variant: of a damaged file it returns the numbers of another one."""

    def column_names(self, path, request):
        return list(TABLE)

    def frame(self, path, columns, request):
        return TABLE[list(columns)]


class ShiftedLabels(JsonTable):
    """A wrong variant: labels of the next row."""

    def read(self, path, request):
        contents = super().read(path, request)
        return replace(contents, targets=np.roll(contents.targets, 1, axis=0))


class OnceOnly(JsonTable):
    """A wrong variant: a second read gives other rows."""

    def __init__(self):
        self.reads = 0

    def frame(self, path, columns, request):
        self.reads += 1
        return super().frame(path, columns, request) * self.reads


class WithoutDot(JsonTable):
    """A wrong variant: its suffix is never found."""

    suffixes = ("json",)


def test_own_readers_keep_the_contract(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"x": INPUTS.tolist(), "y": LABELS.tolist()}))
    check_reader(JsonReader(), tmp_path / "a.json", INPUTS, LABELS)
    (tmp_path / "b.json").write_text(json.dumps(TABLE.to_dict("list")))
    check_reader(JsonTable(), tmp_path / "b.json", INPUTS, LABELS)


WRONG = {
    OrderOfTheFile: "order of request.inputs",
    OtherErrors: "raises KeyError",
    SilentlyEmpty: "Expected: an error",
    ShiftedLabels: "labels differ from the file",
    OnceOnly: "Reading",
    WithoutDot: "lacks its dot",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_variants_are_caught(wrong, tmp_path):
    (tmp_path / "b.json").write_text(json.dumps(TABLE.to_dict("list")))
    with pytest.raises(AssertionError, match=WRONG[wrong]):
        check_reader(wrong(), tmp_path / "b.json", INPUTS, LABELS)


# Readers of other packages


def package(folder: Path, lines: str) -> None:
    """Makes a folder of the path look as if a package with these entry points were installed."""
    (folder / "own-1.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: own\nVersion: 1.0\n"
    (folder / "own-1.0.dist-info" / "METADATA").write_text(metadata)
    (folder / "own-1.0.dist-info" / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{lines}")


@pytest.fixture
def fresh():
    """The registry looks for packages anew, before and after."""
    registry._installed.cache_clear()
    registry._imported.cache_clear()
    yield
    registry._installed.cache_clear()
    registry._imported.cache_clear()


def test_a_package_adds_a_reader_by_one_file_and_one_line(feather_reader, fresh):
    package(Path.cwd(), "feather = feather_reader:FeatherReader\ncsv = nothing:Nothing\n")
    assert readers()[-1] == ".feather"
    TABLE.to_feather("a.feather")
    TABLE.to_csv("a.csv", index=False)
    data = load_data("a.feather", 0)
    same = load_data("a.csv", 0)
    np.testing.assert_array_equal(data.inputs, same.inputs)
    np.testing.assert_array_equal(data.targets, same.targets)
    assert data.feature_names == same.feature_names == tuple(NAMES)
    text = said(load_data, "b.feather")
    assert ".parquet, .tfrecord or .feather file" in text


def test_a_package_that_cannot_be_imported_is_one_sentence(tmp_path, monkeypatch, fresh):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    package(tmp_path, "zarr = missing_module:Zarr\nodd = json:JSONDecoder\n")
    Path("a.zarr").write_text("1")
    Path("a.odd").write_text("1")
    assert "the reader of .zarr files cannot be imported: No module" in said(load_data, "a.zarr")
    assert "the reader of .odd files is not a Reader" in said(load_data, "a.odd")
    TABLE.to_csv("a.csv", index=False)
    assert len(load_data("a.csv", 0).inputs) == COUNT


def test_a_reader_needs_suffixes_of_its_own(monkeypatch):
    monkeypatch.setattr(registry, "_added", {})
    assert "not a Reader" in said(add_reader, JsonReader)
    assert "invalid" in said(add_reader, WithoutDot())
    taken = type("Taken", (JsonReader,), {"suffixes": (".csv", ".json")})
    assert "already has this suffix. Received: .csv" in said(add_reader, taken())
    assert registry._added == {}


class JsonText(JsonReader):
    """A file of lists, in an encoding."""

    takes_encoding = True

    def read(self, path, request):
        found = json.loads(path.read_text(encoding=request.encoding or "utf-8"))
        return Contents(np.array(found["x"]), np.array(found["y"]), name=path.name)


# What the doors do with them


def test_columns_weights_and_test_data(added):
    weights = np.linspace(0.5, 1.5, COUNT)
    table = TABLE.assign(importance=weights)[["importance", *TABLE]]
    table.to_feather("a.feather")
    table[:10].to_feather("b.feather")
    data = load_data(
        "a.feather",
        test_data="b.feather",
        label_columns=["kind"],
        input_columns=["depth", "height^2"],
        sample_weights="importance",
    )
    np.testing.assert_array_equal(data.inputs, INPUTS[:, [2, 1]])
    np.testing.assert_array_equal(data.weights, weights)
    np.testing.assert_array_equal(data.test_weights, weights[:10])
    np.testing.assert_allclose(data.prepared().test_inputs[:, 1], INPUTS[:10, 1] ** 2, rtol=1e-12)
    joined = load_data(["a.feather", "b.feather"], 0)
    assert len(joined.inputs) == COUNT + 10

    table.rename(columns={"depth": "length"}).to_feather("c.feather")
    assert "a different header" in said(load_data, "a.feather", test_data="c.feather")
    table.to_csv("a.csv", index=False)
    assert "cannot be joined" in said(load_data, ["a.feather", "a.csv"])


def test_options_that_a_reader_does_not_take(added):
    add_reader(JsonReader())
    TABLE.to_feather("a.feather")
    Path("a.json").write_text(json.dumps({"x": INPUTS.tolist(), "y": LABELS.tolist()}))
    np.testing.assert_array_equal(load_data("a.json", 0).inputs, INPUTS)
    keys = {"data_keys": ["x", "y"]}
    assert "a .feather file has columns" in said(load_data, "a.feather", **keys)
    assert "a .json file has no named arrays" in said(load_data, "a.json", **keys)
    assert "cannot be read from .json files" in said(load_data, "a.json", sample_weights="w")
    assert "encoding applies only to text tables" in said(load_data, "a.json", encoding="utf-8")
    assert "only tables have named columns" in said(load_data, "a.json", label_columns=["y"])


BAD_COLUMNS = {
    "contains text": [f"name {k}" for k in range(40)],
    "has missing values": [1.0] * 39 + [None],
    "contains dates": [pd.Timestamp("2020-01-01")] * 40,
}


@pytest.mark.parametrize("words", BAD_COLUMNS)
def test_columns_that_hold_no_numbers(words, added):
    TABLE.assign(height=BAD_COLUMNS[words]).to_feather("a.feather")
    text = said(load_data, "a.feather")
    assert text.startswith("a.feather: column 'height' ") and words in text


def test_damaged_files_pipes_and_folders(added):
    TABLE.to_feather("a.feather")
    whole = Path("a.feather").read_bytes()
    for part in (b"", b"ARROW1", whole[:100], whole[:-20]):
        Path("b.feather").write_bytes(part)
        text = said(load_data, "b.feather")
        assert text.startswith("b.feather cannot be read as a .feather file: ")
        assert text in said(load_data, TABLE, test_data="b.feather")
    os.mkfifo("c.feather")
    os.mkdir("d.feather")
    assert "not a regular file" in said(load_data, "c.feather")
    assert "is a folder" in said(load_data, "d.feather")
    TABLE[:0].to_feather("e.feather")
    assert "e.feather has no examples" in said(load_data, "e.feather")


def test_a_small_file_that_claims_much(added):
    zeros = pd.DataFrame(np.zeros((400_000, 2)), columns=["x", "y"])
    zeros.to_feather("zeros.feather", compression="zstd", compression_level=9)
    assert Path("zeros.feather").stat().st_size < 30_000
    text = said(load_data, "zeros.feather", memory_limit=1)
    assert "it claims " in text
    assert len(load_data("zeros.feather", 0, memory_limit=20).inputs) == 400_000

    labels = pd.Categorical(["a" * 30_000] + ["b"] * 99_999)
    long = pd.DataFrame({"x": np.zeros(len(labels)), "kind": labels})
    long.to_feather("long.feather", compression="zstd")
    assert "a text of 30,000 letters in 100,000 rows" in said(load_data, "long.feather")


def test_inputs_to_predict(added):
    TABLE.to_feather("a.feather")
    sim = tati_re.Simulation(data="a.feather", hidden=[3], seed=1, verbose=0)
    run = sim.sample(
        sampler="BAOAB", step_size=0.01, num_steps=20, trajectory_every=10, output="run"
    )
    TABLE[["kind", "depth", "width", "height"]][:9].to_feather("new.feather")
    inputs, labels = read_inputs("new.feather", run)
    np.testing.assert_array_equal(inputs, INPUTS[:9])
    np.testing.assert_array_equal(labels, LABELS[:9])

    TABLE[NAMES].to_feather("inputs.feather")
    assert read_inputs("inputs.feather", run)[1] is None
    TABLE.assign(kind=np.nan).to_feather("blank.feather")
    assert read_inputs("blank.feather", run)[1] is None
    Path("bad.feather").write_bytes(b"ARROW1")
    assert "bad.feather cannot be read as a .feather file" in said(read_inputs, "bad.feather", run)

    add_reader(JsonText())
    arrays = {"x": INPUTS[:5].tolist(), "y": LABELS[:5].tolist()}
    Path("new.json").write_text(json.dumps(arrays), encoding="utf-16")
    inputs, labels = read_inputs("new.json", run, encoding="utf-16")
    np.testing.assert_array_equal(inputs, INPUTS[:5])
    np.testing.assert_array_equal(labels, LABELS[:5])
    assert "new.json cannot be read as a .json file" in said(read_inputs, "new.json", run)
    np.savez("new.npz", x=INPUTS, y=LABELS)
    assert "text tables" in said(read_inputs, "new.npz", run, encoding="utf-16")

    from tati_re.cli import predict

    assert predict.main(["run", "--data", "new.feather"]) == 0
    assert len(pd.read_csv("run/predictions/predictions.csv")) == 9
