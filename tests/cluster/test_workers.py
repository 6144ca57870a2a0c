"""Workers: the bytes of a run do not depend on how many there are, who holds what, or who died.

The oracle is one worker in this process. That blocks are right is shown against the loop without
workers: one block of all independent walkers has its bytes, and a ladder in blocks its numbers up
to rounding.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import keras
import numpy as np
import pytest

from tati_re import InputError, SamplingError, Simulation, temperature_study, verify
from tati_re.core.backend import tf, threads
from tati_re.core.errors import refuse_if
from tati_re.distributed import processes
from tati_re.distributed.block import PackedTensors
from tati_re.distributed.fork_server import ForkServer
from tati_re.distributed.processes import Failed, LocalWorker, Lost, Process
from tati_re.distributed.team import Team
from tati_re.engine.limits import LIMITS
from tati_re.evidence import log_evidence
from tati_re.launch import workers as workers_of
from tati_re.launch.loops import RunLoops
from tati_re.launch.request import make_request
from tati_re.launch.workers import WorkerPlan, _of_block
from tati_re.report.description import sampling_sentences
from tati_re.samplers.wrappers.metered import UNLIMITED

pytestmark = pytest.mark.usefixtures("rewritten_graphs")

X = np.random.default_rng(0).normal(size=(60, 3)).astype("float32")
Y = (X.sum(1) > 0).astype(int)
LADDER = {
    "num_replicas": 4,
    "max_temperature": 5.0,
    "num_burnin_steps": 40,
    "num_steps": 100,
    "step_size": 0.01,
}
LOCK = threading.Lock()
FEW = {"num_steps": 60, "step_size": 0.02, "batch_size": 20}


def first_of(lock, positions):
    return positions[:, 0]


def simulation(walkers: int, **options) -> Simulation:
    given = {
        "data": (X, Y),
        "threads": threads(),
        "execution": "graph",
        "verbose": 0,
        "seed": 1,
    } | options
    if given.get("batch_norm") == "batch":
        keras.utils.set_random_seed(1)
        layers = keras.layers
        network = [keras.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(1)]
        return Simulation(keras.Sequential(network), num_walkers=walkers, **given)
    return Simulation(num_walkers=walkers, **{"hidden": [4]} | given)


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a run that may not depend on its workers, and the arrays of its checkpoint."""
    names = (
        "run.csv",
        "averages.csv",
        "trajectory.csv",
        "trajectory.h5",
        "exchange.csv",
        "ladder.csv",
        "bias.csv",
    )
    found = {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
    with np.load(folder / "checkpoint" / "current.npz") as arrays:
        return found | {name: arrays[name].tobytes() for name in arrays.files if "meta" not in name}


def differences(one: dict[str, bytes], other: dict[str, bytes]) -> list:
    """Names of what differs, with the first lines of tables that do."""
    found: list = [sorted(set(one) ^ set(other))] if set(one) != set(other) else []
    for name in sorted(set(one) & set(other)):
        if one[name] != other[name]:
            pairs = zip(one[name].splitlines(), other[name].splitlines(), strict=False)
            found.append(
                (
                    name,
                    len(one[name]),
                    len(other[name]),
                    next((pair for pair in pairs if pair[0] != pair[1]), ""),
                )
            )
    return found


def run(folder: Path, walkers: int, system=None, **options) -> dict[str, bytes]:
    every = {"record_every": 5, "trajectory_every": 10, "output": folder}
    simulation(walkers, **system or {}).sample(**every | options)
    return files_of(folder)


CASES = {
    "tempering": (
        2,
        LADDER | {"adapt_ladder": True, "tempering": "likelihood", "max_temperature": None},
    )
}
MORE = {
    "baoab": (4, FEW | {"block_size": 1}),
    "hmc": (4, {"sampler": "HMC", "num_steps": 80, "num_burnin_steps": 40, "block_size": 2}),
    "mclmc": (4, {"sampler": "MCLMC", "num_steps": 80, "num_burnin_steps": 40, "block_size": 1}),
    "found": (4, {"sampler": "BAOAB", "num_steps": 2000, "block_size": 2}),
    "hmc_ladder": (2, LADDER | {"sampler": "HMC", "step_size": "auto"}),
    "penalty": (2, LADDER | {"batch_size": 20, "swap_rule": "penalty", "swap_variance": 0.5}),
    "wte": (2, LADDER | {"bias": "well_tempered"}),
    "psgld": (2, LADDER | {"sampler": "pSGLD", "step_size": 1e-3, "batch_size": 20}),
    "no swaps": (2, LADDER | {"exchange": "none"}),
    "infinite": (2, LADDER | {"exchange": "infinite", "execution": "xla"}),
    "batch_norm": (4, FEW | {"block_size": 1, "batch_norm": "batch"}),
    "h5": (4, FEW | {"block_size": 1, "trajectory_format": "h5", "batch_sampling": "symmetric"}),
}


@pytest.mark.parametrize(
    "name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)]
)
def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path, name):
    walkers, options = (CASES | MORE)[name]
    system = {key: options[key] for key in ("execution", "batch_norm") if key in options}
    options = {
        key: value for key, value in options.items() if value is not None and key not in system
    }
    oracle = run(tmp_path / "1", walkers, system, workers=1, **options)
    assert len(oracle) > 10
    blocks = 4 // options.get("block_size", 1)
    workers = 2 if name in CASES else min(3, blocks)  # Of three one has two blocks, two have one.
    found = run(tmp_path / "several", walkers, system, workers=workers, **options)
    assert differences(found, oracle) == []


@pytest.mark.slow
def test_a_ladder_without_swaps_is_made_in_blocks(tmp_path):
    options = LADDER | {"exchange": "none", "num_steps": 50}
    frames = [
        simulation(2).sample(**options, **workers).run_info for workers in ({}, {"workers": 1})
    ]
    columns = ["step", "rung", "loss"]
    # The sums of blocks of other sizes are rounded otherwise, by processor.
    np.testing.assert_allclose(*(frame[columns] for frame in frames), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_an_ensemble_is_whole_in_its_block(tmp_path):
    options = FEW | {"covariance_blending": 0.5, "num_steps": 100, "batch_size": None}
    options = {key: value for key, value in options.items() if value is not None}
    assert run(tmp_path / "1", 8, workers=1, **options) == run(tmp_path / "none", 8, **options)
    with pytest.raises(InputError, match="more workers than blocks"):
        run(tmp_path / "2", 8, workers=2, **options)


@pytest.mark.slow
def test_a_study_of_temperatures_on_workers():
    frames = []
    for workers in (1, 2, 4):
        sim = simulation(4, test_fraction=0.25)
        given = {"num_steps": 60, "num_burnin_steps": 20, "step_size": 0.02, "block_size": 1}
        frames.append(
            temperature_study(sim, [1.0, 0.5], early_stopping=False, workers=workers, **given).frame
        )
    assert frames[0].equals(frames[1]) and frames[0].equals(frames[2])


def test_one_block_of_all_is_the_loop_without_workers(tmp_path):
    oracle = run(tmp_path / "none", 4, **FEW)
    assert run(tmp_path / "block", 4, workers=1, block_size=4, **FEW) == oracle


@pytest.mark.parametrize(
    "options",
    [
        LADDER | {"adapt_ladder": True},
        pytest.param(LADDER | {"batch_size": 20}, marks=pytest.mark.slow),
        pytest.param(LADDER | {"bias": "well_tempered"}, marks=pytest.mark.slow),
        pytest.param(LADDER | {"sampler": "HMC"}, marks=pytest.mark.slow),
    ],
    ids=["pairs", "penalty", "wte", "hmc"],
)
def test_a_ladder_in_blocks_makes_the_steps_of_one_loop(tmp_path, options):
    """In float64: the same starts, noise, mini-batches and swaps, to rounding."""
    frames = []
    for number, more in enumerate(({}, {"workers": 1})):
        every = {"record_every": 5, "trajectory_every": 10, "output": tmp_path / str(number)}
        done = simulation(2, dtype="float64").sample(**every, **options, **more)
        arrays = np.load(tmp_path / str(number) / "checkpoint" / "current.npz")
        moments = [arrays[f"moments/{name}"] for name in ("count", "mean", "m2", "squares")]
        frames.append([done.run_info, done.trajectory, done.averages, done.exchanges, *moments])
    for without, within in zip(*frames, strict=True):
        np.testing.assert_allclose(
            np.asarray(within, float), np.asarray(without, float), rtol=1e-6, atol=1e-8
        )


def test_noise_heats_no_block_more_than_it_may(monkeypatch):
    """Each finds a step, a friction and masses of its own: what cools the first one is not what
    cools the others.
    """
    seen = []

    def cooled(request, position, auxiliary, tuned, room):
        seen.append(
            (position[0], tuned["coordinates"].scale.shape, tuned["coordinates"].directions.shape)
        )
        return {"friction": 2.0 + position[0], "step_limit": 3.0} if position[0] else {}

    monkeypatch.setattr("tati_re.launch.run_heating.cool_enough", cooled)
    given = {
        "mass": "fisher:2",
        "friction": "auto",
        "num_steps": 202,
        "num_burnin_steps": 200,
        "record_every": 1,
    }
    starts = np.zeros((1, 4, 26))
    starts[0, 2:] = 1.0
    states = []
    monkeypatch.setattr(
        RunLoops, "compiles", lambda loops, carry: states.append(carry.state) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        simulation(4, batch_size=20).sample(workers=1, block_size=2, starts=starts, **given)
    assert seen == [(0.0, (1, 26), (2, 26)), (1.0, (1, 26), (2, 26))]
    np.testing.assert_array_equal(states[0].raised, [1.0, 1.0, 3.0, 3.0])
    np.testing.assert_array_equal(
        states[0].step_limit, [UNLIMITED, UNLIMITED, *3 * states[0].step_factor[2:]]
    )


# --------------------------------------------------------------------------------------------------------
# what may die


def kill_after(seconds: float, killed: list[int]) -> threading.Thread:
    """Kills one of the workers of this process, once there are any, after so many seconds."""

    def wait():
        time.sleep(seconds)
        until = time.monotonic() + 60
        while not (pids := alive()) and time.monotonic() < until:
            time.sleep(0.05)
        if pids:
            killed.append(random.choice(pids))
            os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def ancestors(pid: int) -> list[int]:
    """The parent of a process that is no zombie, and so on."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return []
    return [] if state == "Z" else [int(parent), *ancestors(int(parent))]


def alive(driver: int | None = None) -> list[int]:
    """The worker processes of this one, or of another: they are copies of a server, or begun
    without it.
    """
    found, driver = [], driver or os.getpid()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes()
            for name, place in ((b"worker", 0), (b"fork_server", 1)):
                if b"tati_re.distributed." + name in words and ancestors(int(folder.name))[
                    place : place + 1
                ] == [driver]:
                    found.append(int(folder.name))
    return found


class Dying:
    """A worker of this process that adds, and dies at some of its messages."""

    def __init__(self, deaths: list[int], place: str = "here") -> None:
        self.place, self._deaths, self._sums, self._asked = place, deaths, {}, 0
        self._answer = {}
        self.closed = False

    def send(self, message) -> None:
        verb, (number,), own = message if message[0] != "load" else (*message[:1], (0,), message[2])
        self._asked += 1
        if verb == "load":
            self._sums |= {block: state for block, (state,) in own.items()}
        if verb == "advance":
            for block in own:
                self._sums[block] = self._sums[block] * 3 + number
        self._answer = {block: Told(np.array(self._sums[block])) for block in own or ()}

    def receive(self):
        if not self._asked:
            return {}
        if self._deaths and self._deaths[0] <= self._asked:
            self._deaths.pop(0)
            raise Lost("killed")
        return self._answer

    def close(self) -> None:
        self.closed = True


class Told:
    def __init__(self, potential) -> None:
        self.potential = potential


def test_a_team_does_again_what_a_dead_worker_did():
    """States, messages and snapshots in plain numbers; each sum counts which messages came, and in
    which order.
    """
    random.seed(3)
    for _ in range(200):
        deaths, said = sorted(random.sample(range(1, 40), 3)), []
        team = Team(lambda _, deaths=deaths: Dying(deaths), range(4), 2, said.append)
        team.load(dict.fromkeys(range(4), 1))
        expected = 1
        for number in range(12):
            answers = team.ask("advance", (number,), {block: () for block in range(4)})
            expected = 3 * expected + number
            assert [int(answers[block].potential) for block in range(4)] == [expected] * 4
            if random.random() < 0.2:
                team.mark(dict.fromkeys(range(4), expected))
    assert said


def test_three_deaths_at_one_step_end_the_run():
    team = Team(lambda _: Dying([2, 2, 2, 2]), range(2), 1, lambda _: None)
    with pytest.raises(SamplingError, match="died 3 times at the same step"):
        team.load({0: 1, 1: 1})
        team.ask("advance", (1,), {0: (), 1: ()})


def test_a_block_that_dies_again_and_again_leaves_a_checkpoint_to_go_on_from(tmp_path, monkeypatch):
    class Mortal(LocalWorker):
        def send(self, message) -> None:
            self.dies = message[0] == "advance" and message[1][0] > 40
            super().send(message)

        def receive(self):
            if self.dies:
                raise Lost("killed")
            return super().receive()

        dies = False

    run(tmp_path / "whole", 4, workers=1, block_size=2, **FEW)
    with monkeypatch.context() as patch:
        patch.setattr("tati_re.launch.workers.LocalWorker", Mortal)
        said = "A worker died 3 times at the same step .killed.. The last checkpoint is of step 40;.*--resume"
        sim = simulation(4, checkpoint_seconds=1e-9)
        sim.limits = replace(LIMITS, first_steps=8, chunk_seconds=0.0)
        every = {"record_every": 5, "trajectory_every": 10, "output": tmp_path / "run"}
        with pytest.raises(SamplingError, match=said):
            sim.sample(workers=1, block_size=2, **every, **FEW)
    Simulation.resume(tmp_path / "run", verbose=0, data=(X, Y))
    assert differences(files_of(tmp_path / "run"), files_of(tmp_path / "whole")) == []


def test_what_a_worker_raises_is_one_sentence_with_the_checkpoint(tmp_path, monkeypatch):
    """As of code of users, which the driver never calls."""

    class Raising(LocalWorker):
        fails = False

        def send(self, message) -> None:
            self.fails = message[0] == "advance" and message[1][0] > 16
            super().send(message)

        def receive(self):
            if self.fails:
                raise Failed("ValueError", "no\n  number.")
            return super().receive()

    monkeypatch.setattr("tati_re.launch.workers.LocalWorker", Raising)
    sim = simulation(2, checkpoint_seconds=1e-9)
    sim.limits = replace(LIMITS, first_steps=8, chunk_seconds=0.0)
    with pytest.raises(SamplingError) as found:
        sim.sample(workers=1, block_size=1, num_steps=24, step_size=0.02, output=tmp_path / "run")
    truth = (
        f"The last checkpoint is of step 16; resume with tati-sample --resume {tmp_path / 'run'}."
    )
    assert str(found.value) == f"A worker could not continue (ValueError: no number). {truth}"


@pytest.mark.parametrize("verb", ["start", "load"])
def test_a_stop_before_the_first_step_ends_the_workers_at_once(monkeypatch, verb):
    """Whoever keeps the exception, as a notebook does, keeps what its frames hold."""
    begun, ended = [], []

    class Stopped(LocalWorker):
        def send(self, message) -> None:
            begun.append(self)
            if message[0] == verb:
                raise KeyboardInterrupt
            super().send(message)

        def close(self) -> None:
            ended.append(self)

    monkeypatch.setattr("tati_re.launch.workers.LocalWorker", Stopped)
    with pytest.raises(KeyboardInterrupt) as kept:
        simulation(2).sample(workers=1, block_size=1, num_steps=24, step_size=0.02)
    assert ended == begun[-1:], kept


def test_workers_that_were_begun_before_a_stop_are_ended():
    def start(number):
        if number:
            raise KeyboardInterrupt
        return begun

    begun = Dying([])
    team = Team(start, range(2), 2, lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        team.begin()
    team.close()
    assert begun.closed


@pytest.mark.slow
def test_a_ladder_goes_on_from_its_first_checkpoint(tmp_path, monkeypatch):
    """Killed before it had made a step."""
    few = {
        "num_replicas": 2,
        "max_temperature": 3.0,
        "num_steps": 30,
        "step_size": 0.01,
        "workers": 1,
    }
    oracle = run(tmp_path / "whole", 2, **few)
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr("tati_re.engine.driver.Driver.run", lambda driver, carry: 1 / 0)
        run(tmp_path / "run", 2, **few)
    Simulation.resume(tmp_path / "run", verbose=0, data=(X, Y))
    assert differences(files_of(tmp_path / "run"), oracle) == []


def test_where_a_run_was_made_is_told(tmp_path, capsys):
    """By its progress and its report, and by the manifest after a worker has moved."""
    done = simulation(4, verbose=2).sample(workers=1, block_size=2, output=tmp_path / "run", **FEW)
    assert "sampling   60/60 " in capsys.readouterr().out
    told = done.manifest["workers"]
    assert (
        "Its 2 blocks of 2 walkers were advanced by 1 worker, with"
        in sampling_sentences(done.manifest, done.run_info)[-1]
    )
    told |= {
        "number": 3,
        "threads": 1,
        "machines": {"10.0.0.1": 2, "10.0.0.2": 1},
        "worker": {"device": "GPU"},
    }
    said = sampling_sentences(done.manifest | {"workers": told}, done.run_info)[-1]
    made = "3 workers, with 1 thread each, on GPUs: 2 workers on 10.0.0.1, 1 worker on 10.0.0.2."
    assert said == f"Its 2 blocks of 2 walkers were advanced by {made}"
    places, deaths = iter("abc"), [3]
    team = Team(lambda _: Dying(deaths, next(places)), range(2), 2, lambda _: None)
    team.load({0: 1, 1: 1})
    assert team.machines == ["a", "b"]
    for number in range(3):
        team.ask("advance", (number,), {0: (), 1: ()})
    assert team.machines == ["c", "b"]


def test_what_is_the_same_to_all_workers_is_pickled_once():
    heard = []

    class Hearing(Dying):
        def tell(self, message: bytes) -> None:
            heard.append(message)
            self.send(pickle.loads(message))

    team = Team(lambda _: Hearing([]), range(3), 3, lambda _: None)
    assert team.ask("leaves", (0,), None) == {}
    assert len(heard) == 3 and all(message is heard[0] for message in heard)
    team.load(dict.fromkeys(range(3), 1))
    assert len(heard) == 3


def test_other_energies_of_the_next_worker_are_found():
    class Other(Dying):
        def send(self, message) -> None:
            super().send(message)
            self._answer = {block: Told(told.potential + 1) for block, told in self._answer.items()}

    made = iter([Dying([3]), Other([])])
    team = Team(lambda _: next(made), range(1), 1, lambda _: None)
    team.load({0: 1})
    team.ask("advance", (1,), {0: ()})
    with pytest.raises(SamplingError, match="computed different energies"):
        team.ask("advance", (1,), {0: ()})


def test_another_number_of_workers_is_no_change_of_the_manifest(tmp_path, monkeypatch, capsys):
    run(tmp_path / "a", 2, workers=1, block_size=1, num_steps=20)
    with pytest.raises(
        InputError,
        match=r"^workers: there are more workers than blocks.* Received: 3. Expected: 1 to 2",
    ):
        Simulation.resume(tmp_path / "a", num_steps=30, workers=3, verbose=0, data=(X, Y))

    def beside(pickled, *_):
        made = cloudpickle.loads(pickled)
        return LocalWorker(partial(made.func, False, *made.args[1:]), 0)

    with monkeypatch.context() as patch:  # two workers, both in this process
        patch.setattr("tati_re.launch.workers.Process", beside)
        Simulation.resume(tmp_path / "a", num_steps=30, workers=2, verbose=0, data=(X, Y))
    assert [file.sentence for file in verify(tmp_path / "a") if not file.whole] == []
    capsys.readouterr()
    Simulation.resume(tmp_path / "a", num_steps=40, verbose=2, data=(X, Y))
    assert "was changed" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_killed_worker_changes_no_byte_and_no_port_is_open(tmp_path):
    """On a ladder, with a resume by another number of workers."""
    options = LADDER | {"num_steps": 800, "checkpoint_seconds": 0.5}
    oracle = run(tmp_path / "1", 2, workers=1, **options)
    killed: list[int] = []
    thread, ports = kill_after(0.0, killed), set()
    sockets = threading.Thread(target=lambda: ports.update(listening(10)), daemon=True)
    sockets.start()
    run(tmp_path / "2", 2, workers=2, **options | {"num_steps": 400})
    thread.join()
    assert killed and not ports and not alive()
    Simulation.resume(tmp_path / "2", num_steps=800, workers=1, verbose=0, data=(X, Y))
    assert differences(files_of(tmp_path / "2"), oracle) == []


def listening(seconds: float) -> set[str]:
    """Sockets in which workers of this process wait for a connection from elsewhere, in so many
    seconds.
    """
    found: set[str] = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for pid in alive():
            try:
                mine = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
                for table in ("tcp", "tcp6"):
                    rows = [
                        line.split()
                        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
                    ]
                    found |= {
                        row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine
                    }
            except OSError:
                pass
        time.sleep(0.2)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "moment"), [("baoab", "start"), ("tempering", 0.0), ("tempering", 0.4), ("baoab", 0.8)]
)
def test_a_worker_killed_at_any_moment_changes_no_byte(tmp_path, name, moment):
    """While it starts, at a snapshot, between two, and towards the end."""
    walkers, options = (CASES | MORE)[name]
    options = {key: value for key, value in options.items() if value is not None}
    options |= {"num_steps": 3_000, "record_every": 50, "checkpoint_seconds": 0.2}
    oracle, killed = run(tmp_path / "1", walkers, workers=1, **options), list[int]()

    def seen(folder, step):
        if moment != "start" and not killed and step > moment * options["num_steps"]:
            kill_after(0.0, killed).join()

    if moment == "start":
        kill_after(0.0, killed)
    assert (
        differences(run(tmp_path / "2", walkers, workers=2, callbacks=[seen], **options), oracle)
        == []
    )
    assert killed


INSTANTS = {
    "a swap": lambda verb, common: verb == "examples",
    "a checkpoint": lambda verb, common: verb == "leaves",
    "the last round": lambda verb, common: (
        verb == "advance" and common[0] + common[1] > LADDER["num_steps"]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "instant"),
    [("penalty", "a swap"), ("tempering", "a checkpoint"), ("wte", "the last round")],
)
def test_a_worker_killed_in_the_middle_of_a_round_changes_no_byte(
    tmp_path, monkeypatch, name, instant
):
    """In a swap that asks for the losses of examples, in a checkpoint, and when nothing but the
    last round is left.
    """
    walkers, options = (CASES | MORE)[name]
    options = {key: value for key, value in options.items() if value is not None}
    oracle, killed, ask = run(tmp_path / "1", walkers, workers=1, **options), list[int](), Team.ask

    def asked(team, verb, common, own):
        if not killed and INSTANTS[instant](verb, common):
            kill_after(0.0, killed).join()
        return ask(team, verb, common, own)

    monkeypatch.setattr(Team, "ask", asked)
    assert differences(run(tmp_path / "2", walkers, workers=2, **options), oracle) == []
    assert killed


@pytest.mark.slow
def test_a_ladder_whose_driver_is_killed_at_once_is_resumed(tmp_path):
    """As soon as its folder says what it is, and then with other numbers of workers."""
    command = [
        sys.executable,
        "-m",
        "tati_re.cli.sample",
        "--data",
        "two_clusters",
        "--num-walkers",
        "2",
    ]
    command += [
        "--num-replicas",
        "4",
        "--max-temperature",
        "5",
        "--num-burnin-steps",
        "40",
        "--adapt-ladder",
    ]
    command += [
        "--num-steps",
        "200",
        "--step-size",
        "0.01",
        "--exchange-every",
        "10",
        "--record-every",
        "10",
    ]
    command += ["--seed", "1", "--threads", "1", "--execution", "graph", "--quiet"]
    oracle, folder = tmp_path / "oracle", tmp_path / "run"
    subprocess.run([*command, "--workers", "1", "--output", oracle], check=True)
    driver = subprocess.Popen([*command, "--workers", "2", "--output", folder])
    while driver.poll() is None and not (folder / "manifest.toml").exists():
        time.sleep(0.002)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    subprocess.run([*command[:3], "--resume", folder, "--quiet", "--workers", "4"], check=True)
    assert differences(files_of(folder), files_of(oracle)) == []


@pytest.mark.slow
def test_a_killed_driver_takes_its_workers_along_and_loses_nothing(tmp_path):
    """Resumed with other numbers of workers."""
    command = [
        sys.executable,
        "-m",
        "tati_re.cli.sample",
        "--data",
        "two_clusters",
        "--num-walkers",
        "4",
    ]
    command += [
        "--block-size",
        "1",
        "--num-steps",
        "30000",
        "--step-size",
        "0.01",
        "--checkpoint-seconds",
        "0.2",
    ]
    command += [
        "--record-every",
        "50",
        "--seed",
        "1",
        "--threads",
        "1",
        "--execution",
        "graph",
        "--quiet",
    ]
    oracle = tmp_path / "oracle"
    subprocess.run([*command, "--workers", "1", "--output", oracle], check=True)
    folder = tmp_path / "run"
    mark = folder / "checkpoint" / "current.npz"
    resumed = [*command[:3], "--resume", folder, "--quiet"]
    for arguments in (
        [*command, "--workers", "2", "--output", folder],
        [*resumed, "--workers", "4"],
    ):
        before = mark.read_bytes() if mark.exists() else b""
        driver = subprocess.Popen(arguments)
        while driver.poll() is None and (not mark.exists() or mark.read_bytes() == before):
            time.sleep(0.05)
        workers = alive(driver.pid)
        driver.kill()
        driver.wait()
        until = time.monotonic() + 30
        while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until:
            time.sleep(0.1)
        assert workers and not any(Path(f"/proc/{pid}").exists() for pid in workers)
    subprocess.run([*resumed, "--workers", "3"], check=True)
    assert differences(files_of(folder), files_of(oracle)) == []


# -------------------------------------------------------------------------------------------------------
# what is asked


def test_what_workers_cannot_do_is_said_before_the_start(tmp_path):
    sim = simulation(6)
    for options, words in [
        ({"workers": 3}, "more workers than blocks"),
        ({"workers": 2, "block_size": 4}, "have the same size"),
        ({"block_size": 2}, "needs workers"),
        (
            {"workers": 2, "exchange": "tempering", "num_replicas": 3, "max_temperature": 4.0},
            "weights of its rungs",
        ),
        (
            {"workers": 2, "block_size": 4, "num_replicas": 2, "max_temperature": 4.0},
            r"a multiple of 6 replica",
        ),
        ({"workers": 2, "observables": {"own": partial(first_of, LOCK)}}, "cannot be sent"),
    ]:
        with pytest.raises(InputError, match=words):
            sim.sample(
                num_steps=100,
                num_burnin_steps=40,
                step_size=0.01,
                output=tmp_path / "none",
                **options,
            )
        assert not (tmp_path / "none").exists()
    for made in (sim.fit, partial(log_evidence, sim)):
        with pytest.raises(InputError, match=r"computed by one process|uses a single process"):
            made(workers=2, num_steps=10)
    sim.sample(num_steps=20, step_size=0.01, output=tmp_path / "run")
    with pytest.raises(InputError, match="no blocks"):
        Simulation.resume(tmp_path / "run", num_steps=40, workers=2, data=(X, Y))


def test_layers_and_functions_of_a_script_travel_to_another_process(monkeypatch):
    """No module has them, two functions have one name, and a layer takes nothing of what Keras adds
    to its config, with another one inside that has the default precision; where they are read,
    Keras knows none of them.
    """

    class Own(keras.layers.Layer):
        def __init__(self, units, activation):
            super().__init__()
            self.inside, self.activation = (
                keras.layers.Dense(units),
                keras.activations.get(activation),
            )

        def build(self, shape):
            self.inside.build(shape)

        def call(self, inputs):
            return self.activation(self.inside(inputs))

        def get_config(self):
            return super().get_config() | {
                "units": self.inside.units,
                "activation": self.activation,
            }

    def scaled(factor):
        def tanh(x):
            return tf.tanh(factor * x)

        return tanh

    keras.utils.set_random_seed(1)
    inside = [
        Own(4, activation=scaled(2.0)),
        Own(3, activation=scaled(-0.5)),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential([keras.Input((3,)), *inside])
    given = {
        "dtype": "float64",
        "threads": threads(),
        "verbose": 0,
        "step_size": 0.1,
        "num_steps": 2,
    }
    sim = Simulation(model, data=(X, Y), num_walkers=2, **given)
    request = make_request("sample", sim.options.resolved(workers=1), sim.objects, sim.system)
    known = keras.saving.get_custom_objects()
    for name in ("Own", "own_1", "own_2"):
        monkeypatch.setitem(known, name, None)  # what is read stays in this test
        del known[name]
    with contextlib.ExitStack() as process:
        monkeypatch.setattr(workers_of, "_OPEN", process)
        _, told = cloudpickle.loads(workers_of._pickled(request, RunLoops, "graph"))()
    assert {*known} >= {"Own", "own_1", "own_2"}
    assert (
        told["gradient"] == workers_of._fingerprint(RunLoops(request, "graph").loops[0])["gradient"]
    )


def test_a_process_answers_fails_and_dies():
    def answer(word):
        refuse_if(word == "bad", "bad.", 3, 4)
        return {"pid": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"]}[word]

    def made():
        return answer, {"ready": True}

    worker = Process(cloudpickle.dumps(made), 1)
    assert worker.receive() == {"ready": True}
    worker.send(("threads",))
    assert worker.receive() == "1"
    worker.send(("nothing",))
    with pytest.raises(
        SamplingError, match=r"A worker could not continue \(KeyError: 'nothing'\)."
    ):
        worker.receive()
    worker.send(("bad",))
    with pytest.raises(InputError, match=r"^bad\. Received: 3\. Expected: 4\.$"):
        worker.receive()
    os.kill(worker.pid, signal.SIGTERM)  # is left to the driver
    worker.send(("pid",))
    assert worker.receive() == worker.pid
    os.kill(worker.pid, signal.SIGKILL)
    worker.send(("pid",))
    with pytest.raises(Exception, match="exit status -9"):
        worker.receive()
    worker.close()


def test_workers_are_copies_of_one_process_and_outlive_it(monkeypatch, tmp_path):
    def made():
        asked = {
            "folder": os.getcwd,
            "word": lambda: os.environ["A_WORD"],
            "path": lambda: sys.path,
            "server": os.getppid,
            "no garbage": gc.get_freeze_count,
        }
        return (lambda word: asked[word]()), None

    def answer(worker, word):
        worker.send((word,))
        return worker.receive()

    def begun():
        worker = Process(cloudpickle.dumps(made), 1)
        assert worker.receive() is None
        return worker

    monkeypatch.setenv("A_WORD", "first")
    first = begun()
    monkeypatch.setenv("A_WORD", "second")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    second = begun()
    server = answer(first, "server")
    assert server == answer(second, "server") != os.getpid()
    assert (answer(first, "word"), answer(second, "word")) == ("first", "second")
    assert (answer(second, "folder"), answer(second, "path")) == (str(tmp_path), sys.path)
    assert answer(second, "no garbage") > 100_000
    os.kill(server, signal.SIGKILL)
    while ancestors(server):
        time.sleep(0.01)
    assert answer(first, "word") == "first"
    second.close()
    third = begun()
    assert answer(third, "server") not in (server, os.getpid())
    os.kill(first.pid, signal.SIGKILL)
    first.send(("word",))
    with pytest.raises(Lost, match="exit status unknown"):
        first.receive()
    first.close()
    third.close()
    assert not ancestors(third.pid)
    while ancestors(first.pid):  # for whose end nobody has waited
        time.sleep(0.01)


def test_a_server_whose_answer_was_not_waited_for_is_asked_no_more(monkeypatch):
    """The process that it then made would be taken for the next one."""
    server = ForkServer(os.environ)
    with monkeypatch.context() as patch:
        patch.setattr(
            server._control, "recv", lambda: signal.default_int_handler(signal.SIGINT, None)
        )
        with pytest.raises(KeyboardInterrupt):
            server.start(os.environ, 1, 2)
    with pytest.raises(OSError, match="closed"):
        server.start(os.environ, 1, 2)
    assert server.status(1) == "unknown"
    server.close()


def test_a_block_is_compiled_as_the_whole_run():
    """Few steps of a block alone would run in a graph: its potential has to know that the run is
    under XLA.
    """
    sim = simulation(8, execution="auto")
    options, objects = sim._for_call({"num_steps": 600, "step_size": 0.01, "workers": 2})
    request = make_request("sample", options, objects, sim.system)
    assert request.potential.under_xla
    assert _of_block(request, 4, None, "xla").potential.under_xla


def test_the_blocks_of_a_worker_share_one_compiled_function():
    sim = simulation(4)
    options, objects = sim._for_call({**FEW, "workers": 1, "block_size": 1})
    loops = RunLoops(make_request("sample", options, objects, sim.system), "graph")
    [blocks] = loops.loops
    carry = blocks.start(sim.walkers.position, sim.walkers.auxiliary)
    for first, count in ((1, 7), (8, 20)):
        carry = blocks.run(carry, first, count).carry
    [worker] = loops.workers.team.workers
    held = worker._answer.__self__
    assert len(held._carries) == 4 and held.loop.traces == 1


def test_a_structure_of_tensors_travels_as_one_vector():
    """Every number comes back as it was, with its type."""
    values = {
        "index": tf.constant([3, 0, -1]),
        "rounds": tf.constant(2**53 - 1, tf.int64),
        "none": (),
    }
    values |= {
        "heights": tf.random.normal((2, 3)),
        "loss": tf.constant([1 / 3, np.nan, -0.0], tf.float64),
    }
    State = namedtuple("State", sorted(values))
    flat = PackedTensors(State(**values))
    vector = flat.joined(State(**values)).numpy()
    np.testing.assert_array_equal(vector[flat.part["index"]], [3, 0, -1])
    for name, value in flat.parted(tf.constant(vector))._asdict().items():
        for one, other in zip(tf.nest.flatten(value), tf.nest.flatten(values[name]), strict=True):
            assert one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


def test_one_worker_computes_where_several_would(monkeypatch):
    """On CPUs, so in a process of its own where this one has a GPU."""
    sim = simulation(4)
    options, objects = sim._for_call({**FEW, "workers": 1, "block_size": 1})
    request = make_request("sample", options, objects, sim.system)
    for devices, here in (([], True), (["GPU:0"], False)):
        monkeypatch.setattr(
            tf.config, "list_physical_devices", lambda kind, devices=devices: devices
        )
        assert WorkerPlan.of(request).is_here is here


def test_blocks_whose_swaps_ask_for_examples_have_a_process():
    sim = simulation(1)
    for more, here in (({}, True), ({"batch_size": 20, "swap_rule": "penalty"}, False)):
        options, objects = sim._for_call({**LADDER, **more, "workers": 1})
        request = make_request("sample", options, objects, sim.system)
        assert WorkerPlan.of(request).is_here is here


@pytest.mark.slow
def test_a_swap_that_asks_for_examples_needs_no_second_thread(tmp_path):
    """It would hold the only thread while its own block waits for one."""
    command = [
        sys.executable,
        "-m",
        "tati_re.cli.sample",
        "--data",
        "two_clusters",
        "--threads",
        "1",
    ]
    command += [
        "--workers",
        "1",
        "--num-walkers",
        "2",
        "--num-steps",
        "40",
        "--num-burnin-steps",
        "0",
        "--step-size",
        "0.001",
    ]
    command += [
        "--hidden",
        "4",
        "--num-replicas",
        "4",
        "--batch-size",
        "20",
        "--swap-rule",
        "penalty",
    ]
    command += ["--max-temperature", "5", "--output", str(tmp_path / "run")]
    assert subprocess.run(command, timeout=300, capture_output=True, check=False).returncode == 0


def test_a_worker_sees_its_gpu_and_no_other(monkeypatch):
    seen = []

    def begun(environment, *_):
        seen.append(environment["CUDA_VISIBLE_DEVICES"])
        return SimpleNamespace(pid=0, kill=lambda: None, wait=lambda: None)

    monkeypatch.setattr(processes, "forked", begun)
    monkeypatch.setattr(processes, "_started", begun)
    for visible, gpu in (("", None), ("", 1), ("5,7", None), ("5,7", 1), ("5,7", 2), ("GPU-a", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        Process(b"", 1, *(() if gpu is None else (1.0, gpu))).close()
    assert seen == ["-1", "1", "-1", "7", "5", "GPU-a"]


def test_workers_that_differ_are_named():
    described = iter([{"threads": 1, "device": "CPU"}, {"threads": 2, "device": "CPU"}])

    class Described(Dying):
        def receive(self):
            return super().receive() if self._asked else next(described)

    said = list[str]()
    Team(lambda _: Described([]), range(2), 2, said.append).begin()
    assert len(said) == 1 and "Worker 1 differs from the first in threads:" in said[0]
    described = iter([{"device": "CPU"}, {"device": "GPU"}])
    with pytest.raises(InputError, match="all on GPUs"):
        Team(lambda _: Described([]), range(2), 2, said.append).begin()
