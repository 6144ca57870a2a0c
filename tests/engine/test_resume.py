"""A run that stopped, for whatever reason, goes on as if it had not: the same bytes in every table
but timing.csv.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tati_re import InputError, Simulation, load, priors
from tati_re.cli import sample
from tati_re.core.backend import threads
from tati_re.engine.limits import LIMITS, Limits
from tati_re.runs import checkpoint, files
from tati_re.samplers import SGLD
from tests.systems import tables

HALF, STEPS = 23, 46
NINE = Limits(most_steps=9, first_steps=9)
GENERATOR = np.random.default_rng(6)
DATA = GENERATOR.normal(size=(10, 2)), GENERATOR.normal(size=10)
OPTIONS = {
    "num_walkers": 2,
    "seed": 4,
    "verbose": 0,
    "execution": "graph",
    "batch_size": 4,
    "step_size": 0.02,
    "record_every": 7,
    "trajectory_every": 5,
    "num_burnin_steps": 11,
}
CASES = {
    "BAOAB, own batches": {"dtype": "float64"},
    "ABOBA, shared batches, h5": {
        "sampler": "ABOBA",
        "walker_batches": "shared",
        "trajectory_format": "h5",
    },
    "SGLD, with replacement": {"sampler": "SGLD", "batch_sampling": "replacement"},
    "symmetric sweeps": {"batch_sampling": "symmetric"},
    "HMC, all examples": {
        "sampler": "HMC",
        "batch_size": None,
        "num_leapfrog_steps": 3,
        "trajectory_format": "h5",
    },
    "HMC1, all examples": {"sampler": "HMC1", "batch_size": None, "num_leapfrog_steps": 3},
    "GHMC, all examples": {"sampler": "GHMC", "batch_size": None, "num_leapfrog_steps": 2},
    "MALA, all examples": {"sampler": "MALA", "batch_size": None},
    "RWMH, all examples": {"sampler": "RWMH", "batch_size": None, "step_size": 0.3},
    "HMC, tuned until the stop": {
        "sampler": "HMC",
        "batch_size": None,
        "num_leapfrog_steps": 2,
        "target_acceptance": 0.8,
        "num_burnin_steps": 22,
    },
    "MALA, tuned by a window": {
        "sampler": "MALA",
        "batch_size": None,
        "target_acceptance": 0.574,
        "step_size_tuning": "baldock",
    },
    "BADODAB": {"sampler": "BADODAB", "thermal_mass": 2.0},
    "mCCAdL": {"sampler": "mCCAdL"},
    "mCCAdL, xla": {"sampler": "mCCAdL", "execution": "xla", "batch_sampling": "replacement"},
    "CCAdL": {"sampler": "CCAdL", "covariance_window": 7},
    "SGNHT": {"sampler": "SGNHT"},
    "SGHMC, estimated until the stop": {
        "sampler": "SGHMC",
        "gradient_noise": "estimate",
        "num_burnin_steps": 22,
    },
    "LM": {"sampler": "LM"},
    "pSGLD, frozen before the stop": {"sampler": "pSGLD", "step_size": 1e-4},
    "pSGLD, adaptive": {"sampler": "pSGLD", "preconditioner": "adaptive", "step_size": 1e-4},
    "adam": {"optimizer": "adam"},
    "OBABO, xla": {"sampler": "OBABO", "execution": "xla", "num_walkers": 1},
}


def start(folder: Path, num_steps: int = STEPS, limits: Limits = LIMITS, **options):
    sim = Simulation(data=DATA, **OPTIONS | options)
    sim.limits = limits
    run = sim.fit if "optimizer" in options else sim.sample
    return run(num_steps=num_steps, output=str(folder))


STATE_LIKE_OTHERS = (
    "symmetric sweeps",
    "BAOAB, own batches",
    "RWMH, all examples",
    "OBABO, xla",
    "GHMC, all examples",
    "MALA, tuned by a window",
    "SGNHT",
    "BADODAB",
    "mCCAdL",
    "mCCAdL, xla",
    "pSGLD, frozen before the stop",
    "HMC1, all examples",
    "HMC, all examples",
    "MALA, all examples",
    "CCAdL",
    "LM",
    "pSGLD, adaptive",
    "SGHMC, estimated until the stop",
    "SGLD, with replacement",
    "adam",
)
"""States whose way through a checkpoint test_sampler_protocol.py tests sampler by sampler."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.slow if case in STATE_LIKE_OTHERS else ())
        for case in CASES
    ],
)
def test_twice_n_steps_are_n_steps_and_n_more(tmp_path, case):
    start(tmp_path / "whole", **CASES[case])
    start(tmp_path / "halves", num_steps=HALF, **CASES[case])
    run = Simulation.resume(str(tmp_path / "halves"), num_steps=STEPS, data=DATA)
    assert tables(tmp_path / "halves") == tables(tmp_path / "whole")
    assert run.manifest["options"]["num_steps"] == STEPS
    np.testing.assert_array_equal(run.moments.mean, load(tmp_path / "whole").moments.mean)


# ends before the end


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, object]:
    """The tables of the run that the tests below interrupt."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    start(folder)
    return tables(folder)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> tuple[Path, str]:
    """The same run, stopped by Ctrl-C after checkpoints at steps 9 and 18, and what it said."""
    folder, asked = tmp_path_factory.mktemp("stopped") / "run", []

    def interrupt(_, step):
        if not asked:
            asked.append(step)
            thread = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
            thread.start()
            thread.join()

    sim, said = Simulation(data=DATA, **OPTIONS), []
    sim.limits = NINE
    before = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tati_re.engine.progress.NullProgress.message", lambda self, text: said.append(text)
        )
        sim.sample(
            num_steps=STEPS, output=str(folder), checkpoint_seconds=1e-9, callbacks=[interrupt]
        )
    assert asked == [9]
    assert signal.getsignal(signal.SIGINT) is before
    return folder, said[-1]


@pytest.fixture
def copy(stopped, tmp_path) -> Path:
    return Path(shutil.copytree(stopped[0], tmp_path / "copy"))


def test_ctrl_c_ends_with_a_checkpoint_and_says_how_to_go_on(stopped):
    folder, said = stopped
    assert checkpoint.load(folder)[1]["step"] == 18
    assert said.startswith("Interrupted. A checkpoint was written")
    assert f"Step 18 of {STEPS}" in said
    # A command has no data of Python; the call names what it takes again.
    assert (
        said.endswith(f" Continue with:\n  tati_re.Simulation.resume({str(folder)!r}, data=...)")
        and "tati-sample" not in said
    )


def test_an_interrupted_run_goes_on_and_a_finished_one_says_so(copy, whole, capsys):
    Simulation.resume(copy, data=DATA)
    assert tables(copy) == whole
    capsys.readouterr()
    run = Simulation.resume(str(copy), data=DATA, verbose=2)
    assert (
        f"All {STEPS:,} steps of this run are done. Increase num_steps to continue."
        in capsys.readouterr().out
    )
    assert tables(copy) == whole
    assert run.run_info["step"].max() == 42


def test_max_time_ends_with_a_checkpoint_and_says_how_to_go_on(tmp_path, whole, capsys):
    folder = tmp_path / "run"
    start(folder, limits=NINE, max_time=1e-6, verbose=2)
    said = capsys.readouterr().out
    assert "max_time is used up" in said
    call = f"tati_re.Simulation.resume({str(folder)!r}, data=...)"
    assert f" Continue with:\n  {call}\n" in said and "tati-sample" not in said
    assert checkpoint.load(folder)[1]["step"] == 9
    Simulation.resume(str(folder), data=DATA, verbose=0)
    assert tables(folder) == whole


def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(copy, whole, capsys):
    current = copy / files.CHECKPOINTS / files.CURRENT
    content = bytearray(current.read_bytes())
    content[len(content) // 2] ^= 1
    current.write_bytes(content)
    Simulation.resume(str(copy), data=DATA, verbose=2)
    said = " ".join(capsys.readouterr().out.split())
    assert "current.npz is damaged" in said
    assert "the previous checkpoint, of step 9, is used" in said
    assert tables(copy) == whole


def test_two_damaged_checkpoints_are_refused(copy):
    for name in (files.CURRENT, files.PREVIOUS):
        (copy / files.CHECKPOINTS / name).write_bytes(b"nothing")
    with pytest.raises(
        InputError, match=r"^No checkpoint in .* can be used: current\.npz is damaged"
    ):
        Simulation.resume(str(copy), data=DATA)


def test_rows_past_the_checkpoint_are_cut_off(copy, whole):
    for name in ("run.csv", "averages.csv", "trajectory.csv"):
        with open(copy / name, "ab") as file:
            file.write(b"28,0,1.0,0.02\n28,1,half a li")
    Simulation.resume(str(copy), data=DATA)
    assert tables(copy) == whole


@pytest.mark.parametrize(
    "name",
    [
        "run.csv",
        *(
            pytest.param(f"{n}.csv", marks=pytest.mark.slow)
            for n in ("averages", "trajectory", "timing")
        ),
    ],
)
def test_a_changed_byte_is_refused_and_nothing_is_written(copy, name):
    path = copy / name
    content = bytearray(path.read_bytes())
    digit = next(k for k in range(len(content) // 3, len(content)) if content[k : k + 1].isdigit())
    content[digit] ^= 1
    path.write_bytes(content)
    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    with pytest.raises(
        InputError, match=rf"{name}, lines 1 to \d+: they differ from what the run wrote"
    ):
        Simulation.resume(str(copy), data=DATA)
    assert {file: file.read_bytes() for file in before} == before


def test_a_simulation_comes_back_from_the_folder_of_a_run(copy):
    """With the run's model and options, its walkers where the last checkpoint has them; arrays are
    given again.
    """
    sim = Simulation.from_folder(copy, data=DATA, parameters=copy)
    arrays, _, _ = checkpoint.load(copy)
    np.testing.assert_array_equal(sim.parameters, arrays["state/position/0"])
    assert (sim.num_walkers(), sim.options.batch_size, sim.options.step_size) == (2, 4, 0.02)
    assert sim.system.flat.tensor_names == load(copy).manifest["parameters"]["names"]
    assert sim.options.output is None
    one = Simulation.from_folder(copy, data=DATA, num_walkers=1)
    assert one.parameters.shape == (4,)
    with pytest.raises(InputError, match="started with data given in Python"):
        Simulation.from_folder(copy)


# refused


def test_data_that_changed_are_refused(copy):
    changed = DATA[0], DATA[1] + 1e-12
    with pytest.raises(InputError, match=r"^resume: the data differ from the run's\."):
        Simulation.resume(str(copy), data=changed)


def test_a_command_goes_on_elsewhere_with_the_file_of_its_data(tmp_path, monkeypatch, capsys):
    """A relative path means another file there; --data names it, if it is what it was."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    np.savetxt("own.csv", np.column_stack(DATA), delimiter=",", header="a,b,label", comments="")
    run = ["--data", "own.csv", "--num-steps", "4", "--record-every", "1", "--step-size", "0.01"]
    run += ["--sampler", "BAOAB", "--verbose", "0", "--output", "../run"]
    assert sample.main(run) == 0
    monkeypatch.chdir(tmp_path / "there")
    more = ["--resume", "../run", "--num-steps", "8", "--verbose", "0"]
    assert sample.main(more) == 2
    assert "data: the file does not exist" in capsys.readouterr().err
    assert sample.main([*more, "--data", "../here/own.csv"]) == 0
    assert len(load("../run").run_info) == 8
    np.savetxt(
        "other.csv", np.column_stack(DATA) + 1, delimiter=",", header="a,b,label", comments=""
    )
    assert sample.main(["--resume", "../run", "--num-steps", "9", "--data", "other.csv"]) == 2


def test_a_file_that_cannot_be_written_is_told_before_a_step(copy):
    with pytest.raises(
        InputError, match=r"^run_file cannot be written\. Received: nowhere/run\.csv"
    ):
        Simulation.resume(str(copy), data=DATA, num_steps=10_000, run_file="nowhere/run.csv")


def test_arrays_must_be_given_again(copy):
    with pytest.raises(
        InputError,
        match=r"^resume: the run was started with data given in Python\. Expected: data=",
    ):
        Simulation.resume(str(copy))


def test_options_cannot_be_changed(copy):
    with pytest.raises(InputError, match="step_size"):
        Simulation.resume(str(copy), data=DATA, step_size=0.1)


@pytest.mark.parametrize(
    ("name", "value", "was"),
    [
        ("prior", priors.Gaussian(2.0), "gaussian"),
        ("prior", "laplace", "gaussian"),
        ("mass", np.full(4, 2.0), "unit"),
        ("step_schedule", [(0, 0.1), (9, 0.2)], "constant"),
        ("loss", lambda targets, outputs: targets - outputs, "none"),
    ],
)
def test_what_had_a_name_cannot_be_changed_by_an_object_or_another_name(copy, name, value, was):
    sentence = rf"^resume: {name} cannot be changed\. Received: .*\. Expected: {was}\.$"
    with pytest.raises(InputError, match=sentence):
        Simulation.resume(str(copy), data=DATA, **{name: value})


def test_a_name_may_be_said_again(copy, whole):
    Simulation.resume(str(copy), num_steps=STEPS, data=DATA, prior="gaussian", mass="unit")
    assert tables(copy) == whole


def test_other_observables_are_refused(copy):
    with pytest.raises(InputError, match=r"^resume: the observables differ from the run's\."):
        Simulation.resume(str(copy), data=DATA, observables={"first": lambda p: p[:, 0]})


def test_no_run_there(tmp_path):
    with pytest.raises(InputError, match="not a run folder"):
        Simulation.resume(str(tmp_path))


def test_a_folder_that_is_not_empty_is_refused_unless_it_may_be_overwritten(copy, whole):
    with pytest.raises(InputError, match=r"is not empty\. .* Expected: a new folder, overwrite"):
        start(copy)
    np.save(copy / "directions.npy", np.ones((1, 3)))
    Simulation(data=DATA, **OPTIONS).sample(num_steps=STEPS, output=str(copy), overwrite=True)
    assert tables(copy) == whole


def test_a_sampler_object_must_be_given_again(tmp_path):
    sim = Simulation(data=DATA, **OPTIONS)
    for name, steps in (("whole", STEPS), ("halves", HALF)):
        sim.parameters = np.zeros(4)
        sim.sample(sampler=SGLD(), num_steps=steps, call=1, output=str(tmp_path / name))
    with pytest.raises(
        InputError, match=r"^resume: the run was started with sampler given in Python"
    ):
        Simulation.resume(str(tmp_path / "halves"), STEPS, data=DATA)
    Simulation.resume(str(tmp_path / "halves"), STEPS, data=DATA, sampler=SGLD())
    assert tables(tmp_path / "halves") == tables(tmp_path / "whole")


# killed

LONG = 1_500
NURSERY = """
import json, os, sys
import numpy as np
from tati_re import Simulation
from tati_re.engine.limits import Limits

Simulation.limits = Limits(most_steps=20, first_steps=20)
data = np.load(sys.argv[1])
for line in sys.stdin:
    job = json.loads(line)
    if child := os.fork():
        os.waitpid(child, 0)
        print("ended", flush=True)
        continue
    replace = os.replace
    count = 0

    def dying(source, target):
        global count
        count += str(source).endswith("current.npz.partial")
        if count == 3 and str(source).endswith(job["dies_at"]):
            os._exit(9)
        replace(source, target)

    if job["dies_at"]:
        os.replace = dying
    first = []

    def callback(folder, step):
        if not first:
            first.append(step)
            print(os.getpid(), flush=True)

    sim = Simulation(data=(data["x"], data["y"]), **job["options"])
    sim.sample(num_steps=job["steps"], output=job["folder"], checkpoint_seconds=1e-3, callbacks=[callback])
    os._exit(0)
"""


class Nursery:
    """A process that has loaded TensorFlow and starts runs, each in a child of its own that can be
    killed.
    """

    def __init__(self, data: Path) -> None:
        np.savez(data, x=DATA[0], y=DATA[1])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", NURSERY, str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def start(self, folder: Path, options: dict, dies_at: str = "") -> int:
        """Returns the process id once the first checkpoint of the run is written."""
        options = (
            OPTIONS | {"threads": threads()} | options
        )  # the child's are those of its resumption here
        job = {"folder": str(folder), "options": options, "steps": LONG, "dies_at": dies_at}
        print(json.dumps(job), file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def wait(self) -> None:
        assert self.process.stdout.readline() == "ended\n"


@pytest.fixture(scope="module")
def nursery(tmp_path_factory) -> Iterator[Nursery]:
    started = Nursery(tmp_path_factory.mktemp("nursery") / "data.npz")
    yield started
    started.process.stdin.close()
    started.process.wait(timeout=60)
    started.process.stdout.close()


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """`long_run(name, options)`: the tables of an uninterrupted run, made once."""
    done = {}

    def tables_of(options: dict) -> dict[str, object]:
        key = str(options)
        if key not in done:
            folder = tmp_path_factory.mktemp("long") / "run"
            start(folder, num_steps=LONG, **options)
            done[key] = tables(folder)
        return done[key]

    return tables_of


def goes_on_as_if_nothing_had_happened(folder: Path, expected: dict[str, bytes]) -> int:
    """Resumes for a few steps; returns the step of the checkpoint that it went on from."""
    _, meta, _ = checkpoint.load(folder)
    last = min(LONG, meta["step"] + 40)
    Simulation.resume(str(folder), num_steps=last, data=DATA)
    for name, whole in expected.items():
        found = (folder / name).read_bytes()
        assert whole.startswith(found), name
        every, burnin = (
            (5, 11) if name.startswith("trajectory") else (7, 11 if name == "averages.csv" else 0)
        )
        assert found.count(b"\n") == 1 + 2 * (last // every - burnin // every), name
    return meta["step"]


def kill_and_resume(
    nursery: Nursery, long_run, tmp_path: Path, options: dict, instants: list[float]
) -> None:
    steps = []
    for number, instant in enumerate(instants):
        folder = tmp_path / str(number)
        child = nursery.start(folder, options)
        time.sleep(instant)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        nursery.wait()
        steps.append(goes_on_as_if_nothing_had_happened(folder, long_run(options)))
    assert min(steps) < LONG
    # Two instants may fall between the same two checkpoints, many may not.
    assert len(set(steps)) > 1 or len(instants) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("rewritten_graphs")
def test_kill_9_at_two_instants(nursery, long_run, tmp_path):
    kill_and_resume(
        nursery, long_run, tmp_path, {}, [random.uniform(0, 0.1), random.uniform(0.1, 0.6)]
    )


@pytest.mark.slow
@pytest.mark.usefixtures("rewritten_graphs")
@pytest.mark.parametrize("case", ["BAOAB, own batches", "SGLD, with replacement"])
def test_kill_9_at_twenty_instants(nursery, long_run, tmp_path, case):
    instants = [random.uniform(0, 1) for _ in range(10)]
    kill_and_resume(nursery, long_run, tmp_path, CASES[case] | {"num_burnin_steps": 11}, instants)


@pytest.mark.slow
@pytest.mark.usefixtures("rewritten_graphs")
@pytest.mark.parametrize(
    "dies_at", ["current.npz", pytest.param("current.npz.partial", marks=pytest.mark.slow)]
)
def test_a_kill_inside_the_writing_of_a_checkpoint_loses_at_most_one_interval(
    nursery, long_run, tmp_path, dies_at
):
    """The third checkpoint, of step 40: killed before the current one is set aside, or the new one
    gets its name.
    """
    nursery.start(tmp_path / "run", {}, dies_at)
    nursery.wait()
    assert goes_on_as_if_nothing_had_happened(tmp_path / "run", long_run({})) in (20, 40)
