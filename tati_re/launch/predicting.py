"""A run for prediction: the model is chosen on held-out rows and fitted several times, before a
chain starts from each fit.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.launch.batch_members import MEMBERS
from tati_re.launch.batch_setup import BatchSetup, Trial
from tati_re.launch.candidates import Candidate, candidates_of, exceeds, widths_of
from tati_re.launch.fit_maker import ACTIVATION, FIT_BATCH_SIZE, FitMaker, Predicted
from tati_re.launch.goal import PREDICT
from tati_re.launch.member_fits import (
    FittedMembers,
    can_be_fitted,
    held_out_rows,
    leave_at,
)
from tati_re.launch.request import BATCH_SIZE, is_cheap
from tati_re.launch.short_chains import ShortChains
from tati_re.launch.starts import starting_walkers
from tati_re.launch.time_plan import (
    CANDIDATE_SECONDS,
    LIKELIHOOD_SECONDS,
    TimePlan,
    seconds_of_step,
)
from tati_re.options.make import Options, make_options
from tati_re.system.target import system_of

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
CHOICE_STEPS = 640
FIT_PART = 0.3
"""Steps of the fits of a candidate, and the part of its time that they take at most."""
FEWEST_COMPARED = 3
"""Candidates among which the time is divided; more of them follow where some is left."""
_SECONDS_OF_ONE = 5.0
MEMBER_STEPS = 4_000


@dataclass
class ModelChoice:
    """What was compared, and what was chosen.

    Attributes:
        chosen: The candidate.
        held_out: Rows of the training set that were put aside.
        densities: Mean held-out log density of a row by candidate, in the order of comparison.
        seconds_needed: `max_time` from which on candidates are compared, if it is too short.
    """

    chosen: Candidate
    held_out: np.ndarray
    densities: dict[str, float] = field(default_factory=dict)
    seconds_needed: float | None = None

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
        self._names_walkers = "num_walkers" in options.explicit
        self.maker = FitMaker(sim, options, objects)
        self._trial = Trial()

    @property
    def tried_chains(self) -> bool:
        """Whether chains on mini-batches were tried, and compared with the fits."""
        return bool(self._trial.sentence)

    def made(self) -> tuple[Options, list[str]]:
        """The options with the model that was chosen, and a sentence on each choice."""
        sim = self._sim
        data = sim.system.dataset
        held_out = np.empty(0, np.int64)
        if data.num_examples >= FEWEST_ROWS and can_be_fitted(sim.system):
            held_out = held_out_rows(data, HELD_OUT, self._options.seed)
        choice = self._chosen(held_out)
        self._adopt(choice.chosen)
        sentences = [self._choice_sentence(choice)]
        if len(held_out) and sim.options.walker_start == "fit":
            if self.maker.sees_all_rows():
                sentences.append(self._fit(choice))
            else:
                sentences += self._fit_on_batches(choice)
        sim.walkers.choice = choice.described() | self._trial.described()
        return self._options, sentences

    def _chosen(self, held_out: np.ndarray) -> ModelChoice:
        """The candidate of the best held-out density, an earlier one unless the difference exceeds
        its standard error.
        """
        candidates = candidates_of(
            self._options,
            self._objects,
            self._sim.system.dataset,
            on_batches=not self.maker.sees_all_rows(),
        )
        if (
            self._options.candidates
        ):  # one that cannot be made is refused before the first is fitted
            for candidate in candidates:
                self.maker.system(self.maker.options_with(candidate))
        first = candidates[0]
        first_width = widths_of(self._options, self._objects, first)[0]
        if not len(held_out):
            return ModelChoice(replace(first, width=first_width), held_out)

        listed = [
            replace(candidate, width=width)
            for candidate in candidates
            for width in self._widths_of(candidate)
        ]
        # Widths matter less than likelihoods: those of the default come first.
        listed.sort(key=lambda option: option.width != first_width)
        choice = ModelChoice(listed[0], held_out)
        if len(listed) == 1:
            return choice
        least = self._seconds_of_candidate(candidates)
        planned = self._plan.num_candidates(min(len(listed), FEWEST_COMPARED), least)
        if not planned:
            choice.seconds_needed = self._plan.seconds_to_compare(least)
            return choice
        return self._compare(listed, planned, choice)

    def _seconds_of_candidate(self, candidates: Sequence[Candidate]) -> float:
        """What a candidate has to be given before its density says something, in seconds.

        A list of the user's own is compared as long as there is any time.
        """
        several = len({candidate.loss for candidate in candidates}) > 1
        by_chains = self.maker.sees_all_rows()
        if several and by_chains and not self._options.candidates:
            return LIKELIHOOD_SECONDS
        return CANDIDATE_SECONDS

    def _widths_of(self, candidate: Candidate) -> tuple[float | None, ...]:
        """The prior widths to compare for a candidate: one where short fits would compare them.

        A prior acts on a fit when it begins to follow single rows, late.
        """
        widths = widths_of(self._options, self._objects, candidate)
        return widths if self.maker.sees_all_rows() else widths[:1]

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
            density = self._compared(candidate, choice.held_out, began + left)
            took = min(time.monotonic() - began, _SECONDS_OF_ONE)
            if density is None:
                continue
            choice.densities[str(candidate)] = float(density.mean())
            if best is None or exceeds(density, best):
                best = density
                choice.chosen = candidate
        return choice

    def _compared(
        self, candidate: Candidate, held_out: np.ndarray, deadline: float
    ) -> np.ndarray | None:
        """Log density of the held-out rows under a candidate, from short chains that begin at short
        fits, or from these where chains would see mini-batches or have no time; None where the
        candidate does not fit the labels.
        """
        options = self.maker.options_with(candidate)
        try:
            system = self.maker.held_out_system(self.maker.system(options), held_out)
            fits = self.maker.fits(system, options, FEW_MEMBERS, xla=False)
        except InputError:
            # A list of the user's own is right or wrong as a whole.
            if self._options.candidates:
                raise
            return None
        part = FIT_PART if self.maker.sees_all_rows() else 1.0
        share = part * max(0.0, deadline - time.monotonic())
        first = time.monotonic() + share / 2
        start = self.maker.start(system, options, FEW_MEMBERS, held_out, first)
        fitted = fits.run(start, CHOICE_STEPS, first + share / 2)
        if system.flat.auxiliary or not self.maker.sees_all_rows():
            return fitted.ensemble
        chains = ShortChains(system, self.maker.whole(system, options, FEW_MEMBERS), xla=False)
        density = chains.run(fitted.positions, deadline, options.seed)
        return fitted.ensemble if density is None else density

    def _adopt(self, chosen: Candidate) -> None:
        """Gives the Simulation the model that was chosen, with its members newly drawn."""
        sim = self._sim
        values = self.maker.options_with(chosen).values_of(chosen.options())
        values["goal"] = PREDICT
        if chosen.hidden is not None and "activation" not in self._options.explicit:
            values["activation"] = ACTIVATION
        if not self._names_walkers:
            values["num_walkers"] = NUM_MEMBERS if self.maker.sees_all_rows() else MEMBERS
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
        system = self.maker.held_out_system(sim.system, choice.held_out)
        members = sim.options.num_walkers
        plan = self._plan
        samples = plan.has_chains(fits=True) or "num_steps" in self._options.explicit
        share = plan.fit_seconds(samples)
        fits = self.maker.fits(
            system, self._options, members, xla=self.maker.has_xla(system, share)
        )
        steps = self.maker.num_steps(self._options, MEMBER_STEPS)
        now = time.monotonic()
        start = self.maker.start(system, self._options, members, choice.held_out, now + share / 3)
        fitted = fits.run(start, steps, now + share)
        fits_alone = not self._has_chains(fitted, members)
        leave_at(sim.walkers, fitted, choice.held_out, fits_alone)
        member_density = float(fitted.densities.mean())
        ensemble = float(fitted.ensemble.mean())
        return (
            f"Members: {members} fits of up to {fitted.num_steps:,} steps (num_walkers, fit_steps); held-out log "
            f"density of a row {member_density:.3f} for one fit, {ensemble:.3f} for their ensemble."
        )

    def _fit_on_batches(self, choice: ModelChoice) -> list[str]:
        """Fits the members on mini-batches, and says what was found."""
        setup = BatchSetup(
            sim=self._sim,
            maker=self.maker,
            options=self._options,
            objects=self._objects,
            plan=self._plan,
            names_walkers=self._names_walkers,
        )
        sentences = setup.fitted(choice.held_out)
        self._options = setup.options
        self._trial = setup.trial
        return sentences

    def _has_chains(self, fitted: FittedMembers, members: int) -> bool:
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
        return self._plan.has_chains(seconds_of_step(fitted.step_seconds, batch, seen))

    def _choice_sentence(self, choice: ModelChoice) -> str:
        """What was chosen, and among what."""
        options = self._options
        model = "the model as given" if options.model or "model" in self._objects else ""
        units = "-".join(map(str, options.hidden)) or "none"
        model = model or f"hidden layers {units} of {options.activation} units"
        loss = options.loss or "the loss that follows from the labels"
        prior = f", prior width {choice.chosen.width:g}" if choice.chosen.width else ""
        chosen = f"{loss}, {model}{prior} (candidates)"
        if choice.seconds_needed is not None:
            needed = f"{choice.seconds_needed:.0f} s"
            return f"{chosen}. Candidates are compared if max_time is at least {needed}."
        if not choice.densities:
            return f"{chosen}."
        listed = ", ".join(f"{name} {value:.3f}" for name, value in choice.densities.items())
        rows = len(choice.held_out)
        return f"{chosen}. Log density of {rows:,} held-out training rows: {listed}."
