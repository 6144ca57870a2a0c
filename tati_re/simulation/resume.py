"""Going on with a run from its folder."""

import json
import os
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tati_re.core.backend import set_threads
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.interruption import saying, stopping
from tati_re.engine.environment import versions
from tati_re.engine.limits import Limits
from tati_re.engine.loop import Carry
from tati_re.options.families import is_foreign
from tati_re.options.make import OPTIONS, make_options
from tati_re.options.stages import extended
from tati_re.options.trust import CODE, WRITTEN, options_of_folder
from tati_re.runs import checkpoint, files, manifest, run_folder
from tati_re.runs.lock import writing
from tati_re.runs.run import RunFiles
from tati_re.simulation.checks import check_single_files
from tati_re.simulation.from_folder import BUILT, check_model, objects_of
from tati_re.simulation.launch import Launch
from tati_re.simulation.request import make_request
from tati_re.simulation.starts import starting_walkers
from tati_re.simulation.system import OBJECTS, is_named
from tati_re.simulation.target import system_of
from tati_re.simulation.workers import check_workers

_OF_CALL = ("observables", "callbacks")
AS_IT_WAS = ("record_every", "trajectory_every", "step_size", "num_burnin_steps")
"""Options that go on as the run had them, whatever their default is now."""
_ALIKE = ("prior", "loss", "optimizer", "mass", "step_schedule", "temperature_schedule")
"""Options that are given again as they were, by name or as an object."""
BESIDE = ("max_time", "requeue_signal", "verbose", "workers", "cluster", "worker_gpus")
"""Options that may be others when a run goes on, beside `num_steps`."""


def reopened(
    stack: ExitStack,
    folder: AnyPath,
    num_steps: int | None,
    trust: bool,
    objects: dict[str, Any],
    limits: Limits,
    turn: int | None = None,
) -> tuple[Launch, Carry]:
    """A run before its next step, until the stack ends the only one that writes there; `turn`:
    steps in a game.
    """
    stack.enter_context(writing(RunFiles(folder).folder, new=False))
    stack.enter_context(saying(lambda: _as_it_was(folder)))
    run_files = folder if isinstance(folder, RunFiles) else RunFiles(folder)
    run_folder.settle(run_files.folder)
    folder = os.fspath(folder)
    said = run_files.manifest
    refuse_if(
        said.get("turn") != turn, "resume: this run is a player of a game.", folder, "Game.resume"
    )
    objects = {
        name: run_files.objects[name] for name in _OF_CALL if name in run_files.objects
    } | objects
    again = {
        name: objects[name]
        for name in (*CODE, *WRITTEN, *_ALIKE)
        if is_named(objects.get(name, ()))
    }
    objects = {
        name: value for name, value in objects.items() if name not in again and value is not None
    }
    overrides = {name: objects.pop(name) for name in BESIDE if name in objects}
    what = "resume: this run has one loop for all walkers, and no blocks."
    refuse_if(
        "workers" in overrides and "workers" not in said,
        what,
        overrides.get("workers"),
        "no workers",
    )
    for name in objects:
        if name not in (*OBJECTS, *_OF_CALL):
            what = "cannot be changed" if name in OPTIONS or name == "starts" else "is not known"
            allowed = f"num_steps, {', '.join(BESIDE)}, and what was an object"
            raise InputError(f"resume: {name} {what}.", expected=allowed)
    stored = dict(said["options"])
    steps = num_steps if num_steps is not None else stored.get("num_steps")
    for name, value in {name: (again | objects).get(name) for name in (*CODE, *_ALIKE)}.items():
        was = "an object" if name in said["objects"] else stored.get(name, "none")
        if (name in again and value != was) or (
            name in _ALIKE and name in objects and was != "an object"
        ):
            raise InputError(f"resume: {name} cannot be changed.", value, was)
    values = {
        **manifest.given_options(said),
        **again,
        **dict.fromkeys(("max_time", "cluster", "worker_gpus")),
    }
    if "num_burnin_steps" not in said.get("given", ("num_burnin_steps",)):
        values.pop("num_burnin_steps", None)  # where it is not over, its end is still to be found
    # The model of the folder is used where there is one, not the code that made it.
    known = {*again, *objects, *(["model"] if run_files.has(files.MODEL) else [])}
    overrides |= {"num_steps": steps, "threads": said["threads"]}
    options = options_of_folder(values, folder, "resume", trust, known, **overrides)
    order = stored.get("batch_sampling", "auto")
    every = {name: stored[name] for name in AS_IT_WAS if name in stored}
    if said.get("until", {}).get("reached"):
        every["until"] = None  # a longer run: its end was reached before
    options = options.settled(batch_sampling=order, execution=said["execution"], **every)
    stack.enter_context(stopping(options.requeue_signal))
    # Loading the model makes TensorFlow settle its threads.
    set_threads(options.threads)
    if "workers" in said:
        options = options.settled(threads=said["workers"]["threads"])
    objects = said.get("tables", {}) | objects_of(
        run_files, objects, "resume", trust or "model" in again
    )
    # Where it started is in the checkpoint; the file that said so may be gone.
    classes = manifest.counted_classes(said)
    start = make_options(
        options,
        parameters=None,
        parameters_step=None,
        **(BUILT if "model" in objects else {}),
        **classes,
    )
    system = system_of(start, objects)
    manifest.check_data(said, system.dataset, "resume")
    check_model(system, run_files, "resume")
    if run_files.has(files.DIRECTIONS):
        objects = {**objects, "directions": run_files.directions}
    request = make_request(said["kind"], options, objects, system, limits)
    request = replace(request, fewest_positions=said.get("fewest_positions", 0))
    check_single_files(request)
    check_workers(request)
    if request.samples and (is_foreign(options.sampler) or "sampler" in objects):
        # Code that was imported or given may have changed since; what it says of itself must not.
        now = {
            name: value for name, value in request.method.get_config().items() if value is not None
        }
        changed = json.loads(json.dumps(now)) != said["method"]
        refuse_if(changed, "resume: the sampler differs from the run's.", now, said["method"])
    for name, made in (("prior", request.potential.prior), ("loss", request.potential.loss)):
        now = manifest.plain(made.get_config(), name)
        then = said.get(name, {})
        changed = name in objects and any(now[key] != then[key] for key in {*now} & {*then})
        refuse_if(changed, f"resume: the {name} differs from the run's.", now, then)
    run = Launch(request, starting_walkers(start, system.flat), run_files.folder, said["execution"])
    if sorted(run.loops.observables.extra) != sorted(said["observables"]):
        what = "resume: the observables differ from the run's."
        raise InputError(what, sorted(run.loops.observables.extra), said["observables"])
    for sentence in manifest.changes(run_files.folder, said):
        run.progress.message(f"{sentence} The run goes on with what it says.")
    if said["versions"] != versions():
        run.progress.message(
            "The versions differ from those at the start of the run: it continues with the same distribution, not byte "
            "for byte."
        )
    stopped = said.pop("stopped", None)
    if said.pop("last_positions", None) is not None:
        said.pop("burnin_cut", None)  # The burn-in goes on; the resume cuts these positions off.
    try:
        carry = run.go_on()
    except KeyError as error:
        expected = "the sampler as it was"
        raise InputError(
            f"resume: the checkpoint lacks {error} of the sampler's state.", expected=expected
        ) from None
    done = run.driver.step
    if stopped is not None:
        run.progress.message(
            f"This run stopped: {stopped} It goes on from its checkpoint at step {done}."
        )
    if done >= options.num_steps:
        run.progress.message(
            f"All {done} steps of this run are done; give a larger num_steps to go on."
        )
    steps = max(options.num_steps, done)
    longer = (
        {"stages": extended(stored.get("stages", []), steps)}
        if options.stages and not request.samples
        else {}
    )
    if num_steps is not None and stored.get("until"):
        said["until"] = {**said.get("until", {}), "given": True}
    manifest.write(run_files.folder, said | {"options": stored | {"num_steps": steps} | longer})
    return run, carry


def _as_it_was(folder: AnyPath) -> str:
    """What a stop before the first further step leaves."""
    step = next(
        (f"its checkpoint is of step {meta.get('step', 0):,}" for meta in checkpoint.metas(folder)),
        None,
    )
    return f"Interrupted before a further step: {folder} is as it was, {step or 'it has no checkpoint'}."
