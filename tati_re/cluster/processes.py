"""Workers on this machine: processes at the ends of pipes. No port is opened."""

import contextlib
import os
import subprocess
import sys
import tempfile
from multiprocessing import Pipe
from typing import Any

_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_LAST_WORDS = 2_000


class Lost(Exception):
    """A worker is gone; the message is the last that it said."""


class Failed(Exception):
    """What a worker was asked for raised an exception of this `kind`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Process:
    """A process with a number of threads that runs a pickled function, which gives a function that answers messages and
    a description of the process; the description is the first answer."""

    def __init__(self, pickled: bytes, threads: int) -> None:
        self.pipe, theirs = Pipe()
        self._said = tempfile.TemporaryFile(prefix="tati_re-")  # noqa: SIM115, closed with the worker
        environment = os.environ | dict.fromkeys(_THREADS, str(threads))
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-m", "tati_re.cluster.worker", str(theirs.fileno())]
        said, ours = self._said, [theirs.fileno()]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, pass_fds=ours
        )
        theirs.close()
        self.pid = self._process.pid
        self.send((threads, pickled))

    def send(self, message: Any) -> None:
        """Asks; a worker that is gone is noticed when its answer is received."""
        with contextlib.suppress(OSError):
            self.pipe.send(message)

    def receive(self) -> Any:
        """The answer; `Lost` where the process is gone, `Failed` where it could not answer."""
        try:
            kind, found = self.pipe.recv()
        except (EOFError, OSError):
            status = self._process.wait()
            self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - _LAST_WORDS))
            words = self._said.read().decode(errors="replace").strip().splitlines()
            raise Lost(f"exit status {status}{f': {words[-1]}' if words else ''}") from None
        if kind != "answer":
            raise Failed(kind, found)
        return found

    def close(self) -> None:
        """Ends it."""
        self.pipe.close()
        self._process.kill()
        self._process.wait()
        self._said.close()


class Here:
    """A worker that is this process."""

    pid = os.getpid()

    def __init__(self, made: Any) -> None:
        self._answer, self._found = made()

    def send(self, message: Any) -> None:
        self._found = self._answer(*message)

    def receive(self) -> Any:
        return self._found

    def close(self) -> None:
        pass
