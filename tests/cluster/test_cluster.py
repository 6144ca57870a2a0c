"""Workers on the machines of a Ray cluster: the same bytes as in one process, whatever happens to
the machines.
"""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from tati_re import InputError, Simulation
from tati_re.distributed import ray_cluster
from tati_re.distributed.processes import Lost, gpu_of
from tests.cluster.test_workers import CASES, MORE, X, Y, differences, files_of, run, simulation

pytestmark = pytest.mark.usefixtures("rewritten_graphs")

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def token(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace())
    return file


def test_ray_is_used_with_a_token_that_nobody_else_reads(token, monkeypatch):
    ray_cluster.check_cluster("auto")
    for mode in (0o644, 0o640, 0o604):
        token.chmod(mode)
        with pytest.raises(InputError, match=f"other users can read Ray's token.*mode {mode:o}"):
            ray_cluster.check_cluster("auto")
    token.unlink()
    with pytest.raises(InputError, match="Ray has no token"):
        ray_cluster.check_cluster("auto")
    for given in ("disabled", ""):
        monkeypatch.setenv("RAY_AUTH_MODE", given)
        with pytest.raises(InputError, match="Enable its token authentication"):
            ray_cluster.check_cluster("auto")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"Ray is not installed.*tati_re\[cluster\]"):
        ray_cluster.check_cluster("auto")


def test_what_has_no_workers_has_no_cluster(token):
    sim = simulation(4)
    for options, words in (
        ({"cluster": "auto"}, "cluster needs workers"),
        ({"worker_gpus": 0.5}, "worker_gpus needs workers"),
    ):
        with pytest.raises(InputError, match=words):
            sim.sample(num_steps=10, step_size=0.01, **options)
    with pytest.raises(InputError, match=r"worker_gpus: 2 worker\(s\) need 1 GPU"):
        sim.sample(num_steps=10, step_size=0.01, workers=2, block_size=1, worker_gpus=0.5)


def test_gpus_are_dealt_in_turn():
    assert [gpu_of(number, 0.5) for number in range(5)] == [0, 0, 1, 1, 2]
    assert [gpu_of(number, 1 / 3) for number in range(7)] == [0, 0, 0, 1, 1, 1, 2]
    assert gpu_of(3, None) is None


def test_where_no_cluster_is_it_is_said_at_once(token, monkeypatch):
    ray = SimpleNamespace(is_initialized=lambda: False, init=lambda **given: 1 / 0)
    ray.util = SimpleNamespace(scheduling_strategies=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.util", ray.util)
    monkeypatch.setitem(
        sys.modules, "ray.util.scheduling_strategies", ray.util.scheduling_strategies
    )
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    before = signal.getsignal(signal.SIGTERM)
    for address in ("127.0.0.1:9", "nowhere", "auto"):
        with pytest.raises(InputError, match=f"no Ray cluster answers at '{address}'"):
            ray_cluster.Cluster(address, 2, 1, None)
    assert signal.getsignal(signal.SIGTERM) is before


class _Away(Exception):
    """What Ray raises where an actor is gone."""


class Ray:
    """As much of Ray as is asked: machines that answer at once, until they are removed."""

    exceptions = SimpleNamespace(
        RayActorError=_Away, ObjectLostError=_Away, GetTimeoutError=TimeoutError
    )
    util = SimpleNamespace(
        scheduling_strategies=SimpleNamespace(
            NodeAffinitySchedulingStrategy=lambda node, soft: node
        )
    )

    def __init__(self, *cores: int, gpus: int = 0) -> None:
        self.cores, self.gpus, self.calls = dict(zip("abcdefgh", cores, strict=False)), gpus, []
        self.begun: list[tuple] = []
        self.busy: set[str] = set()

    def nodes(self):
        told = {"Alive": True, "Resources": {}}
        found = []
        for name, cores in self.cores.items():
            resources = {"CPU": float(cores), "GPU": float(self.gpus)}
            found.append(
                told
                | {"NodeID": name, "NodeManagerAddress": f"10.0.0.{name}", "Resources": resources}
            )
        return found

    def remote(self, kind):
        ray = self

        class Made:
            def options(self, **given):
                self.given = given
                return self

            def remote(self):
                self.node = self.given["scheduling_strategy"]
                ray.begun.append((self.node, self.given["num_cpus"], self.given["num_gpus"]))
                self.ready = SimpleNamespace(remote=lambda: (self.node, None))
                self.end = SimpleNamespace(remote=lambda number: (self.node, None))
                self.ask = SimpleNamespace(remote=self._ask)
                return self

            def _ask(self, messages):
                ray.calls.append((self.node, sorted(messages)))
                return self.node, {
                    number: repr(message).encode() for number, message in messages.items()
                }

        return Made()

    def get(self, future, timeout=None):
        node, answers = future
        if timeout is not None and node in self.busy:
            raise TimeoutError
        if node not in self.cores:
            raise _Away("the machine\nwent away")
        return answers

    def kill(self, actor):
        pass

    def put(self, value):
        return value


@pytest.fixture
def cluster(token, monkeypatch):
    def made(
        ray: Ray, number: int, threads: int = 1, gpus: float | None = None
    ) -> ray_cluster.Cluster:
        monkeypatch.setattr(ray_cluster, "_connected", lambda address: ray)
        return ray_cluster.Cluster("auto", number, threads, gpus)

    return made


def test_workers_are_where_there_is_room_and_one_message_goes_to_each_machine(cluster):
    ray = Ray(4, 2, 2)
    here = cluster(ray, 6)
    workers = [here.start(b"made", number) for number in range(6)]
    assert sorted(worker.place for worker in workers) == ["10.0.0.a"] * 3 + ["10.0.0.b"] * 2 + [
        "10.0.0.c"
    ]
    assert sorted(ray.begun) == [("a", 3, 0), ("b", 2, 0), ("c", 1, 0)]
    for worker in workers:
        assert b"made" in worker.hear()
    assert sorted(ray.calls) == [("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])]
    ray.calls.clear()
    for number, worker in enumerate(workers):
        worker.tell(bytes([number]))
    assert [worker.hear() for worker in workers] == [
        repr(bytes([number])).encode() for number in range(6)
    ]
    assert len(ray.calls) == 3
    with pytest.raises(
        InputError, match=r"no slots for 9 workers of 1 thread\(s\) each.*8 slot\(s\) on 3 machine"
    ):
        cluster(ray, 9)
    with pytest.raises(InputError, match="no slots for 5 workers of 2 thread"):
        cluster(ray, 5, threads=2)
    assert cluster(Ray(8, 8, gpus=1), 4, gpus=0.5).size == 2
    with pytest.raises(InputError, match=r"and 0.5 GPU\(s\) each"):
        cluster(Ray(8, 8, gpus=1), 5, gpus=0.5)


def test_workers_of_a_lost_machine_go_to_a_spare_one_and_else_beside_others(cluster):
    ray = Ray(2, 2, 1)
    here = cluster(ray, 4)
    workers = [here.start(b"made", number) for number in range(4)]
    places = {worker.place for worker in workers}
    for worker in workers:
        worker.hear()
    lost = max("ab", key=lambda name: sum(worker.place[-1] == name for worker in workers))
    ray.cores.pop(lost)
    again = []
    for number, worker in enumerate(workers):
        worker.tell(b"step")
        if worker.place[-1] == lost:
            with pytest.raises(Lost, match=f"10.0.0.{lost} was lost"):
                worker.hear()
            worker.close()
            again.append(here.start(b"made", number))
            assert b"made" in again[-1].hear()
        else:
            assert worker.hear() == repr(b"step").encode()
    assert again and all(worker.place[-1] in ray.cores for worker in again)
    assert len(places) >= 2
    ray.cores.clear()
    again[0].tell(b"step")
    with pytest.raises(Lost):
        again[0].hear()
    with pytest.raises(Exception, match="no machines left"):
        here.start(b"made", 0)


def test_a_machine_whose_cores_others_hold_is_left(cluster):
    ray = Ray(1, 1, 1)
    here = cluster(ray, 2)
    workers = [here.start(b"made", number) for number in range(2)]
    ray.busy = {workers[0].place[-1]}
    with pytest.raises(Lost, match="other work occupies its cores"):
        workers[0].hear()
    assert b"made" in workers[1].hear()
    instead = here.start(b"made", 0)
    assert instead.place not in {worker.place for worker in workers} and b"made" in instead.hear()


# ------------------------------------------------------------------------------------------------------
# with Ray itself


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """A cluster of four machines with a core each, on this one."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (the extra `cluster`)")
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    given = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(file)}
    given["RAY_worker_niceness"] = "0"  # Ray's own is 15: beside another job these would wait.
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    import ray  # which reads them now
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def case(name: str, **more):
    walkers, options = (CASES | MORE)[name]
    system = {key: options[key] for key in ("execution", "batch_norm") if key in options} | {
        "threads": 1
    }
    return (
        walkers,
        system,
        {k: v for k, v in options.items() if v is not None and k not in system} | more,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tempering", "penalty", "mclmc", "baoab", "batch_norm"])
def test_bytes_do_not_depend_on_machines(tmp_path, machines, name):
    """Each sends other messages: swaps, losses of examples, tuning, batches, states of layers.

    Workers of this machine get the messages of all cases in test_workers.py.
    """
    walkers, system, options = case(name)
    oracle = run(tmp_path / "1", walkers, system, workers=1, **options)
    blocks = 4 // options.get("block_size", 1)
    for workers in (2, blocks) if name == "baoab" else (blocks,):
        given = options | {"workers": workers, "cluster": machines[0].address}
        assert differences(run(tmp_path / str(workers), walkers, system, **given), oracle) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "workers"), [("tempering", 3), ("baoab", 4)])
def test_a_machine_that_is_removed_changes_no_byte(tmp_path, machines, name, workers):
    """With a spare machine, and without one."""
    cluster, nodes = machines
    walkers, system, options = case(name, num_steps=1500, record_every=50, checkpoint_seconds=0.3)
    oracle, gone = run(tmp_path / "1", walkers, system, workers=1, **options), []

    def seen(folder, step):
        if not gone and step > 0:
            gone.append(nodes.pop(random.Random(1).randrange(len(nodes))))
            threading.Thread(target=cluster.remove_node, args=(gone[0], False), daemon=True).start()

    given = options | {"workers": workers, "cluster": cluster.address, "callbacks": [seen]}
    try:
        assert differences(run(tmp_path / "2", walkers, system, **given), oracle) == []
    finally:
        nodes.append(cluster.add_node(num_cpus=1))
    assert gone


@pytest.mark.slow
def test_a_run_goes_on_with_and_without_a_cluster(tmp_path, machines):
    walkers, system, options = case("baoab", num_steps=120)
    oracle = run(tmp_path / "1", walkers, system, workers=1, **options)
    given = options | {"num_steps": 60, "workers": 4, "cluster": machines[0].address}
    run(tmp_path / "2", walkers, system, **given)
    for steps, more in (
        (90, {"workers": 2}),
        (120, {"workers": 4, "cluster": machines[0].address}),
    ):
        done = Simulation.resume(tmp_path / "2", num_steps=steps, verbose=0, data=(X, Y), **more)
        assert ("machines" in done.manifest["workers"]) == ("cluster" in more)
    assert differences(files_of(tmp_path / "2"), oracle) == []
