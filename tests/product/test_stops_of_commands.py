"""Real processes of the commands: two on one folder, stops by every signal and at every time, and
what is left.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tati_re.runs import checkpoint, files

pytestmark = pytest.mark.slow

SYSTEM = [
    "--data",
    "two_clusters",
    "--loss",
    "mean_squared_error",
    "--execution",
    "graph",
    "--seed",
    "3",
]
ROWS = ["--record-every", "50", "--checkpoint-seconds", "0.3"]
RUN = [*SYSTEM, "--step-size", "0.01", "--trajectory-every", "50", *ROWS]
FIT = [*SYSTEM, "--learning-rate", "1e-4", "--optimizer", "sgd", *ROWS]
FOREVER = ["--num-steps", "100000000"]
SIGNALS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGUSR1": 128 + signal.SIGUSR1}


BEGUN: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def hangups_are_heard():
    """Processes inherit signals that are ignored: a suite under nohup would begin runs that no
    SIGHUP stops.
    """
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    while BEGUN:
        with BEGUN.pop() as process:
            process.kill()


def begun(folder, command, *arguments):
    module = [sys.executable, "-m", f"tati_re.cli.{command}", *arguments]
    where = {"cwd": folder, "stdout": -1, "stderr": subprocess.STDOUT, "text": True}
    BEGUN.append(subprocess.Popen(module, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}, **where))
    return BEGUN[-1]


def result(folder, command, *arguments):
    with begun(folder, command, *arguments) as process:
        out, _ = process.communicate(timeout=300)
    return process.returncode, out


def wait_for(condition, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def content(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()
    }


def tables(folder):
    return {
        name: content(folder)[name]
        for name in (files.ROWS, files.AVERAGES, files.TRAJECTORIES["csv"])
    }


@pytest.fixture
def whole(tmp_path):
    """The run of `num_steps` steps that was never stopped."""

    def made(num_steps, command="sample", run=RUN):
        assert (
            result(tmp_path, command, *run, "--num-steps", str(num_steps), "--output", "whole")[0]
            == 0
        )
        return tables(tmp_path / "whole")

    return made


def steps_on_disk(folder):
    with contextlib.suppress(Exception):
        return checkpoint.load(folder)[1]["step"]
    return 0


def stop(process, name, folder):
    """Sends the signal once steps are on the disk; returns the status, what was said, and the
    step.
    """
    first = steps_on_disk(folder)
    wait_for(lambda: steps_on_disk(folder) > first)
    process.send_signal(signal.Signals[name])
    out, _ = process.communicate(timeout=120)
    return process.returncode, out, steps_on_disk(folder)


def test_a_second_process_is_refused_and_touches_nothing(tmp_path, whole):
    first = begun(tmp_path, "sample", *RUN, *FOREVER, "--output", "run")
    wait_for(lambda: steps_on_disk(tmp_path / "run") > 0)
    os.kill(first.pid, signal.SIGSTOP)  # so that the folder stands still
    time.sleep(0.5)
    before = content(tmp_path / "run")
    here = [
        ("sample", "--resume", "run"),
        ("sample", *RUN, "--num-steps", "9", "--output", "run", "--overwrite"),
    ]
    here += [("optimize", *FIT, "--num-steps", "9", "--output", "run", "--overwrite")]
    here += [("landscape", "run", "--output", "run", "--overwrite")]
    for command in here:
        status, said = result(tmp_path, *command)
        last = said.splitlines()[-1]
        assert status == 2 and "step " not in said, said
        who = f"process {first.pid} on {os.uname().nodename}."
        assert last.startswith(
            f"error: Another process is writing to the folder run. Received: {who}"
        )
    assert content(tmp_path / "run") == before
    status, said = result(tmp_path, "analyse", "run", "--no-figures")  # readers need no lock
    assert status == 0, said
    os.kill(first.pid, signal.SIGCONT)
    status, said, step = stop(first, "SIGTERM", tmp_path / "run")
    assert (status, files.LOCK in content(tmp_path / "run")) == (143, False)
    expected = whole(step)
    assert (
        result(tmp_path, "sample", "--resume", "run", "--num-steps", str(step), "--quiet")[0] == 0
    )
    assert tables(tmp_path / "run") == expected


@pytest.mark.parametrize(("command", "run"), [("sample", RUN), ("optimize", FIT)])
def test_each_signal_ends_with_a_checkpoint_a_sentence_and_its_status(
    tmp_path, whole, command, run
):
    """One run, stopped by each in turn, and by max_time; its tables are those of a run that was
    never stopped.
    """
    process = begun(
        tmp_path, command, *run, *FOREVER, "--requeue-signal", "SIGUSR1", "--output", "run"
    )
    for name, status in SIGNALS.items():
        found, said, step = stop(process, name, tmp_path / "run")
        assert found == status, said
        end = said[said.index("Interrupted. A checkpoint was written") :]
        assert "--resume run" in end and f"Step {step} " in end
        assert len(end.splitlines()) <= 3
        assert said.count("Interrupted") == 1
        process = begun(
            tmp_path, "sample", "--resume", "run", "--quiet"
        )  # the signal of the queue is kept
    process.kill()
    process.communicate()
    status, said = result(tmp_path, "sample", "--resume", "run", "--max-time", "0.5")
    assert status == 75 and "max_time is used up" in said
    step = steps_on_disk(tmp_path / "run")
    if command == "sample":
        assert tables(tmp_path / "run") == whole(step, command, run)


def test_a_start_that_is_stopped_blocks_nothing(tmp_path):
    """At eight times between nothing and the end, by signals and by SIGKILL: then the same command,
    or a resume where there is a manifest, ends as one that was never stopped.
    """
    run = [*RUN, "--num-steps", "200", "--output", "run", "--quiet"]
    began = time.monotonic()
    assert result(tmp_path, "sample", *["whole" if word == "run" else word for word in run])[0] == 0
    took = time.monotonic() - began
    for tried in range(8):
        name, waiting = ["SIGKILL", "SIGINT", "SIGTERM"][tried % 3], took * (tried + 2) / 10
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        process = begun(tmp_path, "sample", *run)
        time.sleep(waiting)
        process.send_signal(signal.Signals[name])
        out, _ = process.communicate(timeout=60)
        if process.returncode == 0:
            continue
        left = content(tmp_path / "run") if (tmp_path / "run").exists() else {}
        if name != "SIGKILL" and files.MANIFEST not in left:
            assert left == {}, (name, waiting, out)
            assert "Traceback" not in out or "in command" not in out, (
                out
            )  # but while Python imports the command itself
        resumed = ["--resume", "run", "--quiet"]
        resumable = files.MANIFEST in left
        status, said = result(tmp_path, "sample", *(resumed if resumable else run))
        assert status == 0, (name, waiting, sorted(left), said)
        assert tables(tmp_path / "run") == tables(tmp_path / "whole")


def test_two_ctrl_c_leave_at_once_with_the_truth(tmp_path):
    """In a step that takes longer than anybody waits."""
    (tmp_path / "slow.py").write_text(
        "import tensorflow as tf\nfrom tati_re.samplers.skeleton import *\n"
        "from tati_re.samplers.sgld import SGLD\n"
        "def wait(x):\n    import time\n    time.sleep(20)\n    return x\n"
        "class Slow(SGLD):\n"
        "    def step(self, state, evaluate, noise):\n"
        "        state, info = super().step(state, evaluate, noise)\n"
        "        shape = state.position.shape\n"
        "        position = tf.numpy_function(wait, [state.position], state.position.dtype)\n"
        "        return state._replace(position=tf.ensure_shape(position, shape)), info\n"
    )
    run = [
        *SYSTEM,
        "--sampler",
        "slow.py:Slow",
        "--step-size",
        "1e-4",
        "--num-steps",
        "1000",
        "--output",
        "run",
    ]
    process = begun(tmp_path, "sample", *run)
    wait_for(
        lambda: (
            steps_on_disk(tmp_path / "run") == 0 and (tmp_path / "run" / files.MANIFEST).exists()
        )
    )
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and time.monotonic() - began < 2, out
    assert out.endswith(
        "Left at once. The last checkpoint is of step 0; resume with tati-sample --resume run.\n"
    )
    assert json.loads((tmp_path / "run" / files.LOCK).read_text())["process"] == process.pid
