"""An interactive landscape: one HTML file with a surface over the plane and the trajectory on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tati_re.core.errors import InputError
from tati_re.plotting.figure import COLORS
from tati_re.plotting.landscape import WORDS, _scales, matrix
from tati_re.runs.storage import write_whole

if TYPE_CHECKING:
    from tati_re.landscape.scan import Landscape


def write_landscape_page(landscape: Landscape, path: str | os.PathLike[str], quantity: str = "ln_excess_loss") -> None:
    """Writes a page with the surface of each scale, which a browser rotates and reads off offline.

    The program that turns it, plotly.js, is part of the file: 4 to 5 MB.

    Args:
        landscape: Over two coordinates.
        path: File ending in `.html`.
        quantity: A column of the table. Default: `ln_excess_loss`.

    Raises:
        InputError: Not two coordinates, no such column, another ending, or plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise InputError("A page needs plotly.", expected="pip install 'tati_re[interactive]'") from None
    if len(landscape.names) != 2:
        raise InputError("A page shows two coordinates.", len(landscape.names))
    if quantity not in landscape.table:
        raise InputError("quantity is not a column of the table.", quantity, ", ".join(landscape.table.columns))
    if Path(path).suffix.lower() != ".html":
        raise InputError("The path of a page must end in .html.", received=path)
    figure, parts = go.Figure(), _scales(landscape)
    groups: list[list[int]] = []
    for number, (_, table, trajectory) in enumerate(parts):
        first, second, values = matrix(landscape, table, quantity)
        # Surface takes rows along y.
        figure.add_surface(
            x=first, y=second, z=values.T, colorscale="Viridis", opacity=0.9, visible=number == 0, name="plane",
            colorbar={"title": {"text": WORDS.get(quantity, quantity)}},
        )  # fmt: skip
        groups.append([len(figure.data) - 1])
        if trajectory is not None and len(trajectory):
            column = quantity if quantity in trajectory else "ln_excess_loss"
            for walker, rows in trajectory.groupby("walker"):
                figure.add_scatter3d(
                    x=rows[landscape.names[0]], y=rows[landscape.names[1]], z=rows[column], mode="lines+markers",
                    marker={"size": 2, "color": COLORS[1]}, line={"color": COLORS[1], "width": 2},
                    name=f"walker {walker}", visible=number == 0, text=[f"step {step}" for step in rows["step"]],
                    showlegend=False,
                )  # fmt: skip
                groups[-1].append(len(figure.data) - 1)
    titles = dict(zip(("xaxis", "yaxis", "zaxis"), (*landscape.names, WORDS.get(quantity, quantity)), strict=True))
    scene = {axis: {"title": {"text": text}} for axis, text in titles.items()}
    figure.update_layout(scene=scene, margin={"l": 0, "r": 0, "t": 30, "b": 0}, title=None)
    if len(parts) > 1:
        buttons = [
            {
                "label": f"10^{scale}",
                "method": "update",
                "args": [{"visible": [trace in group for trace in range(len(figure.data))]}],
            }
            for (scale, _, _), group in zip(parts, groups, strict=True)
        ]
        figure.update_layout(updatemenus=[{"buttons": buttons, "x": 0.02, "y": 0.98, "type": "dropdown"}])
    page: str = figure.to_html(include_plotlyjs=True, full_html=True, default_height="96vh")
    write_whole(path, page.encode())
