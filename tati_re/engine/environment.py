"""What surrounds a run: a temporary folder, deterministic operations, the versions its numbers depend on."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
import weakref
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tati_re.models.backend import keras, tf


class TemporaryFolder:
    """A folder that goes when nothing needs it any more, at the latest when Python ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tati_re-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)


@contextmanager
def deterministic():
    """TensorFlow's op determinism, for the time of a run: the same numbers in every run on the same machine."""
    from tensorflow.python.framework import config

    before = config.is_op_determinism_enabled()
    if not before:
        tf.config.experimental.enable_op_determinism()
    try:
        yield
    finally:
        if not before:
            config.disable_op_determinism()


def versions() -> dict[str, str]:
    """What the numbers of a run depend on."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "platform": f"{sys.platform} {platform.machine()}",
    }
