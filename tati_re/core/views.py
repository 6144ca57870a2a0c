"""How results are shown: their figures, drawn in a room above theirs that is found by name, as samplers are; and small
tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {
    "evidence": "tati_re.plotting.evidence:plot_evidence",
    "exploration": "tati_re.plotting.exploration:plot_exploration",
    "input space": "tati_re.plotting.inputs:plot_input_space",
    "ladder": "tati_re.plotting.temperatures:plot_ladder",
    "landscape": "tati_re.plotting.landscape:plot_landscape",
    "prediction": "tati_re.plotting.prediction:plot_prediction",
    "run": "tati_re.plotting.run:plot_run",
}
"""The function that draws each kind of result, for the method `plot` of the result; no other code reaches upward so."""


def drawn(kind: str, result: Any, /, **choices: Any) -> Figure:
    """The figure of a result of this kind."""
    module, name = FIGURES[kind].split(":")
    figure: Figure = vars(import_module(module))[name](result, **choices)
    return figure


def html_table(title: str, lines: Iterable[tuple[str, str]] = (), notes: Iterable[str] = (), frame: Any = None) -> str:
    """Returns a table of labels and values under a title, with warnings above it, all text escaped; below it the
    DataFrame `frame`, which scrolls sideways where it is wide."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(label)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for label, value in lines
        if label or value
    )
    said = "".join(f"<p><b>Warning:</b> {escape(note)}</p>" for note in notes)
    more = "" if frame is None else frame.to_html(index=False, float_format=lambda value: f"{value:.4g}", na_rep="")
    more = more and f'<div style="overflow-x:auto">{more}</div>'
    return f"<div><b>{escape(title)}</b>{said}<table>{rows}</table>{more}</div>"
