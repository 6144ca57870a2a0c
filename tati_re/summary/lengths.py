"""What was sampled, how long, and with which steps; the last rows of a fit."""

import pandas as pd

from tati_re.runs.manifest import Manifest, changes
from tati_re.runs.selection import at_target
from tati_re.summary.facts import RunFacts
from tati_re.summary.step_sizes import step_size_text
from tati_re.summary.told import NOTHING, Told

_OF_FITS = ("loss", "potential", "accuracy", "gradient_norm")


def system(facts: RunFacts, _thin: int) -> Told:
    """The folder, the potential and its parameters; why the run stopped, and what changed since.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    manifest = facts.manifest
    notes = [] if manifest.stopped is None else [f"The run stopped: {manifest.stopped}"]
    notes += changes(facts.run.folder, manifest)
    number = manifest.parameters.num
    described = [
        ("potential U", manifest.meaning),
        ("parameters", f"{number:,}" if number else ""),
    ]
    lines = [("folder", str(facts.run.folder)), *(line for line in described if line[1])]
    return Told(notes, lines)


def length(facts: RunFacts, thin: int) -> Told:
    """Steps, walkers and rows.

    Args:
        facts: Facts of the run.
        thin: Keep one in this many rows of a walker.
    """
    return Told([], _length_lines(facts.manifest, facts.all_rows, facts.burnin, thin))


def step_sizes(facts: RunFacts, _thin: int) -> Told:
    """The step sizes of a run, or the learning rates of a fit.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    text = step_size_text(facts.manifest, facts.all_rows, facts.burnin)
    if not text:
        return NOTHING
    return Told([], [("learning rate" if facts.manifest.is_fit else "step size", text)])


def without_rows(facts: RunFacts, _thin: int) -> Told:
    """A note that there is nothing to summarize yet.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    if facts.manifest.has_fits_alone:
        return Told(["The run has no draws: predictions use its fits alone."], [])
    return Told(["The run has no rows yet."], [])


def end_of_fit(facts: RunFacts, _thin: int) -> Told:
    """The last loss and other last values of a fit.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    rows = facts.all_rows
    last = rows[rows["step"] == rows["step"].max()]
    names = [name for name in _OF_FITS if name in last]
    return Told([], [(f"last {name.replace('_', ' ')}", _range(last[name])) for name in names])


def _length_lines(
    manifest: Manifest, rows: pd.DataFrame, burnin: int, thin: int
) -> list[tuple[str, str]]:
    planned = manifest.options.num_steps
    last = 0 if rows.empty else int(rows["step"].max())
    # The last row is that of the last recorded step, up to record_every - 1 before the last one
    # taken.
    finished = planned is None or planned - last < manifest.options.record_every
    text = f"{planned if finished and planned is not None else last:,}" + (
        "" if finished else f" of {planned:,}"
    )
    if burnin:
        text += (
            f", the first {burnin:,} left out as burn-in"
            if burnin <= last
            else f", burn-in up to {burnin:,}"
        )
    if thin > 1:
        text += f", thinned by a factor of {thin:,}"
    counts = at_target(rows).groupby("walker").size().reindex(rows["walker"].unique(), fill_value=0)
    least, most = (0, 0) if rows.empty else (counts.min(), counts.max())
    number = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    walkers = len(counts) or manifest.options.num_walkers
    return [("steps", text), ("walkers", f"{walkers}, {number} rows each")]


def _range(values: pd.Series) -> str:
    low = float(values.min())
    high = float(values.max())
    return f"{low:,.6g}" if low == high else f"{low:,.6g} to {high:,.6g} over the walkers"
