"""From a run folder back to its model and data."""

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tati_re.core.backend import set_threads
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.data.standardizing import standardized_as
from tati_re.models.identity import refuse_other_model
from tati_re.options.make import OPTIONS, make_options
from tati_re.options.trust import options_of_folder, refuse_untrusted
from tati_re.options.user_code import is_code
from tati_re.prediction.network import model_of
from tati_re.runs import files, manifest
from tati_re.runs.run import RunFiles
from tati_re.system.named import with_density_again
from tati_re.system.system import OBJECTS, OF_LAYERS, is_named, stored_likelihood

if TYPE_CHECKING:
    from tati_re.system.system import System

_OF_START = ("call", "parameters", "parameters_step", "walker_start", "walker_jitter")
_OF_SYSTEM = ("data", "test_data", "model", "loss", "potential", "prior")
BUILT = {"hidden": [], "model": None} | {name: OPTIONS[name].default for name in OF_LAYERS}
"""Options of a network that is built, where the model of a folder is taken."""
_OF_DATA = {"data", "test_data", "test_fraction", "input_columns", "standardize"}


def from_folder(kind: Any, folder: AnyPath, trust: bool, overrides: dict[str, Any]) -> Any:
    """The simulation with which a run was made; see `Simulation.from_folder`.

    Args:
        kind: Class of the simulation.
        folder: Folder of the run.
        trust: Whether code that the folder names may run.
        overrides: Options and objects by name, in place of the stored ones.

    Raises:
        InputError: An object that the run had is missing, or data or code do not fit.
    """
    run = RunFiles.open(folder)
    who = os.fspath(folder)
    overrides = with_density_again(overrides, run)
    objects = {
        name: value for name, value in overrides.items() if name in OBJECTS and not is_named(value)
    }
    changed = {name: value for name, value in overrides.items() if name not in objects}
    stored_options = {
        name: value
        for name, value in manifest.explicit_options(run.manifest).items()
        if name not in _OF_START
    }
    classes = manifest.counted_classes(run.manifest)
    values = {**stored_options, **classes, "output": None, "max_time": None, **changed}
    # Loading the model makes TensorFlow settle its threads.
    set_threads(make_options(values).threads)
    objects = objects_of(
        run, objects, who, trust, [name for name in _OF_SYSTEM if name not in changed]
    )
    values = {**values, **(BUILT if "model" in objects else {}), **changed}
    sim = kind.from_options(
        options_of_folder(values, who, who, trust, {*objects, *changed}), objects
    )
    if not _OF_DATA & {*objects, *changed}:
        manifest.check_data(run.manifest, dataset := sim.system.dataset, who)
        # Of a data set that was replaced the run kept the standards of the first one.
        stored = run.manifest.dataset.preparation
        now = dataset.preparation
        if stored is not None and now is not None and stored.table != now.get_config():
            sim._take(sim.system.of(standardized_as(dataset, stored.table, now.standardize)))
        if sim.system.has_data and "loss" not in changed:
            sim._take(replace(sim.system, likelihood=stored_likelihood(run.manifest)))
    # It repeats the run, or goes on where a run arrived.
    call = run.manifest.call - ("parameters" not in changed)
    sim.calls.count(run.manifest.kind, run.manifest.seed or 0, call)
    return sim


def objects_of(
    run: RunFiles, objects: dict[str, Any], who: str, trust: bool, needed: Iterable[str] = OBJECTS
) -> dict[str, Any]:
    """The objects of a run: those given again, and the model of its folder.

    A model that cannot be loaded is left to the code that the folder names, if the folder is
    trusted.

    Args:
        run: Files of the run.
        objects: Objects given again, by name.
        who: Beginning of messages, such as the folder.
        trust: Whether code that the folder names may run.
        needed: Names of the objects that are needed. Default: all.

    Raises:
        InputError: An object was given in Python and is missing here, or the model cannot be
            loaded.
    """
    names_needed = {*run.manifest.objects} & {*needed} - {"model"}
    objects = {
        **{name: value for name, value in run.objects.items() if name in names_needed},
        **objects,
    }
    missing = (set(run.manifest.objects) & set(needed)) - {*objects, "directions"}
    for name in sorted(missing):
        if name != "model" or not (run.has(files.MODEL) or "model" in run.objects):
            problem = f"{who}: the run was started with {name} given in Python."
            raise InputError(problem, expected=f"{name}=... with the same value")
    if (
        "model" in objects
        or "model" not in needed
        or not (run.has(files.MODEL) or "model" in run.objects)
    ):
        return objects
    try:
        return {**objects, "model": model_of(run)}
    except InputError as error:
        if (code := run.manifest.options.model) is not None and is_code(code):
            if not trust:
                refuse_untrusted({"model": code}, run.folder, who)
            return objects
        raise InputError(
            f"{who}: {error}", expected="model=..., the object used to start the run"
        ) from None


def check_model(system: "System", run: RunFiles, who: str) -> None:
    """Refuses a model other than the run's, or one whose parameters have other names.

    Args:
        system: The system with the model.
        run: Files of the run.
        who: Beginning of the message, such as the folder.

    Raises:
        InputError: The models differ.
    """
    names = list(run.manifest.parameters.names)
    now = system.flat.tensor_names
    refuse_if(
        now != names, f"{who}: the model differs from the run's.", ", ".join(now), ", ".join(names)
    )
    if run.has(files.MODEL) and system.has_data:
        refuse_other_model(system.model, run.folder / files.MODEL, who)
