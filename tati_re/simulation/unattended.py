"""Runs without a named sampler: walkers, fits, sampler, mass and end follow from the data and the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tati_re.engine.progress import make_progress
from tati_re.models.chain import chain_of
from tati_re.options.make import OPTIMIZE, Options, make_options, options_of
from tati_re.options.stages import check_num_steps
from tati_re.runs import run_folder
from tati_re.samplers.choosing import FEWEST_BURNIN_STEPS, latest_end
from tati_re.simulation.checks import check_request
from tati_re.simulation.heating import expected_heating
from tati_re.simulation.launch import launch
from tati_re.simulation.request import MOST_STEPS, make_request, sees_all
from tati_re.simulation.starts import starting_walkers

if TYPE_CHECKING:
    from tati_re.simulation.simulation import Simulation

AUTO = "auto"
NUM_WALKERS = 4
FULL_BATCH_BELOW = 5_000
"""Examples up to which every step sees all of them."""
MOST_PRODUCTS = 5_000_000
"""Examples times parameters up to which networks of dense layers see more examples as well: a step of four walkers
takes some 10 ms then, and one on mini-batches has to be a hundredth as long for their noise to heat by 2 %."""
BATCH_SIZE = 128
FEW_PARAMETERS = 10
TARGET_BIAS = 0.05
"""Of MCLMC, an energy error of 4.5e-4 per parameter and step: the bound is wide, and 0.02 costs 1.6 times the steps."""
TARGET_ACCEPTANCE = 0.98
"""Of HMC: steps that suit the average of a narrow, curved valley stick at its ends."""
UNTIL = "rhat<1.01, ess>400"
OF_WEIGHTS = ", rhat(weights)<1.1"
FIT_BATCH_SIZE = 100
_OF_THE_RUN = ("output", "overwrite", "run_file", "averages_file", "trajectory_file", "save_model", "tensorboard")


def is_open(options: Options, objects: Mapping[str, Any]) -> bool:
    """Whether sampler, step size and ladder are all left to the run."""
    named = {name for name in ("sampler", "step_size") if getattr(options, name) != AUTO}
    schedules = {"step_schedule", "temperature_schedule"}
    given = {"sampler", *schedules} & {*objects}
    return not (named or options.explicit & {*options_of(["replicas"]), *schedules} or given)


def prepared(sim: Simulation, options: Options, objects: Mapping[str, Any]) -> Options:
    """The options of a run of `Simulation.sample` with what was left open; says what was chosen, and fits the walkers
    where they are to start at a fit and have not moved."""
    progress = make_progress(options.verbose)
    if (options.num_walkers, options.walker_start) != (sim.num_walkers(), sim.options.walker_start):
        # A preset asks for more walkers than the Simulation has, or for another start.
        options = _multiplied(sim, options)
    if is_open(options, objects):
        for sentence in _choose_walkers(sim, options):
            progress.message(sentence)
        placing = {"num_walkers", "walker_start", "walker_jitter"} & sim.options.explicit
        options = make_options(options, **sim.options.values_of(placing))
        options, said = _chosen(sim, options, objects)
        for sentence in said:
            progress.message(sentence)
    if options.walker_start == "fit" and not sim.walkers.placed:
        # What is wrong with the run is said before the work.
        check_request(make_request("sample", options, objects, sim.system, sim.limits))
        if options.output is not None:
            run_folder.check_free(options.output, options.overwrite)
        _fit(sim, options, objects)
    return options


def _multiplied(sim: Simulation, options: Options) -> Options:
    """The options of a preset that brings its own walkers: those walkers, or the ones that were placed before."""
    names = ("num_walkers", "walker_start")
    if sim.walkers.placed:
        return make_options(options, **sim.options.values_of(names))
    sim.options = make_options(sim.options, **options.values_of(names))
    sim.walkers = starting_walkers(sim.options, sim.system.flat)
    return options


def _choose_walkers(sim: Simulation, options: Options) -> list[str]:
    """Sets the walkers apart that nobody has placed, and says so."""
    first = "No sampler is named: the run chooses, in brackets the options that decide instead."
    if sim.walkers.placed:
        start = f"{sim.num_walkers()} walkers where they are"
        if sim.num_walkers() == 1:
            start = "1 walker where it is, whose halves R-hat compares"
            if sim.system.has_data and "num_walkers" not in options.explicit:
                start += f"; num_walkers={NUM_WALKERS}, walker_start='fit' in the Simulation fits that many"
        return [first, f"Start: {start} (num_walkers, walker_start)."]
    values: dict[str, Any] = {} if "num_walkers" in options.explicit else {"num_walkers": NUM_WALKERS}
    if "walker_start" not in options.explicit:
        values |= {"walker_start": "fit"} if sim.system.has_data else {"walker_start": "jitter", "walker_jitter": 1.0}
    sim.options = make_options(sim.options, **values)
    sim.walkers = starting_walkers(sim.options, sim.system.flat)
    how = {
        "fit": f"each from a fit of its own ({options.fit_steps:,} steps of {options.optimizer})",
        "jitter": f"displaced by Gaussian numbers of deviation {sim.options.walker_jitter:g}",
    }
    start = how.get(sim.options.walker_start, sim.options.walker_start)
    return [first, f"Start: {sim.num_walkers()} walkers, {start} (num_walkers, walker_start, fit_steps)."]


def _chosen(sim: Simulation, options: Options, objects: Mapping[str, Any]) -> tuple[Options, list[str]]:
    """The options with sampler, batches, tuning and end, and a sentence on each."""
    sim.system.check(options, objects)
    size, dimension = sim.system.dataset.num_examples, sim.num_parameters()
    cheap = size < FULL_BATCH_BELOW or (
        size * dimension <= MOST_PRODUCTS and chain_of(sim.system.flat.model) is not None
    )
    if options.batch_size is None and not cheap:
        options = make_options(options, batch_size=BATCH_SIZE)
    whole = sees_all(options, sim.system)
    if not whole:
        sampler, why = "BAOAB", f"mini-batches of {options.batch_size} of {size:,} examples"
    elif dimension < FEW_PARAMETERS:
        sampler, why = "HMC", f"exact, and cheap with {dimension} parameters"
    else:
        sampler, why = "MCLMC", f"all {size:,} examples in every step" if sim.system.has_data else "exact gradients"
    steps = options.num_steps if "num_steps" in options.explicit else MOST_STEPS
    values: dict[str, Any] = {"friction": AUTO, "num_leapfrog_steps": AUTO}
    if "until" in options.explicit and options.until is None:
        values["num_steps"] = steps
    values["until"] = UNTIL + (OF_WEIGHTS if sim.system.has_data else "")
    given = options.num_burnin_steps
    if (latest_end(steps) if given is None else given) >= FEWEST_BURNIN_STEPS:
        values["mass"] = "fisher"
    if sampler == "MCLMC":
        values["target_bias"] = TARGET_BIAS
    if sampler == "HMC":
        values["target_acceptance"] = TARGET_ACCEPTANCE
    unused = {"HMC": "friction"}.get(sampler, "num_leapfrog_steps")
    taken = {name: value for name, value in values.items() if name not in {unused, *options.explicit, *objects}}
    options = make_options(options, sampler=sampler, **taken)
    if not whole and "batch_sampling" not in options.explicit:
        options, order = _ordered(sim, options, objects)
        why += order
    tuned = "length of trajectories" if sampler == "HMC" else "friction"
    tuned = f"Step size, {tuned} and masses" if options.mass != "unit" else f"Step size and {tuned}"
    tolerance = "" if sampler == "HMC" else f", so that variances are wrong by {options.target_bias:.0%} at most"
    latest = f"at step {steps:,} at the latest"
    if "num_steps" not in options.explicit:
        latest += ", or up to four times as many where it can tell there how many more it takes"
    return options, [
        f"Sampler {sampler}: {why} (sampler, batch_size, batch_sampling).",
        f"{tuned} are tuned in the burn-in, which ends by itself{tolerance} (step_size, "
        "friction, num_leapfrog_steps, mass, target_bias, num_burnin_steps).",
        f"The run ends when {options.until}, {latest} (until, num_steps, max_time).",
    ]


def _ordered(sim: Simulation, options: Options, objects: Mapping[str, Any]) -> tuple[Options, str]:
    """The order of mini-batches that is expected to heat less, of epochs and symmetric sweeps."""
    found = {}
    for order in ("epochs", "symmetric"):
        request = make_request("sample", make_options(options, batch_sampling=order), objects, sim.system, sim.limits)
        auxiliary = tuple(value[:1] for value in sim.walkers.auxiliary)
        found[order] = expected_heating(request, sim.walkers.position[0], auxiliary)
    known = {order: heating["mean"] for order, heating in found.items() if "mean" in heating}
    best = min(known, key=lambda order: known[order]) if len(known) == len(found) else "epochs"
    said = f", in {'shuffled epochs' if best == 'epochs' else 'symmetric sweeps'}, whose noise heats less"
    return make_options(options, batch_sampling=best), said if known else ", in shuffled epochs"


def _fit(sim: Simulation, options: Options, objects: Mapping[str, Any]) -> None:
    """Takes each walker to a minimum of U; three quarters of the steps at the learning rate, the rest at a tenth."""
    left_out = {*_OF_THE_RUN, "num_steps", "num_burnin_steps", "stages", "call"}
    given = options.values_of((options.explicit & {*options_of(OPTIMIZE)}) - left_out)
    first = max(1, 3 * options.fit_steps // 4)
    rates = [(first, options.learning_rate), (options.fit_steps - first, options.learning_rate / 10)]
    given["stages"] = [{"num_steps": steps, "learning_rate": rate} for steps, rate in rates if steps]
    if sim.system.has_data and options.batch_size is None:
        given["batch_size"] = min(FIT_BATCH_SIZE, sim.system.dataset.num_examples)
    chosen = sim.calls.numbered("fit", make_options(given))
    chosen = make_options(chosen, num_steps=check_num_steps(chosen))
    request = make_request("fit", chosen, objects, sim.system, sim.limits)
    launch(request, sim.walkers, sim.calls, brief=True).passing_on()
