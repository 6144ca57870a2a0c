"""The parameters that a model expects of a file, by their names."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tati_re.core.errors import InputError

KINDS = "a trajectory (.csv, .h5), an .npz, a .keras file or a run folder"
"""Files that hold parameters, in words."""


class ExpectedParameters(NamedTuple):
    """The names of a model's parameters, and of fixed ones, which keep their values: a file may have them too."""

    names: list[str]
    fixed: Collection[str] = ()

    def places(self, path: Path, found: list[str]) -> list[int]:
        self.check(path, [name for name in found if name not in self.fixed])
        place = {name: k for k, name in enumerate(found)}
        return [place[name] for name in self.names]

    def check(self, path: Path, found: list[str]) -> None:
        if found == self.names:
            return
        if len(found) != len(self.names):
            received, expected = f"{len(found)} parameters", f"{len(self.names)} parameters"
            raise InputError(f"parameters: {path} does not fit the model.", received, expected)
        first = next(pair for pair in zip(found, self.names, strict=True) if pair[0] != pair[1])
        raise InputError(f"parameters: {path} is of another model.", f"a parameter {first[0]}", first[1])

    def checked(self, path: Path, values: np.ndarray) -> np.ndarray:
        values = np.asarray(values)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            found = f"{values.shape[-1]} parameters" if values.ndim == 2 else f"an array of shape {values.shape}"
            raise InputError(f"parameters: {path} does not fit the model.", found, f"{len(self.names)} parameters")
        if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            raise InputError(f"parameters: {path} holds values that are not finite.", expected="finite numbers")
        return values.astype(np.float64)
