"""A run in words at its start, and in the entries of its manifest."""

import importlib.util
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tati_re._version import __version__
from tati_re.core.backend import tf, threads
from tati_re.core.errors import shown
from tati_re.data.dataset import said_of_class_weights, weights_by_class
from tati_re.data.generators import GENERATORS
from tati_re.data.labels import are_integers, doubts
from tati_re.engine.environment import versions
from tati_re.engine.progress import make_progress
from tati_re.exchange.choosing import ladder_sentences, unused_replica_options
from tati_re.options.table import NOT_OF_FITS, OPTIMIZE, OPTIONS, SAMPLE, options_of
from tati_re.options.tati_names import sentences as tati_sentences
from tati_re.posterior.losses import OF_LOGITS
from tati_re.posterior.priors.choosing import too_hot, unused_prior_options
from tati_re.runs import files, manifest
from tati_re.samplers.choosing import checked, unused_options
from tati_re.samplers.schedules import SCHEDULES, read_table, temperature_factor
from tati_re.samplers.wrappers.eqn import refresh_note
from tati_re.simulation import batch_norm
from tati_re.simulation.loops import RunLoops
from tati_re.simulation.request import Request, is_cheap
from tati_re.simulation.system import OBJECTS


def start_sentences(run: RunLoops, start: str | None) -> Iterator[str]:
    """Says what is run: method, data, U, ladder, and options that are not used."""
    request = run.request
    potential = run.potential
    options = request.options
    method = request.method
    flat = request.system.flat
    fixed = f" ({flat.num_fixed} more are fixed)" if flat.num_fixed else ""
    target = f"temperature {options.kT:g}" if request.samples else "to its minimum"
    yield (
        f"{method.name} on {request.system.dataset.name}: {flat.num_parameters} parameters{fixed}, "
        f"{options.num_walkers} walker(s), {target}."
    )
    yield f"{run.meaning}."
    if run.workers is not None:
        yield f"{run.workers}."
    yield from request.system.notes
    dataset = request.system.dataset
    tests = 0 if dataset.test_inputs is None else len(dataset.test_inputs)
    asked = (options.test_fraction or 0.0) * (dataset.num_examples + tests)
    if request.system.has_data and asked and abs(tests - asked) > 1:
        yield f"Not used by these data, which have {tests or 'no'} examples to test with: test_fraction."
    elif request.system.has_data and not (
        tests or "test_fraction" in options.explicit or dataset.name in GENERATORS
    ):
        yield (
            f"No test part: all {dataset.num_examples} examples are trained on. test_fraction=0.2 keeps a fifth of "
            "them apart for scores of predictions."
        )
    yield from request.system.cautions if request.system.has_data else ()
    compiled = request.system.compiled
    used = potential.loss.name
    logits = options.from_logits
    if compiled and request.objects.get("loss", options.loss) is None and compiled != used:
        yield f"The model's compiled loss, {compiled}, is not used, but {used}: loss=model.loss takes it."
    if used == "gaussian" and "noise_std" in options.explicit and options.noise_std != "sampled":
        spread = float(np.std(request.system.examples.targets, axis=0).min())
        if 0 < spread < options.noise_std:
            yield f"noise_std {options.noise_std:g} is above the standard deviation of the targets, {spread:.3g}."
    idle = []
    if used != "gaussian":
        idle.append("noise_std")
    if used not in OF_LOGITS and logits != "auto":
        idle.append("from_logits")
    if (
        request.system.has_data
        and not options.tati
        and (idle := [name for name in idle if name in options.explicit])
    ):
        yield f"Not used by the loss {used}: {', '.join(idle)}."
    yield from potential.notices()
    if request.system.has_data and (weights := weights_by_class(dataset)):
        yield said_of_class_weights(weights)
    if (
        options.data is not None
        and dataset.label_names not in ((), ("label",))
        and not options.label_columns
    ):
        columns = "column" if len(dataset.label_names) == 1 else "columns"
        yield f"The labels are in the {columns} {', '.join(dataset.label_names)} (label_columns)."
    names = dataset.class_names
    if are_integers(names):
        yield (
            f"The labels {shown(', '.join(map(str, names)), 77, str)} are {len(names)} classes, in "
            "this order. Set num_classes = 0 for a regression."
        )
    elif names:
        listed = shown(", ".join(map(str, names)), 77, str)
        yield f"The labels are names: {listed} are the classes 0 to {len(names) - 1}, in this order."
    elif request.system.has_data and options.num_classes is None:
        built = "model" not in {*request.objects, *options.explicit}
        yield from doubts(dataset.targets, dataset.test_targets, dataset.num_classes, built)
        places = (
            dataset.targets.ndim > 2
            and used == "gaussian"
            and "loss" not in {*request.objects, *options.explicit}
        )
        if places and ((dataset.targets == 0) | (dataset.targets == 1)).all():
            yield (
                "The labels, 0 and 1 at several places, are the values of a regression: loss='binary_crossentropy' "
                "takes them as labels, 'categorical_crossentropy' one-hot rows as classes."
            )
    if options.tensorboard is not None and importlib.util.find_spec("tensorboard") is None:
        yield "tensorboard: its files are written; to look at them, pip install 'tati_re[tensorboard]'."
    yield from tati_sentences(options, "prior" in request.objects)
    if start is not None and "starts" not in request.objects:
        yield start
    if request.record_every > options.num_steps:
        yield f"record_every {request.record_every} is above num_steps {options.num_steps}: no row will be recorded."
    if "trajectory_every" in options.explicit and request.trajectory_every > options.num_steps:
        yield f"trajectory_every {request.trajectory_every} is above num_steps: no position will be stored."
    if options.call not in (None, 1):
        yield f"Noise and mini-batches are those of call {options.call} of seed {options.seed}."
    folder = Path(options.parameters or "").expanduser()
    call = options.call or 1
    if (
        start is not None
        and options.parameters
        and request.samples
        and (folder / files.MANIFEST).is_file()
    ):
        known = manifest.read(folder)
        if known.get("kind") == "sample" and (known.get("seed"), known.get("call", 1)) == (
            options.seed,
            call,
        ):
            yield f"The noise is that of the run {folder} once more: call {call + 1} or another seed has its own."
    if (
        request.system.has_data
        and options.batch_size is None
        and not (method.full_batch or is_cheap(request.system))
    ):
        yield f"Each step sees all {dataset.num_examples:,} examples; steps on mini-batches cost less (batch_size=128)."
    if len(run.stages) > 1:
        for number, (stage, loop) in enumerate(zip(run.stages, run.loops, strict=True), 1):
            batch = (
                "all examples"
                if loop.potential.batches.full
                else f"mini-batches of {stage.batch_size}"
            )
            rate = f"learning rate {run.rate(stage):g}"
            yield f"Stage {number}: steps {stage.first_step + 1} to {stage.last_step}, {rate}, {batch}."
    if (
        method.subtracts_noise
        and not request.full_batch
        and "batch_sampling" not in options.explicit
    ):
        yield (
            f"Mini-batches are drawn with replacement: {method.name} takes out the heat of noise that is new in every "
            "step, which that of epochs is not."
        )
    yield from ladder_sentences(method, potential)
    betas = [options.beta] if method.ladder is None else method.ladder[0]
    if request.samples and (hot := too_hot(potential.prior, 1 / float(np.min(betas)))):
        yield hot
    if "prior" not in request.objects and (other := unused_prior_options(options)):
        yield f"Not used by the prior as it is set up: {', '.join(other)}."
    if sentence := method.swap_bias:
        yield sentence
    if method.exact_energies:
        yield (
            f"bias_energies full: each step evaluates the loss of all {potential.num_examples:,} examples beside the "
            "gradient of its mini-batch."
        )
    elif method.bias is not None and not potential.batches.full:
        yield (
            "bias_energies batch: forces and weights see the bias at the noisy energies of mini-batches, so that "
            "the run samples a law near the one asked for."
        )
    if not request.samples:
        return
    yield from _of_temperatures(run)
    left = ", ".join(unused(request))
    said = left and f"Not used by {method.name} as it is set up: {left}."
    yield from filter(
        None, (refresh_note(method.get_config()), said, batch_norm.sentence(options, flat))
    )


def _of_temperatures(run: RunLoops) -> Iterator[str]:
    """Says where averages mix temperatures, and where nothing is drawn at all."""
    options = run.request.options
    first = run.loops[-1].timeline.num_burnin_steps + 1
    factor = temperature_factor(options, run.request.objects.get("temperature_schedule"))
    if factor is None or first > options.num_steps:
        return
    values = options.kT * factor(
        np.unique(np.linspace(first, options.num_steps, 10_000).astype(int))
    )
    drawn = values[values > 0]
    if not len(drawn):
        yield "All steps after the burn-in explore, at temperature 0: nothing is drawn (cycle_steps, num_steps)."
    elif np.ptp(drawn) > 1e-9 * drawn[-1]:
        yield (
            f"temperature_schedule goes on after the burn-in, from {drawn[0]:g} to {drawn[-1]:g}: averages and "
            "predictions mix these temperatures, unless num_burnin_steps leaves the others out."
        )


def say_unused(request: Request, given: Collection[str], fitted: bool = False) -> None:
    """Says which of the options that a call was given are of other calls; a run may begin with a
    fit of its own.
    """
    if names := sorted(_idle(request, given, fitted)):
        kind = "this run" if request.samples else "a fit"
        make_progress(request.options.verbose).message(f"Not used by {kind}: {', '.join(names)}.")


def _idle(request: Request, given: Collection[str], fitted: bool = False) -> set[str]:
    if request.samples:
        commands = (*SAMPLE, "training") if fitted else SAMPLE
        return {*given} & {*OPTIONS} - {*options_of(commands)}
    idle = {*OPTIONS} - {*options_of(OPTIMIZE)} | {*NOT_OF_FITS}
    idle |= {"learning_rate"} if vars(request.method).get("learning_rate") is not None else set()
    others = {"annealing", "barzilai"} - {request.method.name.partition("_")[0]}
    return {*given} & idle | {
        name for name in request.options.explicit if name.partition("_")[0] in others
    }


def unused(request: Request) -> list[str]:
    """Given options that the method of a run does not use."""
    options = request.options
    method = request.method
    if not request.samples:
        return sorted(_idle(request, options.explicit))
    own = request.objects.get("sampler")
    numbers = (
        {} if own is None or isinstance(own, type) else checked(own).get_config()
    )  # of an object, its own
    beside = sorted(options.explicit & {*numbers} - {"sampler"})
    if "walls" in options.explicit and not request.prior.walled:
        beside.append("walls")
    return [
        *dict.fromkeys(
            [*unused_options(options, method), *beside, *unused_replica_options(options, method)]
        )
    ]


def manifest_of(run: RunLoops) -> dict[str, Any]:
    """The entries of the manifest: what was asked for, what it became, and what the numbers depend
    on.
    """
    request = run.request
    potential = run.potential
    options = request.options
    dataset = request.system.dataset
    weights = weights_by_class(dataset) if request.system.has_data else []
    data = {
        **({"class_weights": weights} if weights else {}),
        "name": dataset.name,
        "fingerprint": dataset.fingerprint(),
        "num_examples": dataset.num_examples,
    }
    every = {"record_every": request.record_every, "trajectory_every": request.trajectory_every}
    named = options.values_of(SCHEDULES) if request.samples else {}
    tables = {
        name: read_table(path, name) for name, path in named.items() if path not in SCHEDULES[name]
    }
    workers = {} if run.workers is None else {"workers": run.workers.described()}
    return {
        "kind": request.kind,
        "tati_re": __version__,
        "versions": versions(),
        "options": options.model_dump(exclude_none=True, exclude={"resume", "overwrite"}) | every,
        "given": sorted(options.explicit - {"resume", "overwrite"}),
        "unused": unused(request),
        **({"tables": tables} if tables else {}),
        **({"fewest_positions": request.fewest_positions} if request.fewest_positions else {}),
        "objects": sorted(set(OBJECTS) & set(request.objects)),
        "observables": sorted(run.observables.extra),
        "seed": options.seed,
        "call": options.call or 1,
        "threads": threads(),
        "threads_between_operations": threads(tf.config.threading.get_inter_op_parallelism_threads),
        **workers,
        "execution": run.execution,
        "walker_evaluation": ", ".join(
            dict.fromkeys(each.potential.walker_evaluation for each in run.loops)
        ),
        "chunk_steps": run.loops[0].chunk_steps,
        "meaning": run.meaning,
        "temperature": options.kT,
        "method": request.method.get_config(),
        **({"first_order": True} if request.method.first_order else {}),
        "loss": potential.loss.get_config(),
        "prior": potential.prior.get_config(),
        "prior_proper": potential.confined,
        "prior_walled": potential.prior.walled,
        "parameters": request.system.flat.described(),
        "dataset": data | dataset.get_config(),
    }
