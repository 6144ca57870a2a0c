"""Summary lines on the rungs of a temperature ladder."""

from typing import Any

import numpy as np
import pandas as pd

from tati_re.exchange.advice import ladder_advice
from tati_re.exchange.gaussianity import gaussianity_report
from tati_re.exchange.ladder import explicit

_FEW = 0.01
_MOST_ROWS = 40


def ladder_lines(
    manifest: dict[str, Any], ladder: pd.DataFrame, noise: pd.DataFrame | None = None
) -> tuple[list[str], list[tuple[str, str]]]:
    """The warnings of a run on a ladder, and the lines of its end table: label and value of each rung."""
    exchanges = manifest.get("method", {}).get("exchange") != "none"
    tempered = ladder["likelihood_weight"].nunique() > 1
    what = "likelihood_weight" if tempered else "temperature"
    notes = _notes(ladder) if exchanges else []
    if sentence := manifest.get("method", {}).get("swap_bias"):
        notes = [sentence, *notes]
    own_steps = ladder["step_size"].nunique() > 1
    lines = [("ladder", "")]
    for row in ladder.head(_MOST_ROWS).to_dict("records"):
        text = f"{what.replace('_', ' ')} {row[what]:.6g}  mean U {row['mean_potential']:,.6g}"
        text += f"  step size {row['step_size']:.4g}" if own_steps else ""
        if exchanges and np.isfinite(row["acceptance"]):
            text += (
                f"  swaps up {row['acceptance']:.3f} (expected {row['expected_acceptance']:.3f}, from the mean "
                f"energies {row['predicted_acceptance']:.3f})"
            )
        lines.append((f"  rung {int(row['rung'])}", text))
    if len(ladder) > _MOST_ROWS:
        lines.append(("  ...", f"{len(ladder) - _MOST_ROWS} more rungs in ladder.csv"))
    if exchanges:
        last = ladder.iloc[-1]
        lines.append(("barrier", f"{last['barrier']:.3g}, the sum of the rejection rates"))
        trips = f"{int(last['round_trips']):,} target to hottest rung and back, {int(last['restarts']):,} arrivals"
        lines.append(("round trips", trips))
    if noise is not None and len(noise):
        found = _noise_lines(noise)
        notes, lines = notes + found[0], lines + found[1]
    return notes, lines


def _noise_lines(noise: pd.DataFrame) -> tuple[list[str], list[tuple[str, str]]]:
    notes, lines = [], []
    for kind, what in (("energy", "The noise of the swaps' energies"), ("gradient", "The noise of the gradients")):
        values = noise.loc[noise["test"] == kind, "p_value"].to_numpy(dtype=np.float64)
        if not len(values):
            continue
        report = gaussianity_report(values, what)
        low, high = report.band
        text = f"{report.fraction:.3f} of {len(values)} p-values below 0.05, band {low:.3f} to {high:.3f}"
        lines.append((f"{kind} noise", f"Shapiro-Wilk: {text}, smallest {values.min():.2g}"))
        if report.sentence:
            notes.append(report.sentence)
    return notes, lines


def _notes(ladder: pd.DataFrame) -> list[str]:
    pairs = ladder.iloc[:-1]
    if not pairs["attempts"].sum() > 0:
        return ["No swap was tried after the burn-in: exchange_every is longer than the run."]
    broken = pairs[pairs["acceptance"] < _FEW]
    notes = []
    if len(broken):
        rungs = ", ".join(f"{int(rung)} and {int(rung) + 1}" for rung in broken["rung"][:5])
        notes.append(
            f"Fewer than {_FEW:.0%} of the swaps are accepted between rungs {rungs}"
            f"{' and others' if len(broken) > 5 else ''}: the ladder is broken there."
        )
        notes[-1] += "".join(f" {sentence}" for sentence in measured_advice(ladder)[1:])
    elif ladder["round_trips"].iloc[-1] < 1:
        notes.append("No replica went from the target to the hottest rung and back: take more steps, or more rungs.")
    return notes


def measured_advice(ladder: pd.DataFrame) -> tuple[str, ...]:
    """Advice on a ladder, in sentences, from its heat capacity d<U>/dT, by the mean energies of neighbors; none where
    the energies do not rise with temperature, or the likelihood alone is tempered."""
    temperature, mean = (ladder[name].to_numpy(dtype=np.float64) for name in ("temperature", "mean_potential"))
    if ladder["likelihood_weight"].nunique() > 1 or not np.isfinite(mean).all() or (np.diff(temperature) <= 0).any():
        return ()
    capacity = np.diff(mean) / np.diff(temperature)
    if not (capacity > 0).all():
        return ()
    at_rungs = np.concatenate([capacity[:1], 0.5 * (capacity[1:] + capacity[:-1]), capacity[-1:]])
    return ladder_advice(explicit(temperature.tolist()), heat_capacity=at_rungs).sentences
