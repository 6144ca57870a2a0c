"""Workers on this machine: processes at the ends of pipes. No port is opened."""

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from multiprocessing import Pipe
from typing import Any

from tati_re.core.errors import InputError, WorkersLost, abbreviated
from tati_re.distributed.fork_server import CAN_FORK, forked

_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_LAST_WORDS = 2_000


class Lost(Exception):
    """A worker is gone; the message is the last that it said."""


class Failed(WorkersLost):
    """A request to a worker raised an exception.

    Args:
        kind: Name of the exception's class.
        words: Its message, of which 300 characters are kept.

    Attributes:
        kind: Name of the exception's class.
        words: Its message in one line, shortened.
    """

    def __init__(self, kind: str, words: str) -> None:
        self.kind = kind
        self.words = abbreviated(" ".join(words.split()).rstrip("."), 300)
        super().__init__(f"A worker could not continue ({kind}: {self.words}).", 0, 0)


def packed(message: Any) -> bytes:
    """As it travels to a worker."""
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


class Worker(ABC):
    """Who answers messages; they travel as bytes, which whoever hands them on need not read."""

    place = "this machine"

    @abstractmethod
    def tell(self, message: bytes) -> None:
        """Asks; a worker that is gone is noticed when its answer is heard."""

    @abstractmethod
    def hear(self) -> bytes:
        """The answer; `Lost` where the worker is gone."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def send(self, message: Any) -> None:
        """Asks."""
        self.tell(packed(message))

    def receive(self) -> Any:
        """The answer; `Lost` where the worker is gone, `Failed` or an `InputError` where it could
        not answer.
        """
        kind, content = pickle.loads(self.hear())
        if kind == "InputError":
            raise InputError(content)
        if kind != "answer":
            raise Failed(kind, content)
        return content


class Process(Worker):
    """A process that runs a pickled function and then answers messages.

    The function returns a function that answers messages, and a description of the process. The
    description is the first answer.

    The process sees one GPU, or none without a share. The GPU is chosen among
    `CUDA_VISIBLE_DEVICES`, where it is set.

    Args:
        pickled: The function, pickled with cloudpickle.
        threads: Threads of the process.
        share: Share of a GPU for each worker, such as 0.5. Default: None, the process sees no GPU.
        number: Number of the worker, from 0, which decides its GPU (`gpu_of`). Default: 0.
    """

    def __init__(
        self, pickled: bytes, threads: int, share: float | None = None, number: int = 0
    ) -> None:
        self.pipe, theirs = Pipe()
        self._output = tempfile.TemporaryFile(prefix="tati_re-")  # noqa: SIM115, closed with the worker
        environment = (
            os.environ
            | dict.fromkeys(_THREADS, str(threads))
            | {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
        )
        visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        gpu = gpu_of(number, share)
        seen = visible[gpu % len(visible)] if visible and gpu is not None else gpu
        environment["CUDA_VISIBLE_DEVICES"] = "-1" if gpu is None else str(seen)
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        ends = theirs.fileno(), self._output.fileno()
        copied = forked(environment, *ends) if CAN_FORK and gpu is None else None
        self._process = copied or _started(environment, *ends)
        theirs.close()
        self.pid = self._process.pid
        self.send((threads, pickled))

    def tell(self, message: bytes) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(message)

    def hear(self) -> bytes:
        try:
            return self.pipe.recv_bytes()
        except (EOFError, OSError):
            status = self._process.wait()
            self._output.seek(max(0, self._output.seek(0, os.SEEK_END) - _LAST_WORDS))
            words = self._output.read().decode(errors="replace").strip().splitlines()
            raise Lost(f"exit status {status}{f': {words[-1]}' if words else ''}") from None

    def close(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.wait()
        self._output.close()


def _started(environment: dict[str, str], pipe: int, output: int) -> subprocess.Popen:
    """A worker that imports TensorFlow itself."""
    command = [sys.executable, "-m", "tati_re.distributed.worker", str(pipe)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment,
        pass_fds=[pipe],
    )


def gpu_of(number: int, share: float | None) -> int | None:
    """The GPU of a worker; None without a share.

    Args:
        number: Number of the worker, from 0.
        share: Share of a GPU for each worker. None: workers see no GPU.
    """
    return None if share is None else int(number * share + 1e-9)


class LocalWorker:
    """A worker that is this process.

    Args:
        made: Returns the function that answers messages, and a description of the process.
        _number: Number of the worker; ignored.
    """

    pid = os.getpid()
    place = "this machine"

    def __init__(self, made: Any, _number: int) -> None:
        self._answer, self._result = made()

    def tell(self, message: bytes) -> None:
        self.send(pickle.loads(message))

    def send(self, message: Any) -> None:
        self._result = self._answer(*message)

    def receive(self) -> Any:
        return self._result

    def close(self) -> None:
        pass
