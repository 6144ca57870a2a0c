"""Measured temperatures beside their targets, what heats a run, and how much was expected."""

import math

import pandas as pd

from tati_re.analysis.format import percent
from tati_re.analysis.temperature import (
    ABOVE,
    TOO_SHORT,
    Temperature,
    has_no_target,
    measured_temperatures,
)
from tati_re.runs.manifest import Manifest
from tati_re.summary.facts import RunFacts
from tati_re.summary.told import Told
from tati_re.summary.verdicts import FAILED, NOT_MEASURED, PASSED

_FACTOR = 1.5  # How far the prediction and a measured temperature may differ.
_SLOW = "not in equilibrium yet, or the steps are large for the stiffest direction; take more burn-in, or reduce step_size"


def measured(manifest: Manifest, rows: pd.DataFrame) -> Told:
    """The temperatures of rows, and a warning about each that is outside its band.

    Args:
        manifest: The manifest of the run.
        rows: Its rows after the burn-in.
    """
    notes = []
    lines = []
    for temperature in measured_temperatures(rows, manifest.parameters.num):
        text = temperature_text(temperature)
        if temperature.kind == "configurational" and has_no_target(manifest):
            text = f"{temperature.mean:.4g}  no target: the potential has flat directions or walls"
        elif note := temperature_note(temperature, manifest):
            notes.append(note)
        lines.append((f"{temperature.kind} temperature", text))
    return Told(notes, lines)


def expected_heating(facts: RunFacts, _thin: int) -> Told:
    """The expected heating by mini-batch noise, as a section of the summary.

    Args:
        facts: Facts of the run.
        _thin: Not used.
    """
    return Told([], heating_lines(facts.manifest))


def temperature_text(temperature: Temperature) -> str:
    """Returns `1.003  target 1  band 0.998 to 1.002  failed`.

    A mean in its band is called consistent, not passed: the certificate also asks whether the band
    is narrow enough to find a fault.
    """
    half = temperature.upper - temperature.target
    if temperature.reason == TOO_SHORT:
        size = temperature.effective_sample_size
        why = (
            f"{'too noisy' if size > 1_000 else 'the run is too short'} ({size:.0f} effective rows)"
        )
        return f"{temperature.mean:.3g}  target {temperature.target:g}  {NOT_MEASURED}: {why}"
    decimals = max(2, 2 - math.floor(math.log10(half))) if half > 0 else 3
    verdict = temperature.verdict
    if verdict == NOT_MEASURED:
        verdict += f": {temperature.reason}"
    elif verdict == PASSED:
        verdict = "consistent"
    band = (
        f"  band {temperature.lower:.{decimals}f} to {temperature.upper:.{decimals}f}"
        if math.isfinite(half)
        else ""
    )
    return f"{temperature.mean:.{decimals}f}  target {temperature.target:g}{band}  {verdict}"


def temperature_note(temperature: Temperature, manifest: Manifest) -> str | None:
    """A warning about a temperature outside its band, with possible causes.

    Args:
        temperature: The measured temperature.
        manifest: The manifest of the run.

    Returns:
        A sentence; None if the temperature does not fail.
    """
    if temperature.verdict != FAILED:
        return None
    above = temperature.reason == ABOVE
    excess = temperature.mean / temperature.target - 1
    if above:
        advice = why_hot(manifest, temperature.kind, excess)
    elif temperature.kind == "kinetic":
        advice = "the steps are large for the stiffest direction; reduce step_size"
    else:
        advice = "not in equilibrium yet; take more burn-in steps"
    return (
        f"The {temperature.kind} temperature is {percent(abs(excess))} "
        f"{'above' if above else 'below'} its target, more than chance allows: {advice}."
    )


def heating_lines(manifest: Manifest) -> list[tuple[str, str]]:
    """The line of the summary below the measured temperatures; none without mini-batches."""
    heating = manifest.heating.latest
    if heating is None:
        return []
    if heating.not_predicted is not None:
        return [("expected heating", f"not predicted; {heating.not_predicted}")]
    kinetic = "" if math.isnan(heating.kinetic) else f", kinetic + {percent(heating.kinetic)}"
    text = (
        f"by mini-batch noise: {percent(heating.slowest)} in the slowest directions, {percent(heating.stiffest)} in "
        f"the stiffest, {percent(heating.mean)} in all; configurational temperature + {percent(heating.virial)}"
    )
    lines = [("expected heating", text + kinetic)]
    if not math.isnan(heating.memory):
        within = f"{heating.memory_epochs:,.2g} epochs ({heating.memory:,.0f} steps)"
        lines.append(("expected memory", f"predictions decorrelate within {within}"))
    return lines


def why_hot(manifest: Manifest, kind: str, excess: float) -> str:
    """What can have raised a temperature, and what helps, as the end of a sentence.

    Args:
        manifest: The manifest of the run.
        kind: "kinetic" or "configurational".
        excess: Relative rise of the temperature above its target.
    """
    if not manifest.sees_batches:
        return _SLOW
    heating = manifest.heating.latest
    if heating is None or heating.not_predicted is not None:
        return (
            "not in equilibrium yet, or the steps are large for the stiffest direction, or mini-batch noise heats, "
            "which was not predicted; take more burn-in, smaller steps or larger batches"
        )
    expected = heating.virial if kind == "configurational" else heating.kinetic
    cause = f"mini-batch noise was expected to raise it by {percent(expected)}"
    if expected * _FACTOR < excess:
        return f"{cause} only; {_SLOW}"
    if kind == "configurational" and heating.mean * _FACTOR < expected:
        cause += (
            f", and the temperature of the positions by {percent(heating.mean)} (within a sweep the virial also contains "
            "correlations between batches)"
        )
    return f"{cause}; reduce it by smaller steps, larger batches or more friction"
