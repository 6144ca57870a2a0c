"""From a run folder back to its model and data."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.core.errors import InputError
from tati_re.options.make import make_options
from tati_re.runs import files, manifest
from tati_re.simulation.saved_model import model_of_folder
from tati_re.simulation.system import OBJECTS, is_named

if TYPE_CHECKING:
    from tati_re.simulation.simulation import Simulation
    from tati_re.simulation.system import System

_OF_SYSTEM = ("data", "test_data", "model", "loss", "prior")
_OF_DATA = {"data", "test_data", "test_fraction", "input_columns", "standardize"}


def from_folder(kind: type[Simulation], folder: str | os.PathLike[str], given: dict[str, Any]) -> Simulation:
    """The simulation that a run was made with, see `Simulation.from_folder`."""
    folder, said = Path(folder), manifest.read(folder)
    objects = {name: value for name, value in given.items() if name in OBJECTS and not is_named(value)}
    changed = {name: value for name, value in given.items() if name not in objects}
    objects = objects_of(folder, said, objects, str(folder), [name for name in _OF_SYSTEM if name not in changed])
    kept = {**options_of(said), **({"hidden": [], "model": None} if "model" in objects else {})}
    sim = kind.from_options(make_options({**kept, "output": None, "max_time": None, **changed}), objects)
    if not _OF_DATA & {*objects, *changed}:
        check_data(sim.system, said, str(folder))
    return sim


def options_of(said: dict[str, Any]) -> dict[str, Any]:
    """The options that a run was given: more than the same values by default, for which a rule may have no use."""
    return {name: value for name, value in said["options"].items() if name in said.get("given", said["options"])}


def objects_of(
    folder: Path, said: dict[str, Any], given: dict[str, Any], who: str, needed: Iterable[str] = OBJECTS
) -> dict[str, Any]:
    """What a run was given as objects: those that are given again, and the model of its folder.

    Args:
        folder: The run folder.
        said: Its manifest.
        given: By name.
        who: The first word of what is said where one is missing.
        needed: What must be there where the run had it.

    Raises:
        InputError: One is missing.
    """
    there = (folder / files.MODEL).exists()
    for name in said["objects"]:
        if name in needed and name not in given and not (name == "model" and there) and name != "directions":
            raise InputError(
                f"{who}: the run was started with {name} given in Python.", expected=f"{name}=... as it was then"
            )
    if there and "model" in needed and "model" not in given:
        model = model_of_folder(folder / files.MODEL, said["options"].get("model"), who)
        return given if model is None else {**given, "model": model}
    return given


def check_data(system: System, said: dict[str, Any], who: str) -> None:
    """Refuses data that are not those of the run."""
    if system.dataset.fingerprint() != said["dataset"]["fingerprint"]:
        raise InputError(
            f"{who}: the data are not those of the run.",
            received=system.dataset.name,
            expected=f"{said['dataset']['name']}, unchanged",
        )


def check_model(system: System, said: dict[str, Any], who: str) -> None:
    """Refuses a model whose parameters have other names than those of the run."""
    if system.flat.tensor_names != said["parameters"]["names"]:
        raise InputError(
            f"{who}: the model is not that of the run.",
            received=", ".join(system.flat.tensor_names),
            expected=", ".join(said["parameters"]["names"]),
        )
