"""Checks before a run starts: one list of functions of a request."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.analysis.until import MCSE, WEIGHTS, conditions_of
from tati_re.core.backend import tf
from tati_re.core.errors import InputError, abbreviated, nearest, refuse_if
from tati_re.core.facets import temperatures_of
from tati_re.core.user_input import as_array
from tati_re.engine.observables import Observables
from tati_re.launch.equilibrium import equilibrium_of
from tati_re.launch.request import Request, inner_sampler
from tati_re.launch.workers import check_workers
from tati_re.optimizers import make_optimizer
from tati_re.options.make import Options
from tati_re.options.presets import PRESETS
from tati_re.options.stages import ALL, planned
from tati_re.prediction.calibrating import NONE
from tati_re.prediction.stacking import STACKING
from tati_re.runs.files import BEFORE_PARAMETERS, FILES, INDEX, LABELS
from tati_re.runs.single_files import OPTIONS, kind_of
from tati_re.samplers.microcanonical import check_dimension
from tati_re.samplers.schedules import step_factor, temperature_factor
from tati_re.supports.layout import ParameterLayout
from tati_re.system.batch_norm import asks_for_variance, check_model
from tati_re.system.saved_model import read_directions
from tati_re.system.system import System

FOREIGN = [".h5", ".hdf5", ".npz", ".npy", ".parquet", ".pb", ".onnx"]
FOREIGN += [".tflite", ".pt", ".pth", ".pkl", ".json", ".zip"]
"""Endings of kinds of files that no option of a run writes, HDF5 but for the trajectory."""


def check_request(request: Request) -> None:
    """Refuses a request that cannot be met, before any work starts."""
    for check in CHECKS:
        check(request)


def check_values(
    names: Iterable[str], options: Options, objects: Mapping[str, Any], system: System
) -> None:
    """Refuses wrong values of options that only the code that uses them can detect.

    Args:
        names: Names of the options to check; others are ignored.
        options: All options.
        objects: Options that are Python objects, by name.
        system: The model and its data, or a potential.

    Raises:
        InputError: A value is wrong.
    """
    makers: dict[str, Callable[[], Any]] = {
        "sampler": lambda: inner_sampler(options, objects),
        "optimizer": lambda: make_optimizer(
            objects.get("optimizer", options.optimizer), options, system.flat.shapes
        ),
        "prior": lambda: system.prior(options, objects),
        "batch_size": lambda: system.batches(options, options.batch_size),
        "until": lambda: conditions_of(options.until),
        "directions": lambda: read_directions(
            objects.get("directions", options.directions),
            system.flat.num_parameters,
            system.flat.parameter_names,
        ),
        "step_schedule": lambda: step_factor(options, objects.get("step_schedule")),
        "temperature_schedule": lambda: temperature_factor(
            options, objects.get("temperature_schedule")
        ),
    }
    for name in makers.keys() & {*names}:
        makers[name]()


def check_full_batch(request: Request) -> None:
    """Mini-batches for a method that is only right on all data."""
    method = request.method
    if not method.full_batch or request.full_batch:
        return
    virtue, other = ("is exact", "BAOAB") if request.samples else ("works", "adam")
    examples = request.system.dataset.num_examples
    why = ""
    if method.dynamics.isokinetic:
        why = (
            ": noise turns momenta of fixed length toward regions where it is weak (the "
            "variances of a noisy and a quiet half of a "
        )
        why += "Gaussian become 1.43 and 0.615 instead of 1)"
        virtue = virtue if method.metropolis else "is right"
    kind = "sampler" if request.samples else "optimizer"
    problem = f"{kind}: {method.name} {virtue} only with all data in every step{why}."
    received = f"batch_size = {request.options.batch_size} of {examples} examples"
    raise InputError(
        problem, received, f"no batch_size, or a method for mini-batches such as {other}"
    )


def check_isokinetic(request: Request) -> None:
    """One parameter, for momenta of fixed length."""
    if request.method.dynamics.isokinetic:
        check_dimension(request.system.flat.num_parameters)


def check_exploration(request: Request) -> None:
    """Steps at temperature 0, for methods that do not move there, or divide by it."""
    options = request.options
    method = request.method
    laddered = temperatures_of(method).copies > 1 or options.exchange == "tempering"
    stands_still = laddered or method.dynamics.needs_heat
    if request.samples and options.exploration_fraction and stands_still:
        problem = f"exploration_fraction: {'a ladder' if laddered else method.name} does not move at temperature 0."
        raise InputError(
            problem, options.exploration_fraction, "0, or a sampler such as BAOAB or SGLD alone"
        )


def check_batch_sampling(request: Request) -> None:
    """Refuses mini-batches whose noise a method cannot subtract: absent, or not new in every step."""
    method = request.method
    options = request.options
    removed = method.dynamics.removed_noise
    if request.full_batch and request.samples and removed > 0:
        problem = (
            "gradient_noise: every step uses all data, so there is no noise whose heat could "
            "be removed."
        )
        raise InputError(problem, removed, "a batch_size, or gradient_noise = 0")
    if not method.subtracts_noise or request.full_batch:
        return
    why = (
        f"{method.name} removes the heat of mini-batch noise that is independent between "
        "steps. The noise of epochs and "
    )
    why += "symmetric sweeps sums to zero and heats less, so the run would be too cold."
    expected = "replacement or auto, or a sampler such as BAOAB"
    refuse_if(
        options.batch_sampling != "replacement",
        f"batch_sampling: {why}",
        options.batch_sampling,
        expected,
    )
    expected = "shuffle = true, for examples drawn with replacement, or BAOAB"
    refuse_if(not options.shuffle, f"shuffle: {why}", "shuffle = false", expected)


def check_burnin(request: Request) -> None:
    """A burn-in that leaves nothing to average, or none for a method that adapts."""
    options = request.options
    if not request.samples:
        return
    if options.burnin >= options.num_steps:
        problem = "num_burnin_steps leaves no steps to average over."
        steps = options.num_burnin_steps
        of = [name for name, preset in PRESETS.items() if steps == preset.get("num_burnin_steps")]
        received = f"{steps}, the default of preset {of[0]}" if of else steps
        raise InputError(problem, received, f"less than num_steps = {options.num_steps}")
    if request.method.adapts and not options.burnin and "num_burnin_steps" in options.explicit:
        problem = f"num_burnin_steps: {request.method.name} adapts during the burn-in only."
        raise InputError(problem, 0, "several hundred, and fewer than num_steps")


def check_walls(request: Request) -> None:
    """Walls that reflect, for a method whose velocity mixes the parameters."""
    method = request.method
    reflects = not method.metropolis or request.options.walls == "reflect"
    if request.samples and method.dynamics.mixes_parameters and reflects and request.prior.walled:
        problem = (
            "covariance_blending"
            if request.options.covariance_blending
            else "a mass with directions"
        )
        problem += ": walls reflect each parameter separately, which a full matrix does not allow."
        raise InputError(
            problem,
            f"prior {request.prior}",
            "a prior without hard walls, or sampler HMC with walls reject",
        )


def check_control_variate(request: Request) -> None:
    """A control variate without noise to reduce."""
    if request.samples and request.options.control_variate and request.full_batch:
        raise InputError(
            "control_variate: there is no noise to reduce.",
            "all data in every step",
            "a batch_size",
        )


def check_stream_predictions(request: Request) -> None:
    """Averages of predictions that a run could not keep: no test set, or weights that are not
    known then.
    """
    every = request.options.stream_predictions
    if not every or not request.samples:
        return
    dataset = request.system.dataset
    record_every = request.record_every
    expected = "test_fraction above 0, test_data, or ((inputs, labels), (test inputs, test labels))"
    refuse_if(
        dataset.test_inputs is None,
        "stream_predictions: the data have no test set.",
        dataset.name,
        expected,
    )
    problem = (
        f"stream_predictions: draws of {request.method.name} have weights, which are known "
        "only at recorded rows."
    )
    expected = f"a multiple of record_every = {record_every}"
    refuse_if(
        "weight" in request.method.label_names and every % record_every, problem, every, expected
    )


def check_weights(request: Request) -> None:
    """Stacking where there is one chain, no data, or another law than the posterior."""
    options = request.options
    if options.weights != STACKING or not request.samples:
        return
    refuse_if(
        not request.system.has_data,
        "weights: stacking needs data.",
        "a density",
        "weights equal",
    )
    refuse_if(
        options.num_walkers < 2,
        "weights: stacking needs several chains.",
        f"num_walkers = {options.num_walkers}",
        "at least 2 for num_walkers",
    )
    refuse_if(
        options.kT != 1,
        "weights: stacking needs the posterior.",
        f"T = {options.kT:g}",
        "T = 1",
    )
    refuse_if(
        "weight" in request.method.label_names,
        "weights: the draws of this sampler already have weights.",
        request.method.name,
        "weights equal",
    )
    refuse_if(
        options.stream_predictions > 0,
        "weights: averages computed during sampling have no chain weights.",
        f"stream_predictions = {options.stream_predictions}",
        "stream_predictions 0",
    )


def check_calibrate(request: Request) -> None:
    """A calibration by rows left out where there is no posterior to leave them out of."""
    options = request.options
    if options.calibrate == NONE or not request.samples:
        return
    has_data = request.system.has_data
    refuse_if(
        not has_data, "calibrate: there are no rows to leave out.", "a density", "calibrate none"
    )
    refuse_if(
        options.kT != 1,
        "calibrate: leaving rows out needs the posterior.",
        f"T = {options.kT:g}",
        "T = 1",
    )
    refuse_if(
        "weight" in request.method.label_names,
        "calibrate: the draws of this sampler already have weights.",
        request.method.name,
        "calibrate none",
    )


def check_starts(request: Request) -> None:
    """Given positions of the wrong shape or with numbers that are not finite, or that contradict
    `replica_start`.
    """
    starts = request.objects.get("starts")
    options = request.options
    if starts is None:
        return
    if not request.samples:
        raise InputError(
            "starts applies only to sample.",
            expected="Simulation.parameters to say where fit starts",
        )
    problem = "starts and replica_start both set where replicas start."
    refuse_if(
        options.replica_start != "same",
        problem,
        f"replica_start {options.replica_start}",
        "one of the two",
    )
    starts = as_array(starts, "starts")
    rungs = temperatures_of(request.method).copies
    walkers = options.num_walkers
    expected_shape = (rungs, walkers, request.system.flat.num_parameters)
    if starts.shape != expected_shape and (
        walkers > 1 or starts.shape != (rungs, expected_shape[2])
    ):
        raise InputError(
            "starts: wrong shape.", starts.shape, f"{expected_shape}: rungs, walkers, parameters"
        )
    if starts.dtype.kind not in "fiu" or not np.isfinite(starts).all():
        raise InputError("starts: not all values are finite numbers.", expected="finite numbers")


def check_batch_norm(request: Request) -> None:
    """Refuses `batch_norm="batch"` for a model that it would change in other ways, and methods it
    would make wrong. These weigh energies of all data, correct gradients by them, or need gradients
    of single examples.
    """
    method = request.method
    flat = request.system.flat
    if not request.samples or request.options.batch_norm != "batch":
        return
    check_model(flat)
    problem = (
        f"batch_norm: {method.name} uses energies of all data, for which the statistics must "
        "be fixed."
    )
    refuse_if(
        method.full_batch,
        problem,
        "batch",
        "batch_norm = frozen, or a method for mini-batches such as BAOAB",
    )
    problem = (
        "batch_norm: control_variate assumes that mini-batch gradients average to the full "
        "gradient, which is false "
    )
    problem += "if each batch has its own statistics."
    refuse_if(
        request.options.control_variate,
        problem,
        "batch",
        "batch_norm = frozen, or no control_variate",
    )
    problem = (
        f"batch_norm: {method.name} needs gradients of single examples, which do not exist if "
        "a batch is "
    )
    problem += "normalized by its own statistics."
    refuse_if(
        asks_for_variance(method, request.copies, flat),
        problem,
        "batch",
        "batch_norm = frozen, or another sampler",
    )


def check_stages(request: Request) -> None:
    """Stages that the optimizer or the data do not allow."""
    options = request.options
    method: Any = request.method
    if request.samples or not options.stages:
        return
    received = f"{len(options.stages)} stages"
    expected = "num_steps instead, or an optimizer with a learning rate such as sgd"
    refuse_if(
        method.full_batch,
        f"stages: {method.name} determines its own rate, on all examples.",
        received,
        expected,
    )
    num_examples = request.system.dataset.num_examples
    for number, (stage, plan) in enumerate(zip(options.stages, planned(options), strict=True), 1):
        if stage.learning_rate is not None and method.scheduled:
            problem = f"stages: the {method.name} object has its own learning rate schedule."
            expected = "stages without learning_rate, or an optimizer with a constant one"
            raise InputError(
                problem, f"learning_rate = {stage.learning_rate:g} of stage {number}", expected
            )
        if plan.batch_size is not None and plan.batch_size > num_examples:
            problem = f"stages: batch_size of stage {number} is larger than the data set."
            raise InputError(problem, plan.batch_size, f"1 to {num_examples}, or {ALL}")


def check_validation(request: Request) -> None:
    """An optimizer that stops by the loss on a test set that is not there."""
    dataset = request.system.dataset
    method: Any = request.method
    if not request.samples and method.validates and dataset.test_inputs is None:
        problem = (
            f"optimizer: {method.name} stops according to the loss on a test set, but the "
            "data have none."
        )
        raise InputError(
            problem,
            dataset.name,
            "test_fraction above 0, or ((inputs, labels), (test inputs, test labels))",
        )


def check_destinations(options: Options, objects: Mapping[str, Any]) -> None:
    """Refuses files, event files and callbacks that the run could not write or call, whatever its
    model and sampler will be.

    Args:
        options: The options of the call.
        objects: What was given as objects in Python.

    Raises:
        InputError: A name of a file or folder that cannot be written, or a callback that is none.
    """
    _check_file_names(options)
    _check_event_files(options.tensorboard)
    _check_callbacks(objects.get("callbacks"))


def check_single_files(request: Request) -> None:
    """Names of files that cannot be written, one name twice, or no trajectory to copy."""
    options = request.options
    _check_file_names(options)
    if options.trajectory_file is None:
        return
    problem = "trajectory_file: the run stores no trajectory."
    refuse_if(
        not request.trajectory_every, problem, "trajectory_every = 0", "trajectory_every above 0"
    )
    if (
        options.trajectory_format != "auto"
        and kind_of(options.trajectory_file) != options.trajectory_format
    ):
        received = f"{options.trajectory_file} and trajectory_format {options.trajectory_format}"
        raise InputError(
            "trajectory_file: its suffix contradicts trajectory_format.",
            received,
            "the same format",
        )


def _check_file_names(options: Options) -> None:
    """Names of files that cannot be written, or one name twice."""
    output = options.output
    option_by_path = (
        {os.path.abspath(os.path.join(output, file.name)): "a file of the run" for file in FILES}
        if output
        else {}
    )
    for option in (*OPTIONS, "save_model"):
        path = getattr(options, option)
        if path is None:
            continue
        where = os.path.abspath(path)
        ending = os.path.splitext(path)[1].lower()
        fitting = (".h5", ".hdf5") if option == "trajectory_file" else ()
        if ending in FOREIGN and ending not in fitting:
            expected = {"save_model": ".keras", "trajectory_file": ".csv or .h5"}.get(
                option, ".csv"
            )
            raise InputError(
                f"{option}: this suffix is for another kind of file.",
                path,
                f"a name with {expected}",
            )
        if where in option_by_path:
            raise InputError(
                f"{option} and {option_by_path[where]} are the same file.",
                path,
                "a different name for each",
            )
        option_by_path[where] = option
        if os.path.isdir(path) or not os.path.isdir(os.path.dirname(where)) or not _can_name(where):
            raise InputError(f"{option} cannot be written.", path, "a file in a folder that exists")


def _can_name(path: str) -> bool:
    """Whether the system takes this name for a file."""
    try:
        os.lstat(path)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return True


def check_tensorboard(request: Request) -> None:
    """A folder for event files that is a file or lies below one, and a TensorFlow that needs a
    package for them.
    """
    _check_event_files(request.options.tensorboard)


def _check_event_files(path: str | None) -> None:
    """The same of the option alone."""
    if path is not None:
        where = Path(os.path.abspath(path))
        above = next(folder for folder in (where, *where.parents) if os.path.lexists(folder))
        if not above.is_dir() or not _can_name(str(where)):
            raise InputError(
                "tensorboard cannot be written.", path, "a folder, new or with earlier event files"
            )
    try:
        _ = path is None or (tf.summary.create_file_writer, tf.summary.experimental.write_raw_pb)
    except (AttributeError, ImportError):
        problem, instead = (
            "tensorboard: the package tensorboard is not installed.",
            "pip install 'tati_re[tensorboard]'",
        )
        raise InputError(problem, expected=instead) from None


def check_callbacks(request: Request) -> None:
    """Callbacks that are not functions of two arguments."""
    _check_callbacks(request.objects.get("callbacks"))


def _check_callbacks(callbacks: Any) -> None:
    """The same of the given object alone."""
    form = "a list of functions of (folder, step)"
    if callbacks is None:
        return
    if not isinstance(callbacks, (list, tuple)) or not all(map(callable, callbacks)):
        raise InputError(
            "callbacks are not a list of functions.", abbreviated(callbacks, 77, repr), form
        )
    for callback in callbacks:
        try:
            inspect.signature(callback).bind("folder", 0)
        except TypeError as error:
            raise InputError(
                "callbacks: one cannot be called.",
                f"{abbreviated(callback, 77, repr)} ({error})",
                form,
            ) from None
        except ValueError:
            continue  # Of some built-in functions there is no signature.


def check_energies(request: Request) -> None:
    """Energies of swaps on more examples than there are, and of all data at steps without a row."""
    size = request.options.exchange_batch_size
    examples = request.system.dataset.num_examples
    if request.samples and size is not None and size > examples:
        raise InputError(
            "exchange_batch_size is larger than the data set.", size, f"2 to {examples}"
        )
    full_every = request.options.full_every
    record_every = request.record_every
    if full_every % record_every:
        problem = "full_every: rows are recorded at other steps."
        raise InputError(
            problem, f"{full_every}, and record_every {record_every}", "a multiple of record_every"
        )


def check_until(request: Request) -> None:
    """Conditions of an end that are none, of no column, or on positions that are not stored."""
    conditions = conditions_of(request.options.until) if request.samples else []
    if not conditions:
        return
    extra_columns = {**request.potential.columns, **(request.objects.get("observables") or {})}
    options = request.options
    method = request.method
    columns = Observables(
        method, request.potential.metric_name, extra_columns, options.full_every
    ).columns
    for condition in conditions:
        if condition.name and condition.quantity != MCSE:
            _check_named(condition.name, request)
            continue
        if condition.name and (
            condition.name not in columns or condition.name in ("step", "walker")
        ):
            raise InputError(
                f"until: run.csv has no column {condition.name}.{nearest(condition.name, columns)}",
                options.until,
            )
        if condition.quantity == WEIGHTS and not request.system.has_data:
            raise InputError(
                f"until: {condition} needs the weights of a network.",
                "a potential",
                "rhat, which covers coordinates",
            )
        if not condition.name and not request.trajectory_every:
            raise InputError(
                f"until: {condition} needs stored positions.",
                "trajectory_every 0",
                "trajectory_every auto",
            )


def _check_named(name: str, request: Request) -> None:
    """Refuses the effective size of a parameter that the run does not have."""
    described = request.system.flat.described().get("supports", [])
    refuse_if(
        not described,
        f"until: ess({name}) is about a named parameter.",
        "a run without named parameters",
        "ess>N, the least of all",
    )
    names = [str(entry["name"]) for entry in described]
    entries = ParameterLayout.from_config(described).entry_names()
    refuse_if(
        name not in {*names, *entries},
        f"until: there is no parameter {name}.{nearest(name, [*names, *entries])}",
        request.options.until,
        ", ".join(names),
    )
    refuse_if(
        not request.trajectory_every,
        f"until: ess({name}) is about stored positions.",
        "trajectory_every 0",
        "trajectory_every auto",
    )


def check_observables(request: Request) -> None:
    """Observables, or single weights, with the name of a column, or that do not give one number a
    walker.
    """
    potential = request.potential
    flat = request.system.flat
    observables = Observables(
        request.method, potential.metric_name, request.objects.get("observables")
    )
    observables.check(tf.TensorSpec((request.copies, potential.num_parameters), potential.dtype))
    alone = {name for name, shape in zip(flat.tensor_names, flat.shapes, strict=True) if not shape}
    reserved = (
        sorted(alone & {*INDEX, *BEFORE_PARAMETERS, *LABELS}) if request.trajectory_every else []
    )
    problem = "model: a scalar weight has the name of a column of the trajectory."
    refuse_if(reserved, problem, ", ".join(reserved), "another name, or trajectory_every 0")


def check_directions_and_schedules(request: Request) -> None:
    """Directions that are no row vectors of the parameters, schedules that give no numbers."""
    names = ("directions", *(("step_schedule", "temperature_schedule") if request.samples else ()))
    check_values(names, request.options, request.objects, request.system)


def check_certify(request: Request) -> None:
    """Refuses a comparison with equilibrium draws where there are no such draws."""
    options = request.options
    if not request.samples:
        return
    if options.certify == "none":
        simulate = request.objects.get("simulate", options.simulate)
        problem = "simulate: exact draws are used by certify alone."
        refuse_if(simulate is not None, problem, "certify none", "certify teacher")
        return

    system = request.system
    refuse_if(
        options.goal == "predict",
        "certify: chains of a run for prediction may stay in different modes.",
        "goal predict",
        "a run without this goal",
    )
    refuse_if(
        options.kT != 1.0 or options.potential == "mean_loss",
        "certify: exact draws are known at temperature 1 only.",
        f"temperature {options.kT:g}",
        "temperature 1, with potential posterior",
    )
    if system.has_data:
        _check_teacher_network(request)
    equilibrium_of(system, options, request.objects, options.num_walkers)


def _check_teacher_network(request: Request) -> None:
    """Refuses networks whose posterior is not that of a prior and a likelihood."""
    system = request.system
    flat = system.flat
    reasons = {
        "layers last": flat.head is not None,
        "weights of examples": system.examples.weights is not None,
        "a regularizer of the model": flat.regularizer is not None,
        "layers that learn statistics": flat.has_training_state,
    }
    for reason, is_so in reasons.items():
        problem = "certify: targets cannot be drawn from this model."
        refuse_if(is_so, problem, reason, "a network with a prior, and all examples counted alike")


CHECKS = [
    lambda request: request.system.check(request.options, request.objects),
    *(check_callbacks, check_walls, check_control_variate, check_stages, check_full_batch),
    *(
        check_isokinetic,
        check_exploration,
        check_batch_sampling,
        check_burnin,
        check_stream_predictions,
        check_weights,
        check_calibrate,
        check_starts,
    ),
    *(check_batch_norm, check_validation, check_single_files, check_tensorboard, check_energies),
    *(check_until, check_directions_and_schedules, check_observables, check_workers),
    check_certify,
]
