"""Folders of others: no file of a run is written through a link, cells are texts, modes follow the
umask.
"""

import os

import numpy as np
import pandas
import pytest

from tati_re.core.errors import InputError
from tati_re.core.files.cells import as_cell, from_cell
from tati_re.plotting.figure import new_figure, save
from tati_re.report.modules import Result, write_result
from tati_re.runs import checkpoint, files, manifest, run_folder
from tati_re.runs.checked_tables import header_of
from tati_re.runs.csv_table import CsvTable, frame_text
from tati_re.runs.h5_table import H5Table
from tati_re.runs.reading import read_csv
from tati_re.runs.specification import open_folder
from tati_re.runs.storage import LEFTOVER, StorageError, replacing, write_whole

COLUMNS = ["step", "walker", "loss"]
ROW = np.array([[1.0, 0.0, -1.5]])


def _table(kind):
    def write(path):
        table = kind(path, COLUMNS)
        table.append(ROW)
        table.flush()

    return write


def _checkpoint(path):
    for step in range(3):
        checkpoint.save(path.parent.parent, {"x": np.zeros(2)}, {"step": step})


WRITERS = {
    files.MANIFEST: lambda path: manifest.write(path.parent, {"kind": "sample"}),
    files.TRAJECTORIES["h5"]: _table(H5Table),
    f"{files.CHECKPOINTS}/{files.CURRENT}": _checkpoint,
    f"{files.CHECKPOINTS}/{files.PREVIOUS}": _checkpoint,
}


def writer_of(name):
    grows = {files.ROWS, files.AVERAGES, files.TRAJECTORIES["csv"], files.EXCHANGES, files.TIMING}
    return WRITERS.get(name) or (
        _table(CsvTable) if name in grows else lambda path: write_whole(path, b"new")
    )


@pytest.mark.parametrize("name", [file.name for file in files.FILES])
def test_no_file_of_a_run_is_written_through_a_link(tmp_path, name):
    """Under its own name, that of the partial file, and in a folder that is a link."""
    (victim := tmp_path / "victim").write_bytes(b"mine")
    folder = tmp_path / "run"
    path = folder / name
    path.parent.mkdir(parents=True)
    for link in (path, path.with_name(path.name + files.PARTIAL)):
        link.symlink_to(victim)
    writer_of(name)(path)
    assert victim.read_bytes() == b"mine"
    assert path.is_file() and not path.is_symlink()
    assert [entry for entry in path.parent.iterdir() if LEFTOVER.search(entry.name)] == []
    if path.parent == folder:
        return
    (folder / files.MANIFEST).touch()
    (elsewhere := tmp_path / "elsewhere" / path.parent.name).mkdir(parents=True)
    path.parent.rename(tmp_path / "away")
    path.parent.symlink_to(elsewhere)
    with pytest.raises(StorageError, match="is a symbolic link; nothing is written"):
        writer_of(name)(path)
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("kind", [CsvTable, H5Table])
def test_no_table_is_appended_to_through_a_link(tmp_path, kind):
    name = "a.csv" if kind is CsvTable else "a.h5"
    _table(kind)(tmp_path / name)
    (tmp_path / name).rename(victim := tmp_path / "victim")
    before = victim.read_bytes()
    (tmp_path / name).symlink_to(victim)
    with pytest.raises(StorageError, match="it is a symbolic link"):
        position = len(before) if kind is CsvTable else 1
        table = kind.reopen(tmp_path / name, COLUMNS, position)
        table.append(ROW)
        table.flush()
    assert victim.read_bytes() == before


def test_a_run_folder_that_is_a_link_is_ones_own(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    folder = run_folder.prepare(tmp_path / "run")
    manifest.write(folder, {"kind": "sample"})
    _checkpoint(folder / files.CHECKPOINTS / files.CURRENT)
    assert manifest.read(tmp_path / "disk")["kind"] == "sample"
    assert checkpoint.load(folder)[1] == {"step": 2}


def test_overwrite_removes_links_and_nothing_behind_them(tmp_path):
    folder, other = tmp_path / "run", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
        manifest.write(each, {"kind": "sample"})
    _checkpoint(other / files.CHECKPOINTS / files.CURRENT)
    (folder / files.CHECKPOINTS).symlink_to(other / files.CHECKPOINTS)
    (folder / files.ROWS).symlink_to(other / files.MANIFEST)
    run_folder.clear(run_folder.prepare(folder, overwrite=True))
    assert list(folder.iterdir()) == []
    assert checkpoint.load(other)[1] == {"step": 2}


def test_temporary_names_differ_and_leave_nothing(tmp_path):
    names = []
    for _ in range(3):
        with replacing(tmp_path / "a") as file:
            names.append(os.path.basename(file.name))
            file.write(b"x")
    assert len(set(names)) == 3 and all(LEFTOVER.search(name) for name in names)
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"x"
    (tmp_path / f"run.csv.{'0' * 16}.partial").touch()
    run_folder.remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["a"]


def test_a_kill_inside_the_first_file_does_not_block_the_same_calculation(tmp_path):
    (left := tmp_path / f"parts/one.npz.{'0' * 16}.partial").parent.mkdir()
    left.touch()
    with pytest.raises(InputError, match="not empty"):
        open_folder(tmp_path, "evidence.toml", {"seed": "1"}, "evidence")
    left.parent.rmdir()
    (tmp_path / f"evidence.toml.{'0' * 16}.partial").touch()
    assert open_folder(tmp_path, "evidence.toml", {"seed": "1"}, "evidence") is None
    assert os.listdir(tmp_path) == ["evidence.toml"]
    for damaged in (b"seed,1", b"\xff"):
        (tmp_path / "evidence.toml").write_bytes(damaged)
        with pytest.raises(InputError, match=r"evidence\.toml of the evidence cannot be read"):
            open_folder(tmp_path, "evidence.toml", {"seed": "1"}, "evidence")


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_modes_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        (folder := tmp_path / "run").mkdir()
        for file in files.FILES:
            (folder / file.name).parent.mkdir(exist_ok=True)
            writer_of(file.name)(folder / file.name)
        result = Result(
            pandas.DataFrame({"a": [1]}), figures={"a": lambda path: save(new_figure(1, 1), path)}
        )
        write_result("averages", result, folder / "analysis")
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()}
    assert modes == {0o666 & ~mask}


FORMULAS = ["=1+1", "+x", "-x", "@sum", "\tx", "\rx", "'=x", "''-"]
HARMLESS = ["x", "-1.5", "+2", "-inf", "'x", "a=b", "x-1", ""]


@pytest.mark.parametrize("text", FORMULAS + HARMLESS)
def test_a_text_that_a_spreadsheet_would_calculate_is_marked_and_read_back(text):
    assert from_cell(as_cell(text)) == text
    assert as_cell(text) == ("'" + text if text in FORMULAS else text)


def test_tables_come_back_as_they_were(tmp_path):
    columns = ["step", "walker", *FORMULAS]
    table = CsvTable(tmp_path / "a.csv", columns)
    table.append(-np.arange(20.0).reshape(2, 10))
    table.flush()
    assert list(read_csv(tmp_path / "a.csv").columns) == columns
    first = (tmp_path / "a.csv").read_bytes().partition(b"\n")[0]
    assert not any(
        cell.lstrip('"').startswith(("=", "+", "-", "@", "\t"))
        for cell in first.decode().split(",")
    )
    frame = pandas.DataFrame(
        {"=a": FORMULAS, "number": np.linspace(-1.5, 1, 8), "class": ["-x", None] * 4}
    )
    (tmp_path / "b.csv").write_bytes(frame_text(frame))
    pandas.testing.assert_frame_equal(read_csv(tmp_path / "b.csv"), frame, check_dtype=False)
    assert b"'=1+1\",-1.5,\"'-x" in frame_text(frame)
    assert header_of(b"step,walker,'=a,b\n") == ["step", "walker", "=a", "b"]


def test_a_table_from_before_keeps_its_header(tmp_path):
    (path := tmp_path / "a.csv").write_bytes(b"step,walker,-a\n1,0,2.0\n")
    table = CsvTable.reopen(path, ["step", "walker", "-a"], 23)
    table.append(ROW)
    table.flush()
    assert path.read_bytes() == b"step,walker,-a\n1,0,2.0\n1,0,-1.5\n"
