"""The environment of a run: a temporary folder, deterministic operations, and versions."""

import platform
import shutil
import sys
import tempfile
import weakref
from pathlib import Path

import numpy as np

from tati_re.core.backend import keras, tf
from tati_re.runs.storage import storing


class TemporaryFolder:
    """A folder that goes when nothing needs it any more, at the latest when Python ends."""

    def __init__(self) -> None:
        with storing("a temporary folder, as there is no output"):
            self.folder = Path(tempfile.mkdtemp(prefix="tati_re-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)


def versions() -> dict[str, str]:
    """Versions on which the numbers of a run depend."""
    libraries = {"numpy": np.__version__, "tensorflow": tf.__version__, "keras": keras.__version__}
    return {
        "python": platform.python_version(),
        **libraries,
        "platform": f"{sys.platform} {platform.machine()}",
    }
