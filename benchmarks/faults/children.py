"""Commands in children that are forked from a process in which TensorFlow is loaded, and has
computed nothing yet.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults.families import RUN

COMMANDS = (
    "sample",
    "optimize",
    "evidence",
    "landscape",
    "explore",
    "compare",
    "analyse",
    "report",
)
OWN_MODULES = (
    *(f"tati_re.cli.{command}" for command in COMMANDS),
    "tati_re.launch.launch",
    "tati_re.launch.resume",
)
"""What the children import before they wait for a case."""
CHUNK_STEPS = 12
"""Steps between two checkpoints of the campaign's runs."""
LONGEST = 180.0
"""Seconds after which a command counts as one that hangs."""
KILL, STOP = 1, 2
"""What happens at the n-th change below the folder of a case."""
_FOLDER = "TATI_RE_FAULTS_FOLDER"


def preload() -> Path:
    """Begins this process anew with the library that counts changes; returns the folder of the
    campaign, a new one.
    """
    if (made := os.environ.pop(_FOLDER, None)) is not None:
        os.environ.pop("LD_PRELOAD", None)
        return Path(made)
    if (compiler := shutil.which("cc")) is None or sys.platform != "linux":
        raise SystemExit("error: the campaign needs Linux and a C compiler, cc.")
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    library, source = folder / "storage_faults.so", Path(__file__).with_name("storage_faults.c")
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True
    )
    environment = {**os.environ, "LD_PRELOAD": str(library), _FOLDER: str(folder)}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def load_all() -> None:
    """Imports what the commands use."""
    from tati_re.core.backend import tf  # noqa: F401
    from tati_re.engine.limits import Limits
    from tati_re.simulation.simulation import Simulation

    Simulation.limits = Limits(most_steps=CHUNK_STEPS, first_steps=CHUNK_STEPS)
    for name in OWN_MODULES:
        importlib.import_module(name)
    for name in (
        "pandas",
        "h5py",
        "rich.console",
        "matplotlib.pyplot",
        "scipy.optimize",
        "scipy.sparse.linalg",
    ):
        importlib.import_module(name)


def _nothing_computed() -> bool:
    from tensorflow.python.eager import context

    return not context.context()._initialized


class Ended(NamedTuple):
    """How a command ended: its exit status, or minus the signal's number; what it printed; the
    number of changes that it made below the folder, where it came to its end; and the seconds that
    it took.
    """

    status: int
    out: str
    err: str
    changes: int
    seconds: float

    @property
    def refused(self) -> bool:
        """Whether it ended with one sentence and the status of bad input."""
        return self.status == 2 and "Traceback" not in self.err and self.err.count("error: ") == 1

    @property
    def broke(self) -> bool:
        """Whether it ended by a traceback, an internal error, a signal that nobody sent, or not at
        all.
        """
        return "Traceback" in self.err or self.status not in (
            0,
            1,
            2,
            75,
            124,
            130,
            -signal.SIGKILL,
        )

    def last_line(self) -> str:
        lines = [line for line in self.err.strip().splitlines() if line.strip()]
        return f"status {self.status}: {lines[-1][:300] if lines else ''}"


class Child:
    """A command that runs in `place`, whose folder `run` is watched.

    Args:
        place: Where it runs.
        command: One of `COMMANDS`.
        words: Its arguments.
        at: The number of the change at which it is killed or stopped; 0: never.
        action: `KILL` or `STOP`.
        unprivileged: Whether file modes bind it even where the campaign is root's.
    """

    def __init__(
        self,
        place: Path,
        command: str,
        words: Sequence[str],
        at: int = 0,
        action: int = KILL,
        unprivileged: bool = False,
        logs: Path | None = None,
    ) -> None:
        assert _nothing_computed(), (
            "a process in which TensorFlow has begun to compute must not be forked"
        )
        logs = place.parent if logs is None else logs
        self.logs = [logs / f"{place.name}.{name}" for name in ("out", "err", "changes")]
        while any(path.exists() for path in self.logs):
            self.logs = [path.with_name(path.name + "+") for path in self.logs]
        self.began, self.stopped = time.monotonic(), False
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self._run(place, command, list(words), at, action, unprivileged)

    def _run(
        self, place: Path, command: str, words: list[str], at: int, action: int, unprivileged: bool
    ) -> None:
        status = 1
        try:
            out, err, changes = (
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for path in self.logs
            )
            os.dup2(out, 1)
            os.dup2(err, 2)
            os.chdir(place)
            sys.argv = [f"tati-{command}", *words]
            signal.signal(signal.SIGINT, signal.default_int_handler)
            main = importlib.import_module(f"tati_re.cli.{command}").main
            if unprivileged:
                _drop_capabilities()
            library = ctypes.CDLL(None)
            library.faults_arm(os.fsencode(place / RUN), ctypes.c_long(at), action)
            status = main(words)
            os.write(changes, str(ctypes.c_long(library.faults_count()).value).encode())
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)

    def wait(self, seconds: float = LONGEST, until_stopped: bool = False) -> int | None:
        """Waits for the end of the command, or until it stops at a change; None where neither comes
        in time.
        """
        limit = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG | (os.WUNTRACED if until_stopped else 0))
            if pid:
                if os.WIFSTOPPED(status):
                    self.stopped = True
                    return 0
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > limit:
                return None
            time.sleep(0.001)

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def ended(self, status: int | None = None) -> Ended:
        """Waits for the end; one that hangs is killed, and has the status 124."""
        if status is None:
            status = self.wait()
        if status is None:
            self.signal(signal.SIGKILL)
            self.wait()
            status = 124 + 1000
        out, err, changes = (path.read_text(errors="replace") for path in self.logs)
        for path in self.logs:
            path.unlink()
        return Ended(status, out, err, int(changes or 0), time.monotonic() - self.began)


def run(place: Path, command: str, words: Sequence[str], **choices) -> Ended:
    """Runs a command to its end."""
    return Child(place, command, words, **choices).ended()


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Capabilities(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def _drop_capabilities() -> None:
    """Gives up root's right to write what the modes forbid."""
    none = (_Capabilities * 2)()
    if ctypes.CDLL(None, use_errno=True).capset(
        ctypes.byref(_Header(0x20080522, 0)), ctypes.byref(none)
    ):
        raise OSError(ctypes.get_errno(), "capset")
