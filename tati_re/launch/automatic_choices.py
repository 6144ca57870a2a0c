"""Runs without a named sampler: walkers, fits, sampler, mass and end follow from the data and the
model.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tati_re.analysis.format import percent
from tati_re.analysis.until import GAIN, WEIGHTS, Condition, conditions_of
from tati_re.core.backend import tf
from tati_re.engine.limits import Limits
from tati_re.launch.calls import Calls
from tati_re.launch.candidates import names_model
from tati_re.launch.checks import check_destinations, check_request, check_values
from tati_re.launch.ending import LONGER
from tati_re.launch.finite_starts import make_finite
from tati_re.launch.goal import PREDICT
from tati_re.launch.header import block, notes_on
from tati_re.launch.heating import expected_heating
from tati_re.launch.launch import launch_finite
from tati_re.launch.opening import announce, release
from tati_re.launch.predicting import (
    RECORD_EVERY,
    PredictionSetup,
)
from tati_re.launch.predicting import TARGET_BIAS as BIAS_OF_PREDICTIONS
from tati_re.launch.predicting import UNTIL as PREDICTED
from tati_re.launch.request import (
    BATCH_SIZE,
    MOST_STEPS,
    Request,
    is_cheap,
    make_request,
    sees_all,
)
from tati_re.launch.starts import descended, starting_walkers
from tati_re.launch.time_plan import WORKER_SECONDS, TimePlan
from tati_re.optimizers import make_optimizer
from tati_re.options.make import OPTIMIZE, Options, make_options, options_of
from tati_re.options.stages import check_num_steps
from tati_re.runs import run_folder
from tati_re.runs.fits import Fits
from tati_re.runs.lock import writing
from tati_re.system.system import System
from tati_re.system.walkers import Walkers
from tati_re.tuning.choosing import FEWEST_BURNIN_STEPS, latest_end

AUTO = "auto"
NUM_WALKERS = 4
FEW_PARAMETERS = 10
FEW_NAMED_PARAMETERS = 20
"""Parameters below which HMC samples. Draws of named parameters are handed over, so that an exact
sampler is worth more gradients. With 10 parameters the draws that `until` asks for cannot measure
the bias of an approximate one.
"""
MOST_DIRECTIONS = 100
"""Parameters up to which the mass of a density of one's own, or of a network of one layer, has all
directions.
"""
TARGET_BIAS = 0.05
"""Of MCLMC, an energy error of 4.5e-4 per parameter and step: the bound is wide, and 0.02 costs 1.6
times the steps.
"""
TARGET_ACCEPTANCE = 0.98
"""Of HMC: steps that suit the average of a narrow, curved valley stick at its ends."""
UNTIL = "rhat<1.01, ess>400"
UNTIL_OF_NAMED = "rhat<1.01, ess>1000"
"""Draws of named parameters are handed over: 400 effective ones leave errors of 0.1 standard
deviations in the 5 % quantile, 1,000 leave 0.07.
"""
OF_WEIGHTS = ", rhat(weights)<1.1"
FIT_BATCH_SIZE = 100
FIT_EPOCHS = 10
MOST_FIT_STEPS = 20_000
"""A fit takes the default of steps, or as many as see each example so often, up to the most."""
FIT_SHARE = 0.25
"""Of the time that compiling the fits leaves of `max_time`."""
DESCENT_STEPS = 1_000
FAR = 1_000.0
"""A density of one's own is descended for so many steps, or a twentieth of a shorter run, if a
tenth of them shows that U falls by more than so many d T. In a funnel of 100 dimensions U falls by
110, into the neck: walkers stay.
"""
_LAGS = 100.0
"""Where some walkers descend, so do those whose U falls by so many d T. The step size is one for
all: a walker that is left above them moves at the steps of the narrow place that they are in.
"""
OPTIONS_OF_FILES = (
    "output",
    "overwrite",
    "run_file",
    "averages_file",
    "trajectory_file",
    "save_model",
    "tensorboard",
)


class Chosen(Protocol):
    """What of a Simulation a choice reads and moves."""

    options: Options
    objects: dict[str, Any]
    walkers: Walkers
    system: System
    calls: Calls
    limits: Limits

    def take(self, system: System) -> None: ...

    def num_walkers(self) -> int: ...

    def num_parameters(self) -> int: ...


def prepared(
    sim: Chosen,
    options: Options,
    objects: Mapping[str, Any],
    limits: Limits,
    places_walkers: bool = True,
) -> tuple[Options, Limits]:
    """Chooses the options that a call of `Simulation.sample` leaves open.

    It reports each choice. If walkers start at a fit and have not moved, it fits them first. For a
    density it descends first if the start is far from the typical set.

    Args:
        sim: The simulation.
        options: The options as they were set.
        objects: Options that are Python objects, by name.
        limits: The time limit, counted from the call.
        places_walkers: Whether walkers may be placed if a sampler is named and their start is open.
            Default: True.

    Returns:
        The options and limits of the run.
    """
    choice = _Choice(sim, options, objects, limits, places_walkers)
    chosen = choice.made()
    if chosen.goal == PREDICT:
        limits = replace(limits, reserve=choice.plan.reserve)
    return chosen, limits


def _in_words(condition: Condition) -> str:
    """A condition of `until`, such as `R-hat < 1.01`."""
    if condition.quantity == "ess":
        of_one = f" of {condition.name}" if condition.name else ""
        return f"ESS{of_one} > {condition.limit:,g}"
    if condition.quantity == "rhat":
        return f"R-hat < {condition.limit:g}"
    if condition.quantity == WEIGHTS:
        return f"R-hat of weights < {condition.limit:g}"
    if condition.quantity == GAIN:
        return f"a change of the log density below {condition.limit:g}"
    return str(condition)


def is_open(options: Options, objects: Mapping[str, Any]) -> bool:
    """Whether sampler, step size and ladder are all left to the run.

    Args:
        options: The options as they were set.
        objects: Options that are Python objects, by name.
    """
    named = {name for name in ("sampler", "step_size") if getattr(options, name) != AUTO}
    schedules = {"step_schedule", "temperature_schedule"}
    objects_given = {"sampler", *schedules} & {*objects}
    return not (
        named or options.explicit & {*options_of(["replicas"]), *schedules} or objects_given
    )


def leaves_start_open(options: Options, objects: Mapping[str, Any]) -> bool:
    """Whether a run names its sampler, and leaves start, step size and ladder to the run.

    The walkers then start as without a named sampler.

    Args:
        options: The options as they were set.
        objects: Options that are Python objects, by name.
    """
    schedules = {"step_schedule", "temperature_schedule"}
    manual = options.explicit & {*options_of(["replicas"]), *schedules}
    objects_of_moves = {"sampler", "starts", *schedules} & {*objects}
    return options.sampler != AUTO and options.step_size == AUTO and not manual | objects_of_moves


@dataclass
class _Choice:
    """What a run chooses by itself: its options change from choice to choice, the walkers of the
    Simulation as well.
    """

    sim: Chosen
    options: Options
    objects: Mapping[str, Any]
    limits: Limits
    places_walkers: bool = True

    def made(self) -> Options:
        """The options with all choices."""
        sim = self.sim
        if self.options.goal == PREDICT:
            return self._made_for_prediction()
        wanted, there = (
            options.values_of(("num_walkers", "walker_start"))
            for options in (self.options, sim.options)
        )
        if wanted != there:
            # A preset asks for more walkers than the Simulation has, or for another start; those
            # that are placed stay.
            if sim.walkers.placed:
                self._change(**there)
            else:
                self._place(**wanted)
        if not (sim.walkers.placed or sim.system.has_data or is_open(self.options, self.objects)):
            self._confine()
        if is_open(self.options, self.objects):
            sentences = self._choose_walkers()
            placing = {"num_walkers", "walker_start", "walker_jitter"} & sim.options.explicit
            self._change(**sim.options.values_of(placing))
            self._choose_blocks()
            self._report([*sentences, *self._choose_method()])
        elif self.places_walkers and sim.system.has_data and not sim.walkers.placed:
            self._choose_start()
        if self.options.walker_start == "fit" and not (
            sim.walkers.placed or "starts" in self.objects
        ):
            self._checked()
            self._confine()
            self._fit()
        return self.options

    def _made_for_prediction(self) -> Options:
        """The options of a run for prediction, after its members are fitted."""
        sim = self.sim
        sim.system.check(self.options, self.objects)
        chooses_model = not names_model(self.options, self.objects)
        choices: list[str] = []
        tried = False
        if not (sim.walkers.placed or "starts" in self.objects):
            self._check_values()
            preparation = PredictionSetup(sim, self.options, self.objects, self.plan)
            self.options, choices = preparation.made()
            tried = preparation.tried_chains
            if self.options.walker_start == "fit" and not sim.walkers.placed:
                self._fit()
        one_network = sim.system.flat.vectorizable
        if self.options.execution == AUTO and not self.plan.has_xla(one_network):
            self._change(execution="graph")
        open_settings = is_open(self.options, self.objects)
        if open_settings:
            self._choose_blocks()
        sampler = self._choose_method()[0] if open_settings else self.options.sampler
        if not open_settings and not self.options.explicit & {"until", "num_steps"}:
            self._change(until=PREDICTED)
        if sim.walkers.fits_alone:
            if not tried:
                seconds = f"{self.options.max_time:g} seconds"
                choice = f"no chains: {seconds} are too short for draws that predict better"
                choices.append(f"{choice} than the fits (max_time)")
        else:
            choices.append(f"{sampler}, a chain from each member on all training rows")
            choices.append(f"stops at {self._goal_text()} (until, max_time)")
        self._report(choices)
        if chooses_model and sim.system.notes:
            announce(self.options.verbose, "\n".join(notes_on(sim.system)))
        return self.options

    def _choose_blocks(self) -> None:
        """Makes each chain a block of its own, so that as many workers can share the chains."""
        if self.options.workers is not None and "block_size" not in self.options.explicit:
            self._change(block_size=1)

    def _goal_text(self) -> str:
        """When a run for prediction ends."""
        ends = [_in_words(condition) for condition in conditions_of(self.options.until)]
        if self.options.max_time:
            ends.append(f"after {self.options.max_time:g} seconds")
        return " or ".join(ends) or f"after {self.options.num_steps:,} steps"

    @cached_property
    def plan(self) -> TimePlan:
        """The time of a run for prediction."""
        began = time.monotonic() if self.limits.began is None else self.limits.began
        starts = 0.0 if self.options.workers is None else WORKER_SECONDS
        return TimePlan(self.options.max_time, began, worker_seconds=starts)

    def _check_values(self) -> None:
        """Refuses what the run could not start with, before the work that prepares it."""
        names = self.options.explicit & {"until", "sampler", "prior", "optimizer"}
        check_values(names, self.options, self.objects, self.sim.system)
        check_destinations(self.options, self.objects)
        if self.options.output is not None:
            with writing(self.options.output):
                run_folder.prepare(self.options.output, self.options.overwrite)
        release()

    def _choose_start(self) -> None:
        """Chooses walkers and start of a run that names its sampler, where they are open."""
        sim = self.sim
        if not leaves_start_open(self.options, self.objects):
            return
        if {"num_walkers", "walker_start"} <= self.options.explicit:
            return
        sim.system.check(self.options, self.objects)
        sentences = self._choose_walkers()
        placing = {"num_walkers", "walker_start", "walker_jitter"} & sim.options.explicit
        self._change(**sim.options.values_of(placing))
        self._report(sentences)

    def _report(self, choices: list[str]) -> None:
        """Prints the block of choices, each with the options that override it in parentheses."""
        announce(self.options.verbose, "\n".join(block("choices", choices)))

    def _checked(self) -> Request:
        """The request of the run; what is wrong with it is said before the work that prepares
        it.
        """
        check_request(request := self._request())
        if self.options.output is not None:
            with writing(self.options.output):
                run_folder.prepare(self.options.output, self.options.overwrite)
        release()
        return request

    def _change(self, **values: Any) -> None:
        self.options = make_options(self.options, **values)

    def _request(self, **values: Any) -> Request:
        options = make_options(self.options, **values) if values else self.options
        return make_request("sample", options, self.objects, self.sim.system, self.sim.limits)

    def _place(self, **values: Any) -> None:
        """Starts the walkers of the Simulation by these options."""
        self.sim.options = make_options(self.sim.options, **values)
        self.sim.walkers = starting_walkers(self.sim.options, self.sim.system.flat)
        self._confine()

    def _confine(self) -> None:
        """Reflects starts that nobody has given into the walls of the prior; of a function they are
        drawn again where it is not finite.
        """
        walkers = self.sim.walkers
        prior = self.sim.system.prior(self.options, self.objects)
        if prior.walled and not walkers.placed:
            walkers.move(np.array(prior.confine(tf.constant(walkers.position), None)[0]))
        free = not (walkers.placed or "starts" in self.objects)
        if free and not self.sim.system.has_data:
            make_finite(self.sim.system, walkers, self.options, self.objects)

    def _choose_walkers(self) -> list[str]:
        """Sets the walkers apart that were not placed; returns the choice in words."""
        sim = self.sim
        explicit = self.options.explicit
        if sim.walkers.placed:
            start = f"{sim.num_walkers()} chains from their current positions"
            if sim.num_walkers() == 1:
                start = "1 chain from its current position; R-hat compares its two halves"
                if sim.system.has_data and "num_walkers" not in explicit:
                    start += (
                        f"; num_walkers={NUM_WALKERS}, walker_start='fit' in the Simulation starts "
                        f"{NUM_WALKERS} chains at independent fits"
                    )
            return [f"{start} (num_walkers, walker_start)"]
        values: dict[str, Any] = {} if "num_walkers" in explicit else {"num_walkers": NUM_WALKERS}
        if "walker_start" not in explicit and "starts" not in self.objects:
            jitter = {"walker_start": "jitter", "walker_jitter": 1.0}
            values |= {"walker_start": "fit"} if sim.system.has_data else jitter
        self._place(**values)
        if (
            "fit_steps" not in explicit
            and sim.options.walker_start == "fit"
            and sim.system.has_data
        ):
            size = self.options.batch_size or FIT_BATCH_SIZE
            steps = min(MOST_FIT_STEPS, FIT_EPOCHS * sim.system.dataset.num_examples // size)
            self._change(fit_steps=max(self.options.fit_steps, steps))
        how = {
            "starts": "from the given starts",
            "fit": f"from independent fits of {self.options.fit_steps:,} {self.options.optimizer} steps",
            "jitter": f"displaced by N(0, {sim.options.walker_jitter:g}²)",
        }
        at = "starts" if "starts" in self.objects else sim.options.walker_start
        return [
            f"{sim.num_walkers()} chains {how.get(at, f'started {at}')} (num_walkers, walker_start)"
        ]

    def _choose_method(self) -> list[str]:
        """Chooses sampler, batches, tuning and end, with a sentence on each."""
        sim = self.sim
        options = self.options
        sim.system.check(options, self.objects)
        if options.batch_size is None and not is_cheap(sim.system):
            self._change(batch_size=BATCH_SIZE)

        uses_all_data = sees_all(self.options, sim.system)
        sampler, why = self._sampler_for(uses_all_data)
        steps = options.num_steps if "num_steps" in options.explicit else MOST_STEPS
        self._change(sampler=sampler, **self._settings(options, sampler, uses_all_data, steps))
        chooses_order = not uses_all_data and "batch_sampling" not in options.explicit
        if chooses_order and not sim.walkers.fits_alone:
            self._checked()
            why += self._choose_order()

        return [
            f"{sampler}, {why} (sampler, batch_size{'' if uses_all_data else ', batch_sampling'})",
            self._tuning_text(sampler),
            self._end_text(options, steps),
            *self._descend(min(DESCENT_STEPS, steps // 20)),
        ]

    def _sampler_for(self, uses_all_data: bool) -> tuple[str, str]:
        """The sampler for mini-batches, or for all examples at each step, and why."""
        sim = self.sim
        size = sim.system.dataset.num_examples
        dimension = sim.num_parameters()
        if not uses_all_data:
            return "BAOAB", f"mini-batches of {self.options.batch_size} of {size:,} rows"
        few = FEW_NAMED_PARAMETERS if self._is_named() else FEW_PARAMETERS
        if dimension < few:
            return "HMC", f"exact, cheap with {dimension} parameters"
        if sim.system.has_data:
            return "MCLMC", f"full data ({size:,} rows) in each step"
        return "MCLMC", "exact gradients"

    def _is_named(self) -> bool:
        """Whether the system is a density of named parameters."""
        return bool(self.sim.system.flat.described().get("supports"))

    def _settings(
        self, options: Options, sampler: str, uses_all_data: bool, steps: int
    ) -> dict[str, Any]:
        """What is tuned and when the run ends, without what was given."""
        sim = self.sim
        values: dict[str, Any] = {"friction": AUTO, "num_leapfrog_steps": AUTO}
        if "until" in options.explicit and options.until is None:
            values["num_steps"] = steps
        values["until"] = UNTIL + (OF_WEIGHTS if sim.system.has_data else "")
        if self._is_named():
            values["until"] = UNTIL_OF_NAMED
        if options.goal == PREDICT:
            values["until"] = PREDICTED
            values["record_every"] = RECORD_EVERY
            if sampler != "HMC":
                values["target_bias"] = BIAS_OF_PREDICTIONS

        walled = sim.system.prior(options, self.objects).walled
        full_rank = uses_all_data and not walled and self._has_one_covariance()
        burnin = latest_end(steps) if options.num_burnin_steps is None else options.num_burnin_steps
        measures_mass = burnin >= FEWEST_BURNIN_STEPS
        if measures_mass:
            values["mass"] = f"fisher:{sim.num_parameters()}" if full_rank else "fisher"

        if sampler == "MCLMC":
            values.setdefault("target_bias", TARGET_BIAS)
            if full_rank and measures_mass and "mass" not in options.explicit:
                is_round = sim.system.is_round(sim.walkers.position[0])
                values["integrator"] = "isotropic" if is_round else "leapfrog"
        if sampler == "HMC":
            values["target_acceptance"] = TARGET_ACCEPTANCE
            if walled:
                values["walls"] = "reflect"

        of_others = "friction" if sampler == "HMC" else "num_leapfrog_steps"
        left_out = {of_others, *options.explicit, *self.objects}
        return {name: value for name, value in values.items() if name not in left_out}

    def _has_one_covariance(self) -> bool:
        """Whether a mass of full rank can describe the target.

        Hidden units make copies of each minimum, each with a covariance of its own: no mass has
        them all.
        """
        kernels = 0
        if self.sim.system.has_data:
            kernels = sum(len(shape) > 1 for shape in self.sim.system.flat.shapes)
        return self.sim.num_parameters() <= MOST_DIRECTIONS and kernels < 2

    def _tuning_text(self, sampler: str) -> str:
        """What the burn-in tunes, and to which bias."""
        tuned = "trajectory length" if sampler == "HMC" else "friction"
        names = f"step size and {tuned}"
        if self.options.mass != "unit":
            names = f"step size, {tuned} and masses"

        if sampler == "HMC":
            return f"{names} tuned in the burn-in (step_size, num_leapfrog_steps, mass)"
        share = percent(self.options.target_bias)
        if self.options.target_bias_of == "worst":
            share += " in every direction"
        return f"{names} tuned to a bias below {share} (step_size, friction, mass)"

    def _end_text(self, options: Options, steps: int) -> str:
        """When the run ends."""
        latest = f"{steps:,} steps"
        if options.max_time is not None and "num_steps" not in options.explicit:
            latest = f"{options.max_time:g} seconds"
        elif "num_steps" not in options.explicit:
            latest += f", extended up to {LONGER * steps:,} if needed; max_time limits the seconds"
        ends = [_in_words(condition) for condition in conditions_of(self.options.until)]
        if not ends:
            return f"stops after {latest} (until, num_steps)"
        return f"stops at {', '.join(ends)} (until), or {latest}"

    def _choose_order(self) -> str:
        """The order of mini-batches that is expected to heat less, of epochs and symmetric
        sweeps.
        """
        heating_by_order = {}
        walkers = self.sim.walkers
        spectra = dict[bytes, Any]()
        for order in ("epochs", "symmetric"):
            auxiliary = tuple(value[:1] for value in walkers.auxiliary)
            request = self._request(batch_sampling=order)
            request.potential.spectra = spectra
            heating_by_order[order] = expected_heating(request, walkers.position[0], auxiliary)
            spectra = request.potential.spectra
        known = {
            order: heating["mean"]
            for order, heating in heating_by_order.items()
            if "mean" in heating
        }
        best = (
            min(known, key=lambda order: known[order])
            if len(known) == len(heating_by_order)
            else "epochs"
        )
        self._change(batch_sampling=best)
        return f", in {'shuffled epochs' if best == 'epochs' else 'symmetric sweeps'}"

    def _descend(self, steps: int) -> list[str]:
        """Takes walkers that begin far above a density of one's own down, and says so."""
        sim = self.sim
        options = self.options
        if (
            sim.system.has_data
            or sim.walkers.momentum is not None
            or "starts" in self.objects
            or not steps
        ):
            return []
        position = sim.walkers.position
        potential = self._checked().potential
        least = FAR * options.kT * position.shape[1]
        end, fall = descended(potential, position, (), steps, options.execution, least)
        far = fall > least
        if not far.any():
            return []
        far = fall > least * (_LAGS / FAR)
        sim.walkers.position = np.where(far[:, None], end, position)
        sim.walkers.sentence = None
        return [
            f"starting point far from the typical set: {steps:,} descent steps lowered U by "
            f"{fall.max():.3g}; sampling starts there (sampler)"
        ]

    def _fit(self) -> None:
        """Takes walkers to minima of U, the last quarter of the steps at a tenth of the rate, in a
        quarter of the time that compiling leaves of `max_time` at most.
        """
        sim = self.sim
        options = self.options
        left_out = {
            *OPTIONS_OF_FILES,
            "num_steps",
            "num_burnin_steps",
            "stages",
            "call",
            "full_every",
        }
        objects = {
            name: value
            for name, value in self.objects.items()
            if name not in ("callbacks", "starts")
        }
        fit_options = options.values_of((options.explicit & {*options_of(OPTIMIZE)}) - left_out)
        first = max(1, 3 * options.fit_steps // 4)
        method = make_optimizer(
            objects.get("optimizer", options.optimizer), options, sim.system.flat.shapes
        )
        rate = options.learning_rate if method.learning_rate is None else method.learning_rate
        rates = [(first, rate), (options.fit_steps - first, rate / 10)]
        stages = [{"num_steps": steps, "learning_rate": rate} for steps, rate in rates if steps]
        fit_options |= (
            {"num_steps": options.fit_steps}
            if method.scheduled or method.full_batch
            else {"stages": stages}
        )
        if sim.system.has_data and options.batch_size is None and not method.full_batch:
            fit_options["batch_size"] = min(FIT_BATCH_SIZE, sim.system.dataset.num_examples)
        if options.max_time is not None:
            fit_options["max_time"] = options.max_time
        chosen = sim.calls.numbered("fit", make_options(fit_options))
        chosen = make_options(chosen, num_steps=check_num_steps(chosen))
        limits = replace(self.limits, share=FIT_SHARE)
        request = make_request("fit", chosen, objects, sim.system, limits)
        launch_finite(request, sim.walkers, sim.calls, brief=True).passing_on()
        walkers = sim.walkers
        walkers.fits = Fits(np.array(walkers.position), walkers.auxiliary)
