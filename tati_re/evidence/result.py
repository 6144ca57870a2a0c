"""Estimates of log Z with their errors and notes, compared between methods and between models."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from tati_re.analysis.format import FOOTNOTE, with_error
from tati_re.core.errors import refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.views import drawn, html_table

NAMES = {
    "thermodynamic_integration": "thermodynamic integration",
    "frenkel_ladd": "Frenkel-Ladd integration",
    "stepping_stone": "stepping stone",
    "mbar": "MBAR",
    "smc": "sequential Monte Carlo",
}
DISAGREEMENT = 3.0
"""Two estimates farther apart than this many standard errors are reported as disagreeing."""


@front_doors
@dataclass(frozen=True)
class Evidence:
    """An estimate of log Z, with Z the integral of likelihood times prior.

    Attributes:
        log_z: log Z in nats.
        error: Its standard error in nats, from autocorrelation and repeats.
        method: The method, a key of `NAMES`.
        curve: The integrated curve, a pandas DataFrame. `path` rises from 0 at the reference (the
            prior, or springs at a minimum) to 1 at the posterior.
        repeats: The estimate from each independent walker or population.
        notes: Sentences for the reader.
        settings: Cost and settings: counts of draws, walkers and gradients, seconds, the rule.
        short: Whether the chains are shorter than 50 autocorrelation times. The error is then rough
            and usually too small.
    """

    log_z: float
    error: float
    method: str
    curve: Any
    repeats: np.ndarray = field(default_factory=lambda: np.zeros(0))
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    short: bool = False

    def __post_init__(self) -> None:
        unknown = not isinstance(self.method, str) or self.method not in NAMES
        refuse_if(unknown, "method is unknown.", self.method, ", ".join(NAMES))

    def __repr__(self) -> str:
        return f"Evidence(log_z={self.log_z:.6g}, error={self.error:.2g}, method={self.method!r})"

    def summary(self) -> str:
        """Returns the estimate and its notes as text."""
        headline = (
            f"log Z = {value_and_error(self.log_z, self.error, self.short)} by {NAMES[self.method]}"
        )
        forms = {float: ",.4g", int: ","}
        settings = ", ".join(
            f"{name} {value:{forms.get(type(value), '')}}" for name, value in self.settings.items()
        )
        return "\n".join(filter(None, [headline, settings, *self.notes, FOOTNOTE * self.short]))

    def _repr_html_(self) -> str:
        lines = [
            ("log Z", value_and_error(self.log_z, self.error, self.short)),
            ("method", NAMES[self.method]),
        ]
        return html_table("Evidence", lines, self.notes)

    def plot(self, path=None):
        """Plots the curve; see `tati_re.plotting.plot_evidence`.

        Args:
            path: File for the figure. Default: None, no file.

        Returns:
            The figure.
        """
        return drawn("evidence", [self], path=path)


@front_doors
class Evidences(Sequence):
    """Estimates of the same log Z by several methods.

    `disagreements` has a sentence for each pair that differs by more than 3 standard errors of the
    difference.

    Args:
        estimates: The estimates.
    """

    @front_door
    def __init__(self, estimates: Sequence[Evidence]) -> None:
        self._estimates = list(estimates)

    def __getitem__(self, key) -> Evidence:
        """By number, or by the name of the method."""
        return (
            {estimate.method: estimate for estimate in self._estimates}[key]
            if isinstance(key, str)
            else self._estimates[key]
        )

    def __len__(self) -> int:
        return len(self._estimates)

    def plot(self, path=None):
        """Plots the curves and the estimates; see `tati_re.plotting.plot_evidence`.

        Args:
            path: File for the figure. Default: None, no file.

        Returns:
            The figure.
        """
        return drawn("evidence", self, path=path)

    def _repr_html_(self) -> str:
        return html_table("Evidence", (), self.disagreements, self.table)

    @property
    def table(self):
        """Returns one row per method: log_z, error, gradients for one walker on all data, seconds,
        short chains.
        """
        columns = ("gradients", "seconds")
        rows = [
            (
                estimate.method,
                estimate.log_z,
                estimate.error,
                *(estimate.settings.get(name, math.nan) for name in columns),
                estimate.short,
            )
            for estimate in self._estimates
        ]
        return pd.DataFrame(rows, columns=["method", "log_z", "error", *columns, "short"])

    @property
    def disagreements(self) -> list[str]:
        """Sentences about pairs of estimates that differ by more than their errors explain."""
        sentences = []
        for first, other in combinations(self._estimates, 2):
            error = math.hypot(first.error, other.error)
            difference = abs(first.log_z - other.log_z)
            if not difference <= DISAGREEMENT * error:
                times = (
                    f"{difference / error:.1f} standard errors"
                    if error > 0
                    else "and no error is known"
                )
                sentences.append(
                    f"{NAMES[first.method]} and {NAMES[other.method]} disagree: "
                    f"{first.log_z:.6g} and {other.log_z:.6g} differ by {difference:.3g}, "
                    f"{times}. At least one of them has not reached equilibrium, or its "
                    "points are too far apart."
                )
        return sentences

    def summary(self) -> str:
        """Returns the table, disagreements and notes as text."""
        wide = max(len(NAMES[estimate.method]) for estimate in self._estimates)
        rows = [
            (
                NAMES[estimate.method],
                value_and_error(estimate.log_z, estimate.error, estimate.short),
            )
            for estimate in self._estimates
        ]
        lines = [f"{name:{wide}}  log Z = {value}" for name, value in rows]
        notes = dict.fromkeys(note for estimate in self._estimates for note in estimate.notes)
        foot = [FOOTNOTE] if any(estimate.short for estimate in self._estimates) else []
        return "\n".join([*lines, *self.disagreements, *notes, *foot])

    def __repr__(self) -> str:
        return f"Evidences({', '.join(map(repr, self._estimates))})"


@front_door
def bayes_factors(estimates: Mapping[str, Evidence]):
    """Compares models on the same data by their evidence, the best first.

    Args:
        estimates: One estimate per model, by name.

    Returns:
        A pandas DataFrame with the columns `model`, `log_z`, `error`, `log_bayes_factor` relative
        to the best model, `factor_error`, `short` (whether chains are short), and `probability` for
        equal prior probabilities of the models.
    """
    names = sorted(estimates, key=lambda name: -estimates[name].log_z)
    best = estimates[names[0]]
    log_z = np.array([estimates[name].log_z for name in names])
    shares = np.exp(log_z - log_z[0])
    errors = [0.0, *(math.hypot(estimates[name].error, best.error) for name in names[1:])]
    columns: dict[str, Any] = {
        "model": names,
        "log_z": log_z,
        "error": [estimates[name].error for name in names],
    }
    columns |= {"log_bayes_factor": log_z - log_z[0], "factor_error": errors}
    columns["short"] = [estimates[name].short or best.short for name in names]
    return pd.DataFrame(columns | {"probability": shares / shares.sum()})


def value_and_error(value: float, error: float, short: bool = False) -> str:
    """Value and error with two digits of the error: `-18.075 ± 0.012`.

    Args:
        value: The value.
        error: Its standard error; not finite or 0 if it is not known.
        short: Whether chains are short; the error then has a dagger, `± 0.012†`. Default: False.
    """
    text = with_error(value, error, short)
    known = math.isfinite(error) and error > 0
    return text if known else f"{text} (error not known)"
