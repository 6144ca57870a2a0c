"""Loss and accuracy of runs against temperature, as a table, a figure and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.analysis.format import SHORT, SHORT_NOTE, table, with_error
from tati_re.core.errors import InputError
from tati_re.plotting.temperatures import plot_temperatures
from tati_re.prediction.inputs import read_inputs
from tati_re.prediction.temperature_study import stopping, temperature_curve
from tati_re.runs.csv_table import frame_text
from tati_re.runs.storage import storing, write_whole

if TYPE_CHECKING:
    from tati_re.simulation.run import Run


def report_temperatures(runs: Sequence[Run], folder: Path, typed: Mapping[str, Any]) -> str:
    for name in ("optimum", "ensemble", "ood", "rung"):
        if name in typed:
            raise InputError(f"--{name} does not belong to --by-temperature.")
    frame = temperature_curve(runs, *(read_inputs(typed["data"], runs[0]) if "data" in typed else ()))
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "temperatures.csv", frame_text(frame))
    plot_temperatures(frame, folder / "temperatures.png")
    best, rose = stopping(frame)
    names = ("train_loss", "validation_loss", "test_loss", "test_accuracy")
    known = [name for name in names if name in frame and frame[name].notna().any()]
    lines = []
    for row in frame.to_dict("records"):
        values = {name: with_error(row[name], row[f"{name}_error"], row["short"]) for name in known}
        shown = [f"{name.replace('_', ' ')} {value}" for name, value in values.items()]
        lines.append((f"T = {row['temperature']:g}", "  ".join(shown)))
    if frame["short"].any():
        lines.append((SHORT, SHORT_NOTE))
    risen = "never rises" if rose is None else f"has risen at T = {rose:.3g}"
    lines.append(("cooling down", f"the validation loss is lowest at T = {best:.3g}, and {risen}"))
    return table([*lines, ("folder", str(folder)), ("files", "temperatures.csv, temperatures.png")])
