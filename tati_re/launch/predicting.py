"""A run for prediction: the model is chosen on held-out rows and fitted several times, before a
chain starts from each fit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from tati_re.core.errors import InputError
from tati_re.launch.candidates import (
    Candidate,
    candidates_of,
    widths_of,
)
from tati_re.launch.goal import PREDICT
from tati_re.launch.mean_first import MEAN, predicts_spread, units_of, with_spread
from tati_re.launch.member_fits import (
    FEWEST_STEPS,
    FittedMembers,
    MemberFits,
    held_out_rows,
    without_rows,
)
from tati_re.launch.request import BATCH_SIZE, is_cheap
from tati_re.launch.short_chains import ShortChains
from tati_re.launch.starts import fresh_starts, starting_walkers
from tati_re.launch.time_plan import TimePlan, seconds_of_step
from tati_re.options.make import Options, make_options
from tati_re.posterior.noise_level import with_extra_starts
from tati_re.posterior.potential import ModelPotential
from tati_re.runs.fits import Fits
from tati_re.system.system import System
from tati_re.system.target import system_of
from tati_re.system.walkers import Walkers

NUM_MEMBERS = 8
FEW_MEMBERS = 4
"""Fits of each candidate that is compared."""
HELD_OUT = 0.2
"""Part of the training rows on which candidates are compared and fits are stopped."""
FEWEST_ROWS = 40
"""Training rows below which nothing is held out."""
UNTIL = "gain<0.005"
TARGET_BIAS = 0.36
"""Of MCLMC, an energy error of 0.1 per parameter and step, as of the preset MILE: predictions bear
a wider bias than parameters do.
"""
RECORD_EVERY = 4
ACTIVATION = "tanh"
FIT_BATCH_SIZE = 100
CHOICE_STEPS = 640
MEAN_STEPS = 960
SECONDS_OF_XLA = 8.0
"""Seconds of the fits of the members above which compiling them with XLA pays."""
FIT_PART = 0.3
"""Steps of the fits of a candidate, of a mean before its spread, and the part of its time that they take at most."""
FEWEST_COMPARED = 3
"""Candidates among which the time is divided; more of them follow where some is left."""
_SECONDS_OF_ONE = 5.0
MEMBER_STEPS = 4_000
_LEARNING_RATE = 0.01


class Predicted(Protocol):
    """What of a Simulation a run for prediction reads and changes."""

    options: Options
    objects: dict[str, Any]
    walkers: Walkers
    system: System

    def take(self, system: System) -> None: ...


@dataclass
class ModelChoice:
    """What was compared, and what was chosen.

    Attributes:
        chosen: The candidate.
        held_out: Rows of the training part that were put aside.
        densities: Mean held-out log density of a row by candidate, in the order of comparison.
    """

    chosen: Candidate
    held_out: np.ndarray
    densities: dict[str, float] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """The entry of the manifest."""
        return {
            "chosen": str(self.chosen),
            "held_out": len(self.held_out),
            "candidates": list(self.densities),
            "densities": list(self.densities.values()),
        }


class PredictionSetup:
    """Chooses the model of a run, and fits its members; the Simulation has both afterwards.

    Args:
        sim: The Simulation, whose walkers nobody has placed.
        options: The options of the call.
        objects: What was given as objects in Python.
        plan: The time of the run.
    """

    def __init__(
        self, sim: Predicted, options: Options, objects: Mapping[str, Any], plan: TimePlan
    ) -> None:
        self._sim = sim
        self._options = options
        self._objects = objects
        self._plan = plan

    def made(self) -> tuple[Options, list[str]]:
        """The options with the model that was chosen, and a sentence on each choice."""
        sim = self._sim
        data = sim.system.dataset
        held_out = np.empty(0, np.int64)
        if data.num_examples >= FEWEST_ROWS and _can_be_fitted(sim.system):
            held_out = held_out_rows(data, HELD_OUT, self._options.seed)
        choice = self._chosen(held_out)
        self._adopt(choice.chosen)
        sentences = [self._said_of_choice(choice)]
        if len(held_out) and sim.options.walker_start == "fit":
            sentences.append(self._fit(choice))
        sim.walkers.choice = choice.described()
        return self._options, sentences

    def _chosen(self, held_out: np.ndarray) -> ModelChoice:
        """The candidate of the best held-out density, an earlier one unless the difference exceeds
        its standard error.
        """
        candidates = candidates_of(self._options, self._objects, self._sim.system.dataset)
        if (
            self._options.candidates
        ):  # one that cannot be made is refused before the first is fitted
            for candidate in candidates:
                self._system(self._options_with(candidate))
        first = candidates[0]
        first_width = widths_of(self._options, self._objects, first)[0]
        if not len(held_out):
            return ModelChoice(replace(first, width=first_width), held_out)

        listed = [
            replace(candidate, width=width)
            for candidate in candidates
            for width in widths_of(self._options, self._objects, candidate)
        ]
        # Widths matter less than likelihoods: those of the default come first.
        listed.sort(key=lambda one: one.width != first_width)
        choice = ModelChoice(listed[0], held_out)
        planned = self._plan.num_candidates(min(len(listed), FEWEST_COMPARED))
        return self._compare(listed, planned, choice) if planned else choice

    def _compare(
        self, candidates: Sequence[Candidate], planned: int, choice: ModelChoice
    ) -> ModelChoice:
        """The choice after as many candidates as there is time for, the first ones first.

        Args:
            candidates: What is compared, in this order.
            planned: Candidates among which the time is divided; more follow if some is left.
            choice: The choice so far, which this changes.
        """
        deadline = self._plan.choice_deadline
        best: np.ndarray | None = None
        took = 0.0
        for number, candidate in enumerate(candidates):
            began = time.monotonic()
            if number and began + took > deadline:
                break
            left = max(0.0, deadline - began) / max(1, planned - number)
            found = self._compared(candidate, choice.held_out, began + left)
            took = min(time.monotonic() - began, _SECONDS_OF_ONE)
            if found is None:
                continue
            choice.densities[str(candidate)] = float(found.mean())
            if best is None or exceeds(found, best):
                best = found
                choice.chosen = candidate
        return choice

    def _compared(
        self, candidate: Candidate, held_out: np.ndarray, deadline: float
    ) -> np.ndarray | None:
        """Log density of the held-out rows under a candidate, from short chains that begin at short
        fits, or from these where chains would see mini-batches or have no time; None where the
        candidate does not fit the labels.
        """
        options = self._options_with(candidate)
        try:
            system = self._apart(self._system(options), held_out)
            fits = self._fits(system, options, FEW_MEMBERS, xla=False)
        except InputError:
            # A list of the user's own is right or wrong as a whole.
            if self._options.candidates:
                raise
            return None
        part = FIT_PART if self._sees_all_rows() else 1.0
        share = part * max(0.0, deadline - time.monotonic())
        first = time.monotonic() + share / 2
        start = self._start(system, options, FEW_MEMBERS, held_out, first)
        found = fits.run(start, CHOICE_STEPS, first + share / 2)
        if not self._sees_all_rows():
            return found.ensemble
        chains = ShortChains(system, self._whole(system, options), xla=False)
        density = chains.run(found.positions, deadline, options.seed)
        return found.ensemble if density is None else density

    def _sees_all_rows(self) -> bool:
        """Whether each step of a chain is to see all rows, as far as the options tell."""
        return self._options.batch_size is None and is_cheap(self._sim.system)

    def _whole(self, system: System, options: Options) -> ModelPotential:
        """The potential of a few chains on all rows but the held-out ones."""
        chosen = make_options(options, batch_size=None).settled(
            execution="graph", num_walkers=FEW_MEMBERS
        )
        return system.potential(chosen, self._objects, copies=FEW_MEMBERS)

    def _options_with(self, candidate: Candidate) -> Options:
        """The options of a run of a candidate."""
        values = candidate.options()
        if candidate.hidden is not None and "activation" not in self._options.explicit:
            values["activation"] = ACTIVATION
        return make_options(self._options, **values)

    def _system(self, options: Options) -> System:
        """The system of a candidate, of the data that the Simulation has read."""
        data = replace(self._sim.system.dataset, preparation=None)
        return system_of(options, {**self._objects, "data": data})

    @staticmethod
    def _apart(system: System, held_out: np.ndarray) -> System:
        """The system whose test part are the held-out rows."""
        return system.of(without_rows(system.dataset, held_out))

    def _fits(self, system: System, options: Options, members: int, xla: bool) -> MemberFits:
        size = min(FIT_BATCH_SIZE, system.dataset.num_examples)
        execution = "xla" if xla else "graph"
        chosen = make_options(options, batch_size=size).settled(
            execution=execution, num_walkers=members
        )
        potential = system.potential(chosen, self._objects, copies=members)
        rate = options.learning_rate if "learning_rate" in options.explicit else _LEARNING_RATE
        return MemberFits(system, potential, rate, xla)

    def _start(
        self, system: System, options: Options, members: int, held_out: np.ndarray, deadline: float
    ) -> np.ndarray:
        """Members newly drawn, shape (members, parameters); those that predict a spread have fitted
        their mean already.
        """
        flat = system.flat
        drawn = fresh_starts(flat.tensor_names, flat.shapes, members, options.seed)
        start = with_extra_starts(flat, drawn.astype(flat.dtype))
        after = system.potential(options, self._objects, copies=members).loss
        if not (predicts_spread(after) and self._is_built(options)):
            return start
        plain = make_options(options, loss=MEAN)
        before = self._apart(self._system(plain), held_out)
        if not before.flat.samples_noise:  # targets that do not vary
            return start
        fits = self._fits(before, plain, members, xla=False)
        begun = self._start(before, plain, members, held_out, deadline)
        found = fits.run(begun, MEAN_STEPS, deadline)
        return with_spread(
            found.positions,
            flat.shapes,
            units_of(before, fits.loss),
            units_of(system, after),
            before.flat.num_extra,
        )

    def _is_built(self, options: Options) -> bool:
        """Whether the network is one of dense layers with biases, whose noise can be sampled."""
        given = options.model or "model" in self._objects or "loss" in self._objects
        noise = "noise_std" in options.explicit
        return bool(options.hidden) and options.use_bias and not (given or noise)

    def _adopt(self, chosen: Candidate) -> None:
        """Gives the Simulation the model that was chosen, with its members newly drawn."""
        sim = self._sim
        values = self._options_with(chosen).values_of(chosen.options())
        values["goal"] = PREDICT
        if chosen.hidden is not None and "activation" not in self._options.explicit:
            values["activation"] = ACTIVATION
        if "num_walkers" not in self._options.explicit:
            values["num_walkers"] = NUM_MEMBERS
        if "walker_start" not in self._options.explicit:
            values["walker_start"] = "fit"
        self._options = make_options(self._options, **values)
        sim.options = make_options(sim.options, **values)
        if {"loss", "hidden"} & {*values}:
            sim.take(system_of(sim.options, sim.objects))
        sim.walkers = starting_walkers(sim.options, sim.system.flat)

    def _fit(self, choice: ModelChoice) -> str:
        """Fits the members, each until its held-out density is best, and says how good they are."""
        sim = self._sim
        system = self._apart(sim.system, choice.held_out)
        members = sim.options.num_walkers
        plan = self._plan
        samples = plan.has_chains(fits=True) or "num_steps" in self._options.explicit
        share = plan.fit_seconds(samples)
        is_long = share >= SECONDS_OF_XLA
        fits = self._fits(system, self._options, members, xla=system.flat.xla_safe and is_long)
        steps = MEMBER_STEPS
        if "fit_steps" in self._options.explicit:
            steps = max(FEWEST_STEPS, self._options.fit_steps)
        now = time.monotonic()
        start = self._start(system, self._options, members, choice.held_out, now + share / 3)
        found = fits.run(start, steps, now + share)
        walkers = sim.walkers
        walkers.position = found.positions.astype(walkers.position.dtype)
        walkers.sentence = None
        walkers.drawn = None
        walkers.fits = Fits(
            positions=walkers.position.copy(),
            held_out=choice.held_out,
            steps=found.steps,
            density=found.apart,
        )
        walkers.fits_alone = not self._has_chains(found, members)
        one = float(found.densities.mean())
        ensemble = float(found.ensemble.mean())
        return (
            f"Members: {members} fits of up to {found.num_steps:,} steps (num_walkers, fit_steps); held-out log "
            f"density of a row {one:.3f} for one fit, {ensemble:.3f} for their ensemble."
        )

    def _has_chains(self, found: FittedMembers, members: int) -> bool:
        """Whether there is time for chains after the fits, as far as steps of the fits tell."""
        if "num_steps" in self._options.explicit:
            return True
        count = self._sim.system.dataset.num_examples
        batch = min(FIT_BATCH_SIZE, count)
        seen = count
        if self._options.batch_size is not None:
            seen = self._options.batch_size
        elif not is_cheap(self._sim.system):
            seen = BATCH_SIZE
        return self._plan.has_chains(seconds_of_step(found.step_seconds, batch, seen))

    def _said_of_choice(self, choice: ModelChoice) -> str:
        """What was chosen, and among what."""
        options = self._options
        model = "the model as given" if options.model or "model" in self._objects else ""
        units = "-".join(map(str, options.hidden)) or "none"
        model = model or f"hidden layers {units} of {options.activation} units"
        loss = options.loss or "the loss that follows from the labels"
        prior = f", prior width {choice.chosen.width:g}" if choice.chosen.width else ""
        said = f"{loss}, {model}{prior} (candidates)"
        if not choice.densities:
            return f"{said}."
        listed = ", ".join(f"{name} {value:.3f}" for name, value in choice.densities.items())
        rows = len(choice.held_out)
        return f"{said}. Log density of {rows:,} held-out training rows: {listed}."


def exceeds(density: np.ndarray, other: np.ndarray) -> bool:
    """Whether a mean density is above another one by more than the standard error of the
    difference.

    Args:
        density: Log density of each row, shape (rows,).
        other: The same rows under the other candidate.
    """
    if not (np.isfinite(density).all() and np.isfinite(other).all()):
        return bool(np.isfinite(density).all() and not np.isfinite(other).all())
    difference = density - other
    if len(difference) < 2:
        return bool(difference.mean() > 0)
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return bool(difference.mean() > error)


def _can_be_fitted(system: System) -> bool:
    """Whether members can be fitted apart: no layer acts otherwise in training or keeps state, and
    the inputs are in memory.
    """
    flat = system.flat
    return not (flat.auxiliary or flat.has_training_state or system.streamed)
