"""The file of a predictor: a zip archive of arrays, a Keras model and a description in TOML."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tomli_w

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.regular import open_regular
from tati_re.core.files.structured import json_of, reason_of, toml_of
from tati_re.core.files.typed_tables import (
    Count,
    FiniteNumber,
    WrongValue,
    entry_of,
    refuse_wrong_value,
)
from tati_re.core.files.unpacking import DAMAGED, check_members, load_arrays
from tati_re.runs.files import MODEL
from tati_re.runs.manifest import SCHEMA_VERSION, Manifest, plain
from tati_re.runs.storage import write_whole
from tati_re.shipping.forms import ENDINGS, TATI

SUFFIX = ENDINGS[TATI]
FORMAT = 1
"""Version of the file; later versions of the package read it."""

DESCRIPTION = "predictor.toml"
MEMBERS = "members.npy"
WEIGHTS = "weights.npy"
SUMS = "sha256.json"
_AUXILIARY = "auxiliary-{}.npy"
_DATE = (1980, 1, 1, 0, 0, 0)
_EXPECTED = "a file that Predictor.save wrote"
_LIMIT = 2e9
_MOST_AUXILIARY = 10_000


@dataclass(frozen=True)
class Description:
    """What `predictor.toml` says.

    Attributes:
        format: Version of the file.
        manifest: The part of the run's manifest that predictions need.
        auxiliary: Number of arrays of variables that are not trained.
        calibration: Temperature of classes or scale of values. Default: None, none.
        losses: What the compression lost, in nats a row.
    """

    format: Count
    manifest: Mapping[str, Any]
    auxiliary: Count = 0
    calibration: FiniteNumber | None = None
    losses: Mapping[str, FiniteNumber] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Parts:
    """All that a predictor consists of.

    Attributes:
        manifest: The part of the run's manifest that predictions need.
        members: Parameters of the members, shape (members, parameters).
        weights: Their weights with the sum 1, shape (members,).
        model_file: The content of a `.keras` file; None if the model cannot be written.
        auxiliary: Variables that are not trained, shape (members, ...) each.
        calibration: Temperature of classes or scale of values. Default: None, none.
        losses: What the compression lost, in nats a row. Default: nothing.
        path: Where it was read from, for messages.
    """

    manifest: Manifest
    members: np.ndarray
    weights: np.ndarray
    model_file: bytes | None
    auxiliary: Sequence[np.ndarray] = ()
    calibration: float | None = None
    losses: Mapping[str, float] = field(default_factory=dict)
    path: AnyPath = "the predictor"

    def with_losses(self, losses: Mapping[str, float]) -> Parts:
        """The same parts with other losses.

        Args:
            losses: What was lost, in nats a row, by kind of input.
        """
        return replace(self, losses=losses)

    def model(self) -> Any:
        """The Keras model, loaded without running code of the file.

        Raises:
            InputError: There is none, or Keras cannot load it.
        """
        from tati_re.models.build import load_model

        problem = f"{self.path} holds no model: Keras could not write it."
        if self.model_file is None:
            raise InputError(problem, expected="Predictor.load(path, model=model)")
        with tempfile.TemporaryDirectory() as folder:
            (file := Path(folder) / MODEL).write_bytes(self.model_file)
            try:
                return load_model(file)
            except InputError as error:
                raise InputError(f"{self.path}: {error}") from None

    def check(self, flat: Any) -> None:
        """Refuses members that do not fit the model.

        Args:
            flat: The model as a function of one vector (`FlatModel`).

        Raises:
            InputError: Another number of parameters, or other variables.
        """
        expected_shape = (len(self.members), flat.num_parameters)
        fits = self.members.shape == expected_shape and len(self.auxiliary) == len(flat.auxiliary)
        for values, model_value in zip(self.auxiliary, flat.auxiliary, strict=False):
            fits = fits and values.shape == (len(self.members), *np.shape(model_value))
        problem = f"The members in {self.path} do not fit the model."
        refuse_if(not fits, problem, self.members.shape, expected_shape)

    @cached_property
    def content(self) -> dict[str, bytes]:
        """The files of the archive by name, without that of their sums."""
        description = {
            "format": FORMAT,
            "auxiliary": len(self.auxiliary),
            "calibration": self.calibration,
            "losses": dict(self.losses),
            "manifest": dict(self.manifest.table),
        }
        files = {
            DESCRIPTION: tomli_w.dumps(plain(description, DESCRIPTION)).encode(),
            MEMBERS: _array_bytes(self.members),
            WEIGHTS: _array_bytes(self.weights),
        }
        if self.model_file is not None:
            files[MODEL] = self.model_file
        for number, values in enumerate(self.auxiliary):
            files[_AUXILIARY.format(number)] = _array_bytes(values)
        return files

    @cached_property
    def sums(self) -> bytes:
        """SHA-256 of each file, as JSON."""
        content = self.content
        sums = {name: hashlib.sha256(content[name]).hexdigest() for name in sorted(content)}
        return json.dumps(sums, indent=1).encode()

    @property
    def digest(self) -> str:
        """SHA-256 of the sums of all files."""
        return hashlib.sha256(self.sums).hexdigest()


def write_parts(path: AnyPath, parts: Parts) -> None:
    """Writes the file of a predictor.

    Args:
        path: The file, ending in `.tati`.
        parts: What it holds.

    Raises:
        InputError: Another ending.
        StorageError: The file cannot be written.
    """
    path = Path(path)
    problem = f"The path of a predictor must end in {SUFFIX}."
    refuse_if(path.suffix != SUFFIX, problem, path)
    write_whole(path, archive_of(parts))


def archive_of(parts: Parts) -> bytes:
    """The content of the file of a predictor.

    Args:
        parts: What it holds.
    """
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {**parts.content, SUMS: parts.sums}.items():
            file.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return archive.getvalue()


def parts_of_file(path: AnyPath) -> Parts:
    """Reads the file of a predictor. Sizes that it claims are checked before they are unpacked.

    Args:
        path: The file.

    Raises:
        InputError: There is no such file, it is damaged, or it was not written by `write_parts`.
    """
    path = Path(path)
    refuse_if(not os.path.exists(path), f"There is no file {path}.", expected=_EXPECTED)
    refuse_if(
        path.is_dir(), f"{path} is a folder, not the file of a predictor.", expected=_EXPECTED
    )
    try:
        with open_regular(path) as opened:
            return parts_of_archive(opened, path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", expected=_EXPECTED) from None


def parts_of_archive(opened: BinaryIO, path: AnyPath) -> Parts:
    """Reads the content of the file of a predictor.

    Args:
        opened: The open file, of bytes.
        path: Its name, for messages.

    Raises:
        InputError: It is damaged, or it was not written by `write_parts`.
    """
    try:
        return _parts(Path(path), _unpacked(opened))
    except WrongValue as error:
        raise refuse_wrong_value(error, path) from None
    except InputError:
        raise
    except (ValueError, EOFError, KeyError, RecursionError, *DAMAGED) as error:
        reason = reason_of(error) or type(error).__name__
        raise InputError(f"{path} cannot be read: {reason}.", expected=_EXPECTED) from None


def _unpacked(opened: BinaryIO) -> dict[str, bytes]:
    """The files of the archive by name, after their sums were checked."""
    if not zipfile.is_zipfile(opened):
        raise ValueError("it is not a zip archive")
    size = opened.seek(0, os.SEEK_END)
    with zipfile.ZipFile(opened) as archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        if len(set(names)) < len(names) or len(names) > _MOST_AUXILIARY:
            raise ValueError("it has files of the same name, or too many")
        check_members(members, size, _LIMIT)
        files = {name: archive.read(name) for name in names}
    for name in (SUMS, DESCRIPTION, MEMBERS, WEIGHTS):
        if name not in files:
            raise ValueError(f"it has no {name}")
    sums = json_of(files.pop(SUMS))
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    if sums != digests:
        raise ValueError("its content differs from its SHA-256 sums: it was damaged or changed")
    return files


def _parts(path: Path, files: Mapping[str, bytes]) -> Parts:
    table = toml_of(files[DESCRIPTION].decode())
    description = entry_of(Description, table)
    newer = f"{path} was written by a later version of the package."
    refuse_if(
        description.format != FORMAT, newer, f"format {description.format}", f"format {FORMAT}"
    )
    manifest = Manifest.of(description.manifest)
    refuse_if(
        manifest.schema_version > SCHEMA_VERSION,
        newer,
        f"schema_version {manifest.schema_version}",
        f"schema_version up to {SCHEMA_VERSION}",
    )
    members = _finite(files, MEMBERS, 2)
    weights = _finite(files, WEIGHTS, 1).astype(np.float64)
    are_weights = len(weights) == len(members) > 0 and (weights >= 0).all()
    if not are_weights or abs(weights.sum() - 1) > 1e-6:
        raise ValueError("its weights do not fit its members")
    names = [_AUXILIARY.format(number) for number in range(min(description.auxiliary, len(files)))]
    if description.auxiliary > len(files) or not {*names} <= {*files}:
        raise ValueError("it lacks variables of its members")
    factor = description.calibration
    if factor is not None and factor <= 0:
        raise ValueError("its calibration is not a number above 0")
    return Parts(
        manifest=manifest,
        members=members,
        weights=weights,
        model_file=files.get(MODEL),
        auxiliary=[_array(files, name) for name in names],
        calibration=factor,
        losses=description.losses,
        path=path,
    )


def _array(files: Mapping[str, bytes], name: str) -> np.ndarray:
    """An array of numbers of the archive, which claims no more than it has."""
    array = load_arrays(io.BytesIO(files[name]))
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        raise ValueError(f"{name} is not an array of numbers")
    return array


def _finite(files: Mapping[str, bytes], name: str, axes: int) -> np.ndarray:
    array = _array(files, name)
    if array.ndim != axes or array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError(f"{name} does not hold finite numbers with {axes} axes")
    return array


def _array_bytes(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(values), allow_pickle=False)
    return file.getvalue()


def model_bytes(model: Any) -> bytes | None:
    """The content of the `.keras` file of a model, without its date; None if Keras cannot write it.

    Args:
        model: A Keras model.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MODEL
        try:
            model.save(path)
        except (NotImplementedError, TypeError, ValueError):
            return None
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    metadata = json.loads(files["metadata.json"])
    metadata.pop("date_saved", None)
    files["metadata.json"] = json.dumps(metadata).encode()
    dated = io.BytesIO()
    with zipfile.ZipFile(dated, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _DATE), files[name])
    return dated.getvalue()
