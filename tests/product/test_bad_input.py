"""Bad input is told in one sentence, from Python and from the command, and what was written stays
readable.
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

from tati_re import InputError, SamplingError, Simulation, load
from tati_re.cli import optimize, sample
from tati_re.core.backend import keras
from tati_re.engine.limits import Limits
from tati_re.launch import automatic_choices
from tati_re.runs import files
from tests.systems import tables

GENERATOR = np.random.default_rng(10)
X, Y = GENERATOR.normal(size=(10, 2)), GENERATOR.normal(size=10)
QUICK = {"noise_std": 1.0, "verbose": 0, "execution": "graph", "num_steps": 4}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, with a few files of data."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{a},{b},{y}\n" for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True))
    (tmp_path / "good.csv").write_text("a,b,y\n" + rows)
    (tmp_path / "holes.csv").write_text("a,b,y\n1,2,3\n4,,6\n")
    (tmp_path / "nans.csv").write_text("a,b,y\n1,2,3\n4,nan,6\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "model.txt").write_text("no model")
    (tmp_path / "broken.keras").write_bytes(b"no model")
    return tmp_path


def refused(capsys, *argv: str, main=sample.main) -> str:
    """What the command says, on one line of stderr, with exit status 2."""
    capsys.readouterr()
    assert main(list(argv)) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: ") and err.endswith("\n") and err.count("\n") == 1
    assert "Traceback" not in out + err
    return err.removeprefix("error: ").rstrip("\n")


COMMANDS = {
    "missing file": (["--data", "god.csv"], "god.csv", "Did you mean 'good.csv'?"),
    "unknown data set": (["--data", "digit"], "digit", "Did you mean 'digits'?"),
    "an empty cell": (["--data", "holes.csv"], "holes.csv", "line 3", "'b'"),
    "NaN in the data": (["--data", "nans.csv"], "nans.csv", "line 3", "'b'"),
    "an empty file": (["--data", "empty.csv"], "empty.csv"),
    "batch larger than the data": (
        ["--data", "good.csv", "--batch-size", "9"],
        "--batch-size is larger",
        "1 to 8",
    ),
    "negative step size": (
        ["--data", "good.csv", "--step-size", "-0.1"],
        "--step-size is out of range",
        "-0.1",
    ),
    "no step size": (["--data", "good.csv", "--step-size", "big"], "--step-size", "big"),
    "unknown sampler": (
        ["--data", "good.csv", "--sampler", "SGDL"],
        "--sampler",
        "Did you mean 'SGLD'?",
    ),
    "a word without a drift": (
        ["--data", "good.csv", "--sampler", "BOB"],
        "without A the parameters do not move",
    ),
    "a word with another letter": (
        ["--data", "good.csv", "--sampler", "BAXAB"],
        "contains unknown letters 'X'",
    ),
    "a letter twice": (["--data", "good.csv", "--sampler", "BAAOB"], "AA applies A twice"),
    "no heat bath": (
        ["--data", "good.csv", "--sampler", "BAOAB", "--friction", "0"],
        "friction: a Langevin sampler needs a heat bath",
    ),
    "HMC on mini-batches": (
        ["--data", "good.csv", "--sampler", "HMC", "--batch-size", "4"],
        "HMC is exact only with all data in every step",
        "--batch-size = 4 of 8 examples",
    ),
    "MCLMC on mini-batches": (
        ["--data", "good.csv", "--sampler", "MCLMC", "--batch-size", "4"],
        "MCLMC is right only with all data in every step: noise turns momenta of fixed length toward regions where",
    ),
    "NUTS": (
        ["--data", "good.csv", "--sampler", "NUTS"],
        "HMC or MAMS with num_leapfrog_steps auto",
    ),
    "unknown loss": (["--data", "good.csv", "--loss", "gausian"], "Did you mean 'gaussian'?"),
    "a loss for classes": (
        ["--data", "good.csv", "--loss", "sparse_categorical_crossentropy"],
        "labels are not classes",
    ),
    "unknown option": (
        ["--data", "good.csv", "--step-sise", "1"],
        "--step-sise is not a known option",
        "'--step-size'",
    ),
    "a model that is none": (["--data", "good.csv", "--model", "model.txt"], "model.txt"),
    "a model that is broken": (["--data", "good.csv", "--model", "broken.keras"], "broken.keras"),
    "a model that is missing": (
        ["--data", "good.csv", "--model", "brokn.keras"],
        "Did you mean 'broken.keras'?",
    ),
    "two temperatures": (
        ["--data", "good.csv", "--temperature", "1", "--inverse-temperature", "1"],
        "--temperature and --inverse-temperature are two names for the same quantity",
    ),
    "only burn-in": (
        ["--data", "good.csv", "--num-steps", "5", "--num-burnin-steps", "5"],
        "leaves no steps",
    ),
    "more swaps than examples": (
        [
            "--data",
            "good.csv",
            "--exchange-batch-size",
            "9",
            "--num-replicas",
            "2",
            "--temperature-ratio",
            "1.2",
        ],
        "--exchange-batch-size is larger than the data set. Received: 9. Expected: 2 to 8.",
    ),
    "more walkers than fit": (
        ["--data", "good.csv", "--num-walkers", "1000000000000"],
        "--num-walkers: 1,000,000,000,000 walkers of 4 parameters each need about 6.4e+05 GB of memory.",
    ),
    "more units than fit": (
        ["--data", "good.csv", "--hidden", "2", "100000000000"],
        "--hidden: networks of 400,000,000,007 parameters need about 6.4e+04 GB of memory.",
    ),
    "more rungs than fit": (
        ["--data", "good.csv", "--num-replicas", "1000000000000", "--temperature-ratio", "1.2"],
        "--num-replicas: 1,000,000,000,000 walkers of",
    ),
    "temperatures that no number holds": (
        ["--data", "good.csv", "--num-replicas", "30", "--temperature-ratio", "1e3"],
        "--temperature-ratio: the highest temperature exceeds the largest number. Received: 10^87 times the lowest.",
    ),
    "walls that no number reaches": (
        ["--data", "good.csv", "--prior-lower-boundary", "1e18"],
        "prior: its density underflows to 0 everywhere.",
    ),
    "event files in a file": (
        ["--data", "good.csv", "--tensorboard", "good.csv"],
        "--tensorboard cannot be written.",
    ),
    "event files below a file": (
        ["--data", "good.csv", "--tensorboard", "good.csv/a"],
        "--tensorboard cannot be",
    ),
    "a model as HDF5": (
        ["--data", "good.csv", "--save-model", "a.h5"],
        "--save-model: this suffix is for another",
    ),
    "rows as HDF5": (
        ["--data", "good.csv", "--run-file", "a.h5"],
        "--run-file: this suffix is for another kind",
    ),
    "a long name of a file": (
        ["--data", "good.csv", "--averages-file", "a" * 300],
        "--averages-file cannot be written",
    ),
    "a long name of a folder": (
        ["--data", "good.csv", "--output", "a" * 300],
        "Cannot write aaa",
        "File name too long.",
    ),
    "a path below a file": (["--data", "good.csv", "--output", "good.csv/run"], "good.csv/run"),
    "the folder is a file": (["--data", "good.csv", "--output", "good.csv"], "good.csv"),
    "a path below a file, overwritten": (
        ["--data", "good.csv", "--output", "good.csv/run", "--overwrite"],
        "good.csv/run",
    ),
    "a folder in use": (["--data", "good.csv", "--output", "."], "is not empty", "--overwrite"),
    "no run to resume": (["--resume", "."], "not a run folder"),
    "no directions": (["--data", "good.csv", "--directions", "none.npy"], "none.npy"),
    "directions of words": (["--data", "good.csv", "--directions", "model.txt"], "model.txt"),
    "directions that do not fit": (
        ["--data", "good.csv", "--directions", "good.csv", "--hidden", "2"],
        "(k, 10)",
    ),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_the_command_says_it_on_one_line(folder, capsys, monkeypatch, case):
    """Before any work: no walker is fitted; walls that no number reaches are what the fit itself is
    refused for.
    """
    if not case.startswith("walls"):
        monkeypatch.setattr(
            automatic_choices._Choice, "_fit", lambda *_: pytest.fail("the walkers were fitted")
        )
    before = sorted(path.name for path in folder.iterdir())
    argv, *words = COMMANDS[case]
    said = refused(capsys, *argv, "--quiet")
    for word in words:
        assert word in said, said
    assert said.endswith((".", "?"))
    left = sorted(path.name for path in folder.iterdir() if path.name != "runs")
    assert left == before


def test_training_says_it_too(capsys):
    said = refused(
        capsys, "--data", "good.csv", "--optimizer", "adm", "--quiet", main=optimize.main
    )
    assert "Did you mean 'adam'?" in said
    said = refused(
        capsys, "--data", "good.csv", "--learning-rate", "0", "--quiet", main=optimize.main
    )
    assert "--learning-rate is out of range" in said


def model(outputs: int = 1, inputs: int = 2):
    return keras.Sequential([keras.Input((inputs,)), keras.layers.Dense(outputs)])


PYTHON = {
    "no data": (lambda: Simulation(hidden=[2]), r"^data is missing\."),
    "unequal lengths": (
        lambda: Simulation(data=(X, Y[1:])),
        r"numbers of inputs and targets differ\. Received: 10 inputs and 9 targets",
    ),
    "NaN": (
        lambda: Simulation(data=(np.where(X > 0, np.nan, X), Y)),
        r"not finite\. Received: inputs\[",
    ),
    "a batch too large": (
        lambda: Simulation(data=(X, Y), **QUICK).sample(batch_size=11),
        "batch_size is larger",
    ),
    "outputs and labels": (
        lambda: Simulation(model(3), (X, Y), **QUICK).sample(),
        (
            r"^loss: the model's outputs do not match the labels under gaussian. "
            r"Received: outputs of shape \(3,\) for labels of shape \(1,\). Expected: "
            r"equal shapes."
        ),
    ),
    "too few outputs": (
        lambda: Simulation(model(2), (X, np.arange(10) % 3), **QUICK).sample(),
        "needs one output per class. Received: labels up to 2 and a model with 2 outputs. Expected: at least 3",
    ),
    "inputs and model": (
        lambda: Simulation(model(1, 3), (X, Y)),
        r"inputs do not match the model\. Received: inputs of shape \(2,\)\. Expected: shape \(3,\)\.",
    ),
    "no model": (lambda: Simulation(3, (X, Y)), r"model is not a Keras model\. Received: int"),
    "model and hidden": (lambda: Simulation(model(), (X, Y), hidden=[2]), "exclude each other"),
    "unknown option": (
        lambda: Simulation(data=(X, Y), stepsize=1.0),
        r"Did you mean 'step_size'\?",
    ),
    "a step size of text": (
        lambda: Simulation(data=(X, Y), step_size="0.1"),
        r"^step_size has an unknown value",
    ),
    "a step size of nan": (lambda: Simulation(data=(X, Y), step_size=float("nan")), r"^step_size"),
    "a sampler that is none": (
        lambda: Simulation(data=(X, Y), **QUICK).sample(sampler="HCM"),
        r"unknown name\. Did you mean 'HMC'\?",
    ),
    "no column": (lambda: load_columns(), r"no column 'c'"),
}


def load_columns():
    from tati_re.data import load_data

    return load_data("good.csv", label_columns=["c"])


@pytest.mark.parametrize("case", PYTHON)
def test_python_says_it_in_one_sentence(case):
    action, pattern = PYTHON[case]
    with pytest.raises(InputError, match=pattern) as caught:
        action()
    assert "\n" not in str(caught.value)


def test_a_potential_that_is_infinite_at_the_start_is_told(folder):
    sim = Simulation(data=(1e30 * X, Y), standardize="none", **QUICK)
    with pytest.raises(InputError, match=r"not finite at the start of walker 0.* of order 1"):
        sim.sample(num_steps=5)
    outside = {"prior": "box", "prior_bound": 0.1, "parameters": np.ones(3)}
    sim = Simulation(data=(X, Y), seed=1, **outside, **QUICK)
    with pytest.raises(
        SamplingError, match=r"start outside the prior, uniform between -0\.1 and 0\.1"
    ):
        sim.sample(num_steps=5, step_size=0.01)


# Disks


class Full:
    """From a given moment on, `os.fsync` finds no space left."""

    def __init__(self, monkeypatch) -> None:
        self.now = False
        self.fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, descriptor) -> None:
        if self.now:
            raise OSError(28, "No space left on device")
        self.fsync(descriptor)


def test_a_full_disk_ends_the_run_and_keeps_what_came_before(folder, monkeypatch):
    sim, disk = Simulation(data=(X, Y), **QUICK, step_size=0.001), Full(monkeypatch)
    sim.limits = Limits(most_steps=10, first_steps=10)

    def fill(_, step):
        disk.now = step == 20

    options = {
        "num_steps": 50,
        "record_every": 1,
        "trajectory_every": 5,
        "checkpoint_seconds": 1e-9,
    }
    with pytest.raises(InputError, match=r"^Cannot write \S+: No space left on device\."):
        sim.sample(output="run", callbacks=[fill], **options)
    disk.now = False
    run = load("run")
    assert list(run.run_info["step"]) == list(range(1, 21))
    assert list(run.averages["step"]) == list(range(1, 21))
    Simulation.resume("run", data=(X, Y))
    sim = Simulation(data=(X, Y), **QUICK, step_size=0.001)
    whole = sim.sample(**options)
    assert tables(run.folder) == tables(whole.folder)


@pytest.mark.parametrize("name", ["run.csv", "model.keras", "manifest.toml"])
def test_a_file_that_cannot_be_written_is_named(monkeypatch, name):
    from tati_re.runs import run_folder

    prepare = run_folder.prepare

    def with_folder_in_the_way(*args):
        made = prepare(*args)
        (made / name).mkdir()
        (made / name / "kept").touch()
        return made

    monkeypatch.setattr(run_folder, "prepare", with_folder_in_the_way)
    with pytest.raises(InputError, match=rf"^Cannot write \S*{name}"):
        Simulation(data=(X, Y), **QUICK).sample(sampler="BAOAB", step_size=0.001, output="run")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_named(folder):
    (folder / "locked").mkdir(mode=0o500)
    with pytest.raises(InputError, match=r"^Cannot write locked/run: Permission denied\."):
        Simulation(data=(X, Y), **QUICK).sample(output="locked/run")


# Checkpoints


def test_damaged_checkpoints_are_told_by_the_command(folder, capsys):
    argv = ["--data", "good.csv", "--num-steps", "4", "--step-size", "0.01"]
    argv += ["--output", "run", "--execution", "graph", "--quiet"]
    assert sample.main(argv) == 0
    shutil.copytree("run", "both")
    (folder / "run" / files.CHECKPOINTS / files.CURRENT).write_bytes(b"damaged")
    capsys.readouterr()
    assert sample.main(["--resume", "run", "--num-steps", "6", "--verbose", "2"]) == 0
    assert "The checkpoint current.npz is damaged" in capsys.readouterr().out
    for name in (files.CURRENT, files.PREVIOUS):
        (folder / "both" / files.CHECKPOINTS / name).write_bytes(b"damaged")
    said = refused(capsys, "--resume", "both")
    assert "can be used: current.npz is damaged" in said
    said = refused(capsys, "--resume", "both", "--step-size", "0.1")
    assert "--step-size cannot be changed by --resume" in said
    (folder / "good.csv").write_text("a,b,y\n1,2,3\n4,5,6\n7,8,10\n")
    assert "the data differ from the run" in refused(capsys, "--resume", "run")


def test_a_run_says_what_it_will_not_record(capsys):
    system = {"data": (X, Y), "execution": "graph", "step_size": 0.01}
    Simulation(**system).sample(num_steps=4, record_every=5, trajectory_every=9)
    said = capsys.readouterr().out
    assert "record_every 5 exceeds num_steps 4: no row will be recorded." in said
    assert "trajectory_every 9 exceeds num_steps: no position will be stored." in said
