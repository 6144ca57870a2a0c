"""Processes that begin with TensorFlow in them: copies of one that has imported it, which takes
seconds and memory.
"""

import atexit
import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle

from tati_re.core.lazy import settled
from tati_re.distributed.worker import leave_stops_to_the_driver, serve

CAN_FORK = sys.platform == "linux"
"""Libraries of macOS stop a copy of a process that uses them."""
_READ_BY_LIBRARIES = ("TF_", "XLA_", "KERAS_", "OMP_", "MKL_", "OPENBLAS_", "ONEDNN_", "CUDA_")


class ForkServer:
    """A process that has imported TensorFlow and the package, computed nothing, and makes copies;
    it ends with ours.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control, theirs = Pipe()
        self._lock = threading.Lock()
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        none = subprocess.DEVNULL
        own_environment = {**environment}
        passed = [theirs.fileno()]
        self._process = subprocess.Popen(
            command, stdin=none, stdout=none, stderr=none, env=own_environment, pass_fds=passed
        )
        theirs.close()
        loaded = [
            name
            for name in [*sys.modules]
            if name.startswith("tati_re.") and not name.endswith("__main__")
        ]
        self._control.send(["tati_re.core.backend", *loaded])
        atexit.register(self.close)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """A question and its answer. Where they are cut off, as by Ctrl-C, the next answer would be
        to this question: the server is then asked no more, and ends.
        """
        with self._lock:
            try:
                yield
            except BaseException:
                self._control.close()
                raise

    def start(self, environment: Mapping[str, str], pipe: int, output: int) -> "Forked":
        """Starts a worker as a copy of the server.

        Args:
            environment: The environment variables of the worker.
            pipe: File descriptor of the worker's end of its pipe.
            output: File descriptor to which its output and errors go.

        Raises:
            EOFError: The server is gone.
            OSError: The server is gone.
        """
        with self._asking():
            self._control.send((dict(environment), os.getcwd(), sys.path))
            for descriptor in (pipe, output):
                send_handle(self._control, descriptor, self._process.pid)
            return Forked(self, self._control.recv())

    def status(self, pid: int) -> int | str:
        """The exit status of a copy that ends, "unknown" where the server is gone."""
        with contextlib.suppress(EOFError, OSError), self._asking():
            self._control.send(pid)
            return self._control.recv()
        return "unknown"

    def close(self) -> None:
        """Ends it at once, also while it imports, and not its copies."""
        self._control.close()
        self._process.kill()
        self._process.wait()


class Forked:
    """A copy of the server, with the part of `subprocess.Popen` that a worker needs.

    Args:
        server: The server that made the copy, which knows its exit status.
        pid: The process number of the copy.
    """

    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self._status: int | str | None = None

    def kill(self) -> None:
        """Ends it, as it may have done by itself."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int | str:
        """The exit status, "unknown" where nobody knows it."""
        if self._status is None:
            self._status = self._server.status(self.pid)
        return self._status


_SERVERS: dict[tuple, ForkServer] = {}


def forked(environment: Mapping[str, str], pipe: int, output: int) -> Forked | None:
    """A copy of this process's server for an environment. The server is started if there is none.

    Args:
        environment: The environment variables of the copy. The variables that libraries read at
            their start decide which server is used.
        pipe: File descriptor of the copy's end of its pipe.
        output: File descriptor to which its output and errors go.

    Returns:
        The copy; None if two servers in a row were gone.
    """
    key = (
        os.getpid(),
        *sorted(item for item in environment.items() if item[0].startswith(_READ_BY_LIBRARIES)),
    )
    for _ in range(2):
        if key not in _SERVERS:
            _SERVERS[key] = ForkServer(environment)
        try:
            return _SERVERS[key].start(environment, pipe, output)
        except (EOFError, OSError):
            _SERVERS.pop(key).close()
    return None


def _serve_copies(descriptor: int) -> None:
    """The server's side: a request is what a copy is made with, or the number of one whose exit
    status is wanted.
    """
    leave_stops_to_the_driver()
    warnings.simplefilter(
        "ignore", DeprecationWarning
    )  # of copies of processes with threads, here idle ones
    control = Connection(descriptor)
    for name in control.recv():
        importlib.import_module(name)
    settled()
    while True:
        try:
            request = control.recv()
        except EOFError:
            os._exit(0)
        if isinstance(request, int):
            control.send(os.waitstatus_to_exitcode(os.waitpid(request, 0)[1]))
            continue
        pipe = recv_handle(control)
        received = recv_handle(control)
        pid = os.fork()
        if not pid:
            control.close()
            environment, folder, path = request
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            sys.path[:] = path
            for output in (1, 2):
                os.dup2(received, output)
            serve(pipe)
        os.close(pipe)
        os.close(received)
        control.send(pid)


if __name__ == "__main__":
    _serve_copies(int(sys.argv[1]))
