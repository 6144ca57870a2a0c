"""FIFOs and devices in place of files: one sentence, and no waiting for a writer that never comes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import tati_re
from tati_re.cli import compare, dataset, sample
from tati_re.core.errors import InputError
from tati_re.core.files.regular import open_regular, regular_bytes
from tati_re.evidence.parts import PartFiles
from tati_re.exploration import jobs
from tati_re.landscape.inputspace import read_inputs as inputs_of_space
from tati_re.landscape.scan import load as load_landscape
from tati_re.options.make import read_toml
from tati_re.prediction.inputs import read_inputs
from tati_re.runs import checkpoint, files, lock, reading
from tati_re.runs.parameters import read_parameters
from tati_re.runs.specification import open_folder
from tati_re.samplers.schedules import read_table
from tati_re.system.saved_model import read_rows


@contextlib.contextmanager
def soon():
    """Fails where something waits."""

    def late(*_):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with all tables that a plain sampler writes."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    sim = tati_re.Simulation(data="two_clusters", loss="mean_squared_error", verbose=0, seed=1)
    sim.sample(
        sampler="sgld",
        step_size=1e-5,
        num_steps=20,
        trajectory_every=5,
        record_every=5,
        output=str(folder),
    )
    return folder


def replaced(finished, tmp_path, name):
    """A copy of a run, one file of which is a FIFO."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return folder


IN_FOLDER = [file.name for file in files.FILES if "/" not in file.name or "checkpoint" in file.name]


@pytest.mark.parametrize("name", IN_FOLDER)
def test_a_fifo_in_a_run_folder(finished, tmp_path, name):
    folder = replaced(finished, tmp_path, name)
    uses = [
        lambda: tati_re.load(folder),
        lambda: tati_re.compare(folder, finished),
        lambda: tati_re.Simulation.resume(folder, 30, verbose=0),
        lambda: tati_re.Simulation.from_folder(folder),
        lambda: read_parameters(folder, names=["a"]),
        lambda: tati_re.analyse(folder, ["averages"]),
        lambda: tati_re.write_report(folder),
    ]
    with soon():
        for use in uses:
            with pytest.raises(InputError, match="not a regular file") as error:
                use()
            assert os.path.basename(name) in str(error.value)
        bad = (
            [state for state in tati_re.verify(folder) if not state.whole]
            if (name != files.MANIFEST)
            else []
        )
    assert name == files.MANIFEST or any(state.name == name for state in bad)


def test_readers_of_single_files(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["a.csv", "a.h5", "a.npy", "a.npz", "a.keras", "a.toml", "a.txt", "a.parquet"]
    names += ["a.tfrecord", "landscape.toml", "writer.lock", "part.npz", "checkpoint/current.npz"]
    os.mkdir("checkpoint")
    for name in names:
        os.mkfifo(name)
    run = tati_re.load(finished)
    uses = {
        "csv": lambda: reading.read_csv("a.csv"),
        "h5": lambda: reading.read_h5("a.h5"),
        "options": lambda: read_toml("a.toml"),
        "specification": lambda: open_folder(tmp_path / "sub", "a.toml", {}, "evidence"),
        "landscape": lambda: load_landscape(tmp_path),
        "part": lambda: PartFiles(tmp_path).load("part"),
        "job": lambda: jobs.read(tmp_path / "part.npz"),
        "model": lambda: tati_re.Simulation(data="two_clusters", model="a.keras"),
        "schedule": lambda: read_table("a.csv", "step_schedule"),
        "writer": lambda: lock.writing(tmp_path).__enter__(),
        "checkpoint": lambda: checkpoint.load(tmp_path),
    }
    for kind in ("csv", "npy", "npz"):
        uses[f"directions {kind}"] = lambda kind=kind: read_rows("directions", f"a.{kind}", "rows")
        uses[f"inputs {kind}"] = lambda kind=kind: read_inputs(f"a.{kind}", run)
        uses[f"space {kind}"] = lambda kind=kind: inputs_of_space(f"a.{kind}", run)
    for kind in ("csv", "npy", "npz", "h5", "keras"):
        uses[f"parameters {kind}"] = lambda kind=kind: read_parameters(f"a.{kind}", names=["a"])
    for kind in ("csv", "npz", "txt", "parquet", "tfrecord"):
        uses[f"data {kind}"] = lambda kind=kind: tati_re.data.load_data(f"a.{kind}")
        uses[f"test data {kind}"] = lambda kind=kind: tati_re.data.load_data(
            (np.eye(2), np.arange(2)), test_data=f"a.{kind}"
        )
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "sub" / "a.toml")
    with soon():
        for name, use in uses.items():
            with pytest.raises(
                InputError, match=r"regular file|No checkpoint|part.npz is damaged"
            ) as error:
                use()
            assert "\n" not in str(error.value), name
        assert lock.is_held(tmp_path)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null"])
def test_a_link_to_a_device(tmp_path, device):
    (tmp_path / "a.csv").symlink_to(device)
    with soon(), pytest.raises(InputError, match="a character device"):
        regular_bytes(tmp_path / "a.csv")
    with soon(), pytest.raises(InputError, match="pipe or device"):
        tati_re.data.load_data(str(tmp_path / "a.csv"))


@pytest.mark.parametrize("name", [files.MANIFEST, files.ROWS, "checkpoint/current.npz"])
def test_a_link_to_itself(finished, tmp_path, name):
    """OSError 40 before."""
    folder = replaced(finished, tmp_path, name)
    (folder / name).unlink()
    (folder / name).symlink_to(os.path.basename(name))
    for use in (
        lambda: tati_re.load(folder),
        lambda: tati_re.analyse(folder, ["averages"]),
        lambda: tati_re.Simulation.resume(folder, 30, verbose=0),
    ):
        with pytest.raises(InputError, match="symbolic links that lead to each other"):
            use()


def test_a_file_that_is_regular_is_opened(tmp_path):
    (path := tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").symlink_to(path)
    with open_regular(tmp_path / "b") as file:
        assert file.read() == b"abc"
    with pytest.raises(InputError, match=r"too large\. Received: 3 bytes\. Expected: at most 2"):
        regular_bytes(path, 2)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "c")


def test_commands_say_it_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a.csv")
    os.mkfifo("a.toml")
    calls = [
        (sample.main, ["--data", "a.csv"]),
        (sample.main, ["--config", "a.toml"]),
        (dataset.main, ["--inspect", "a.csv"]),
        (compare.main, ["a.csv", "a.csv"]),
    ]
    with soon():
        for main, argv in calls:
            assert main(argv) == 2
            said = capsys.readouterr().err
            assert said.count("\n") == 1 and "not a regular file" in said


def test_a_table_from_a_pipe_of_the_shell_is_refused_in_a_sentence():
    line = f"{sys.executable} -m tati_re.cli.dataset --inspect <(echo a,b)"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "a pipe does not allow" in done.stderr
