"""The comparison of chains from exact equilibrium draws with chains from the usual starts."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tati_re.analysis.equilibrium_starts import LEVEL, LIMIT, StartsCompared, compare_starts
from tati_re.core.backend import tf
from tati_re.core.errors import InputError, SamplingError
from tati_re.core.process.exit_status import FINISHED
from tati_re.launch.automatic_choices import OPTIONS_OF_FILES
from tati_re.launch.calls import Calls
from tati_re.launch.compared_outputs import outputs_to_compare
from tati_re.launch.equilibrium import Equilibrium, equilibrium_of
from tati_re.launch.run import Run
from tati_re.options.make import Options, make_options
from tati_re.prediction.quantities import quantities
from tati_re.runs.run import RunFiles, last_step
from tati_re.system.walkers import Walkers

_LEFT_OUT = (
    *OPTIONS_OF_FILES,
    "stream_predictions",
    "require_certificate",
    "certify",
    "simulate",
    "parameters",
    "parameters_step",
    "call",
)
"""Options of the run itself, which the runs that are compared do without."""
_OBJECTS_LEFT_OUT = ("callbacks", "simulate")
_STREAM = 0x5445


@dataclass(frozen=True)
class EquilibriumStarts:
    """What `certify="teacher"` does at the end of a run.

    Args:
        sim: The simulation.
        walkers: Its walkers before the run.
        given: The options of the call, before anything was chosen.
        chosen: The options of the run.
        objects: Options that are Python objects, by name.
    """

    sim: Any
    walkers: Walkers
    given: Options
    chosen: Options
    objects: Mapping[str, Any]

    def compared(self, run: RunFiles) -> dict[str, Any]:
        """Returns the manifest's entry on how the chains agree.

        Args:
            run: The run, at its last step.
        """
        draws = 0
        try:
            start = equilibrium_of(
                self.sim.system, self.chosen, self.objects, self.chosen.num_walkers
            )
            draws = start.draws
            result = self._compare(run, start)
        except (InputError, SamplingError, tf.errors.OpError) as error:
            # The run itself is complete: its certificate says why nothing was compared.
            result = StartsCompared(why=str(error).splitlines()[0])
        entry = {
            "step": last_step(run, 0),
            "draws": draws,
            "rhat": result.rhat,
            "rhat_of": result.rhat_of,
            "by_chance": result.by_chance,
            "limit": LIMIT,
            "level": LEVEL,
            "why": result.why,
        }
        return {"teacher": entry}

    def _compare(self, run: RunFiles, start: Equilibrium) -> StartsCompared:
        length = self._length_of(run)
        usual: RunFiles = run
        if start.is_twin:
            usual = self._sampled(self.given, start, length, self.walkers)
        auxiliary = tuple(
            np.repeat(value[:1], len(start.positions), axis=0) for value in self.walkers.auxiliary
        )
        dtype = self.walkers.position.dtype
        teacher = Walkers(start.positions.astype(dtype), auxiliary)
        seed = int(np.random.default_rng([self.chosen.seed, _STREAM]).integers(2**31))
        objects = {name: value for name, value in start.objects.items() if name != "starts"}
        at_draws = replace(start, objects=objects)
        from_draws = self._sampled(self.chosen, at_draws, {**length, "seed": seed}, teacher)
        predict = outputs_to_compare(start.system, teacher)
        return compare_starts(quantities(usual, predict), quantities(from_draws, predict))

    def _length_of(self, run: RunFiles) -> dict[str, Any]:
        """Options by which another run has the same length and as many rows."""
        stored = run.manifest.options
        return {
            "until": None,
            "num_steps": last_step(run, 0),
            "record_every": stored.record_every,
            "trajectory_every": stored.trajectory_every,
        }

    def _sampled(
        self, options: Options, start: Equilibrium, changes: Mapping[str, Any], walkers: Walkers
    ) -> Run:
        """A run of the same system, or of its twin, from these walkers."""
        kept = options.explicit - options.derived - {*_LEFT_OUT}
        other = copy.copy(self.sim)
        other.take(start.system)
        other.options = make_options(options.values_of(kept), **changes, verbose=0)
        other.objects = {
            name: value for name, value in start.objects.items() if name not in _OBJECTS_LEFT_OUT
        }
        other.calls = Calls()
        other.walkers = replace(walkers, position=walkers.position.copy())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run: Run = other.sample()
        if run.exit_status != FINISHED:
            raise InputError("A run that is compared did not reach its last step.")
        return run
