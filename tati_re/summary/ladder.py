"""The rungs of a ladder: energies, swaps and noise, and advice where the ladder is broken."""

import numpy as np
import pandas as pd

from tati_re.exchange.advice import ladder_advice
from tati_re.exchange.gaussianity import gaussianity_report
from tati_re.exchange.ladder import explicit
from tati_re.runs import files
from tati_re.runs.manifest import Manifest
from tati_re.summary.facts import RunFacts
from tati_re.summary.told import NOTHING, Told

_FEW = 0.01
_MOST_ROWS = 40


def rungs(facts: RunFacts, _thin: int) -> Told:
    """The ladder of a run, as a section of its summary; empty for fewer than two rungs.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    run = facts.run
    if not run.has(files.LADDER):
        return NOTHING
    ladder = run.ladder
    if len(ladder) < 2:  # a bias alone has one rung
        return NOTHING
    return ladder_lines(facts.manifest, ladder, run.noise if run.has(files.NOISE) else None)


def ladder_lines(
    manifest: Manifest, ladder: pd.DataFrame, noise: pd.DataFrame | None = None
) -> Told:
    """The warnings of a run on a ladder, and a line for each rung.

    Args:
        manifest: The manifest of the run.
        ladder: The table `ladder.csv`, one row per rung.
        noise: The table of the noise of swaps on mini-batches. Default: None, the run has none.
    """
    exchanges = manifest.method.exchange != "none"
    tempered = ladder["likelihood_weight"].nunique() > 1
    tempered_column = "likelihood_weight" if tempered else "temperature"
    notes = [manifest.method.swap_bias] if manifest.method.swap_bias else []
    own_steps = ladder["step_size"].nunique() > 1
    biased = "bias" in manifest.method.table
    energy = "U under the bias" if biased else "U"
    if tempered:
        energy = "L"
    notes += _notes(ladder, biased) if exchanges else []
    lines = [("ladder", "")]
    for row in ladder.head(_MOST_ROWS).to_dict("records"):
        text = f"{tempered_column.replace('_', ' ')} {row[tempered_column]:.6g}  mean {energy} {row['mean_potential']:,.6g}"
        text += f"  step size {row['step_size']:.4g}" if own_steps else ""
        if exchanges and np.isfinite(row["acceptance"]):
            predicted = (
                "" if biased else f", from the mean energies {row['predicted_acceptance']:.3f}"
            )
            text += f"  swaps up {row['acceptance']:.3f} (expected {row['expected_acceptance']:.3f}{predicted})"
        lines.append((f"  rung {int(row['rung'])}", text))
    if len(ladder) > _MOST_ROWS:
        lines.append(("  ...", f"{len(ladder) - _MOST_ROWS} more rungs in ladder.csv"))
    if exchanges:
        last = ladder.iloc[-1]
        known = f"{last['barrier']:.3g}, the sum of the rejection rates"
        unknown = "unknown: one pair of rungs never tried to swap"
        lines.append(("barrier", known if np.isfinite(last["barrier"]) else unknown))
        trips = f"{int(last['round_trips']):,} target to hottest rung and back, {int(last['restarts']):,} arrivals"
        lines.append(("round trips", trips))
    if noise is not None and len(noise):
        noise_lines = _noise_lines(noise)
        notes = notes + noise_lines[0]
        lines = lines + noise_lines[1]
    return Told(notes, lines)


def _noise_lines(noise: pd.DataFrame) -> Told:
    notes = []
    lines = []
    for kind, subject in (
        ("energy", "The noise of the swaps' energies"),
        ("gradient", "The noise of the gradients"),
    ):
        values = noise.loc[noise["test"] == kind, "p_value"].to_numpy(dtype=np.float64)
        if not len(values):
            continue
        report = gaussianity_report(values, subject)
        low, high = report.band
        text = f"{report.fraction:.3f} of {len(values)} p-values below 0.05, band {low:.3f} to {high:.3f}"
        lines.append((f"{kind} noise", f"Shapiro-Wilk: {text}, smallest {values.min():.2g}"))
        if report.sentence:
            notes.append(report.sentence)
    return Told(notes, lines)


def _notes(ladder: pd.DataFrame, biased: bool) -> list[str]:
    pairs = ladder.iloc[:-1]
    if not pairs["attempts"].sum() > 0:
        return ["No swap was tried after the burn-in: exchange_every is longer than the run."]
    broken = pairs[pairs["acceptance"] < _FEW]
    notes = []
    if len(broken):
        rungs = ", ".join(f"{int(rung)} and {int(rung) + 1}" for rung in broken["rung"][:5])
        notes.append(
            f"Fewer than {_FEW:.0%} of the swaps between rungs "
            f"{rungs}{' and others' if len(broken) > 5 else ''} are accepted: the ladder "
            "is broken there."
        )
        if not biased:
            notes[-1] += "".join(f" {sentence}" for sentence in measured_advice(ladder)[1:])
    elif ladder["round_trips"].iloc[-1] < 1:
        notes.append(
            "No replica made a round trip between the target and the hottest rung: take "
            "more steps, or more rungs."
        )
    return notes


def measured_advice(ladder: pd.DataFrame) -> tuple[str, ...]:
    """Advice on a ladder by its heat capacity d<U>/dT between neighbors; none below 0, or where λ
    is tempered.
    """
    temperature, mean = (
        ladder[name].to_numpy(dtype=np.float64) for name in ("temperature", "mean_potential")
    )
    if (
        ladder["likelihood_weight"].nunique() > 1
        or not np.isfinite(mean).all()
        or (np.diff(temperature) <= 0).any()
    ):
        return ()
    capacity = np.diff(mean) / np.diff(temperature)
    if not (capacity > 0).all():
        return ()
    at_rungs = np.concatenate([capacity[:1], 0.5 * (capacity[1:] + capacity[:-1]), capacity[-1:]])
    return ladder_advice(explicit(temperature.tolist()), heat_capacity=at_rungs).sentences
