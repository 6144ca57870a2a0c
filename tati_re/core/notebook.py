"""Small tables for notebooks."""

from collections.abc import Iterable
from html import escape
from typing import Any


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
