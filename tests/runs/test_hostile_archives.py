"""Sizes that files claim are checked before memory is asked for, whoever reads them."""

import gzip
import io
import struct
import tracemalloc
import zipfile
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.core.files.unpacking import load_arrays
from tati_re.data import load_data
from tati_re.evidence.parts import PartFiles
from tati_re.exploration import jobs
from tati_re.models.build import load_model
from tati_re.prediction.inputs import read_inputs as inputs_of
from tati_re.runs import checkpoint, manifest
from tati_re.runs.checkpoint import _digest
from tati_re.runs.h5_table import H5Table
from tati_re.runs.manifest import Manifest
from tati_re.runs.parameters import read_parameters
from tati_re.runs.reading import open_h5
from tati_re.runs.storage import StorageError
from tati_re.system.saved_model import read_directions

MANY = 10**12


def npy(count=MANY, numbers=b"\0" * 64):
    """An array of this many numbers by its header, and a few in truth."""
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        text, {"descr": "<f8", "fortran_order": False, "shape": (count,)}
    )
    return text.getvalue() + numbers


def npz(path, names, content=None, kind=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name in names:
            archive.writestr(f"{name}.npy", content or npy())
    return path


def bomb(path, names=("x", "y"), megabytes=8):
    """Zeros, compressed by a factor of a thousand."""
    content = npy(megabytes * 125_000, b"\0" * (megabytes * 10**6))
    return npz(path, names, content, zipfile.ZIP_DEFLATED)


def claiming(path, old, new):
    """The same zip file with another size of a member in its directory."""
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", old), struct.pack("<I", new)))
    return path


@pytest.fixture(autouse=True)
def memory():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e8


READERS = {
    "data": lambda folder: load_data(str(npz(folder / "a.npz", "xy"))),
    "one of several inputs": lambda folder: load_data(
        str(npz(folder / "a.npz", "abc")), data_keys=["a+b", "c"]
    ),
    "parameters": lambda folder: read_parameters(
        npz(folder / "a.npz", ["parameters"]), names=["a"]
    ),
    "directions": lambda folder: read_directions(str(npz(folder / "a.npz", ["d"])), 3),
    "inputs": lambda folder: (
        (folder / "a.npy").write_bytes(npy())
        and inputs_of(str(folder / "a.npy"), SimpleNamespace(manifest=Manifest()))
    ),
    "evidence": lambda folder: (
        npz(folder / "part.npz", ["seconds", "chains"]) and PartFiles(folder).load("part")
    ),
    "numbers": lambda folder: (
        (folder / "a.npy").write_bytes(npy()) and read_directions(str(folder / "a.npy"), 3)
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_a_header_of_ten_to_the_twelve_numbers_is_refused_by_all_who_read_arrays(tmp_path, name):
    with pytest.raises(InputError, match=r"its header claims 8,000,000,000,000 bytes|is damaged"):
        READERS[name](tmp_path)


def test_a_job_of_an_exploration_is_refused(tmp_path):
    with pytest.raises(ValueError, match="claims"):
        jobs.read(npz(tmp_path / "a.npz", ["leg", "points"]))


def test_what_unpacks_to_too_much_is_refused(tmp_path):
    """By the memory limit, or 2 GB; a file of honest numbers may be larger than either."""
    path = bomb(tmp_path / "a.npz")
    with load_arrays(path) as file:
        assert file["x"].shape == (1_000_000,)
    size = 8_000_000 + len(npy(1_000_000, b""))
    with pytest.raises(
        ValueError,
        match=r"it claims 4,800,000,\d+ bytes; the limit for a file of .* is 2,000,000,000",
    ):
        load_arrays(claiming(bomb(tmp_path / "b.npz"), size, 2_400_000_000))
    with pytest.raises(
        InputError, match=r"it claims 16,000,\d+ bytes; the limit for a file of .* is \d,\d+,\d+"
    ):
        load_data(str(path), memory_limit=2)
    x = np.random.default_rng(0).normal(size=(100_000, 4))
    np.savez(tmp_path / "honest.npz", x=x, y=x[:, 0])
    assert len(load_data(str(tmp_path / "honest.npz"), memory_limit=1).inputs) == 80_000


def test_a_checkpoint_with_the_right_digest_is_refused(tmp_path):
    for step in (1, 2):
        checkpoint.save(tmp_path, {"x": np.zeros(2)}, {"step": step})
    path = tmp_path / "checkpoint" / "current.npz"
    npz(path, ["state/position/0"])
    with path.open("r+b") as file:
        file.seek(0, 2)
        file.write(b"0" * 64)
        digest = _digest(file)
        file.seek(-64, 2)
        file.write(digest)
    _, meta, note = checkpoint.load(tmp_path)
    assert meta["step"] == 1 and "claims 8,000,000,000,000 bytes" in note


def record(length, content):
    return struct.pack("<Q", length) + b"\0" * 4 + content + b"\0" * 4


def test_records_are_as_long_as_their_file(tmp_path):
    (path := tmp_path / "a.tfrecord").write_bytes(record(MANY, b"x"))
    with pytest.raises(
        InputError, match=r"its records claim 1,000,000,000,016 bytes, but it has 17."
    ):
        load_data(str(path))
    (path := tmp_path / "b.tfrecord.gz").write_bytes(gzip.compress(record(MANY, b"x")))
    with pytest.raises(
        InputError, match=r"it claims 1,000,000,000,016 bytes; .*Expected: a larger memory_limit"
    ):
        load_data(str(path))
    many = record(10**6, b"\0" * 10**6) * 8
    (path := tmp_path / "c.tfrecord.gz").write_bytes(gzip.compress(many))
    with pytest.raises(
        InputError, match=r"it claims .* bytes; the limit for a file of .* is 2,000,000"
    ):
        load_data(str(path), memory_limit=2)


def test_a_table_of_text_unpacks_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("tati_re.core.files.unpacking.LIMIT", 1e6)
    (path := tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1,2\n" * 10**6))
    with pytest.raises(InputError, match=r"a.csv.gz cannot be read: it claims .* bytes; the limit"):
        load_data(str(path))


def test_a_parquet_file_of_one_number_a_billion_times(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    column = pyarrow.DictionaryArray.from_arrays(np.zeros(10**6, np.int8), [1.0])
    parquet.write_table(
        pyarrow.table({"x": column.cast("float64"), "label": column.cast("float64")}), "a.parquet"
    )
    with pytest.raises(
        InputError, match=r"cannot be read as a parquet file: it claims 16,000,000 bytes"
    ):
        load_data("a.parquet", memory_limit=1)
    assert len(load_data("a.parquet", memory_limit=20).inputs) == 800_000


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_model_file_that_unpacks_to_too_much(tmp_path):
    with zipfile.ZipFile("a.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", b" " * 1_000_003)
    with pytest.raises(InputError, match="model cannot be loaded: it claims 2,400,000,000 bytes"):
        load_model(claiming(tmp_path / "a.keras", 1_000_003, 2_400_000_000))


def table(path):
    made = H5Table(path, ["step", "loss"])
    made.append(np.ones((2, 2)))
    made.flush()
    return path


def test_a_table_that_claims_more_rows_than_it_can_hold(tmp_path):
    with h5py.File(table(tmp_path / "a.h5"), "r+", libver=("v110", "v110")) as file:
        file["index"].resize(MANY, axis=0)
        file["rows"].resize(MANY, axis=0)
    with (
        pytest.raises(InputError, match=r"it claims 16,000,000,000,\d+ bytes"),
        open_h5(tmp_path / "a.h5"),
    ):
        pass


@pytest.mark.parametrize("way", ["link", "external"])
def test_a_table_whose_numbers_are_in_another_file_is_neither_read_nor_written(tmp_path, way):
    (victim := table(tmp_path / "victim.h5")).rename(tmp_path / "victim")
    before = (tmp_path / "victim").read_bytes()
    with h5py.File(table(tmp_path / "a.h5"), "r+", libver=("v110", "v110")) as file:
        del file["rows"]
        if way == "link":
            file["rows"] = h5py.ExternalLink(str(tmp_path / "victim"), "rows")
        else:
            external = [(str(tmp_path / "victim"), 0, h5py.h5f.UNLIMITED)]
            file.create_dataset("rows", (2, 1), "float64", maxshape=(None, 1), external=external)
    with pytest.raises(InputError, match="not a table of a run"):
        H5Table.reopen(tmp_path / "a.h5", ["step", "loss"], 1)
    assert (tmp_path / "victim").read_bytes() == before and not victim.exists()


def test_a_manifest_that_is_no_file(tmp_path):
    import os

    os.mkfifo(tmp_path / "manifest.toml")
    with pytest.raises(InputError, match="not a regular file"):
        manifest.read(tmp_path)
    with pytest.raises(StorageError):
        (tmp_path / "checkpoint").symlink_to(tmp_path)
        checkpoint.save(tmp_path, {}, {})
