"""The heating by mini-batch noise that a run expected, and the causes of a temperature above its band."""

import math
from typing import Any

from tati_re.analysis.format import percent
from tati_re.runs.manifest import sees_batches

_FACTOR = 1.5
"""How far the prediction and a measured temperature may differ."""
_SLOW = (
    "not in equilibrium yet, or the steps are large for the stiffest direction; take more burn-in, or reduce step_size"
)


def heating_lines(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The line of the summary below the measured temperatures; none for full batches."""
    found = latest(manifest)
    if not found:
        return []
    if "not_predicted" in found:
        return [("expected heating", f"not predicted; {found['not_predicted']}")]
    kinetic = "" if math.isnan(found["kinetic"]) else f", kinetic + {percent(found['kinetic'])}"
    text = (
        f"by mini-batch noise: {percent(found['slowest'])} in the slowest directions, {percent(found['stiffest'])} in "
        f"the stiffest, {percent(found['mean'])} in all; configurational temperature + {percent(found['virial'])}"
    )
    return [("expected heating", text + kinetic)]


def why_hot(manifest: dict[str, Any], kind: str, excess: float) -> str:
    """What can have raised a temperature by so much, and what helps."""
    if not sees_batches(manifest):
        return _SLOW
    found = latest(manifest)
    expected = found.get("virial" if kind == "configurational" else "kinetic")
    if expected is None:
        return (
            "not in equilibrium yet, or the steps are large for the stiffest direction, or mini-batch noise heats, "
            "which was not predicted; take more burn-in, smaller steps or larger batches"
        )
    said = f"mini-batch noise was expected to raise it by {percent(expected)}"
    if expected * _FACTOR < excess:
        return f"{said} only; {_SLOW}"
    if kind == "configurational" and found["mean"] * _FACTOR < expected:
        said += (
            f", and that of the positions by {percent(found['mean'])}: within a sweep a gradient is correlated with "
            "where the batches before it led, which the virial shows"
        )
    return f"{said}; reduce it by smaller steps, larger batches or more friction"


def latest(manifest: dict[str, Any]) -> dict[str, Any]:
    found = manifest.get("heating", {})
    return found.get("end") or found.get("start") or {}
