"""Landscapes as files of other programs: a page with a surface to turn, and legacy VTK for ParaView
and VisIt.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.plotting.figure import COLORS
from tati_re.plotting.landscape import WORDS, _scales, matrix
from tati_re.runs.storage import write_whole

if TYPE_CHECKING:
    from tati_re.landscape.scan import Landscape


@front_door
def write_landscape_page(
    landscape: Landscape, path: AnyPath, quantity: str = "ln_excess_loss"
) -> None:
    """Writes a web page with the surface of each scale, to rotate and read in a browser.

    The page works offline. It contains plotly.js, which takes 4 to 5 MB.

    Args:
        landscape: A landscape over two coordinates.
        path: The file, ending in `.html`.
        quantity: A column of the table. Default: `ln_excess_loss`.

    Raises:
        InputError: There are not two coordinates, there is no such column, the ending differs, or
            plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise InputError(
            "A page needs plotly.", expected="pip install 'tati_re[interactive]'"
        ) from None
    refuse_if(len(landscape.names) != 2, "A page shows two coordinates.", len(landscape.names))
    if quantity not in landscape.table:
        raise InputError(
            "quantity is not a column of the table.", quantity, ", ".join(landscape.table.columns)
        )
    refuse_if(Path(path).suffix.lower() != ".html", "The path of a page must end in .html.", path)
    figure = go.Figure()
    parts = _scales(landscape)
    groups: list[list[int]] = []
    for number, (_, table, trajectory) in enumerate(parts):
        first, second, values = matrix(landscape, table, quantity)
        # Surface takes rows along y.
        figure.add_surface(
            x=first,
            y=second,
            z=values.T,
            colorscale="Viridis",
            opacity=0.9,
            visible=number == 0,
            name="plane",
            colorbar={"title": {"text": WORDS.get(quantity, quantity)}},
        )
        groups.append([len(figure.data) - 1])
        if trajectory is not None and len(trajectory):
            for walker, rows in trajectory.groupby("walker"):
                figure.add_scatter3d(
                    x=rows[landscape.names[0]],
                    y=rows[landscape.names[1]],
                    z=rows[quantity],
                    mode="lines+markers",
                    marker={"size": 2, "color": COLORS[1]},
                    line={"color": COLORS[1], "width": 2},
                    name=f"walker {walker}",
                    visible=number == 0,
                    text=[f"step {step}" for step in rows["step"]],
                    showlegend=False,
                )
                groups[-1].append(len(figure.data) - 1)
    titles = dict(
        zip(
            ("xaxis", "yaxis", "zaxis"),
            (*landscape.names, WORDS.get(quantity, quantity)),
            strict=True,
        )
    )
    scene = {axis: {"title": {"text": text}} for axis, text in titles.items()}
    figure.update_layout(scene=scene, margin={"l": 0, "r": 0, "t": 30, "b": 0}, title=None)
    if len(parts) > 1:
        buttons = []
        for (scale, _, _), group in zip(parts, groups, strict=True):
            seen = [{"visible": [trace in group for trace in range(len(figure.data))]}]
            buttons.append({"label": f"10^{scale}", "method": "update", "args": seen})
        figure.update_layout(
            updatemenus=[{"buttons": buttons, "x": 0.02, "y": 0.98, "type": "dropdown"}]
        )
    page: str = figure.to_html(include_plotlyjs=True, full_html=True, default_height="96vh")
    write_whole(path, page.encode())


@front_door
def write_vtk(landscape: Landscape, folder: AnyPath, quantity: str | None = None) -> list[str]:
    """Writes a structured VTK grid for each scale of a landscape.

    `landscape.vtk` has the coordinates of two or three axes and all columns of the table at the
    points. Over a plane, its height is `quantity`, scaled to the width of the plane.
    `trajectory.vtk` has the stored positions in the same coordinates, with one line per walker.
    Values that are not finite are written as nan.

    Args:
        landscape: A landscape over two or three coordinates.
        folder: The folder for the files.
        quantity: The height over a plane. Default: None, `ln_excess_loss`.

    Returns:
        The names of the files.

    Raises:
        InputError: There are one or more than three coordinates, or there is no such column.
        StorageError: A file cannot be written.
    """
    height = quantity or "ln_excess_loss"
    refuse_if(
        len(landscape.names) not in (2, 3),
        "A VTK file has two or three coordinates.",
        len(landscape.names),
    )
    if height not in landscape.table:
        raise InputError(
            "quantity is not a column of the table.", height, ", ".join(landscape.table.columns)
        )
    written = []
    for scale, table, trajectory in _scales(landscape):
        end = "" if scale in (None, 0) else f"-{scale}"
        sizes = [table[name].nunique() for name in landscape.names]
        spread = float(np.ptp(table[height].dropna())) if table[height].notna().any() else 0.0
        unit = float(np.ptp(table[landscape.names[0]])) / spread if spread > 0 else 1.0
        # VTK takes the first coordinate as the fastest, the table the last.
        order = np.arange(len(table)).reshape(sizes).T.ravel()
        head = f"DATASET STRUCTURED_GRID\nDIMENSIONS {' '.join(map(str, [*sizes, 1][:3]))}\n"
        rows = table.iloc[order]
        text = (
            head
            + _points(rows, landscape.names, height, unit)
            + f"POINT_DATA {len(rows)}\n"
            + _data(rows)
        )
        parts = {f"landscape{end}.vtk": text}
        if trajectory is not None and len(trajectory) and height in trajectory:
            rows = trajectory.dropna(subset=[*landscape.names, height]).sort_values(
                ["walker", "step"]
            )
            lines = []
            place = 0
            for count in rows.groupby("walker").size():
                lines.append(" ".join(map(str, (count, *range(place, place + count)))))
                place += count
            text = "DATASET POLYDATA\n" + _points(rows, landscape.names, height, unit)
            text += (
                f"LINES {len(lines)} {place + len(lines)}\n"
                + "\n".join(lines)
                + f"\nPOINT_DATA {len(rows)}\n"
            )
            parts[f"trajectory{end}.vtk"] = text + _data(rows)
        for name, content in parts.items():
            write_whole(
                Path(folder) / name,
                f"# vtk DataFile Version 3.0\n{name}\nASCII\n{content}".encode(),
            )
            written.append(name)
    return written


def _points(rows: pd.DataFrame, names: tuple[str, ...], height: str, unit: float) -> str:
    values = rows[list(names)].to_numpy(np.float64)
    if len(names) == 2:
        z = rows[height].to_numpy(np.float64) * unit
        values = np.column_stack(
            [values, np.nan_to_num(z, nan=np.nanmin(z) if np.isfinite(z).any() else 0.0)]
        )
    return (
        f"POINTS {len(values)} double\n"
        + "\n".join(" ".join(map(repr, row)) for row in values.tolist())
        + "\n"
    )


def _data(rows: pd.DataFrame) -> str:
    columns = {
        name: "\n".join(map(repr, rows[name].astype(float).tolist())) for name in rows.columns
    }
    return "".join(
        f"SCALARS {name} double 1\nLOOKUP_TABLE default\n{text}\n" for name, text in columns.items()
    )
