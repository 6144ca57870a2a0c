"""The heating by mini-batch noise that a run expected, beside what it measured, and the causes of a temperature too high."""

from __future__ import annotations

from typing import Any

from tati_re.analysis.format import percent

_FACTOR = 1.5
"""How far the prediction and a measured temperature may differ."""


def heating_lines(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The line of the summary below the measured temperatures; none for full batches."""
    found = _latest(manifest)
    if not found:
        return []
    if "not_predicted" in found:
        return [("expected heating", f"not predicted; {found['not_predicted']}")]
    text = (
        f"by mini-batch noise: {percent(found['slowest'])} in the slowest directions, {percent(found['stiffest'])} in the "
        f"stiffest, {percent(found['mean'])} in all; configurational temperature {found['virial']:+.2%}"
    )
    if found["kinetic"] == found["kinetic"]:
        text += f", kinetic {found['kinetic']:+.2%}"
    return [("expected heating", text.replace("%", " %").replace("  %", " %"))]


def why_hot(manifest: dict[str, Any], kind: str, excess: float) -> str:
    """What can have raised a temperature by so much, and what helps."""
    options, found = manifest.get("options", {}), _latest(manifest)
    if not found and not _sees_batches(manifest):
        return (
            "not in equilibrium yet, or the steps are large for the stiffest direction; take more burn-in, or reduce "
            "step_size"
        )
    expected = found.get("virial" if kind == "configurational" else "kinetic")
    if expected is None:
        return (
            "not in equilibrium yet, the steps are large for the stiffest direction, or mini-batch noise, whose heating was "
            "not predicted, heats; take more burn-in, smaller steps or larger batches"
        )
    if expected * _FACTOR < excess:
        return (
            f"mini-batch noise was expected to heat by {percent(expected)} only, so that it is not in equilibrium yet, or "
            "the steps are large for the stiffest direction; take more burn-in, or reduce step_size"
        )
    said = f"mini-batch noise was expected to raise it by {percent(expected)}"
    if kind == "configurational" and found["mean"] * _FACTOR < expected:
        said += (
            f", the temperature at which the parameters are distributed by {percent(found['mean'])} (in "
            f"{options.get('batch_sampling', 'epochs')} a gradient knows the batches before it, and the virial shows that)"
        )
    return f"{said}; reduce it by smaller steps, larger batches or more friction"


def _latest(manifest: dict[str, Any]) -> dict[str, Any]:
    """The prediction from where the run arrived, else from where it started."""
    found = manifest.get("heating", {})
    return found.get("end") or found.get("start") or {}


def _sees_batches(manifest: dict[str, Any]) -> bool:
    """Of a run that a former version wrote, whether its steps saw mini-batches."""
    return bool(manifest.get("options", {}).get("batch_size"))
