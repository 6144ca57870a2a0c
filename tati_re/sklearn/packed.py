"""Runs and models as bytes, for the pickles of estimators: a run by its files, a model as Keras saves it."""

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from tati_re.runs import files
from tati_re.simulation.run import Run


class PackedModel(NamedTuple):
    """The content of a `.keras` file."""

    content: bytes


def packed_run(run: Run) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(run.folder.rglob("*")):
            if path.is_file() and path.name != files.LOCK:
                archive.write(path, path.relative_to(run.folder))
    return content.getvalue()


def unpacked_run(content: bytes) -> Run:
    """A run in a temporary folder that goes with it."""
    from tati_re.engine.environment import TemporaryFolder

    temporary = TemporaryFolder()
    zipfile.ZipFile(io.BytesIO(content)).extractall(temporary.folder)
    return Run(temporary.folder, temporary)


def packed_model(model: Any) -> Any:
    """A Keras model as bytes; names and functions as they are."""
    if model is None:
        return None
    from tati_re.core.backend import keras

    if not isinstance(model, keras.Model):
        return model
    with tempfile.TemporaryDirectory() as folder:
        model.save(path := Path(folder) / files.MODEL)
        return PackedModel(path.read_bytes())


def unpacked_model(given: Any) -> Any:
    """The model that `packed_model` packed; code in it does not run."""
    if not isinstance(given, PackedModel):
        return given
    from tati_re.models.build import load_model

    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / files.MODEL).write_bytes(given.content)
        return load_model(path)
