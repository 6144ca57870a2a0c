"""What a folder holds, but for times: equal for a run that was disturbed and one that was not."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.faults.families import RUN

OF_THE_CLOCK = ("timing.csv", "checkpoint/previous.npz")
"""The clock's table, and the checkpoint before the last, which is another one where a run was
disturbed.
"""
_TIMES = ("seconds", "timing.csv")


def contents(place: Path) -> dict[str, Any]:
    """The files of `place/run` by name, as what can be compared."""
    folder, found = place / RUN, {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in OF_THE_CLOCK:
            try:
                found[name] = _content(path)
            except Exception as error:  # a damaged file of any format
                found[name] = f"not readable: {type(error).__name__}"
    return found


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """The files that are missing, that are too many, and that differ."""
    missing = [f"{name} is missing" for name in expected if name not in found]
    more = [f"{name} is left over" for name in found if name not in expected]
    return (
        missing
        + more
        + [
            f"{name} differs"
            for name in expected
            if name in found and found[name] != expected[name]
        ]
    )


def _content(path: Path) -> Any:
    if path.name == "evidence.csv":
        import pandas

        return pandas.read_csv(path, dtype=str).drop(columns="seconds").to_csv()
    if path.name in ("options.toml", "models.json"):  # begun anew with --overwrite, or not
        return [
            line.rstrip(b",") for line in path.read_bytes().splitlines() if b"overwrite" not in line
        ]
    if path.suffix == ".npz":
        return _archive(path)
    if path.suffix == ".h5":
        return _datasets(path)
    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive:
            weights = io.BytesIO(archive.read("model.weights.h5"))
            return archive.read("config.json"), _datasets(weights)
    return path.read_bytes()


def _archive(path: Path) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {}
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            values = archive[name]
            if name == "meta.json":
                found[name] = _without_times(json.loads(values.tobytes()))
            elif name not in _TIMES:
                found[name] = str(values.dtype), values.shape, values.tobytes()
    return found


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(each) for name, each in value.items() if name not in _TIMES}
    return value


def _datasets(source: Any) -> dict[str, Any]:
    import h5py
    import numpy as np

    found: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, h5py.Dataset):
            array = np.asarray(value)
            found[name] = str(array.dtype), array.shape, array.tolist()

    with h5py.File(source, "r") as file:
        file.visititems(add)
    return found
