"""Tables: exact numbers, complete rows, positions to go back to, and what is left after a kill or
on a full disk.
"""

import errno
import os
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from tati_re.core.errors import InputError
from tati_re.runs import reading
from tati_re.runs.csv_table import CsvTable
from tati_re.runs.h5_killed import checksum
from tati_re.runs.h5_table import H5Table
from tati_re.runs.storage import StorageError

COLUMNS = ["step", "walker", "loss", "dense/kernel[0,3]"]


def rows_of(first, count, columns=4):
    rows = np.random.default_rng(first).normal(size=(count, columns))
    rows[:, 0] = np.arange(first, first + count)
    rows[:, 1] = 0
    return rows


@contextmanager
def largest_file(size):
    """Lets the operating system refuse to grow any file past `size` bytes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def make(kind, path):
    return CsvTable(path, COLUMNS) if kind == "csv" else H5Table(path, COLUMNS)


def reopen(kind, path, position, columns=COLUMNS):
    return (CsvTable if kind == "csv" else H5Table).reopen(path, columns, position)


def read(path):
    return (reading.read_csv if str(path).endswith(".csv") else reading.read_h5)(path)


def test_csv_text(tmp_path):
    path = tmp_path / "run.csv"
    table = CsvTable(path, COLUMNS)
    table.append(np.array([[10, 0, 0.25, np.nan], [10, 1, np.inf, -np.inf], [3e9, 0, -0.0, 1e22]]))
    table.append(np.array([20.0, 0.0, 5e-324, 0.1]))
    assert path.read_text() == 'step,walker,loss,"dense/kernel[0,3]"\n'
    table.flush()
    table.flush()
    lines = path.read_text().splitlines()
    assert lines[1:4] == ["10,0,0.25,", "10,1,inf,-inf", "3000000000,0,-0.0,1e+22"]
    frame = reading.read_csv(path)
    assert list(frame.columns) == COLUMNS
    assert frame["step"].dtype == np.int64
    assert frame["loss"].tolist()[3] == 5e-324


def test_csv_numbers_come_back_exactly(tmp_path):
    rows = rows_of(0, 5000, 12) * 10.0 ** np.random.default_rng(1).integers(-300, 300, (5000, 12))
    rows[:, :2] = rows_of(0, 5000, 2)
    columns = ["step", "walker"] + [f"c{i}" for i in range(10)]
    table = CsvTable(tmp_path / "a.csv", columns)
    table.append(rows)
    table.flush()
    assert np.array_equal(reading.read_csv(tmp_path / "a.csv").to_numpy(), rows)
    single = rows_of(7, 5000, 12).astype(np.float32).astype(np.float64)
    table = CsvTable(tmp_path / "b.csv", columns, float32_columns=columns[3:])
    table.append(single)
    table.flush()
    found = reading.read_csv(tmp_path / "b.csv").to_numpy()
    assert np.array_equal(found[:, :3], single[:, :3])
    assert np.array_equal(found.astype(np.float32), single.astype(np.float32))
    assert (
        max(len(cell) for cell in (tmp_path / "b.csv").read_text().splitlines()[1].split(",")[3:])
        <= 15
    )


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_append_copies_its_rows(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    table = make(kind, path)
    rows = rows_of(0, 2)
    table.append(rows)
    rows[:] = -7
    table.append(np.zeros((0, 4)))
    table.flush()
    assert np.array_equal(read(path).to_numpy(), rows_of(0, 2))


def test_h5_layout(tmp_path):
    path = tmp_path / "trajectory.h5"
    table = H5Table(path, COLUMNS, dtype="float32")
    for first in (0, 3, 10):
        table.append(rows_of(first, 3))
        table.flush()
    table.flush()
    assert table.on_disk == 9
    with h5py.File(path) as file:
        assert file["rows"].shape == (9, 2) and file["rows"].dtype == np.float32
        assert file["index"].shape == (9, 2) and file["index"].dtype == np.int64
        assert list(file["columns"].asstr()) == COLUMNS[2:]
        assert list(file["index_columns"].asstr()) == COLUMNS[:2]
    frame = reading.read_h5(path)
    assert list(frame.columns) == COLUMNS
    assert frame["step"].tolist() == [0, 1, 2, 3, 4, 5, 10, 11, 12]
    assert np.array_equal(frame["loss"][3:6], rows_of(3, 3)[:, 2].astype(np.float32))


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_reopen_cuts_off_what_came_later(tmp_path, kind):
    whole, path = tmp_path / f"whole.{kind}", tmp_path / f"t.{kind}"
    table = make(kind, whole)
    table.append(rows_of(0, 5))
    table.append(rows_of(5, 7))
    table.flush()
    table = make(kind, path)
    table.append(rows_of(0, 5))
    table.flush()
    position = table.on_disk
    table.append(rows_of(100, 5))
    table.flush()
    if kind == "csv":
        with open(path, "ab") as file:
            file.write(b"105,0,0.12")
        with pytest.raises(InputError, match="line 12 is not a row"):
            reading.read_csv(path)
    table = reopen(kind, path, position)
    assert table.on_disk == position
    pd.testing.assert_frame_equal(read(path), read(whole)[:5])
    table.append(rows_of(5, 7))
    table.flush()
    assert table.on_disk > position
    pd.testing.assert_frame_equal(read(path), read(whole))
    if kind == "csv":
        assert path.read_bytes() == whole.read_bytes()
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, whole.name])


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_reopen_refuses_files_that_do_not_fit(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    with pytest.raises(InputError, match="missing"):
        reopen(kind, path, 0)
    table = make(kind, path)
    table.append(rows_of(0, 5))
    table.flush()
    with pytest.raises(InputError, match="does not match the checkpoint"):
        reopen(kind, path, table.on_disk + 1)
    with pytest.raises(InputError, match=r"columns of .* differ"):
        reopen(kind, path, table.on_disk, [*COLUMNS[:3], "other"])
    assert np.array_equal(read(path).to_numpy(), rows_of(0, 5))
    content = path.read_bytes()
    path.write_bytes(content[:20])
    with pytest.raises(
        InputError, match=r"columns of .* differ" if kind == "csv" else "damaged and cannot be read"
    ):
        reopen(kind, path, table.on_disk)


def test_csv_position_inside_a_row_is_refused(tmp_path):
    table = CsvTable(tmp_path / "t.csv", COLUMNS)
    table.append(rows_of(0, 5))
    table.flush()
    with pytest.raises(InputError, match="was it edited"):
        CsvTable.reopen(tmp_path / "t.csv", COLUMNS, table.on_disk - 3)


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_full_disk_keeps_what_was_written(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    table = make(kind, path)
    table.append(rows_of(0, 1000))
    table.flush()
    position = table.on_disk
    table.append(rows_of(1000, 200_000))
    with largest_file(path.stat().st_size + 100_000), pytest.raises(StorageError) as caught:
        table.flush()
    assert str(path) in str(caught.value) and "File too large" in str(caught.value)
    assert table.on_disk == position
    assert np.array_equal(read(path).to_numpy(), rows_of(0, 1000))
    table = reopen(kind, path, position)
    table.append(rows_of(1000, 50))
    table.flush()
    assert np.array_equal(read(path).to_numpy()[-50:], rows_of(1000, 50))


def test_no_space_left(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        StorageError, match=r"Cannot write .*run.csv: No space left on device\. Expected: "
    ):
        CsvTable(tmp_path / "run.csv", COLUMNS)


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_folder_that_cannot_be_written(tmp_path, kind):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=f"Cannot write .*t.{kind}: Not a directory"):
        make(kind, tmp_path / "file" / f"t.{kind}")


def test_read_only_disk(tmp_path, monkeypatch):
    table = CsvTable(tmp_path / "t.csv", COLUMNS)
    table.append(rows_of(0, 3))

    def refuse(_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch, pytest.raises(StorageError, match="Read-only file system"):
        patch.setattr(os, "fsync", refuse)
        table.flush()
    assert len(reading.read_csv(tmp_path / "t.csv")) == 0
    table.flush()
    assert np.array_equal(reading.read_csv(tmp_path / "t.csv").to_numpy(), rows_of(0, 3))


def test_wrong_rows_are_refused(tmp_path):
    table = CsvTable(tmp_path / "t.csv", COLUMNS)
    with pytest.raises(ValueError, match="4 columns"):
        table.append(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="not finite"):
        table.append(np.array([[np.nan, 0, 0, 0]]))
    with pytest.raises(InputError, match="Received: loss"):
        CsvTable(tmp_path / "u.csv", [*COLUMNS, "loss"])


WRITER = """
import sys
import numpy as np
from tati_re.runs.h5_killed import checksum
from tati_re.runs.h5_table import H5Table
columns = ["step", "walker"] + [f"p{i}" for i in range(500)]
table = H5Table(sys.argv[1], columns, dtype="float32")
print("ready", flush=True)
random = np.random.default_rng(int(sys.argv[2]))
while True:
    count = random.integers(1, 40)
    first = table.on_disk
    table.append(np.repeat(np.arange(first, first + count)[:, None], 502, axis=1))
    table.flush()
    print(table.on_disk, flush=True)
"""


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 6))]
)
def test_h5_survives_kill(tmp_path, seed):
    path = tmp_path / "t.h5"
    command = [sys.executable, "-c", WRITER, str(path), str(seed)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    writer.stdout.readline()
    time.sleep(np.random.default_rng(seed).uniform(0.005, 0.2))
    writer.kill()
    lines = writer.communicate()[0].decode().split("\n")[:-1]
    position = int(lines[-1]) if lines else 0
    frame = reading.read_h5(path)
    assert len(frame) >= position
    values = frame.to_numpy()
    assert np.array_equal(values, np.repeat(np.arange(len(frame))[:, None], 502, axis=1))
    table = H5Table.reopen(path, list(frame.columns), position, dtype="float32")
    table.append(np.full((3, 502), 9))
    table.flush()
    with h5py.File(path) as file:
        assert file["rows"].shape == (position + 3, 500)
        assert file["index"][position:, 0].tolist() == [9, 9, 9]


def test_a_changed_byte_of_a_killed_h5_file_is_no_hang_and_no_traceback(tmp_path):
    """HDF5 by itself reads such a place again and again, without an end; numbers have no checksum
    in it.
    """
    path = tmp_path / "t.h5"
    table = H5Table(path, COLUMNS)
    table.append(np.arange(40.0).reshape(10, 4))
    table.flush()
    content = bytearray(path.read_bytes())
    content[11] = 5  # open for one writer, as a kill leaves it
    content[44:48] = checksum(content[:44])
    path.write_bytes(content)
    with pytest.raises(OSError, match="already open for"), h5py.File(path):
        pytest.fail("not as a kill leaves it")
    assert reading.read_h5(path).to_numpy().ravel().tolist() == list(range(40))
    refused = 0
    for place in np.linspace(0, 3_000, 40, dtype=int):
        path.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
        try:
            reading.read_h5(path)
        except InputError as error:
            assert "damaged" in str(error) or "not a table" in str(error)
            refused += 1
    assert 2 < refused < 40


def test_reader_elsewhere_does_not_stop_a_run(tmp_path):
    table = H5Table(tmp_path / "t.h5", COLUMNS)
    table.append(rows_of(0, 3))
    code = "import h5py, sys; f = h5py.File(sys.argv[1], 'r'); print(len(f['rows']), flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path / "t.h5")]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdout.readline() == b"0\n"
    table.flush()
    reader.communicate(b"\n")
    assert len(reading.read_h5(tmp_path / "t.h5")) == 3


def test_equal_h5_tables_have_equal_bytes(tmp_path):
    """HDF5 notes when it made what is in a file, to the second."""
    H5Table(tmp_path / "one", COLUMNS).flush()
    time.sleep(1.1)
    H5Table(tmp_path / "two", COLUMNS).flush()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
