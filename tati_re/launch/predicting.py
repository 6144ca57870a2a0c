"""A run for prediction: the model is chosen on held-out rows and fitted several times, before a
chain starts from each fit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tati_re.core.errors import InputError
from tati_re.launch.batch_chains import ORDER, SAMPLER, BatchChains, BatchSteps, steps_at
from tati_re.launch.batch_members import (
    MEMBERS,
    TRIAL_SHARE,
    WARM_UP,
    Rounds,
    Schedule,
    is_worth_more,
    learning_rate_of,
    members_at_once,
    steps_of_fit,
)
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
    can_be_fitted,
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
_SECONDS_OF_TRIAL = 15.0
"""Seconds below which a trial of chains on mini-batches tells nothing."""
_PASSES_OF_END = 3.0
"""Predictions of the test part after the last fit, for the rows of the comparison."""
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


@dataclass(frozen=True)
class Trial:
    """Short chains on mini-batches from the fits, and what they told.

    Attributes:
        sentence: What they told, for the screen; empty if there was no trial.
        steps: Steps of each chain.
        density: Mean held-out log density of a row, nan if they drew nothing.
    """

    sentence: str = ""
    steps: int = 0
    density: float = math.nan

    def described(self) -> dict[str, Any]:
        """The entries of the manifest."""
        if not self.steps:
            return {}
        return {"trial_steps": self.steps, "trial_density": self.density}


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
        sentences = [self._said_of_choice(choice)]
        if len(held_out) and sim.options.walker_start == "fit":
            if self._sees_all_rows():
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
            on_batches=not self._sees_all_rows(),
        )
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
            for width in self._widths_of(candidate)
        ]
        # Widths matter less than likelihoods: those of the default come first.
        listed.sort(key=lambda one: one.width != first_width)
        choice = ModelChoice(listed[0], held_out)
        if len(listed) == 1:
            return choice
        planned = self._plan.num_candidates(min(len(listed), FEWEST_COMPARED))
        return self._compare(listed, planned, choice) if planned else choice

    def _widths_of(self, candidate: Candidate) -> tuple[float | None, ...]:
        """The prior widths to compare for a candidate: one where short fits would compare them.

        A prior acts on a fit when it begins to follow single rows, late.
        """
        widths = widths_of(self._options, self._objects, candidate)
        return widths if self._sees_all_rows() else widths[:1]

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
        if system.flat.auxiliary or not self._sees_all_rows():
            return found.ensemble
        chains = ShortChains(system, self._whole(system, options), xla=False)
        density = chains.run(found.positions, deadline, options.seed)
        return found.ensemble if density is None else density

    def _sees_all_rows(self) -> bool:
        """Whether each step of a chain is to see all rows, as far as the options tell."""
        return self._options.batch_size is None and self._is_cheap

    @cached_property
    def _is_cheap(self) -> bool:
        """Whether steps that see all rows are cheap, of the smallest network that is compared."""
        system = self._sim.system
        compared = candidates_of(self._options, self._objects, system.dataset)
        return is_cheap(self._system(self._options_with(compared[0])))

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
        """The system whose test part are the held-out rows, with the noise prior of all rows.

        Of standardized targets that is the same prior for all data, seeds and folds: their fits
        share compiled programs.
        """
        apart = system.of(without_rows(system.dataset, held_out))
        return replace(apart, spread_of=system.examples)

    def _fits(self, system: System, options: Options, members: int, xla: bool) -> MemberFits:
        """Fits of so many members on mini-batches."""
        sees_all = self._sees_all_rows()
        size = FIT_BATCH_SIZE if sees_all else options.batch_size or BATCH_SIZE
        potential = self._on_batches(system, options, members, size, xla, training=True)
        if "learning_rate" in options.explicit:
            rate = options.learning_rate
        else:
            rate = _LEARNING_RATE if sees_all else learning_rate_of(system.flat.shapes)
        return MemberFits(system, potential, rate, xla, warm_up=0.0 if sees_all else WARM_UP)

    def _on_batches(
        self,
        system: System,
        options: Options,
        members: int,
        size: int,
        xla: bool,
        training: bool = False,
        **values: Any,
    ) -> ModelPotential:
        """The potential of some members on mini-batches of at most so many rows; layers act as in
        training if asked.
        """
        size = min(size, system.dataset.num_examples)
        chosen = make_options(options, batch_size=size, **values).settled(
            execution="xla" if xla else "graph", num_walkers=members
        )
        return system.potential(
            chosen, self._objects, training=training, copies=members, fitting=training
        )

    def _has_xla(self, system: System, seconds: float) -> bool:
        """Whether compiling fits of so many seconds with XLA pays."""
        pays = seconds >= SECONDS_OF_XLA and system.execution(self._options) == "xla"
        return pays and system.flat.xla_safe

    def _start(
        self,
        system: System,
        options: Options,
        members: int,
        held_out: np.ndarray,
        deadline: float,
        before: int = 0,
    ) -> np.ndarray:
        """Members newly drawn, shape (members, parameters); those that predict a spread have fitted
        their mean already. So many other members were drawn `before` them.
        """
        flat = system.flat
        drawn = fresh_starts(flat.tensor_names, flat.shapes, before + members, options.seed)
        start = with_extra_starts(flat, drawn[before:].astype(flat.dtype))
        after = system.potential(options, self._objects, copies=members).loss
        if not (predicts_spread(after) and self._is_built(options)):
            return start
        plain = make_options(options, loss=MEAN)
        of_mean = self._apart(self._system(plain), held_out)
        if not of_mean.flat.samples_noise:  # targets that do not vary
            return start
        fits = self._fits(of_mean, plain, members, xla=False)
        begun = self._start(of_mean, plain, members, held_out, deadline, before)
        found = fits.run(begun, MEAN_STEPS, deadline)
        return with_spread(
            found.positions,
            flat.shapes,
            units_of(of_mean, fits.loss),
            units_of(system, after),
            of_mean.flat.num_extra,
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
        if not self._names_walkers:
            values["num_walkers"] = NUM_MEMBERS if self._sees_all_rows() else MEMBERS
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
        fits = self._fits(system, self._options, members, xla=self._has_xla(system, share))
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
        walkers.auxiliary = found.auxiliary
        walkers.fits = Fits(
            positions=walkers.position.copy(),
            auxiliary=found.auxiliary,
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

    def _fit_on_batches(self, choice: ModelChoice) -> list[str]:
        """Fits members in rounds while there is time, unless chains from the first round predict
        better; says what was found.
        """
        sim = self._sim
        system = self._apart(sim.system, choice.held_out)
        names_chains = self._names_chains()
        seconds = self._plan.fit_seconds(with_chains=names_chains)
        members = self._members_at_once(system, seconds)
        fits = self._fits(system, self._options, members, xla=self._has_xla(system, seconds))

        rounds = Rounds()
        took = self._round(rounds, fits, choice, seconds)
        has_chains = names_chains
        if names_chains:
            self._settle_steps(system, rounds)
        elif self._has_trial():
            has_chains = self._tried(system, rounds)
        if not (self._names_walkers or has_chains):
            self._add_rounds(rounds, fits, choice, took)
            rounds = rounds.best()

        self._keep(rounds, choice, has_chains)
        said = [self._said_of_rounds(rounds), self._trial.sentence]
        return [sentence for sentence in said if sentence]

    def _add_rounds(
        self, rounds: Rounds, fits: MemberFits, choice: ModelChoice, took: float
    ) -> None:
        """Fits more rounds of members, as long as they improve the ensemble and there is time.

        Args:
            rounds: The first round, to which the others are added.
            fits: The fits, compiled.
            choice: The model and the held-out rows.
            took: Seconds of the first round.
        """
        schedule = Schedule(unit_seconds=took, density=rounds.one)
        while is_worth_more(rounds, fits.num_members):
            left = self._seconds_of_fits(fits, rounds)
            length = schedule.next_length(left)
            if not length:
                break
            self._round(rounds, fits, choice, left, length)
            schedule.note(length, float(rounds.found[-1].densities.mean()))

    def _names_chains(self) -> bool:
        """Whether the user asked for chains: by their steps, or by a sampler."""
        options = self._options
        named = {"num_steps", "sampler", "step_size", "friction"} & options.explicit
        return bool(named or "sampler" in self._objects)

    def _members_at_once(self, system: System, seconds: float) -> int:
        """How many members are fitted side by side."""
        if self._names_walkers:
            return self._options.num_walkers
        if system.flat.vectorizable:  # steps of four members cost little more than those of one
            return MEMBERS
        fits = self._fits(system, self._options, 1, xla=False)
        drawn = fresh_starts(system.flat.tensor_names, system.flat.shapes, 1, self._options.seed)
        start = with_extra_starts(system.flat, drawn.astype(system.flat.dtype))
        epoch = system.dataset.num_examples // fits.batch_size
        return members_at_once(fits.seconds_of_step(start), seconds, max(1, epoch))

    def _round(
        self,
        rounds: Rounds,
        fits: MemberFits,
        choice: ModelChoice,
        seconds: float,
        length: int = 1,
    ) -> float:
        """Fits one more round of members, so many times as long as the first one, in so many
        seconds at most; returns how long it took.
        """
        began = time.monotonic()
        members = fits.num_members
        system = fits.system
        start = self._start(
            system,
            self._options,
            members,
            choice.held_out,
            deadline=began + seconds / 3,
            before=members * len(rounds.found),
        )
        steps = steps_of_fit(system.dataset.num_examples, fits.batch_size)
        if "fit_steps" in self._options.explicit:
            steps = max(FEWEST_STEPS, self._options.fit_steps)
        steps *= length
        rounds.found.append(fits.run(start, steps, began + seconds))
        return time.monotonic() - began

    def _seconds_of_fits(self, fits: MemberFits, rounds: Rounds) -> float:
        """Seconds that are left for another round, without those that the end of the run takes."""
        data = self._sim.system.dataset
        tested = 0 if data.test_inputs is None else len(data.test_inputs)
        share = max(tested, fits.num_held_out) / fits.num_held_out
        of_end = _PASSES_OF_END * share * fits.look_seconds * (len(rounds.found) + 1)
        return self._plan.fit_seconds(with_chains=False) - of_end

    def _has_trial(self) -> bool:
        """Whether there is time for a trial of chains, and for chains after it."""
        seconds = self._plan.seconds
        return self._plan.left >= 3.0 * TRIAL_SHARE * seconds >= 3.0 * _SECONDS_OF_TRIAL

    def _settle_steps(self, system: System, rounds: Rounds) -> BatchSteps | None:
        """Chooses the sampler and its steps on mini-batches, where the user named none of them;
        None where he did, or where the curvature cannot be measured.
        """
        named = {"sampler", "step_size", "friction"} & self._options.explicit
        if named or "sampler" in self._objects:
            return None
        try:
            steps = self._steps_at(system, rounds)
        except InputError:  # the run tunes its steps
            return None
        self._take_steps(steps, 0)
        return steps

    def _steps_at(self, system: System, rounds: Rounds) -> BatchSteps:
        """The steps that suit the first fit."""
        size = self._options.batch_size or BATCH_SIZE
        potential = self._on_batches(system, self._options, 1, size, xla=False)
        auxiliary = tuple(value[:1] for value in rounds.auxiliary)
        return steps_at(potential, rounds.positions[0], self._options.seed, auxiliary)

    def _take_steps(self, steps: BatchSteps, burnin: int) -> None:
        """Gives the chains of the run their sampler and steps."""
        values: dict[str, Any] = {
            "sampler": SAMPLER,
            "step_size": steps.step_size,
            "friction": steps.friction,
            "batch_size": self._options.batch_size or BATCH_SIZE,
            "batch_sampling": ORDER,
        }
        if burnin:
            values["num_burnin_steps"] = burnin
        kept = {"batch_sampling", "num_burnin_steps"} & self._options.explicit
        values = {name: value for name, value in values.items() if name not in kept}
        self._options = make_options(self._options, **values)

    def _tried(self, system: System, rounds: Rounds) -> bool:
        """Whether short chains from the first fits predict better than these fits; notes the
        trial.
        """
        try:
            steps = self._steps_at(system, rounds)
        except InputError as error:
            self._trial = Trial(f"no chains on mini-batches: {error}")
            return False

        deadline = time.monotonic() + TRIAL_SHARE * self._plan.seconds
        size = self._options.batch_size or BATCH_SIZE
        xla = self._has_xla(system, TRIAL_SHARE * self._plan.seconds)
        potential = self._on_batches(
            system, self._options, len(rounds.positions), size, xla=xla, batch_sampling=ORDER
        )
        chains = BatchChains(system, potential, steps, xla=xla)
        seed = self._options.seed
        density = chains.run(rounds.positions, deadline, seed, rounds.auxiliary)
        if density is None:
            self._trial = Trial("no chains on mini-batches: short ones drew nothing in their time")
            return False

        wins = exceeds(density, rounds.apart)
        drawn = float(density.mean())
        said = (
            f"{'chains from the fits' if wins else 'no chains'}: {chains.num_steps:,} steps of "
            f"{SAMPLER} on mini-batches have a held-out log density of {drawn:.3f} a row, the fits "
            f"{float(rounds.apart.mean()):.3f}"
        )
        if wins:
            self._take_steps(steps, max(1, chains.num_steps // 2))
        else:
            said += "; the time that is left goes into more fits"
        self._trial = Trial(said, chains.num_steps, drawn)
        return wins

    def _keep(self, rounds: Rounds, choice: ModelChoice, has_chains: bool) -> None:
        """Leaves the walkers of the Simulation at the members."""
        sim = self._sim
        members = len(rounds.positions)
        self._options = make_options(self._options, num_walkers=members)
        sim.options = make_options(sim.options, num_walkers=members)
        sim.walkers = starting_walkers(sim.options, sim.system.flat)
        walkers = sim.walkers
        walkers.position = rounds.positions.astype(walkers.position.dtype)
        walkers.sentence = None
        walkers.drawn = None
        walkers.auxiliary = rounds.auxiliary
        walkers.fits = Fits(
            positions=walkers.position.copy(),
            auxiliary=rounds.auxiliary,
            held_out=choice.held_out,
            steps=rounds.steps,
            density=rounds.apart,
        )
        walkers.fits_alone = not has_chains

    def _said_of_rounds(self, rounds: Rounds) -> str:
        """How many members were fitted, and how good they are."""
        members = len(rounds.positions)
        count = len(rounds.found)
        parts = "" if count == 1 else f" in {count} rounds"
        return (
            f"Members: {members} fits{parts} of up to {rounds.num_steps:,} steps on mini-batches "
            f"(num_walkers, fit_steps); held-out log density of a row {rounds.one:.3f} for one "
            f"fit, {float(rounds.apart.mean()):.3f} for their ensemble."
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
