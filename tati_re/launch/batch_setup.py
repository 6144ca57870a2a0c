"""Members of a run for prediction on many rows: rounds of fits, and a trial of chains from them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.launch.batch_chains import ORDER, SAMPLER, BatchChains, BatchSteps, steps_at
from tati_re.launch.batch_members import (
    MEMBERS,
    TRIAL_SHARE,
    Rounds,
    Schedule,
    is_worth_more,
    members_at_once,
    steps_of_fit,
)
from tati_re.launch.candidates import exceeds
from tati_re.launch.fit_maker import FitMaker, Predicted
from tati_re.launch.member_fits import MemberFits, leave_at
from tati_re.launch.request import BATCH_SIZE
from tati_re.launch.starts import starting_walkers
from tati_re.launch.time_plan import TimePlan
from tati_re.options.make import Options, make_options
from tati_re.system.system import System

_SECONDS_OF_TRIAL = 15.0
"""Seconds below which a trial of chains on mini-batches tells nothing."""
_PASSES_OF_END = 3.0
"""Predictions of the test set after the last fit, for the rows of the comparison."""


@dataclass(frozen=True)
class Trial:
    """Short chains on mini-batches from the fits, and what they told.

    Attributes:
        sentence: What they told, for the screen; empty if there was no trial.
        steps: Steps of each chain.
        density: Mean held-out log density of a row, nan if they drew nothing.
        wins: Whether that is higher than the one of the fits, by more than its standard error.
    """

    sentence: str = ""
    steps: int = 0
    density: float = math.nan
    wins: bool = False

    def described(self) -> dict[str, Any]:
        """The entries of the manifest."""
        if not self.steps:
            return {}
        return {
            "trial_steps": self.steps,
            "trial_density": self.density,
            "trial_won": self.wins,
        }


class BatchSetup:
    """Fits the members of a run whose steps see mini-batches, and tries chains from them.

    Args:
        sim: The Simulation, which has the chosen model; its walkers are left at the members.
        maker: What makes fits.
        options: The options of the call, with the chosen model.
        objects: What was given as objects in Python.
        plan: The time of the run.
        names_walkers: Whether the user gave the number of members.

    Attributes:
        options: The options with what the members and the chains have become.
        trial: The trial of chains; without a sentence if there was none.
    """

    def __init__(
        self,
        sim: Predicted,
        maker: FitMaker,
        options: Options,
        objects: Mapping[str, Any],
        plan: TimePlan,
        names_walkers: bool,
    ) -> None:
        self._sim = sim
        self._maker = maker
        self.options = options
        self._objects = objects
        self._plan = plan
        self._names_walkers = names_walkers
        self.trial = Trial()

    def fitted(self, held_out: np.ndarray) -> list[str]:
        """Fits members in rounds while there is time, unless chains from the first round predict
        better.

        Args:
            held_out: Rows of the training set that no member is fitted to, ascending.

        Returns:
            Sentences on what was found.
        """
        sim = self._sim
        system = self._maker.held_out_system(sim.system, held_out)
        names_chains = self._names_chains()
        seconds = self._plan.fit_seconds(with_chains=names_chains)
        members = self._members_at_once(system, seconds)
        fits = self._maker.fits(
            system, self.options, members, xla=self._maker.has_xla(system, seconds)
        )

        rounds = Rounds()
        took = self._round(rounds, fits, held_out, seconds)
        has_chains = names_chains
        if names_chains:
            self._settle_steps(system, rounds)
        elif self._has_trial():
            has_chains = self._tried(system, rounds)
        if not (self._names_walkers or has_chains):
            self._add_rounds(rounds, fits, held_out, took)
            rounds = rounds.best()

        self._keep(rounds, held_out, has_chains)
        sentences = [self._rounds_sentence(rounds), self.trial.sentence]
        return [sentence for sentence in sentences if sentence]

    def _add_rounds(
        self, rounds: Rounds, fits: MemberFits, held_out: np.ndarray, took: float
    ) -> None:
        """Fits more rounds of members, as long as they improve the ensemble and there is time.

        Args:
            rounds: The first round, to which the others are added.
            fits: The fits, compiled.
            held_out: Rows that no member is fitted to.
            took: Seconds of the first round.
        """
        schedule = Schedule(unit_seconds=took, density=rounds.member_density)
        while is_worth_more(rounds, fits.num_members):
            left = self._seconds_of_fits(fits, rounds)
            length = schedule.next_length(left)
            if not length:
                break
            self._round(rounds, fits, held_out, left, length)
            schedule.note(length, float(rounds.fits[-1].densities.mean()))

    def _names_chains(self) -> bool:
        """Whether the user asked for chains: by their steps, or by a sampler."""
        options = self.options
        named = {"num_steps", "sampler", "step_size", "friction"} & options.explicit
        return bool(named or "sampler" in self._objects)

    def _members_at_once(self, system: System, seconds: float) -> int:
        """How many members are fitted side by side."""
        if self._names_walkers:
            return self.options.num_walkers
        if system.flat.vectorizable:  # steps of four members cost little more than those of one
            return MEMBERS
        fits = self._maker.fits(system, self.options, 1, xla=False)
        start = self._maker.drawn(system, self.options, 1)
        epoch = system.dataset.num_examples // fits.batch_size
        return members_at_once(fits.seconds_of_step(start), seconds, max(1, epoch))

    def _round(
        self,
        rounds: Rounds,
        fits: MemberFits,
        held_out: np.ndarray,
        seconds: float,
        length: int = 1,
    ) -> float:
        """Fits one more round of members, so many times as long as the first one, in so many
        seconds at most; returns how long it took.
        """
        began = time.monotonic()
        members = fits.num_members
        system = fits.system
        start = self._maker.start(
            system,
            self.options,
            members,
            held_out,
            deadline=began + seconds / 3,
            before=members * len(rounds.fits),
        )
        planned_steps = steps_of_fit(system.dataset.num_examples, fits.batch_size)
        steps = self._maker.num_steps(self.options, planned_steps) * length
        rounds.fits.append(fits.run(start, steps, began + seconds))
        return time.monotonic() - began

    def _seconds_of_fits(self, fits: MemberFits, rounds: Rounds) -> float:
        """Seconds that are left for another round, without those that the end of the run takes."""
        data = self._sim.system.dataset
        tested = 0 if data.test_inputs is None else len(data.test_inputs)
        share = max(tested, fits.num_held_out) / fits.num_held_out
        of_end = _PASSES_OF_END * share * fits.look_seconds * (len(rounds.fits) + 1)
        return self._plan.fit_seconds(with_chains=False) - of_end

    def _has_trial(self) -> bool:
        """Whether there is time for a trial of chains, and for chains after it."""
        seconds = self._plan.seconds
        is_long = seconds >= _SECONDS_OF_TRIAL / TRIAL_SHARE
        return is_long and self._plan.left >= 3.0 * TRIAL_SHARE * seconds

    def _settle_steps(self, system: System, rounds: Rounds) -> None:
        """Chooses the sampler and its steps on mini-batches, unless the user named one of them or
        the curvature cannot be measured.
        """
        named = {"sampler", "step_size", "friction"} & self.options.explicit
        if named or "sampler" in self._objects:
            return
        try:
            steps = self._steps_at(system, rounds)
        except InputError:  # the run tunes its steps
            return
        self._take_steps(steps)

    def _steps_at(self, system: System, rounds: Rounds) -> BatchSteps:
        """The steps that suit the first fit."""
        size = self.options.batch_size or BATCH_SIZE
        potential = self._maker.on_batches(system, self.options, 1, size, xla=False)
        auxiliary = tuple(value[:1] for value in rounds.auxiliary)
        return steps_at(potential, rounds.positions[0], self.options.seed, auxiliary)

    def _take_steps(self, steps: BatchSteps, burnin: int = 0) -> None:
        """Gives the chains of the run, or of one that goes on from its fits, sampler and steps."""
        values: dict[str, Any] = {
            "sampler": SAMPLER,
            "step_size": steps.step_size,
            "friction": steps.friction,
            "batch_size": self.options.batch_size or BATCH_SIZE,
            "batch_sampling": ORDER,
        }
        if burnin:
            values["num_burnin_steps"] = burnin
        explicit = {"batch_sampling", "num_burnin_steps"} & self.options.explicit
        values = {name: value for name, value in values.items() if name not in explicit}
        self.options = make_options(self.options, **values)

    def _tried(self, system: System, rounds: Rounds) -> bool:
        """Whether short chains from the first fits predict better than these fits; notes the
        trial.
        """
        try:
            steps = self._steps_at(system, rounds)
        except InputError as error:
            self.trial = Trial(f"no chains on mini-batches: {error}")
            return False

        deadline = time.monotonic() + TRIAL_SHARE * self._plan.seconds
        size = self.options.batch_size or BATCH_SIZE
        xla = self._maker.has_xla(system, TRIAL_SHARE * self._plan.seconds)
        potential = self._maker.on_batches(
            system, self.options, len(rounds.positions), size, xla=xla, batch_sampling=ORDER
        )
        chains = BatchChains(system, potential, steps, xla=xla)
        seed = self.options.seed
        density = chains.run(rounds.positions, deadline, seed, rounds.auxiliary)
        if density is None:
            self.trial = Trial("no chains on mini-batches: short ones drew nothing in their time")
            return False

        wins = exceeds(density, rounds.cross_stopped)
        drawn = float(density.mean())
        sentence = (
            f"{'chains from the fits' if wins else 'no chains'}: {chains.num_steps:,} steps of "
            f"{SAMPLER} on mini-batches have a held-out log density of {drawn:.3f} a row, the fits "
            f"{float(rounds.cross_stopped.mean()):.3f}"
        )
        self._take_steps(steps, max(1, chains.num_steps // 2))
        if not wins:
            sentence += "; the time that is left goes into more fits"
        self.trial = Trial(sentence, chains.num_steps, drawn, wins)
        return wins

    def _keep(self, rounds: Rounds, held_out: np.ndarray, has_chains: bool) -> None:
        """Leaves the walkers of the Simulation at the members."""
        sim = self._sim
        members = len(rounds.positions)
        self.options = make_options(self.options, num_walkers=members)
        sim.options = make_options(sim.options, num_walkers=members)
        sim.walkers = starting_walkers(sim.options, sim.system.flat)
        leave_at(sim.walkers, rounds, held_out, fits_alone=not has_chains)

    def _rounds_sentence(self, rounds: Rounds) -> str:
        """How many members were fitted, and how good they are."""
        members = len(rounds.positions)
        count = len(rounds.fits)
        parts = "" if count == 1 else f" in {count} rounds"
        return (
            f"Members: {members} fits{parts} of up to {rounds.num_steps:,} steps on mini-batches "
            f"(num_walkers, fit_steps); held-out log density of a row {rounds.member_density:.3f} for one "
            f"fit, {float(rounds.cross_stopped.mean()):.3f} for their ensemble."
        )
