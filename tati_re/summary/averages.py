"""Averages over the rows of a run that sampled, and its temperatures."""

import numpy as np
import pandas as pd

from tati_re.analysis.averages import average, rows_at_target
from tati_re.analysis.convergence import MINIMUM_DRAWS, chains_of
from tati_re.analysis.format import SHORT, SHORT_NOTE, with_error
from tati_re.analysis.temperature import nothing_confines
from tati_re.runs.manifest import Manifest
from tati_re.runs.selection import keep
from tati_re.samplers.wrappers.eqn import refresh_note
from tati_re.summary.certificate import widths_note
from tati_re.summary.facts import RunFacts
from tati_re.summary.temperatures import measured
from tati_re.summary.told import Told

_AVERAGED = ("loss", "potential", "accuracy", "acceptance")
_OF_NOISE = ("noise_std", "degrees_of")
"""First words of the columns of parameters of the noise."""


def sampled(facts: RunFacts, thin: int) -> Told:
    """Averages and temperatures of the rows after the burn-in.

    Args:
        facts: Facts of the run.
        thin: Keep one in this many rows of a walker.
    """
    rows = facts.kept if facts.kept.empty else keep(facts.kept, facts.burnin, thin)
    is_weighted = "weight" in rows.columns
    counted = rows
    if is_weighted and not rows.empty:
        counted = rows_at_target(facts.run, facts.burnin, thin)

    if len(rows) < MINIMUM_DRAWS or counted.groupby("walker").size().min() < MINIMUM_DRAWS:
        too_few = (
            f"Fewer than {MINIMUM_DRAWS} rows of each walker after burn-in: too few for statistics."
        )
        return Told([too_few], [])

    temperatures = measured(facts.manifest, rows)
    return Told(
        notes=[*_notes_on_potential(facts.manifest, counted), *temperatures.notes],
        lines=[
            *_average_lines(counted, is_weighted),
            *_standardized(facts.manifest),
            *temperatures.lines,
        ],
    )


def _average_lines(rows: pd.DataFrame, is_weighted: bool) -> list[tuple[str, str]]:
    """The averages with their errors, and what is said of short chains."""
    weights = chains_of(rows, "weight") if is_weighted else None
    of_noise = [name for name in rows.columns if name.startswith(_OF_NOISE)]
    lines = []
    for name in (*_AVERAGED, *of_noise):
        if name in rows.columns and rows[name].notna().any():
            found = average(chains_of(rows, name), weights, sizes=False)
            text = with_error(found["mean"], found["error"], found["short"])
            lines.append((f"{name} (mean)", text))
    if any(SHORT in value for _, value in lines):
        lines.append((SHORT, SHORT_NOTE))
    return lines


def _standardized(manifest: Manifest) -> list[tuple[str, str]]:
    """The unit of the noise where targets were standardized."""
    preparation = manifest.dataset.preparation
    standard = None if preparation is None else preparation.target
    if standard is None:
        return []
    deviation = ", ".join(f"{value:.4g}" for value in np.atleast_1d(standard.deviation)[:4])
    text = f"standardized (sd {deviation}); multiply noise_std by it for original units"
    return [("targets", text)]


def _notes_on_potential(manifest: Manifest, rows: pd.DataFrame) -> list[str]:
    notes = []
    if nothing_confines(manifest):
        notes.append(
            "Nothing confines U (no prior, no box). A flat direction has no equilibrium, "
            "and the configurational temperature no target."
        )
    if np.ptp(chains_of(rows, "potential")) == 0:
        notes.append("The potential never changed: no step moved a walker. Reduce step_size.")
    return notes


def refreshes(facts: RunFacts, _thin: int) -> Told:
    """A warning of preconditioners that are refreshed so often that they heat.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    note = refresh_note(facts.manifest.method.table)
    return Told([note] if note else [], [])


def widths(facts: RunFacts, _thin: int) -> Told:
    """A warning of widths of coordinates that no mass balances.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    note = widths_note(facts.run)
    return Told([f"{note[0].upper()}{note[1:]}."] if note else [], [])
