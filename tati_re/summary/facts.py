"""What the certificate, the summary and the report of a run are made of, computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import pandas as pd

from tati_re.analysis.convergence import MINIMUM_DRAWS
from tati_re.analysis.until import (
    DEFAULTS,
    Condition,
    conditions_of,
    diagnosis,
    within_chains,
)
from tati_re.core.errors import InputError
from tati_re.prediction.quantities import convergence_of, quantities
from tati_re.runs.manifest import Manifest, plain
from tati_re.runs.manifest_entries import CenteredEntry, ConvergenceEntry, OptionsEntry
from tati_re.runs.run import RunFiles, last_step
from tati_re.runs.selection import as_run, at_target, burnin_of, is_optimization

TARGET_BIAS = 0.02
NOT_YET = "no draws yet"
STILL = "U never changes"
OF_PREDICTIONS = {"rhat": 1.05, "ess": 100.0}
"""Limits of a run for prediction, within each chain: an average over 100 independent draws is off by
a tenth of the spread of the draws.
"""

Made = TypeVar("Made")


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run, for the checks of its certificate and the lines of its summary.

    Attributes:
        run: The run.
        manifest: Its manifest.
        all_rows: All rows of `run.csv`.
        burnin: Steps that are left out.
    """

    run: RunFiles
    manifest: Manifest
    all_rows: pd.DataFrame
    burnin: int

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The rows at the temperature of the target."""
        return at_target(self.all_rows)

    @cached_property
    def kept(self) -> pd.DataFrame:
        """The rows after the burn-in."""
        return self.rows[self.rows["step"] > self.burnin]

    @cached_property
    def is_optimization(self) -> bool:
        """Whether the run is a fit."""
        return is_optimization(self.manifest, self.all_rows)

    @property
    def options(self) -> OptionsEntry:
        return self.manifest.options

    @property
    def target_bias(self) -> float:
        """The relative error of variances that is allowed."""
        target = self.options.target_bias
        return TARGET_BIAS if target is None else target

    @property
    def bias_is_given(self) -> bool:
        return self.manifest.is_explicit_option("target_bias")

    @property
    def bounds_each_direction(self) -> bool:
        """Whether `target_bias` is about every single direction."""
        return self.options.target_bias_of == "worst"

    @property
    def own_burnin(self) -> int:
        """The burn-in of the run itself."""
        return self.manifest.num_burnin_steps

    @cached_property
    def last_row(self) -> int:
        """The step of the last row; 0 without rows."""
        return 0 if self.all_rows.empty else int(self.all_rows["step"].max())

    @cached_property
    def num_steps(self) -> int:
        """The last step of the run so far."""
        return last_step(self.run, self.last_row)

    def _is_current(self, step: int) -> bool:
        """Whether what was noted at a step is about these rows."""
        if self.own_burnin != self.burnin:
            return False
        return 0 <= step - self.last_row < self.options.record_every

    @cached_property
    def noted_convergence(self) -> ConvergenceEntry | None:
        """The numbers that the run noted at its end, if they are about these rows."""
        noted = self.manifest.convergence
        return noted if noted is not None and self._is_current(noted.step) else None

    @cached_property
    def centered(self) -> CenteredEntry | None:
        """The temperature of positions about their means, if it is about these rows."""
        noted = self.manifest.centered
        return noted if noted is not None and self._is_current(noted.step) else None

    @cached_property
    def conditions(self) -> list[Condition]:
        """The conditions of the option `until`."""
        return conditions_of(self.options.until)

    @cached_property
    def limits(self) -> dict[str, float]:
        """The limits of R-hat and effective size."""
        usual = DEFAULTS | OF_PREDICTIONS if self.predicts else DEFAULTS
        return usual | {
            condition.quantity: condition.limit
            for condition in self.conditions
            if not condition.name
        }

    @property
    def predicts(self) -> bool:
        """Whether the run is one for prediction, whose chains are checked one by one."""
        return self.options.goal == "predict"

    @cached_property
    def not_mixed(self) -> str:
        """The fact that chains stay in separate modes; empty if they agree, or are compared."""
        between = self.numbers.rhat_between
        if not (self.predicts and between > self.limits["rhat"]):
            return ""
        chains = self.rows["walker"].nunique()
        return (
            f"chains have not mixed across modes (R-hat {between:.3g} between them); predictions are a "
            f"mixture of {chains} chains"
        )

    def limit_is_given(self, quantity: str) -> bool:
        """Whether the limit of a quantity stands in the option `until`."""
        return any(
            condition.quantity == quantity and not condition.name for condition in self.conditions
        )

    @cached_property
    def numbers(self) -> ConvergenceEntry:
        """R-hat and effective size as the run noted them, else from its files."""
        if self.noted_convergence is not None:
            return self.noted_convergence
        limit = self.limits["rhat"]
        try:
            compared = quantities(self.run, burnin=self.burnin)
            judged = list(within_chains(compared)) if self.predicts else compared
            entries = convergence_of(self.run, judged, limit)
        except InputError:  # no rows after the burn-in
            entries = diagnosis([], limit)
        return ConvergenceEntry.of(plain(entries, "convergence"))

    @cached_property
    def without_predictions(self) -> str:
        """A note on numbers from files, among which there are no predictions."""
        noted = self.noted_convergence is not None
        return "" if noted or self.manifest.dataset.potential else ", without predictions"

    @property
    def by_chance_of_one(self) -> float:
        """R-hat that one quantity may have by chance; an earlier version noted that of all alone."""
        of_one = self.numbers.rhat_by_chance_of_one
        return self.numbers.rhat_by_chance if of_one is None else of_one

    @cached_property
    def nothing_to_compare(self) -> str:
        """Why there is no R-hat and no effective size; empty if U moves."""
        drawn = self.kept["potential"]
        # A flat U within walls says nothing of positions, where walkers are compared by them.
        moved = self.numbers.ess > 0 and self.manifest.dataset.potential
        if len(drawn) >= MINIMUM_DRAWS and drawn.nunique() == 1 and not moved:
            return STILL
        return "too few rows" if len(drawn) else NOT_YET

    @property
    def effective_size(self) -> float:
        """The least effective sample size."""
        return 0.0 if self.nothing_to_compare == STILL else self.numbers.ess


def facts_of(run: RunFiles, burnin: int | None = None) -> RunFacts:
    """The facts of a run as its files are now.

    Args:
        run: The run, or its folder.
        burnin: Steps to leave out. Default: the burn-in of the run.

    Returns:
        The facts, the same ones until a file of the run changes.
    """
    run = as_run(run)
    steps = burnin_of(run, burnin)
    return computed_once(
        run, f"facts after {steps}", lambda: RunFacts(run, run.manifest, run.run_info, steps)
    )


def computed_once(run: RunFiles, name: str, make: Callable[[], Made]) -> Made:
    """What is computed of a run, once until a file of it changes.

    Args:
        run: The run; one that only stands in for a run keeps nothing.
        name: A name for what is computed.
        make: The function that computes it.
    """
    if not isinstance(run, RunFiles):
        return make()
    made: Made = run.once(name, make)
    return made
