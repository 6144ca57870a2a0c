"""Files of a few kilobytes that ask for gigabytes: refused while the process stays small."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from tati_re.core.backend import keras
from tati_re.core.errors import InputError
from tati_re.core.files.unpacking import check_h5_size, check_texts
from tati_re.data import load_data
from tati_re.models.build import load_model
from tati_re.models.claims import TooManyWeights, limited_weights
from tati_re.runs.h5_table import H5Table
from tati_re.runs.reading import open_h5, read_h5

MANY = 2_000_000_000


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def told(program: str, paths, most_gigabytes: float = 2.5) -> list[str]:
    """What a program says of each path, in one process whose memory has a limit beyond what its
    imports take; of what made it grow by 400 MB, by how much.
    """
    begin = (
        "import os, resource, sys\n"
        "os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'\n"
        "from tati_re.core.errors import InputError\n"
        f"{program}\n"
        "before = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        f"limit = before + int({most_gigabytes}e9)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "for path in sys.argv[1:]:\n"
        "    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    try:\n"
        "        read(path)\n"
        "        print('accepted')\n"
        "    except InputError as error:\n"
        "        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start\n"
        "        print('refused' if grown < 400_000 else f'{grown:,} kB', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", begin, *map(str, paths)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert len(said) == len(paths), said
    return said


def rewritten(path, change):
    """A saved model with another configuration."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(parts["config.json"])
    change(config["config"]["layers"])
    parts["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert path.stat().st_size < 200_000
    return path


def saved(name, *layers, shape=(4,)):
    keras.Sequential([keras.Input(shape), *layers]).save(path := Path(f"{name}.keras"))
    return path


def with_value(place, key, value):
    def change(layers):
        layers[place]["config"][key] = value

    return change


layers = keras.layers
MODELS = {
    "units": lambda: rewritten(saved("a", layers.Dense(2)), with_value(1, "units", MANY)),
    "many layers": lambda: rewritten(
        saved("a", *[layers.Dense(2) for _ in range(5)]),
        lambda them: [each["config"].update(units=5_000) for each in them[1:]],
    ),
    "a wide input": lambda: rewritten(
        saved("a", layers.Dense(2)),
        lambda them: [
            them[0]["config"].update(batch_shape=[None, MANY]),
            them[1]["build_config"].update(input_shape=[None, MANY]),
        ],
    ),
    "embedding": lambda: rewritten(
        saved("a", layers.Embedding(3, 2)), with_value(1, "input_dim", MANY)
    ),
    "filters": lambda: rewritten(
        saved("a", layers.Conv2D(2, 3), shape=(8, 8, 1)), with_value(1, "filters", MANY)
    ),
    "kernel": lambda: rewritten(
        saved("a", layers.Conv1D(2, 3), shape=(8, 1)), with_value(1, "kernel_size", [MANY])
    ),
    "recurrent": lambda: rewritten(
        saved("a", layers.LSTM(2), shape=(4, 2)), with_value(1, "units", 100_000)
    ),
    "orthogonal": lambda: rewritten(
        saved("a", layers.Dense(2, kernel_initializer="orthogonal")),
        with_value(1, "units", 100_000_000),
    ),
    "attention": lambda: rewritten(
        saved("a", layers.Conv1D(2, 1), layers.Conv1D(2, 1), shape=(4, 2)),
        lambda them: [each["config"].update(filters=50_000) for each in them[1:]],
    ),
    "normalized": lambda: rewritten(
        saved("a", layers.Flatten(), layers.BatchNormalization(), shape=(4, 4)),
        lambda them: [
            them[0]["config"].update(batch_shape=[None, 100_000, 100_000]),
            [each.pop("build_config", None) for each in them],
        ],
    ),
}


def inside():
    """A model inside a model."""
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(2)])
    return rewritten(
        saved("a", inner),
        lambda them: them[1]["config"]["layers"][1]["config"].update(units=MANY),
    )


def test_models_that_have_more_weights_than_their_files():
    paths = []
    for name, made in {**MODELS, "inside": inside}.items():
        made().rename(path := Path(f"{name}.keras"))
        paths.append(path)
    said = told("from tati_re.models.build import load_model as read", paths)
    for path, text in zip(paths, said, strict=True):
        assert text.startswith("refused model cannot be loaded: "), (path, text)
    claimed = [text for text in said if "its layers claim" in text]
    assert len(claimed) >= len(said) - 3, said


def test_weights_that_are_a_fill_value():
    path = saved("a", layers.Dense(2, name="d"))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    Path("weights.h5").write_bytes(parts["model.weights.h5"])
    with h5py.File("weights.h5", "r+") as file:
        names: list[str] = []
        file.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        del file[names[0]]
        file.create_dataset(names[0], (MANY,), "float64", chunks=(1024,))
    parts["model.weights.h5"] = Path("weights.h5").read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(InputError, match="claims 16,000,000,000 bytes of numbers but contains 0"):
        load_model(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_models_that_are_right_are_loaded(compression):
    whole = [
        layers.Conv2D(3, 3, dtype="float16"),
        layers.BatchNormalization(),
        layers.Flatten(),
        layers.Dense(300),
        layers.Reshape((30, 10)),
        layers.LSTM(8, stateful=False),
        layers.Dropout(0.5, seed=1),
        layers.Dense(2),
    ]
    path = saved("a", *whole, shape=(9, 9, 1))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    before = keras.Variable.__init__
    assert load_model(path).count_params() > 40_000
    assert keras.Variable.__init__ is before


def test_the_count_of_weights_stops_at_the_limit():
    before = keras.Variable.__init__
    with pytest.raises(TooManyWeights), limited_weights(1e4):
        layers.Dense(100).build((None, 1_000))
    assert keras.Variable.__init__ is before
    with limited_weights(1e6):
        layers.Dense(100).build((None, 1_000))


def table(name="a.h5", columns=("step", "walker", "loss"), rows=2):
    made = H5Table(Path(name), columns)
    made.append(np.ones((rows, len(columns))))
    made.flush()
    return Path(name)


def h5_unwritten():
    with h5py.File(table(), "r+", libver=("v110", "v110")) as file:
        file["rows"].resize(110_000_000, axis=0)
        del file["index"]
        file.create_dataset("index", (110_000_000, 2), "int8", chunks=(4096, 2))


def h5_compressed():
    with h5py.File(table(), "r+") as file:
        for name, kind in (("rows", "float64"), ("index", "int64")):
            width = file[name].shape[1]
            del file[name]
            size = 30_000_000
            made = file.create_dataset(
                name, (size, width), kind, chunks=(2**20, width), compression="gzip"
            )
            made[: 2**20] = 1


def h5_wide():
    with h5py.File(table(), "r+") as file:
        del file["rows"], file["columns"]
        file.create_dataset("rows", (1, 50_000_000), "float32", chunks=(1, 4096))
        file.create_dataset("columns", (50_000_000,), h5py.string_dtype(), chunks=(4096,))


def h5_same_name():
    with h5py.File(table(), "r+") as file:
        del file["rows"], file["columns"]
        file.create_dataset("rows", data=np.zeros((1, 20_000), "float32"))
        names = file.create_dataset("columns", (20_000,), h5py.string_dtype())
        names[:] = "a"
        names[0] = "b" * 1_000_000
        file.flush()
        place, size = names.id.get_offset(), 16
    content = bytearray(Path("a.h5").read_bytes())
    content[place : place + 20_000 * size] = content[place : place + size] * 20_000
    Path("a.h5").write_bytes(content)


def h5_chunk():
    with h5py.File(table(), "r+") as file:
        del file["rows"]
        file.create_dataset(
            "rows",
            (2, 1),
            "float64",
            maxshape=(None, 1),
            chunks=(200_000_000, 1),
            compression="gzip",
        )


TABLES = {
    "rows that were never written": h5_unwritten,
    "compressed rows": h5_compressed,
    "columns that were never written": h5_wide,
    "one long name for all columns": h5_same_name,
    "a chunk of gigabytes": h5_chunk,
}


def test_tables_of_hdf5_that_claim_more_than_they_have():
    paths = []
    for name, made in TABLES.items():
        made()
        paths.append(Path("a.h5").rename(f"{name}.h5"))
        assert paths[-1].stat().st_size < 3_000_000
    for text in told("from tati_re.runs.reading import read_h5 as read", paths):
        assert text.startswith("refused The file ") and "is damaged" in text, text


def test_tables_that_are_right_are_read():
    table(rows=10_000)
    assert len(read_h5("a.h5")) == 10_000
    with h5py.File("a.h5", "r+", libver=("v110", "v110")) as file:
        file["rows"].resize(10_500, axis=0)
        file["index"].resize(10_500, axis=0)
    assert len(read_h5("a.h5")) == 10_000  # what a kill inside a flush leaves
    with h5py.File("b.h5", "w") as packed, h5py.File("a.h5") as file:
        for name in ("rows", "index"):
            packed.create_dataset(name, data=file[name][:10_000], compression="gzip", chunks=True)
        for name in ("columns", "index_columns"):
            packed.create_dataset(name, data=file[name][:])
    assert len(read_h5("b.h5")) == 10_000
    with open_h5("b.h5") as file:
        check_h5_size(file["rows"])


def parquet(kind):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as written

    rows = 1_000_000
    text = pyarrow.array(["a" * 30_000])
    column = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), text)
    number = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int8), [1.0]).cast("float64")
    columns = {"x": number, "label": column}
    if kind == "many rows":
        short = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int8), [1.0])
        one = pyarrow.table({"x": short.cast("float64"), "label": short.cast("float64")})
        with written.ParquetWriter("a.parquet", one.schema) as file:
            for _ in range(300):
                file.write_table(one)
        return
    keeps = kind == "text with its type"
    written.write_table(pyarrow.table(columns), "a.parquet", compression="zstd", store_schema=keeps)


def test_parquet_files_of_one_text_a_million_times():
    paths = []
    for kind in ("text", "text with its type", "many rows"):
        parquet(kind)
        paths.append(Path("a.parquet").rename(f"{kind}.parquet"))
        assert paths[-1].stat().st_size < 3_000_000
    for text in told("from tati_re.data import load_data as read", paths):
        assert "cannot be read as a parquet file: " in text and text.startswith("refused"), text


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
def test_parquet_files_that_are_right_are_read(kind, dictionary):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as written

    names = pyarrow.array(["cat", "dog"] * 50)
    names = names.dictionary_encode() if kind == "dictionary" else names.cast(kind)
    rows = pyarrow.table({"x": np.arange(100.0), "label": names})
    written.write_table(rows, "a.parquet", use_dictionary=dictionary)
    data = load_data("a.parquet")
    assert list(data.class_names) == ["cat", "dog"] and len(data.inputs) == 80


def test_one_long_name_among_many_short_ones():
    """An array of texts takes for each as much as for the longest."""
    lines = "1,a\n2,b\n" * 50_000 + f"1,{'c' * 100_000}\n"
    Path("a.csv").write_text("x,label\n" + lines)
    with pytest.raises(InputError, match=r"a\.csv, column 'label' is too large: a text of 100,000"):
        load_data("a.csv")
    with pytest.raises(ValueError, match="it claims 40,000,000,000 bytes"):
        check_texts(100_000, 100_000, 1e6)
    check_texts(100_000, 100, 1e6)
