"""What a run on a temperature ladder says about its rungs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_FEW = 0.01
_MOST_ROWS = 40


def ladder_lines(manifest: dict[str, Any], ladder: pd.DataFrame) -> tuple[list[str], list[tuple[str, str]]]:
    """The warnings and the lines of the end table of a run on a ladder.

    Args:
        manifest: Of the run.
        ladder: `ladder.csv`.

    Returns:
        Sentences; pairs of label and value, one for each rung.
    """
    exchanges = manifest.get("method", {}).get("exchange") != "none"
    tempered = ladder["likelihood_weight"].nunique() > 1
    what = "likelihood_weight" if tempered else "temperature"
    notes = _notes(ladder) if exchanges else []
    if sentence := manifest.get("method", {}).get("swap_bias"):
        notes = [sentence, *notes]
    lines = [("ladder", "")]
    for row in ladder.head(_MOST_ROWS).to_dict("records"):
        text = f"{what.replace('_', ' ')} {row[what]:.6g}  mean U {row['mean_potential']:,.6g}"
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
            f"{' and others' if len(broken) > 5 else ''}: the ladder is broken there. More rungs, a smaller "
            "temperature_ratio or a well-tempered bias help; tati_re.exchange.advice says how many."
        )
    elif ladder["round_trips"].iloc[-1] < 1:
        notes.append("No replica went from the target to the hottest rung and back: take more steps, or more rungs.")
    return notes
