"""Going on with a run from its folder."""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from tati_re.core.backend import set_threads
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.process.interruption import saying, stopping
from tati_re.engine.environment import versions
from tati_re.engine.limits import Limits
from tati_re.engine.loop import Carry
from tati_re.launch.checks import check_single_files
from tati_re.launch.header import header
from tati_re.launch.launch import Launch
from tati_re.launch.request import Request, make_request
from tati_re.launch.starts import starting_walkers
from tati_re.launch.workers import check_workers
from tati_re.options.families import is_foreign
from tati_re.options.make import OPTIONS, Options, make_options
from tati_re.options.stages import extended
from tati_re.options.trust import CODE, WRITTEN, options_of_folder
from tati_re.runs import checkpoint, files, manifest, run_folder
from tati_re.runs.lock import writing
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import RunFiles
from tati_re.runs.stored_arrays import MissingArray
from tati_re.system.from_folder import BUILT, check_model, objects_of
from tati_re.system.named import with_density_again
from tati_re.system.system import OBJECTS, is_named
from tati_re.system.target import system_of

_OF_CALL = ("observables", "callbacks")
AS_IT_WAS = ("record_every", "trajectory_every", "step_size", "num_burnin_steps")
"""Options that go on as the run had them, whatever their default is now."""
_ALIKE = ("prior", "loss", "optimizer", "mass", "step_schedule", "temperature_schedule")
"""Options that are given again as they were, by name or as an object."""
BESIDE = (
    "max_time",
    "requeue_signal",
    "require_certificate",
    "verbose",
    "workers",
    "cluster",
    "worker_gpus",
)
"""Options that may be others when a run goes on, beside `num_steps`."""


@dataclass(frozen=True)
class Resume:
    """What a resume was asked for.

    Attributes:
        folder: The folder of the run, as it was given.
        run_files: The run as its folder says.
        manifest: Its manifest.
        num_steps: The last step, if it was given.
        trust: Whether code and files that the folder names may run and be written.
        again: Options that were named again as they were, by name.
        objects: What the folder does not hold: data, model, sampler and their like.
        overrides: Options that may be others from here on, such as `verbose`.
    """

    folder: str
    run_files: RunFiles
    manifest: Manifest
    num_steps: int | None
    trust: bool
    again: dict[str, Any]
    objects: dict[str, Any]
    overrides: dict[str, Any]


def reopened(
    stack: ExitStack,
    folder: AnyPath,
    num_steps: int | None,
    trust: bool,
    objects: dict[str, Any],
    limits: Limits,
    turn: int | None = None,
) -> tuple[Launch, Carry]:
    """A run before its next step.

    Args:
        stack: Until it ends, this process is the only one that writes in the folder.
        folder: The folder of the run.
        num_steps: The last step; None: as planned.
        trust: Whether code and files that the folder names may run and be written.
        objects: What the folder does not hold, and options that were named again.
        limits: Limits on the length of chunks.
        turn: Steps of a turn if the run is a player of a game; None: it is not.

    Returns:
        The run and its state.

    Raises:
        InputError: The folder is of another kind of run, or the request differs from the run.
    """
    stack.enter_context(writing(RunFiles(folder).folder, new=False))
    stack.enter_context(saying(lambda: _as_it_was(folder)))
    run_files = folder if isinstance(folder, RunFiles) else RunFiles(folder)
    run_folder.replace_with_start(run_files.folder)
    resume = _resume_of(os.fspath(folder), run_files, num_steps, trust, objects)
    _check_turn(resume, turn)
    for check in CHECKS:
        check(resume)

    options = _options_of(resume)
    stack.enter_context(stopping(options.requeue_signal))
    # Loading the model makes TensorFlow settle its threads.
    set_threads(options.threads)
    content = resume.manifest
    if content.workers is not None:
        size = content.workers.block_size
        options = options.resolved(threads=content.workers.threads, block_size=size)

    start, request = _request_of(resume, options, limits)
    for check_of_request in CHECKS_OF_REQUEST:
        check_of_request(resume, request)

    walkers = starting_walkers(start, request.system.flat)
    run = Launch(request, walkers, run_files.folder, content.execution)
    _check_observables(resume, run)
    if turn is None:
        run.progress.message(
            "\n".join(header(request.system, options, resume.objects, resumes=True))
        )
    _say_changes(resume, run)
    carry = _continued(resume, run, options)
    _note_in_manifest(resume, run, options)
    return run, carry


def _check_turn(resume: Resume, turn: int | None) -> None:
    """Refuses a player of a game outside its game, and the other way around."""
    refuse_if(
        resume.manifest.turn != turn,
        "resume: this run is a player of a game.",
        resume.folder,
        "Game.resume",
    )


def _resume_of(
    folder: str,
    run_files: RunFiles,
    num_steps: int | None,
    trust: bool,
    new_objects: dict[str, Any],
) -> Resume:
    """Sorts what was given into options that were named again, objects, and other options."""
    objects_of_call = {
        name: run_files.objects[name] for name in _OF_CALL if name in run_files.objects
    }
    objects = objects_of_call | with_density_again(new_objects, run_files)

    again = {
        name: objects[name]
        for name in (*CODE, *WRITTEN, *_ALIKE)
        if is_named(objects.get(name, ()))
    }
    objects = {
        name: value for name, value in objects.items() if name not in again and value is not None
    }
    overrides = {name: objects.pop(name) for name in BESIDE if name in objects}

    return Resume(
        folder=folder,
        run_files=run_files,
        manifest=run_files.manifest,
        num_steps=num_steps,
        trust=trust,
        again=again,
        objects=objects,
        overrides=overrides,
    )


def _check_blocks(resume: Resume) -> None:
    """Refuses workers for a run that has one loop for all walkers."""
    refuse_if(
        "workers" in resume.overrides and resume.manifest.workers is None,
        "resume: this run has one loop for all walkers, and no blocks.",
        resume.overrides.get("workers"),
        "no workers",
    )


def _check_names(resume: Resume) -> None:
    """Refuses what cannot be changed, and what is not known."""
    for name in resume.objects:
        if name not in (*OBJECTS, *_OF_CALL):
            problem = "cannot be changed" if name in OPTIONS or name == "starts" else "is not known"
            allowed = f"num_steps, {', '.join(BESIDE)}, and the objects of the run"
            raise InputError(f"resume: {name} {problem}.", expected=allowed)


def _check_named_again(resume: Resume) -> None:
    """Refuses options that were named again but are not as they were."""
    stored = resume.manifest.options.table
    for name in dict.fromkeys((*CODE, *_ALIKE)):
        value = (resume.again | resume.objects).get(name)
        was = "an object" if name in resume.manifest.objects else stored.get(name, "none")
        other = name in resume.again and value != was
        now_an_object = name in _ALIKE and name in resume.objects and was != "an object"
        if other or now_an_object:
            raise InputError(f"resume: {name} cannot be changed.", value, was)


CHECKS: tuple[Callable[[Resume], None], ...] = (_check_blocks, _check_names, _check_named_again)
"""What a request has to fulfil before anything is loaded."""


def _options_of(resume: Resume) -> Options:
    """The options of the run, with those that were changed."""
    content = resume.manifest
    stored = content.options.table
    values = {
        **manifest.explicit_options(content),
        **resume.again,
        **dict.fromkeys(("max_time", "cluster", "worker_gpus")),
    }
    if content.given is not None and not content.is_explicit_option("num_burnin_steps"):
        values.pop("num_burnin_steps", None)  # where it is not over, its end is still to be found

    # The model of the folder is used where there is one, not the code that made it.
    known = {*resume.again, *resume.objects}
    if resume.run_files.has(files.MODEL):
        known.add("model")

    steps = content.options.num_steps if resume.num_steps is None else resume.num_steps
    overrides = resume.overrides | {"num_steps": steps, "threads": content.threads}
    options = options_of_folder(values, resume.folder, "resume", resume.trust, known, **overrides)

    every = {name: stored[name] for name in AS_IT_WAS if name in stored}
    if content.until.reached:
        every["until"] = None  # a longer run: its end was reached before
    order = content.options.batch_sampling or "auto"
    return options.resolved(batch_sampling=order, execution=content.execution, **every)


def _request_of(resume: Resume, options: Options, limits: Limits) -> tuple[Options, Request]:
    """The options that make the system, and what is run on it."""
    content = resume.manifest
    run_files = resume.run_files
    trusted = resume.trust or "model" in resume.again
    read = objects_of(run_files, resume.objects, "resume", trusted)
    objects = {**content.tables, **read}

    # Where it started is in the checkpoint; the file that said so may be gone.
    built = BUILT if "model" in objects else {}
    classes = manifest.counted_classes(content)
    start = make_options(options, parameters=None, parameters_step=None, **built, **classes)
    system = system_of(start, objects)
    manifest.check_data(content, system.dataset, "resume")
    check_model(system, run_files, "resume")

    if run_files.has(files.DIRECTIONS):
        objects = {**objects, "directions": run_files.directions}
    request = make_request(content.kind, options, objects, system, limits)
    return start, replace(request, fewest_positions=content.fewest_positions)


def _check_files(resume: Resume, request: Request) -> None:
    check_single_files(request)


def _check_workers(resume: Resume, request: Request) -> None:
    check_workers(request)


def _check_sampler(resume: Resume, request: Request) -> None:
    """Code that was imported or given may have changed since; what it says of itself must not."""
    foreign = is_foreign(request.options.sampler) or "sampler" in request.objects
    if not request.samples or not foreign:
        return

    config = request.method.get_config()
    now = {name: value for name, value in config.items() if value is not None}
    then = resume.manifest.method.table
    changed = json.loads(json.dumps(now)) != then
    refuse_if(changed, "resume: the sampler differs from the run's.", now, then)


def _check_prior_and_loss(resume: Resume, request: Request) -> None:
    """Refuses objects whose configuration is another one than that of the run."""
    potential = request.potential
    stored = resume.manifest
    for name, made, then in (
        ("prior", potential.prior, stored.prior.table),
        ("loss", potential.loss, stored.loss.table),
    ):
        now = manifest.plain(made.get_config(), name)
        has_object = name in request.objects
        changed = has_object and any(now[key] != then[key] for key in {*now} & {*then})
        refuse_if(changed, f"resume: the {name} differs from the run's.", now, then)


CHECKS_OF_REQUEST: tuple[Callable[[Resume, Request], None], ...] = (
    _check_files,
    _check_workers,
    _check_sampler,
    _check_prior_and_loss,
)
"""What has to agree with the run once its system is there."""


def _check_observables(resume: Resume, run: Launch) -> None:
    now = sorted(run.loops.observables.extra)
    then = list(resume.manifest.observables)
    if now != sorted(then):
        raise InputError("resume: the observables differ from the run's.", now, then)


def _say_changes(resume: Resume, run: Launch) -> None:
    """Says what is not as it was: the manifest, or the versions of packages."""
    for sentence in manifest.changes(resume.run_files.folder, resume.manifest):
        run.progress.message(f"{sentence} The run continues with the changed manifest.")
    if resume.manifest.versions != versions():
        run.progress.message(
            "The package versions differ from those at the start of the run. It "
            "continues with the same distribution, but not byte for byte."
        )


def _continued(resume: Resume, run: Launch, options: Options) -> Carry:
    """The state at the checkpoint, and a sentence if the run had stopped or is over."""
    stopped = resume.manifest.stopped
    try:
        carry = run.go_on()
    except MissingArray as error:
        raise InputError(
            f"resume: the checkpoint lacks {error.array!r} of the sampler's state.",
            expected="the same sampler as before",
        ) from None

    done = run.driver.step
    if stopped is not None:
        run.progress.message(
            f"This run stopped: {stopped} It continues from its checkpoint at step {done:,}."
        )
    if done >= options.num_steps:
        run.progress.message(
            f"All {done:,} steps of this run are done. Increase num_steps to continue."
        )
    return carry


def _note_in_manifest(resume: Resume, run: Launch, options: Options) -> None:
    """Writes the last step, and the stages of a longer fit; that the run stopped is no longer
    true.
    """
    content = resume.manifest
    steps = max(options.num_steps, run.driver.step)

    changed: dict[str, Any] = {"num_steps": steps}
    if options.stages and not run.request.samples:
        changed["stages"] = extended([stage.table for stage in content.options.stages], steps)
    entries: dict[str, Any] = {"options": {**content.options.table, **changed}, "stopped": None}
    if content.last_positions is not None:
        # The burn-in goes on; the resume cuts these positions off.
        entries |= {"last_positions": None, "burnin_cut": None}
    if resume.num_steps is not None and content.options.until:
        entries["until"] = {**content.until.table, "given": True}

    manifest.write(resume.run_files.folder, content | entries)


def _as_it_was(folder: AnyPath) -> str:
    """What a stop before the first further step leaves."""
    step = next(
        (f"its checkpoint is of step {meta.get('step', 0):,}" for meta in checkpoint.metas(folder)),
        None,
    )
    return (
        f"Interrupted before the next step: {folder} is unchanged, "
        f"{step or 'it has no checkpoint'}."
    )
