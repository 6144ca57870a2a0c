"""How results are shown: by figures of a room above theirs, and by small tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from html import escape as escaped
from textwrap import shorten
from typing import TYPE_CHECKING, Any, TypeVar

from tati_re.core.printable import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Class = TypeVar("Class", bound=type)


def drawn(kind: str, result: Any, /, **choices: Any) -> Figure:
    """The figure of a kind of result, for its method `plot`.

    Figures import results, so the room of figures stands above them. This one way up is an
    exception of the layer contract in `pyproject.toml`.

    Args:
        kind: The figure: `run` is drawn by `tati_re.plotting.plot_run`.
        result: What is drawn.
        **choices: Further arguments of the function that draws.
    """
    from tati_re import plotting

    figure: Figure = getattr(plotting, f"plot_{kind}")(result, **choices)
    return figure


def escape(text: str) -> str:
    """A text for a page, without control characters."""
    return escaped(printable(text))


def _with_printable_names(frame: Any) -> Any:
    return frame.rename(columns=lambda name: printable(str(name)))


def html_table(
    title: str, lines: Iterable[tuple[str, str]] = (), notes: Iterable[str] = (), frame: Any = None
) -> str:
    """A table of labels and values in HTML, below a title and warnings, all escaped.

    Args:
        title: The title.
        lines: Labels and values. Lines without both are left out. Default: none.
        notes: Warnings. Default: none.
        frame: A DataFrame to show below the table. Default: None.
    """
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(label)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for label, value in lines
        if label or value
    )
    warnings = "".join(f"<p><b>Warning:</b> {escape(note)}</p>" for note in notes)
    more = (
        ""
        if frame is None
        else _with_printable_names(frame).to_html(
            index=False, float_format=lambda value: f"{value:.4g}", na_rep=""
        )
    )
    more = more and f'<div style="overflow-x:auto">{more}</div>'
    return f"<div><b>{escape(title)}</b>{warnings}<table>{rows}</table>{more}</div>"


def viewable(kind: Class) -> Class:
    """Gives a named tuple or data class of results a `__repr__` and a `_repr_html_`: a line a
    field, arrays by shape and range, and below them its first table, of a long one the range of
    each column.
    """

    def text(self: Any) -> str:
        lines, frame = _content(self)
        wide = max(len(name) for name, _ in lines) + 2
        listed = "\n".join(name.replace("_", " ").ljust(wide) + value for name, value in lines)
        rows = (
            frame
            if frame is None
            else frame.to_string(index=False, float_format="{:.4g}".format, max_cols=12)
        )
        return printable(listed if rows is None else f"{listed}\n\n{rows}")

    def html(self: Any) -> str:
        lines, frame = _content(self)
        return html_table(kind.__name__, lines, frame=frame)

    for name, method in (("__repr__", text), ("_repr_html_", html)):
        setattr(kind, name, method)
    return kind


def _content(result: Any) -> tuple[list[tuple[str, str]], Any]:
    import pandas  # not with the help of a command

    members = vars(type(result))
    if isinstance(result, tuple):
        named = dict(zip(members["_fields"], result, strict=True))
    else:
        named = {field.name: vars(result)[field.name] for field in fields(result)}
    method = members.get("frame")
    tables = [method(result) if callable(method) else None, *named.values()]
    frame = next(
        (table for table in tables if isinstance(table, pandas.DataFrame) and len(table)), None
    )
    if frame is not None and len(frame) > 12:
        frame = frame.describe().T[["min", "mean", "max"]].reset_index(names="column")
    return [(name, _described(value)) for name, value in named.items()], frame


def _described(value: Any) -> str:
    import numpy as np
    import pandas

    if isinstance(value, pandas.DataFrame):
        return shorten(
            f"{len(value):,} rows: {', '.join(map(str, value.columns))}", 88, placeholder=" ..."
        )
    if isinstance(value, np.ndarray) and value.size > 1:
        return (
            f"{' x '.join(map(str, value.shape))} numbers, {value.min():.4g} to {value.max():.4g}"
        )
    if value is None or (isinstance(value, np.ndarray) and not value.size):
        return "none"
    if isinstance(value, list | dict) or (
        type(value) is tuple and isinstance(value[0], np.ndarray)
    ):
        return f"{len(value):,} of them"
    value = value.item() if isinstance(value, np.ndarray) else value
    text = ", ".join(map(str, value)) if type(value) is tuple else str(value).split("\n\n")[0]
    return f"{value:.6g}" if isinstance(value, float) else shorten(text, 88, placeholder=" ...")
