"""The table of run files: every file of a folder is in it, and overwrite leaves none of an old
run.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import h5py
import pytest

import tati_re
from tati_re import InputError
from tati_re.cli import analyse, predict
from tati_re.core.backend import tf
from tati_re.report import write_report
from tati_re.report.modules import MODULES
from tati_re.runs import files, manifest
from tati_re.runs.compare import compare
from tati_re.runs.storage import StorageError
from tati_re.samplers import SGLD

PLAIN = {
    "sampler": "BAOAB",
    "step_size": 0.01,
    "num_steps": 60,
    "num_burnin_steps": 10,
    "verbose": 0,
}
WHOLE = PLAIN | {
    "num_replicas": 3,
    "max_temperature": 4.0,
    "exchange_every": 5,
    "bias": "well_tempered",
    "bias_energies": "batch",
    "batch_size": 100,
    "trajectory_every": 1,
    "stream_predictions": 10,
    "group_temperatures": True,
}
KNOWN = {file.name for file in files.FILES}


def simulation():
    return tati_re.Simulation(
        data="two_clusters",
        test_fraction=0.2,
        loss="binary_crossentropy",
        hidden=[2],
        seed=1,
        execution="graph",
        verbose=0,
    )


def found_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A ladder with a bias and mini-batches that keeps predictions, and what the commands make of
    it.
    """
    folder = tmp_path_factory.mktemp("runs") / "a"
    run = simulation().sample(output=str(folder), **WHOLE)
    assert predict.main([str(folder), "--quiet"]) == 0
    modules = [name for name in MODULES if name not in ("reweighting", "learning_coefficient")]
    assert analyse.main([str(folder), "--quiet", "--bandwidth", "9", "--modules", *modules]) == 0
    write_report(run)
    return folder


def test_every_file_of_a_folder_is_in_the_table(old):
    found = found_in(old)
    assert found <= KNOWN
    written = {
        files.LADDER,
        files.BIAS,
        files.EXCHANGES,
        files.REPORT,
        f"{files.PREDICTIONS}/scores.csv",
    }
    assert written <= found
    assert {f"{files.ANALYSIS}/{name}.csv" for name in MODULES} <= KNOWN


def test_the_table_gives_the_columns(old):
    run = tati_re.load(old)
    observables = run.run_info.columns[2:]
    assert list(run.run_info.columns) == files.row_columns(observables)
    assert list(run.timing.columns) == files.timing_columns()
    names = run.trajectory.columns[files.FIRST_PARAMETER :]
    parameters, labels = names[:-3], names[-3:]
    assert set(labels) == set(files.LABELS) and len(parameters) == run.manifest["parameters"]["num"]
    assert list(run.trajectory.columns) == files.trajectory_columns(parameters, labels)


def test_overwrite_leaves_nothing_of_a_ladder_and_of_predictions(old, tmp_path):
    folder = tmp_path / "a"
    shutil.copytree(old, folder)
    (folder / "notes.txt").write_text("mine")
    (folder / files.PREDICTIONS / "mine.csv").write_text("mine")
    run = simulation().sample(output=str(folder), overwrite=True, **PLAIN)
    fresh = simulation().sample(output=str(tmp_path / "b"), **PLAIN)
    mine = {"notes.txt", f"{files.PREDICTIONS}/mine.csv"}
    assert found_in(folder) - mine == found_in(fresh.folder), "files of the old run"
    assert compare(folder, fresh.folder) == []
    lines = run.summary()
    assert "rung" not in lines and "ladder" not in lines and "test predictions" not in lines
    page = write_report(run).read_text(encoding="utf-8")
    assert (
        "Ladder and round trips" not in page and "Bias" not in page and "(predictions/" not in page
    )
    assert "(analysis/" not in page
    for name in ("ladder", "exchanges", "bias", "noise"):
        with pytest.raises(tati_re.InputError, match="has no"):
            getattr(run, name)


def test_the_report_says_the_ladder_of_num_replicas(old, tmp_path):
    """Its number of rungs, temperatures and rule, as the manifest has them."""
    page = write_report([old], tmp_path / "report.html").read_text(encoding="utf-8")
    assert (
        "a ladder of 3 rungs at temperatures 1 to 4, between which replicas are exchanged (" in page
    )


def test_the_schema_version_stands_once(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "SCHEMA_VERSION", 7)
    run = simulation().fit(output=str(tmp_path / "a"), num_steps=2)
    assert run.manifest["schema_version"] == 7


def test_names_stand_in_the_table_alone():
    """But for the tables of a landscape, one of which is a trajectory too."""
    names = {file.name for file in files.FILES if "/" not in file.name} | {
        files.CURRENT,
        files.PREVIOUS,
    }
    package = Path(tati_re.__file__).parent
    found = {
        (str(path.relative_to(package)), node.value)
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    others = {
        (path, name) for path, name in found if path != "runs/files.py" and "landscape" not in path
    }
    assert others == set() and len(found) > len(names) - 2


def test_a_table_that_is_open_here_is_not_called_damaged(tmp_path):
    def well(x):
        return 0.5 * tf.reduce_sum(x**2, -1)

    run = tati_re.Simulation(potential=well, dimension=1, execution="graph", verbose=0).sample(
        sampler="BAOAB",
        step_size=0.1,
        num_steps=20,
        num_burnin_steps=0,
        trajectory_every=5,
        trajectory_format="h5",
        output=str(tmp_path / "run"),
    )
    with (
        h5py.File(run.folder / "trajectory.h5"),
        pytest.raises(InputError, match="with h5py"),
    ):
        tati_re.load(run.folder).trajectory.shape  # noqa: B018
    assert len(tati_re.load(run.folder).trajectory) == 4


# The old run and the new one


class Raising(SGLD):
    def init(self, position, evaluate, noise):
        raise ZeroDivisionError("init")


def full_disk(*_):
    raise StorageError("model.keras", OSError(28, "No space left on device"))


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in found_in(folder)}


@pytest.mark.parametrize("late", ["sampler", "disk"])
def test_a_run_that_does_not_begin_leaves_the_old_one_whole(old, tmp_path, monkeypatch, late):
    folder, given = tmp_path / "a", dict(PLAIN)
    shutil.copytree(old, folder)
    if late == "sampler":
        given["sampler"] = Raising()
    if late == "disk":
        monkeypatch.setattr("tati_re.launch.launch.save_model", full_disk)
    before = bytes_of(folder)
    with pytest.raises((ZeroDivisionError, StorageError)):
        simulation().sample(output=str(folder), overwrite=True, **given)
    assert bytes_of(folder) == before
    assert all(file.whole for file in tati_re.verify(folder))


def test_a_start_that_was_killed_leaves_the_old_run(old, tmp_path):
    folder = tmp_path / "a"
    shutil.copytree(old, folder)
    (folder / files.START / files.CHECKPOINTS).mkdir(parents=True)
    (folder / files.LOCK).write_text('{"host": "here", "process": 1, "starting": true}')
    assert tati_re.load(folder).run_info["step"].max() == 60
    with pytest.raises(InputError, match="is not empty"):
        simulation().sample(output=str(folder), **PLAIN)
    assert bytes_of(folder) == bytes_of(old) and not (folder / files.START).exists()
