"""Going on with a run from its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.backend import set_threads
from tati_re.core.errors import InputError
from tati_re.engine.environment import versions
from tati_re.engine.progress import make_progress
from tati_re.options.make import OPTIONS, make_options
from tati_re.options.stages import extended
from tati_re.runs import files, manifest
from tati_re.simulation.launch import Running, exchanging, optimizer_of, potential_of, sampler_of
from tati_re.simulation.run import Run
from tati_re.simulation.saved_model import stored_model
from tati_re.simulation.system import OBJECTS


def resume_run(cls, folder: str, num_steps: int | None, objects: dict[str, Any]) -> Run:
    """Does the work of `Simulation.resume`."""
    folder = Path(folder)
    said = manifest.read(folder)
    objects = {name: value for name, value in objects.items() if value is not None}
    overrides = {name: objects.pop(name) for name in ("max_time", "verbose") if name in objects}
    for name in objects:
        if name not in (*OBJECTS, "observables", "callbacks"):
            what = "cannot be changed" if name in OPTIONS or name == "starts" else "is not known"
            raise InputError(f"resume: {name} {what}.", expected="num_steps, max_time, verbose, and what was an object")
    stored = dict(said["options"])
    # What was given means more than the same value by default: a rule may have no use for it.
    known = {name: value for name, value in stored.items() if name in said.get("given", stored)}
    steps = num_steps if num_steps is not None else stored.get("num_steps")
    options = make_options({**known, "max_time": None}, num_steps=steps, threads=said["threads"], **overrides)
    for name in said["objects"]:
        if name not in objects and not (name == "model" and (folder / files.MODEL).exists()) and name != "directions":
            raise InputError(
                f"resume: the run was started with {name} given in Python.", expected=f"{name}=... as it was then"
            )
    given = dict(objects)
    # Loading the model makes TensorFlow settle its threads.
    set_threads(options.threads)
    if "model" not in given and (folder / files.MODEL).exists():
        model = stored_model(folder / files.MODEL, options.model)
        given |= {} if model is None else {"model": model}
    sim = cls.__new__(cls)
    # Where it started is in the checkpoint; the file that said so may be gone.
    start = {"parameters": None, "parameters_step": None}
    built = {"hidden": [], "model": None} if "model" in given else {}
    sim._start(make_options(options, **start, **built), given)
    if sim._system.flat.tensor_names != said["parameters"]["names"]:
        raise InputError(
            "resume: the model is not that of the run.",
            received=", ".join(sim._system.flat.tensor_names),
            expected=", ".join(said["parameters"]["names"]),
        )
    if sim.dataset.fingerprint() != said["dataset"]["fingerprint"]:
        raise InputError(
            "resume: the data are not those of the run.",
            received=sim.dataset.name,
            expected=f"{said['dataset']['name']}, unchanged",
        )
    kind = said["kind"]
    if kind == "sample":
        method = exchanging(sampler_of(sim, options, given), sim, options, given)
    else:
        method = optimizer_of(sim, options, given)
    if kind == "sample" and (":" in options.sampler or "sampler" in given):
        _check_own_sampler(method.get_config(), said["method"])
    copies = method.copies * options.num_walkers
    potential = potential_of(sim, options, given, kind, copies)
    directions = (
        np.load(folder / files.DIRECTIONS, allow_pickle=False) if (folder / files.DIRECTIONS).exists() else None
    )
    progress = make_progress(options.verbose)
    run = Running(sim, options, given, kind, method, potential, directions, folder, progress, said["execution"])
    if sorted(run.observables.extra) != sorted(said["observables"]):
        raise InputError(
            "resume: other observables than the run has.",
            received=sorted(run.observables.extra),
            expected=said["observables"],
        )
    if said["versions"] != versions():
        progress.message(
            "Other versions than the run was started with: it goes on with the same law, not byte for byte."
        )
    driver = run.driver()
    try:
        carry = run.guard(lambda: driver.go_on(*run.start_values()))
    except KeyError as error:
        raise InputError(
            f"resume: the checkpoint lacks {error} of the sampler's state.", expected="the sampler as it was"
        ) from None
    if driver.step >= options.num_steps:
        progress.message(f"All {driver.step} steps of this run are done; give a larger num_steps to go on.")
    steps = max(options.num_steps, driver.step)
    longer = {"stages": extended(stored.get("stages", []), steps)} if options.stages and kind == "fit" else {}
    manifest.write(folder, said | {"options": stored | {"num_steps": steps} | longer})
    return run.finish(driver, carry, None)


def _check_own_sampler(config: dict[str, Any], then: dict[str, Any]) -> None:
    """Code that was imported or given may have changed since; what it says of itself must not."""
    config = {name: value for name, value in config.items() if value is not None}
    if json.loads(json.dumps(config)) != then:
        raise InputError("resume: the sampler is not that of the run.", received=config, expected=then)
