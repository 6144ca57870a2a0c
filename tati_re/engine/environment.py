"""The environment of a run: a temporary folder, deterministic operations, and versions."""

import platform
import shutil
import sys
import tempfile
import weakref
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock

import numpy as np

from tati_re.core.backend import keras, op_determinism, tf

_REWRITES = "arithmetic_optimization"


class TemporaryFolder:
    """A folder that goes when nothing needs it any more, at the latest when Python ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tati_re-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)


_held, _runs, _counting = ExitStack(), list[object](), Lock()


@contextmanager
def deterministic():
    """The same numbers in every run on the same machine, for the time of a run. The settings are those of the process:
    of runs in several threads the last one gives them back. TensorFlow's op determinism leaves one thing to chance: its
    graph optimizer makes one AddN of a sum of three arrays, which begins with the one whose memory is free first, and
    rounds accordingly. So sums stay as they are written."""
    run, rewriting = object(), tf.config.optimizer
    with _counting:
        if not _runs:
            before = rewriting.get_experimental_options().get(_REWRITES, True)
            _held.enter_context(op_determinism())
            _held.callback(rewriting.set_experimental_options, {_REWRITES: before})
            rewriting.set_experimental_options({_REWRITES: False})
        _runs.append(run)
    try:
        yield
    finally:
        with _counting:
            _runs.remove(run)
            if not _runs:
                _held.close()


def versions() -> dict[str, str]:
    """Versions on which the numbers of a run depend."""
    libraries = {"numpy": np.__version__, "tensorflow": tf.__version__, "keras": keras.__version__}
    return {"python": platform.python_version(), **libraries, "platform": f"{sys.platform} {platform.machine()}"}
