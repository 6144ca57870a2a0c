"""Sizes that a model file claims, held against what it has, before Keras asks for memory."""

import io
import math
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tati_re.core.backend import keras
from tati_re.core.files.structured import json_of
from tati_re.core.files.unpacking import check_h5_size, check_members, load_arrays

SLACK_BYTES = 64e6
"""Bytes of variables that a model may have beyond its file, such as states that are not saved."""
_WEIGHTS = "model.weights"
_LOCK = threading.RLock()


class TooManyWeights(ValueError):
    """A model that has more weights than its file."""


def check_model_file(path: Path) -> float:
    """Refuses a `.keras` file whose parts claim more than they have.

    Args:
        path: The file, a zip archive.

    Returns:
        The bytes of variables that a model from this file may have.

    Raises:
        ValueError: An archive, an array or a dataset claims more bytes than it has.
    """
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        check_members(members, path.stat().st_size)
        json_of(archive.read("config.json"))
        for member in members:
            if member.filename == f"{_WEIGHTS}.h5":
                _check_datasets(archive, member)
            if member.filename == f"{_WEIGHTS}.npz":
                load_arrays(io.BytesIO(archive.read(member))).close()
    return SLACK_BYTES + 1.25 * sum(member.file_size for member in members)


@contextmanager
def limited_weights(most: float) -> Iterator[None]:
    """Counts the bytes of Keras' variables, before each is made, while a model is built here.

    Args:
        most: Bytes that they may have together.

    Raises:
        TooManyWeights: They have more; also where Keras goes on after the error.
    """
    kind, owner, claimed = keras.Variable, threading.get_ident(), 0.0
    original = kind.__init__

    @wraps(original)
    def counted(self: Any, initializer: Any, shape: Any = None, *args: Any, **kwargs: Any) -> None:
        nonlocal claimed
        if threading.get_ident() == owner:
            claimed += _bytes_of(initializer, shape, args[0] if args else kwargs.get("dtype"))
            _refuse_above(claimed, most)
        original(self, initializer, shape, *args, **kwargs)

    with _LOCK:
        defines_init = "__init__" in vars(kind)
        kind.__init__ = counted
        try:
            yield
        except Exception:
            _refuse_above(claimed, most)
            raise
        finally:
            if defines_init:
                kind.__init__ = original
            else:
                del kind.__init__
    _refuse_above(claimed, most)


def _refuse_above(claimed: float, most: float) -> None:
    if claimed > most:
        claim = f"its layers claim {claimed:,.0f} bytes of weights or more"
        raise TooManyWeights(f"{claim}, but the file can contain at most {most:,.0f}")


def _bytes_of(initializer: Any, shape: Any, dtype: Any) -> float:
    if shape is None:
        shape = np.shape(initializer) if not callable(initializer) else ()
    sides = [shape] if isinstance(shape, (int, np.integer)) else shape
    try:
        itemsize = np.dtype(str(dtype or keras.config.floatx())).itemsize
    except TypeError:
        itemsize = 2 if "16" in str(dtype) else 1
    return float(itemsize) * math.prod(float(side or 1) for side in sides)


def _check_datasets(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """A `ValueError` where a dataset of the weights is larger than what the file holds of it."""
    content: Any = None
    if member.compress_type == zipfile.ZIP_STORED:
        content = archive.open(member)
    else:
        content = io.BytesIO(archive.read(member))
    with content, h5py.File(content, "r") as file:
        problems: list[str] = []

        def look(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and not problems:
                try:
                    check_h5_size(item)
                except ValueError as error:
                    problems.append(f"{name}: {error}")

        file.visititems(look)
    if problems:
        raise ValueError(problems[0])
