"""The entries of the manifest of a run, and the options that it does not use."""

from collections.abc import Collection
from typing import Any

from tati_re._version import __version__
from tati_re.core.backend import tf, threads
from tati_re.data.dataset import weights_by_class
from tati_re.engine.environment import versions
from tati_re.exchange.choosing import unused_replica_options
from tati_re.launch.loops import RunLoops
from tati_re.launch.opening import announce
from tati_re.launch.request import Request
from tati_re.options.table import NOT_OF_FITS, OPTIMIZE, OPTIONS, SAMPLE, options_of
from tati_re.samplers.schedules import SCHEDULES, read_table
from tati_re.samplers.user_samplers import checked
from tati_re.system.system import OBJECTS
from tati_re.tuning.choosing import unused_options


def say_unused(request: Request, names_given: Collection[str], fitted: bool = False) -> None:
    """Says which options of a call apply only to other calls.

    Args:
        request: The request of the run.
        names_given: Names of the options that the call was given.
        fitted: Whether the run begins with a fit, whose options then count as used. Default: False.
    """
    if names := sorted(_idle(request, names_given, fitted)):
        kind = "this run" if request.samples else "a fit"
        announce(request.options.verbose, f"Not used by {kind}: {', '.join(names)}.")


def _idle(request: Request, names_given: Collection[str], fitted: bool = False) -> set[str]:
    if request.samples:
        commands = (*SAMPLE, "training") if fitted else SAMPLE
        return {*names_given} & {*OPTIONS} - {*options_of(commands)}
    idle = {*OPTIONS} - {*options_of(OPTIMIZE)} | {*NOT_OF_FITS}
    idle |= {"learning_rate"} if vars(request.method).get("learning_rate") is not None else set()
    others = {"annealing", "barzilai"} - {request.method.name.partition("_")[0]}
    return {*names_given} & idle | {
        name for name in request.options.explicit if name.partition("_")[0] in others
    }


def unused(request: Request) -> list[str]:
    """Given options that the method of a run does not use."""
    options = request.options
    method = request.method
    if not request.samples:
        return sorted(_idle(request, options.explicit))
    sampler_object = request.objects.get("sampler")
    # Of an object its own numbers count.
    numbers = (
        set()
        if sampler_object is None or isinstance(sampler_object, type)
        else checked(sampler_object).used_options()
    )
    beside = sorted(options.explicit & numbers - {"sampler"})
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
            dict.fromkeys(loop.potential.walker_evaluation for loop in run.loops)
        ),
        "chunk_steps": run.loops[0].chunk_steps,
        "meaning": run.meaning,
        "temperature": options.kT,
        "method": request.method.get_config(),
        **({"first_order": True} if request.method.dynamics.first_order else {}),
        "loss": potential.loss.get_config(),
        "prior": potential.prior.get_config(),
        "prior_proper": potential.confined,
        "prior_walled": potential.prior.walled,
        "parameters": request.system.flat.described(),
        "dataset": data | dataset.get_config(),
    }
