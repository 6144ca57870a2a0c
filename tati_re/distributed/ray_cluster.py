"""Workers on several machines: a Ray cluster has one actor on each, at the ends of whose pipes the
workers are.
"""

import contextlib
import importlib.util
import logging
import math
import os
import signal
import socket
import stat
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from tati_re.core.errors import InputError, WorkersLost, refuse_if
from tati_re.distributed.processes import Lost, Process, Worker

_PATIENCE = 60.0  # Seconds that a machine may take to begin its actor.


def check_cluster(address: str) -> None:
    """Ray where it is not installed, or where it would run what anybody sends."""
    if importlib.util.find_spec("ray") is None:
        raise InputError(
            "cluster: Ray is not installed.", address, "pip install 'tati_re[cluster]'"
        )
    mode = os.environ.get("RAY_AUTH_MODE")
    path = os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")
    problem = "cluster: Ray executes any code it receives. Enable its token authentication."
    right = "RAY_AUTH_MODE=token"
    refuse_if(
        mode != "token",
        problem,
        f"RAY_AUTH_MODE={mode or ''}",
        f"{right} here and on the machine that starts Ray",
    )
    if os.environ.get("RAY_AUTH_TOKEN"):
        return
    file = Path(path).expanduser()
    how = "the file written by `(umask 077; ray get-auth-token --generate)`"
    refuse_if(not file.is_file(), "cluster: Ray has no token.", file, how)
    if file.stat().st_mode & 0o077:
        problem = (
            "cluster: other users can read Ray's token, and can use it to run any code as you."
        )
        raise InputError(
            problem,
            f"{file}, mode {stat.S_IMODE(file.stat().st_mode):o}",
            f"chmod 600 {file}, a new token",
        )


class Machine:
    """What the actor of a machine does: it begins workers there and hands on messages, of which it
    reads none.
    """

    def __init__(self) -> None:
        self._processes: dict[int, Process] = {}

    def ready(self) -> None:
        """Answers as soon as the actor has begun."""

    def ask(self, messages: dict[int, bytes | tuple]) -> dict[int, bytes | str]:
        """The answers of workers, by their numbers; the last words of those gone. `Process`'s
        arguments begin one.
        """
        import ray

        for number, message in messages.items():
            if isinstance(message, tuple):
                made, *arguments = message
                self._processes[number] = Process(ray.get(made), *arguments)
            else:
                self._processes[number].tell(message)
        return {number: self._heard(number) for number in messages}

    def _heard(self, number: int) -> bytes | str:
        try:
            return self._processes[number].hear()
        except Lost as lost:
            return str(lost)

    def end(self, number: int) -> None:
        """Ends a worker."""
        self._processes.pop(number).close()


class _Station:
    """The actor of a machine as the driver sees it: messages of the workers there go out
    together.
    """

    def __init__(self, ray: Any, node: str, address: str, cores: int, gpus: float) -> None:
        self.ray = ray
        self.address = address
        self.alive = True
        where = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        resources = {"num_cpus": cores, "num_gpus": gpus if gpus < 1 else math.ceil(gpus)}
        self.actor = (
            ray.remote(Machine)
            .options(**resources, max_restarts=0, scheduling_strategy=where)
            .remote()
        )
        self._ready = self.actor.ready.remote()
        self.waiting: dict[int, bytes | tuple] = {}
        self.asked: dict[int, Callable[[], dict]] = {}
        self.numbers: set[int] = set()

    def submit(self) -> None:
        if self.waiting and self.alive:
            answer = cache(
                partial(self.ray.get, self.actor.ask.remote(self.waiting))
            )  # fetched once
            self.asked |= dict.fromkeys(self.waiting, answer)
            self.waiting = {}

    def hear(self, number: int) -> bytes:
        errors = self.ray.exceptions
        try:
            if not self.alive:
                raise Lost(f"its machine {self.address} was lost")
            if self._ready is not None:
                self.ray.get(self._ready, timeout=_PATIENCE)
                self._ready = None
            answer = self.asked.pop(number)()[number]
        except errors.GetTimeoutError:
            self.end()
            words = (
                f"{self.address} did not start one within {_PATIENCE:g} seconds: other work "
                "occupies its cores"
            )
            raise Lost(words) from None
        except (errors.RayActorError, errors.ObjectLostError) as error:
            self.end()
            words = str(error).strip().splitlines()[-1].strip()
            raise Lost(f"its machine {self.address} was lost: {words}") from None
        if isinstance(answer, str):
            raise Lost(answer)
        return answer

    def end(self) -> None:
        self.alive = False
        with contextlib.suppress(Exception):
            self.ray.kill(self.actor)


class Remote(Worker):
    """A worker on a machine of the cluster.

    Args:
        cluster: The cluster.
        station: The actor of the machine.
        number: Number of the worker on its machine, from 0.
        begin: Arguments of `Process` on that machine, the first one as a reference from
            `Cluster.shared`.
    """

    def __init__(self, cluster: "Cluster", station: _Station, number: int, begin: tuple) -> None:
        self._cluster = cluster
        self._station = station
        self._number = number
        self.place = station.address
        station.numbers.add(number)
        station.waiting[number] = begin

    def tell(self, message: bytes) -> None:
        self._station.waiting[self._number] = message

    def hear(self) -> bytes:
        self._cluster.submit()
        return self._station.hear(self._number)

    def close(self) -> None:
        station = self._station
        station.numbers.discard(self._number)
        with contextlib.suppress(Exception):
            if station.alive:
                station.ray.get(station.actor.end.remote(self._number), timeout=10)
        if not station.numbers:
            station.end()


class Cluster:
    """The machines of a running Ray cluster, and places for workers on them.

    Args:
        address: "auto" (RAY_ADDRESS, or this machine's cluster), or "host:port".
        number: Number of workers.
        threads: Threads of each worker.
        gpus: GPUs of each worker, one or a part of one. None: none.

    Raises:
        InputError: Ray is missing or unsafe, no cluster answers, or it has too few places.
    """

    def __init__(self, address: str, number: int, threads: int, gpus: float | None) -> None:
        check_cluster(address)
        self._ray = _connected(address)
        self._threads = threads
        self._gpus = gpus
        self._stations: dict[str, _Station] = {}
        self._losses: Counter[str] = Counter()
        slots = self._slots()
        if sum(slots.values()) < number:
            resources = f"{threads} thread(s)" + (f" and {gpus:g} GPU(s)" if gpus else "")
            received = f"{sum(slots.values())} slot(s) on {len(slots)} machine(s)"
            raise InputError(
                f"cluster: there are no slots for {number} workers of {resources} each.",
                received,
                "fewer workers",
            )
        self._plan: list[str] = []
        for _ in range(number):
            self._plan.append(max(slots, key=lambda node: (slots[node], -self._plan.count(node))))
            slots[self._plan[-1]] -= 1
        self.size = len(set(self._plan))

    def shared(self, pickled: bytes) -> Any:
        """What workers are begun with, of which each machine gets one copy."""
        return self._ray.put(pickled)

    def start(self, made: Any, _number: int) -> Remote:
        """Begins a worker, where it was planned, or else where there is most room.

        Args:
            made: Reference to the pickled function of a worker, from `shared`.
            _number: Number of the worker in the run; ignored.

        Raises:
            WorkersLost: The cluster has no machines left.
        """
        for lost in [node for node, station in self._stations.items() if not station.alive]:
            self._losses[lost] += 1
            del self._stations[lost]
        if not self._plan:
            slots = self._slots()
            if not slots:
                raise WorkersLost("The cluster has no machines left.", 0, 0)
            self._plan.append(max(slots, key=lambda node: slots[node] - self._losses[node]))
        node = self._plan[0]
        station = self._stations.get(node)
        if station is None:
            count = self._plan.count(node)
            address = self._machines()[node]["NodeManagerAddress"]
            gpus = count * (self._gpus or 0)
            station = self._stations[node] = _Station(
                self._ray, node, address, count * self._threads, gpus
            )
        self._plan.pop(0)
        number = next(
            free for free in range(len(station.numbers) + 1) if free not in station.numbers
        )
        return Remote(self, station, number, (made, self._threads, self._gpus, number))

    def submit(self) -> None:
        for station in self._stations.values():
            station.submit()

    def _machines(self) -> dict[str, Any]:
        return {node["NodeID"]: node for node in self._ray.nodes() if node["Alive"]}

    def _slots(self) -> dict[str, int]:
        """Workers for which each machine has room."""
        slots = {}
        for node, machine in sorted(self._machines().items()):
            slots[node] = int(machine["Resources"].get("CPU", 0) // self._threads)
            if self._gpus:
                slots[node] = min(slots[node], int(machine["Resources"].get("GPU", 0) / self._gpus))
            if node in self._stations:
                slots[node] -= len(self._stations[node].numbers)
        return slots


def _connected(address: str) -> Any:
    handler = signal.getsignal(signal.SIGTERM)
    import ray
    import ray.util.scheduling_strategies

    try:
        if not ray.is_initialized():
            there = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
            if there != "auto":  # Ray itself would try for minutes
                host, _, port = there.rpartition(":")
                socket.create_connection((host, int(port)), timeout=10).close()
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        expected = (
            "the address of a running Ray cluster that uses this token; `ray symmetric-run` "
            "starts one in a job"
        )
        raise InputError(
            f"cluster: no Ray cluster answers at {address!r}.", reason, expected
        ) from None
    finally:
        with contextlib.suppress(
            ValueError
        ):  # Ray takes the signal for itself; not the main thread
            signal.signal(signal.SIGTERM, handler)
    return ray
