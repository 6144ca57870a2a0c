"""Where a run ends by itself (`until`), and how far it has converged at its end."""

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.analysis.averages import average, energy_error, rows_at_target
from tati_re.analysis.convergence import chains_of
from tati_re.analysis.temperature import (
    FEWEST_ROWS,
    has_no_target,
    measured_temperature,
    measured_temperatures,
)
from tati_re.analysis.until import (
    DEFAULTS,
    GAIN,
    MCSE,
    Quantity,
    SeparateModes,
    conditions_of,
    diagnosis,
    goal_text,
    look_after,
    separate_modes,
    steps_left,
    within_chains,
)
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.facets import temperatures_of, tuning_of, turns_of
from tati_re.engine.progress import clock_text
from tati_re.launch.compared_outputs import outputs_to_compare
from tati_re.launch.loo_density import LeaveOneOutDensity
from tati_re.launch.request import Request
from tati_re.options.make import make_options
from tati_re.posterior.evaluator import Evaluator
from tati_re.posterior.target import TargetPotential
from tati_re.prediction.quantities import Predict, convergence_of, quantities
from tati_re.runs import files, manifest
from tati_re.runs.manifest import Manifest
from tati_re.runs.manifest_entries import ConvergenceEntry
from tati_re.runs.positions import Positions
from tati_re.runs.run import RunFiles, last_step, stored_every
from tati_re.runs.selection import burnin_of
from tati_re.samplers.wrappers.metered import BAND, RARELY, wanted_error
from tati_re.system.walkers import Walkers

_FEWEST_ERRORS = 1_000
_CENTERED, _MOST_BYTES = 400, 2**28
"""Stored positions that are looked at about their means at the least, and bytes of the file that is
read for it.
"""
_BAND = 4.5
"""Standard errors in half of a band of chance, with room for the error of the sample size."""
_LINES = 64
_FEWEST_LINES = 12
LONGER, _LONGER_UNTOLD = 20, 4
"""How many times its first bound a run may have whose length nobody gave, told that it takes so
many, and not.
"""


def _is_fixed(stored: Manifest) -> bool:
    """Whether the number of steps was given, at the start or to a resume."""
    return stored.is_explicit_option("num_steps") or stored.until.given


class Ending:
    """The looks at a run on a doubling grid of steps after the burn-in.

    The manifest stores them, so no look is repeated.

    Args:
        request: The request of the run.
        walkers: The walkers of the Simulation.
        folder: The folder of the run.
    """

    def __init__(self, request: Request, walkers: Walkers, folder: Path) -> None:
        self._request = request
        self._walkers = walkers
        self.folder = folder
        turns = turns_of(request.method)
        self._turn = turns.steps if turns.groups > 1 else 1
        self.conditions = conditions_of(request.options.until) if request.samples else []
        limits = {
            condition.quantity: condition.limit
            for condition in self.conditions
            if not condition.name
        }
        self._hat, self._size = (limits.get(name, DEFAULTS[name]) for name in ("rhat", "ess"))
        self.reached = self.begins_anew = False
        self.goal = f"until {request.options.until}" if self.conditions else ""
        self._met_at = self._expected_end = math.inf
        self._modes: SeparateModes | None = None
        self._modes_step = -1
        self._is_told = self._is_stopped = False
        self.trajectory_every = request.trajectory_every

    def next_look(self, step: int, burnin: int) -> int:
        """The step of the next look.

        Args:
            step: A step, not before the end of the burn-in.
            burnin: The last step of the burn-in.
        """
        return burnin + look_after(step - burnin, self._request.record_every, self._turn)

    def missing(self, step: int) -> float:
        """Steps expected from this one to the end of the run; inf if not known."""
        return max(0.0, self._expected_end - step)

    def _expected_end_of(self, stored: Manifest, met_at: float) -> float:
        """The step at which the run is expected to end; inf if not known.

        A run ends where it looks, or at its bound: between looks it goes on, even if its
        conditions hold.

        Args:
            stored: The manifest of the run.
            met_at: The step at which its conditions are expected to hold; inf if not known.
        """
        bound = stored.options.num_steps or self._request.options.num_steps
        if math.isinf(met_at):
            return bound if _is_fixed(stored) else math.inf
        met = math.ceil(met_at)
        look = self.next_look(met - 1, burnin_of(RunFiles(self.folder), None))
        ends_at_bound = met <= bound or _is_fixed(stored)
        return min(look, bound) if ends_at_bound else look

    def is_reached(self, step: int, left: float = math.inf) -> bool:
        """Looks at what the run has stored, and returns whether the run ends.

        The manifest stores the look.

        Args:
            step: The current step, at which the last checkpoint was written.
            left: Number of steps that the time limit leaves. Default: inf.
        """
        stored = manifest.read(self.folder)
        until = stored.until
        looks = [look.table for look in until.looks]
        look = until.look_at(step)
        if look is None:
            numbers = self._with_gain(self.numbers(RunFiles(self.folder)), until.looks)
            look = ConvergenceEntry.of(manifest.plain({"step": step, **numbers}, "until"))
            looks = [*looks, look.table]

        most = self._request.options.num_steps if until.most is None else until.most
        every = self.trajectory_every if until.every is None else until.every
        self.begins_anew = self._is_biased(look, most, left, _is_fixed(stored))
        met = all(condition.met(look.table) for condition in self.conditions)
        self.reached = met and not self.begins_anew
        planned = {"most": most, "every": every, **until.table}
        seen = {
            "reached": self.reached,
            "conditions": list(map(str, self.conditions)),
            "looks": looks,
        }
        self.goal = goal_text(self.conditions, look.table)
        drawn = step - burnin_of(RunFiles(self.folder), None)
        left_of = [steps_left(condition, look.table, drawn) for condition in self.conditions]
        # After shorter steps nothing is known of the draws that will count.
        self._met_at = math.inf if self.begins_anew else step + max(left_of, default=math.inf)
        self._expected_end = self._expected_end_of(stored, self._met_at)
        manifest.note(self.folder, until=planned | seen)
        return self.reached

    def _is_biased(self, look: ConvergenceEntry, most: int, left: float, fixed: bool) -> bool:
        """Whether the steps that the burn-in has found have more bias by now than was asked for, by
        the mean of enough energy errors, and steps are left to draw as much with shorter ones;
        `fixed`: the bound will be no later one.
        """
        request = self._request
        method = self._request.method
        step = look.step
        drawn = step - burnin_of(RunFiles(self.folder), None)
        seen = drawn * request.options.num_walkers / (1 if method.dynamics.meters else RARELY)
        enough = seen >= _FEWEST_ERRORS and drawn <= min(
            (1 if fixed else LONGER) * most - step, left
        )
        is_worst = request.options.target_bias_of == "worst"
        directions = request.potential.num_parameters if is_worst else 1
        target_error = wanted_error(request.options.target_bias, directions)
        biased = (look.eevpd or 0.0) > BAND * target_error
        alone = temperatures_of(method).copies == 1
        return biased and enough and tuning_of(method).finds_end and alone

    def bound(self, step: int) -> int:
        """The last step of a run that has come to its bound, `step`: a later one, up to twenty
        times the first, where nobody gave it and the conditions are told to hold there; where they
        are not, up to four times, for what is told of few draws is rough, or until `max_time` ends
        it. At least a quarter is added to what was drawn, and as much again where nothing is told,
        or of the effective size alone.
        """
        if self.is_reached(step):
            return step
        stored = manifest.read(self.folder)
        until = stored.until
        drawn = step - burnin_of(RunFiles(self.folder), None)
        if drawn <= 0:  # still in the burn-in
            return step
        if not _is_fixed(stored) and self._is_stuck(step):
            self._is_stopped = True
            manifest.note(self.folder, until={**until.table, "stuck_at": step})
            return step
        last = until.looks[-1].table
        left = {str(condition): steps_left(condition, last, drawn) for condition in self.conditions}
        if any(text.startswith("ess") for text in left):
            left |= {
                text: drawn for text in left if text.startswith("rhat") and left[text] == math.inf
            }
        more = max(drawn / 4, *left.values())
        if self.begins_anew:  # at the next look
            more = self.next_look(step, step - drawn) - step
        most = self._request.options.num_steps if until.most is None else until.most
        is_near = step + more <= LONGER * most
        unis_near = (
            step + drawn <= _LONGER_UNTOLD * most or self._request.options.max_time is not None
        )
        if _is_fixed(stored) or not (is_near or unis_near):
            return step
        more = more if is_near else drawn
        bound = step + -(-int(more) // self._turn) * self._turn
        if not stored.is_explicit_option("trajectory_every"):
            # About twice as many positions as before the bound at most.
            every = self.trajectory_every if until.every is None else until.every
            self.trajectory_every = every * 2 ** max(0, math.ceil(math.log2(bound / most / 2)))
        manifest.note(
            self.folder, options={"num_steps": bound, "trajectory_every": self.trajectory_every}
        )
        self._expected_end = self._expected_end_of(manifest.read(self.folder), self._met_at)
        return bound

    def _is_stuck(self, step: int) -> bool:
        """Whether chains sit in different modes at the bound of a run without a time limit."""
        if self._request.options.max_time is not None or self.begins_anew:
            return False
        if self._modes_step != step:  # a resumed run has the numbers of its last look alone
            self._look_for_modes(step)
        return self._modes is not None

    def _look_for_modes(self, step: int, compared: Sequence[Quantity] | None = None) -> None:
        """Notes whether chains sit in different modes at a step, for `news` and `bound`."""
        self._modes_step = step
        self._modes = None
        hats = [condition for condition in self.conditions if condition.quantity == "rhat"]
        if not hats or self._request.options.goal == "predict":
            return
        if compared is None:
            run = RunFiles(self.folder)
            compared = quantities(run, self._predict, most=int(4 * self._size))
        modes = separate_modes(compared)
        if modes is not None and modes.between > hats[0].limit:
            self._modes = modes

    def news(self, step: int, seconds: float) -> str:
        """That chains sit in different modes, once, and when the run ends; else empty.

        Args:
            step: The step of the last look.
            seconds: Seconds of the steps so far.
        """
        if self._modes is None or self._modes_step != step:
            return ""
        if self._is_stopped:
            return f"until not met at step {step:,}; the run ends here, in different modes."
        if self._is_told:
            return ""
        self._is_told = True
        return " ".join(filter(None, [self._modes_sentence(), self._bound_sentence(step, seconds)]))

    def _modes_sentence(self) -> str:
        """That chains sit in different modes, and what helps."""
        assert self._modes is not None
        limit = next(
            condition.limit for condition in self.conditions if condition.quantity == "rhat"
        )
        text = (
            f"The chains sit in different modes: R-hat is {self._modes.between:.3g} between chains and "
            f"{self._modes.within:.3f} within them, and more steps hardly bring it below {limit:g}. "
        )
        options = self._request.options
        is_plain = options.kT == 1.0 and options.num_rungs == 1 and options.potential == "posterior"
        if self._request.system.has_data and is_plain:
            return text + 'goal="predict" predicts with such chains, and ends after 60 seconds.'
        return text + "Temperatures connect modes (num_replicas)."

    def _bound_sentence(self, step: int, seconds: float) -> str:
        """When a run without another limit ends."""
        stored = manifest.read(self.folder)
        if _is_fixed(stored) or self._request.options.max_time is not None:
            return ""
        most = self._request.options.num_steps
        if step >= most:
            return ""
        left = clock_text((most - step) * seconds / max(1, step))
        return f"This run ends at step {most:,}, in about {left}, unless the chains meet."

    def numbers(self, run: RunFiles) -> dict[str, Any]:
        """R-hat, effective sample size and errors of what is stored."""
        mcse = dict[str, float]()
        try:
            compared = quantities(run, self._predict, most=int(4 * self._size))
            self._look_for_modes(last_step(run, 0), compared)
            predicts = self._request.options.goal == "predict"
            alone = list(within_chains(compared)) if predicts else compared
            convergence = convergence_of(run, alone, self._hat)
            if predicts:
                convergence["rhat_between"] = diagnosis(compared, self._hat)["rhat"]
            rows = rows_at_target(run)
            if "eevpd" in rows:
                convergence["eevpd"] = energy_error(rows)
        except InputError:  # no row is at the target yet
            return diagnosis([], self._hat) | {"mcse": mcse}
        weights = chains_of(rows, "weight", -1) if "weight" in rows else None
        for name in (condition.name for condition in self.conditions if condition.quantity == MCSE):
            mcse[name] = float(average(chains_of(rows, name, -1), weights, sizes=False)["error"])
        return convergence | {"mcse": mcse}

    def _with_gain(
        self, entries: dict[str, Any], looks: Sequence[ConvergenceEntry]
    ) -> dict[str, Any]:
        """The numbers of a look with the log density of a row by leave-one-out, and what it gained
        since the look before; nothing where no condition is about it.
        """
        if all(condition.quantity != GAIN for condition in self.conditions):
            return entries
        density = self._leave_one_out()
        before = looks[-1].elpd if looks else math.nan
        return entries | {"elpd": density, GAIN: density - before}

    def _leave_one_out(self) -> float:
        """The mean leave-one-out log density of training rows under the mixture of the chains, in
        the units that the network sees; nan before the first draws.
        """
        try:
            stored = Positions(RunFiles(self.folder)).read()
        except InputError:  # no position is stored yet
            return math.nan
        return self._densities.mean(stored.values, stored.walker)

    @cached_property
    def _densities(self) -> LeaveOneOutDensity:
        return LeaveOneOutDensity(self._request, self._walkers)

    def finish(self, run: RunFiles, step: int, done: bool) -> None:
        """Notes in the manifest how far the run has converged at its last step.

        If fewer positions are stored than draws are asked for, nothing is measured.

        Args:
            run: The run.
            step: The last step.
            done: Whether the run came to its end.
        """
        if self.conditions and done and not self.reached:
            self.is_reached(step)
        stored = run.manifest
        steps = step - burnin_of(run, None)
        positions = steps // (stored_every(run) or steps + 1) * self._walkers.position.shape[0]
        if not self.conditions and positions < self._size:
            return
        look = stored.until.look_at(step)
        convergence = {} if look is None else dict(look.table)
        if look is None:
            convergence = {"step": step, **self._with_gain(self.numbers(run), stored.until.looks)}
        entries: dict[str, Any] = {}
        if self.reached:
            entries["options"] = {"num_steps": step}
        centered = self._centered(run, step, steps)
        share = self._unexplained(run, steps)
        convergence = convergence | ({"unexplained": share} if share else {})
        entries["convergence"] = convergence
        if centered:
            entries["centered"] = centered
        manifest.note(self.folder, **entries)

    def _centered(self, run: RunFiles, last: int, steps: int) -> dict[str, Any]:
        """The configurational temperature of some stored positions, those of each half about the
        means of the other, where the noise of that about 0 hides an error of `target_bias`; nothing
        where this takes a twentieth of what so many steps took. Of n independent positions in d
        dimensions the standard error is sqrt(2/(n d)).
        """
        request = self._request
        walkers = self._walkers
        number = request.potential.num_parameters
        path = files.trajectory_in(self.folder)
        size = request.options.batch_size
        passes = 1
        if size is not None and not request.potential.batches.full:
            passes = -(-request.system.dataset.num_examples // size)
        target_bias = request.options.target_bias
        num_draws = max(_CENTERED, math.ceil(2.0 / number * (_BAND / target_bias) ** 2))
        rows_per_walker = max(FEWEST_ROWS, num_draws // walkers.position.shape[0])
        most = min(rows_per_walker, steps // (20 * passes))
        if (
            path is None
            or path.stat().st_size > _MOST_BYTES
            or most < FEWEST_ROWS
            or request.directions is not None
        ):
            return {}
        if (
            has_no_target(run.manifest) or run.manifest.turn is not None
        ):  # in a game U is another one at each round
            return {}
        rows = rows_at_target(run)
        width = walkers.position.shape[0]
        temperatures = [
            temperature
            for temperature in measured_temperatures(rows, number)
            if temperature.kind == "configurational"
        ]
        if "weight" in rows or not temperatures or temperatures[0].half <= target_bias:
            return {}
        thin = max(1, steps // (most * (stored_every(run) or 1)))
        try:
            blocks = list(Positions(run, thin=thin).blocks())
        except InputError:  # no position is stored yet
            return {}
        step, values = (
            np.concatenate(part)
            for part in zip(*((block.step, block.values) for block in blocks), strict=True)
        )
        if (
            len(step) < FEWEST_ROWS * width
            or (np.unique(step, return_counts=True)[1] != width).any()
        ):
            return {}
        values = (
            values[np.argsort(step, kind="stable")]
            .reshape(-1, width, number)
            .astype(walkers.position.dtype)
        )
        options = make_options(request.options, batch_size=None)
        engine = Evaluator(request.system.potential(options, request.objects, copies=width), False)
        gradients = np.stack(
            [
                engine.energy(positions, engine.batch(0), walkers.auxiliary).gradient
                for positions in values
            ]
        )
        halves = np.array_split(values, 2)
        centers = [np.mean(half, axis=(0, 1), dtype=np.float64) for half in reversed(halves)]
        moved = np.concatenate(
            [half - center for half, center in zip(halves, centers, strict=True)]
        )
        virials = 0.5 * (moved * gradients).sum(axis=2).T
        about_mean = measured_temperature(
            virials, "configurational", number, temperatures[0].target
        )
        return {
            "step": last,
            "num_draws": virials.size,
            "mean": about_mean.mean,
            "lower": about_mean.lower,
            "upper": about_mean.upper,
        }

    def _unexplained(self, run: RunFiles, steps: int) -> float:
        """The share of lines between stored positions that a function's gradient contradicts,
        unless a test saw U.
        """
        request = self._request
        potential = self._request.potential
        most = min(_LINES, steps // 100)
        has_other_potential = run.manifest.turn is not None or request.directions is not None
        if (
            request.method.metropolis
            or has_other_potential
            or not isinstance(potential, TargetPotential)
        ):
            return 0.0
        thin = max(
            1, steps * self._walkers.position.shape[0] // ((most + 1) * (stored_every(run) or 1))
        )
        try:
            values = np.concatenate([block.values for block in Positions(run, thin=thin).blocks()])[
                : most + 1
            ]
            return potential.target.unexplained(values) if len(values) > _FEWEST_LINES else 0.0
        except (
            InputError,
            tf.errors.OpError,
        ):  # none is stored yet, or the function fails between them
            return 0.0

    @cached_property
    def _predict(self) -> Predict | None:
        if self._request.directions is not None:
            return None
        return outputs_to_compare(self._request.system, self._walkers)
