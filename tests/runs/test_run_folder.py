"""The run folder: prepared, refused, emptied; manifest; a run opened as tables and parameters."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.engine.environment import TemporaryFolder
from tati_re.launch.run import Run, load
from tati_re.runs import checkpoint, files, manifest, run_folder
from tati_re.runs.csv_table import CsvTable
from tati_re.runs.h5_table import H5Table
from tati_re.runs.run import Moments
from tati_re.runs.storage import StorageError

STEPS, WALKERS, PARAMETERS = [0, 10, 20], 2, 3
NAMES = [
    "step",
    "walker",
    "potential",
    "loss",
    "dense/kernel[0,0]",
    "dense/kernel[0,1]",
    "dense/bias[0]",
]


def trajectory_rows():
    rows = (
        np.random.default_rng(0)
        .normal(size=(len(STEPS) * WALKERS, 4 + PARAMETERS))
        .astype(np.float32)
    )
    rows[:, 0] = np.repeat(STEPS, WALKERS)
    rows[:, 1] = np.tile(np.arange(WALKERS), len(STEPS))
    return rows.astype(np.float64)


def make_run(folder, form="csv"):
    folder = run_folder.prepare(folder)
    manifest.write(
        folder, {"options": {"dtype": "float32", "data": None}, "parameters": {"num": PARAMETERS}}
    )
    table = CsvTable(folder / "run.csv", ["step", "walker", "temperature", "potential"])
    table.append(np.array([[0, 0, 1.0, 1.5], [0, 1, 1.0, 2.5]]))
    table.flush()
    if form:
        kind = CsvTable if form == "csv" else H5Table
        more = {"float32_columns": NAMES[2:]} if form == "csv" else {"dtype": "float32"}
        table = kind(folder / f"trajectory.{form}", NAMES, **more)
        table.append(trajectory_rows())
        table.flush()
    values = trajectory_rows()[:, 4:].reshape(len(STEPS), WALKERS, PARAMETERS)
    mean = values.mean(axis=0)
    moments = {"moments/mean": mean, "moments/m2": ((values - mean) ** 2).sum(axis=0)}
    checkpoint.save(folder, {**moments, "moments/count": np.array(float(len(STEPS)))}, {"step": 20})
    return folder


def bytes_of(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_prepare_makes_a_folder(tmp_path):
    folder = run_folder.prepare(tmp_path / "runs" / "a")
    assert folder == tmp_path / "runs" / "a" and folder.is_dir()
    assert run_folder.prepare(str(folder)) == folder


def test_a_temporary_folder_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    sentence = "^Cannot write a temporary folder, as there is no output: No such file or directory."
    with pytest.raises(StorageError, match=sentence):
        TemporaryFolder()


def test_prepare_refuses_what_is_there(tmp_path):
    folder = make_run(tmp_path / "a")
    before = sorted(os.listdir(folder))
    with pytest.raises(
        InputError,
        match=r"not empty\. Received: checkpoint, manifest.toml, .*--overwrite.*--resume",
    ):
        run_folder.prepare(folder)
    assert sorted(os.listdir(folder)) == before
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="output folder is a file"):
        run_folder.prepare(tmp_path / "file", overwrite=True)
    with pytest.raises(StorageError, match="Not a directory"):
        run_folder.prepare(tmp_path / "file" / "below")


def test_overwrite_removes_only_what_a_run_wrote(tmp_path):
    folder = make_run(tmp_path / "a")
    (folder / "run.csv.partial").touch()
    (folder / "notes.txt").write_text("mine")
    (folder / "checkpoint" / "copy.npz").touch()
    run_folder.clear(run_folder.prepare(folder, overwrite=True))
    assert sorted(os.listdir(folder)) == ["checkpoint", "notes.txt"]
    assert os.listdir(folder / "checkpoint") == ["copy.npz"]
    (folder / "checkpoint" / "copy.npz").unlink()
    (folder / "notes.txt").unlink()
    run_folder.prepare(folder, overwrite=True)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("before", ["an old run", "nothing"])
def test_a_kill_while_a_start_takes_its_place_loses_neither_run(tmp_path, monkeypatch, before):
    """Between any two calls that remove or move a file: what is left is the old run, or becomes the
    new one by a resume, or nothing by the same call begun anew.
    """
    old, new, left = make_run(tmp_path / "old", "h5"), bytes_of(make_run(tmp_path / "new")), [0]
    (old / "predictions").mkdir()
    (old / "predictions" / "scores.csv").touch()
    was = bytes_of(old)

    def mortal(function):
        def call(path, *others, **keywords):
            left[0] -= os.path.lexists(path)
            if left[0] < 0:
                raise KeyboardInterrupt
            return function(path, *others, **keywords)

        return call

    for number in range(1_000):
        folder, again, left[0] = tmp_path / f"{number}", tmp_path / f"{number}-again", number
        if before == "an old run":
            shutil.copytree(old, folder)
        shutil.copytree(tmp_path / "new", folder / files.START)
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            for name in ("replace", "unlink", "rmdir"):
                patch.setattr(os, name, mortal(getattr(os, name)))
            run_folder.replace_with_start(folder)
            break
        shutil.copytree(folder, again)
        run_folder.replace_with_start(folder)
        assert bytes_of(folder) == new
        run_folder.clear(run_folder.prepare(again, overwrite=True))
        assert bytes_of(again) == {}
    assert bytes_of(folder) == new and number > len(new) + len(
        was if before == "an old run" else ()
    )


def test_every_file_of_a_run_is_known(tmp_path):
    folder = make_run(tmp_path / "a")
    checkpoint.save(folder, {}, {})
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found <= {file.name for file in files.FILES}


def test_manifest_round_trip(tmp_path):
    content = {
        "package": "0.1.0",
        "options": {
            "step_size": np.float32(0.5),
            "hidden": (64, 32),
            "max_time": None,
            "output": Path("runs/a"),
        },
        "parameters": {
            "num": np.int64(3),
            "shapes": np.array([[2, 1], [1, 1]]),
            "names": ["dense/kernel", "dense/bias"],
        },
        "meaning": "U = L + V, with β = 1",
    }
    manifest.write(tmp_path, content)
    found = manifest.read(tmp_path)
    assert found == {
        "schema_version": 1,
        "package": "0.1.0",
        "options": {"step_size": 0.5, "hidden": [64, 32], "output": "runs/a"},
        "parameters": {
            "num": 3,
            "shapes": [[2, 1], [1, 1]],
            "names": ["dense/kernel", "dense/bias"],
        },
        "meaning": "U = L + V, with β = 1",
    }
    assert (
        (tmp_path / "manifest.toml").read_text(encoding="utf-8").startswith("schema_version = 1\n")
    )
    manifest.write(tmp_path, {"package": "0.2.0"})
    assert manifest.read(tmp_path) == {"schema_version": 1, "package": "0.2.0"}
    assert os.listdir(tmp_path) == ["manifest.toml"]


def test_manifest_errors(tmp_path):
    with pytest.raises(InputError, match="not a run folder"):
        manifest.read(tmp_path)
    with pytest.raises(TypeError, match=r"options: bad cannot hold a set"):
        manifest.write(tmp_path, {"options": {"bad": {1}}})
    (tmp_path / "manifest.toml").write_text("schema_version = \n")
    with pytest.raises(InputError, match="cannot be read"):
        manifest.read(tmp_path)
    (tmp_path / "manifest.toml").write_text("schema_version = 2\n")
    with pytest.raises(InputError, match=r"another version.* Expected: schema_version = 1"):
        manifest.read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Not a directory"):
        manifest.write(tmp_path / "file", {})


def test_load_refuses_other_folders(tmp_path):
    make_run(tmp_path / "digits")
    with pytest.raises(
        InputError, match=r"The run folder .* does not exist\. Did you mean 'digits'"
    ):
        load(tmp_path / "digit")
    with pytest.raises(InputError, match="not a run folder"):
        load(tmp_path)
    with pytest.raises(InputError, match="not a run folder"):
        load(tmp_path / "digits" / "run.csv")


@pytest.mark.parametrize("form", ["csv", "h5"])
def test_run_as_tables(tmp_path, form):
    run = load(make_run(tmp_path / "a", form))
    assert isinstance(run, Run)
    assert run.folder == tmp_path / "a"
    assert run.manifest["options"] == {"dtype": "float32"}
    assert run.run_info["potential"].tolist() == [1.5, 2.5]
    assert list(run.trajectory.columns) == NAMES
    assert np.array_equal(run.trajectory.to_numpy(np.float32), trajectory_rows().astype(np.float32))
    assert run.trajectory is run.trajectory
    with pytest.raises(InputError, match=r"has no timing\.csv"):
        _ = run.timing
    with pytest.raises(InputError, match=r"has no averages\.csv"):
        _ = run.averages


def test_tables_follow_a_run_that_goes_on(tmp_path):
    folder = make_run(tmp_path / "a")
    run = load(folder)
    assert len(run.run_info) == 2
    with open(folder / "run.csv", "a") as file:
        file.write("10,0,1.0,3.5\n10,1,1.0,4.")
    assert run.run_info["potential"].tolist() == [1.5, 2.5, 3.5]


@pytest.mark.parametrize("form", ["csv", "h5"])
def test_parameters_of_a_step(tmp_path, form):
    run = load(make_run(tmp_path / "a", form))
    expected = trajectory_rows()[:, 4:].astype(np.float32)
    found = run.parameters(10, walker=1)
    assert found.dtype == np.float32 and found.shape == (PARAMETERS,)
    assert np.array_equal(found, expected[3])
    assert np.array_equal(run.parameters(np.int64(20), 0), expected[4])
    with pytest.raises(
        InputError, match=r"not stored\. Received: step 17\. .*3 stored steps from 0 to 20; .* 20\."
    ):
        run.parameters(17, 0)
    with pytest.raises(InputError, match="several walkers"):
        run.parameters(10)
    with pytest.raises(InputError, match=r"walker=2\. Expected: a walker from 0 to 1"):
        run.parameters(10, 2)
    with pytest.raises(InputError, match="Received: last"):
        run.parameters("last")


def test_mean_parameters(tmp_path):
    run = load(make_run(tmp_path / "a"))
    values = trajectory_rows()[:, 4:].reshape(len(STEPS), WALKERS, PARAMETERS)
    assert np.allclose(run.parameters(), values.mean(axis=(0, 1)), rtol=1e-6)
    assert np.allclose(run.parameters("mean", walker=1), values[:, 1].mean(axis=0), rtol=1e-6)
    moments = run.moments
    assert np.allclose(moments.variance, values.var(axis=0, ddof=1), rtol=1e-12)
    assert moments.count.tolist() == [3, 3]
    mean, variance = moments.pooled()
    assert np.allclose(mean, values.mean(axis=(0, 1)), rtol=1e-12)
    assert np.allclose(variance, values.reshape(-1, PARAMETERS).var(axis=0, ddof=1), rtol=1e-12)
    with pytest.raises(InputError, match="The walker does not exist"):
        run.parameters("mean", walker=2)


def test_pooled_moments_of_unequal_walkers():
    random = np.random.default_rng(0)
    parts = [random.normal(size=(7, 2)), random.normal(size=(1, 2)) + 5]
    variance = np.stack([parts[0].var(axis=0, ddof=1), np.full(2, np.nan)])
    moments = Moments(np.stack([part.mean(axis=0) for part in parts]), variance, np.array([7, 1]))
    mean, variance = moments.pooled()
    together = np.concatenate(parts)
    assert np.allclose(mean, together.mean(axis=0)) and np.allclose(
        variance, together.var(axis=0, ddof=1)
    )


def test_moments_say_what_is_missing(tmp_path):
    folder = make_run(tmp_path / "a")
    checkpoint.save(
        folder, {"moments/mean": np.zeros((2, 3)), "moments/count": np.array(0)}, {"step": 5}
    )
    with pytest.raises(InputError, match="no averaged parameters"):
        _ = load(folder).moments
    path = folder / "checkpoint" / "current.npz"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.warns(UserWarning, match="is damaged .* of step 20, is used"):
        moments = load(folder).moments
    assert moments.count.tolist() == [3, 3]


def test_projections_and_missing_trajectories(tmp_path):
    run = load(make_run(tmp_path / "a"))
    np.save(tmp_path / "a" / "directions.npy", np.eye(PARAMETERS))
    with pytest.raises(InputError, match="stored projections"):
        run.parameters(10, 0)
    run = load(make_run(tmp_path / "b", form=None))
    with pytest.raises(InputError, match="has no trajectory"):
        _ = run.trajectory
    with pytest.raises(InputError, match="has no trajectory"):
        run.parameters(10, 0)


def test_save_model_checks_before_any_work(tmp_path):
    run = load(make_run(tmp_path / "a"))
    with pytest.raises(InputError, match=r"must end in \.keras"):
        run.save_model("mean", tmp_path / "model.h5")
    with pytest.raises(InputError, match="not stored"):
        run.save_model(17, tmp_path / "model.keras")


def test_save_model_writes_what_plain_keras_opens(tmp_path):
    from tati_re.models.build import build_network

    folder = make_run(tmp_path / "a")
    build_network((2,), 1, [], "relu", "linear", "float32", 0).save(folder / "model.keras")
    run = load(folder)
    import keras

    for which, walker in (("mean", 0), (20, 0), (20, 1)):
        run.save_model(which, tmp_path / "out.keras", walker)
        vector = run.parameters(which, None if which == "mean" else walker)
        model = keras.saving.load_model(tmp_path / "out.keras")
        found = np.concatenate([np.ravel(weight) for weight in model.get_weights()])
        assert np.array_equal(found, vector)
        inputs = np.array([[1.0, -2.0]], dtype=np.float32)
        assert np.allclose(
            model.predict(inputs, verbose=0), inputs @ vector[:2, None] + vector[2], rtol=1e-6
        )
    with pytest.raises(StorageError, match="Cannot write"):
        run.save_model("mean", tmp_path / "missing" / "out.keras")
