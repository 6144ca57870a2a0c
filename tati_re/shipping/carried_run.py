"""What predictions need of a run, without its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tati_re.core.errors import AnyPath
from tati_re.prediction.draws import DRAWS
from tati_re.runs.manifest import SCHEMA_VERSION, Manifest
from tati_re.runs.run import RunFiles

ENTRIES = ("kind", "tati_re", "versions", "seed", "temperature", "loss", "parameters", "dataset")
"""Entries of a run's manifest that predictions need, or that say where they come from."""

WHICH_FITS = ("predictor", "last_positions")
"""Entries that say that a run predicts with its fits, alone or beside its draws."""

OPTIONS = (
    "data_keys",
    "dtype",
    "encoding",
    "fix_parameters",
    "layers",
    "noise_std",
    "sample_weights",
    "seed",
)
"""Options that predictions need, or the reading of files for them."""


class CarriedRun(RunFiles):
    """A run of which only the manifest is left, and that in part.

    Args:
        manifest: What is left of the manifest.
        path: The file that it came from, for messages.
        objects: What the run was given as objects in Python. Default: none.
    """

    def __init__(
        self, manifest: Manifest, path: AnyPath, objects: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(path)
        self._manifest = manifest
        self.objects = dict(objects or {})

    @property
    def manifest(self) -> Manifest:
        """What is left of the manifest."""
        return self._manifest

    def has(self, name: str) -> bool:
        """No file of the run is there."""
        del name
        return False


def carried_manifest(manifest: Manifest) -> Manifest:
    """The part of a manifest that predictions need.

    Args:
        manifest: That of a run.
    """
    table = manifest.table
    entries = {name: table[name] for name in ENTRIES if name in table}
    if manifest.averaged != DRAWS:
        entries |= {name: table[name] for name in WHICH_FITS if name in table}
    options = manifest.options.table
    entries["options"] = {name: options[name] for name in OPTIONS if name in options}
    return Manifest.of({"schema_version": SCHEMA_VERSION, **entries})
