"""Colors, sizes and saving of all figures."""

import io
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tati_re.core.errors import AnyPath, refuse_if
from tati_re.core.front_door import front_door
from tati_re.runs.storage import replacing

DPI = 150
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Distinguishable with any color vision: M. Okabe, K. Ito, Color Universal Design (2008), without
yellow.
"""
GRAY = "#8C8C8C"
DARK = "#333333"


class _Drawn(Figure):
    def _repr_png_(self) -> bytes:
        # Notebooks know how to show a figure only once pyplot was imported.
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=80)
        return content.getvalue()


@front_door
def new_figure(width: float, height: float) -> Figure:
    """Creates a figure with its own canvas, outside pyplot, and automatic layout.

    Args:
        width: Width in inches.
        height: Height in inches.

    Returns:
        The figure.
    """
    figure = _Drawn(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@front_door
def plain(*panels: Axes) -> None:
    """Removes the top and right spines of panels and makes their text small.

    Args:
        *panels: The panels.
    """
    for axes in panels:
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.tick_params(which="both", labelsize=8, color=GRAY)
        axes.xaxis.label.set_fontsize(9)
        axes.yaxis.label.set_fontsize(9)


def labeled(axes: Axes, x: str, y: str) -> None:
    """Names the axes of a panel and makes it `plain`.

    Args:
        axes: The panel.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
    """
    axes.set(xlabel=x, ylabel=y)
    plain(axes)


def color_bar(figure: Figure, axes: Axes, drawn: Any, label: str, **choices: Any) -> None:
    """Adds a color bar to a panel, with text as small as `plain` makes it.

    Args:
        figure: The figure.
        axes: The panel.
        drawn: What the panel shows in colors, such as an image or points.
        label: Label of the bar.
        **choices: Further arguments of `Figure.colorbar`.
    """
    bar = figure.colorbar(drawn, ax=axes, label=label, **choices)
    bar.ax.tick_params(labelsize=8)
    bar.ax.yaxis.label.set_fontsize(9)


def empty(axes: Axes, message: str) -> None:
    """Shows in a panel without content why it is empty.

    Args:
        axes: The panel, whose axes are hidden.
        message: The reason.
    """
    axes.set_axis_off()
    axes.text(
        0.5,
        0.5,
        message,
        ha="center",
        va="center",
        fontsize=8,
        color=DARK,
        transform=axes.transAxes,
    )


@front_door
def legend_above(axes: Axes, room: int = 1000) -> int:
    """Places the legend above the right end of a panel, in one or more rows.

    Args:
        axes: The panel.
        room: Number of characters per row. Default: 1000.

    Returns:
        The number of rows.
    """
    _, labels = axes.get_legend_handles_labels()
    style: dict[str, Any] = {
        "loc": "lower right",
        "bbox_to_anchor": (1.0, 0.99),
        "borderaxespad": 0.1,
    }
    style |= {"frameon": False, "fontsize": 8, "handlelength": 1.4, "columnspacing": 1.2}
    columns = max(1, min(len(labels), room // (max(map(len, labels), default=0) + 5)))
    axes.legend(ncols=columns, **style)
    return -(-len(labels) // columns)


@front_door
def save(figure: Figure, path: AnyPath | None) -> Figure:
    """Saves a figure as a PNG file at 150 dots per inch.

    Args:
        figure: The figure.
        path: The file, ending in `.png`; None: no file.

    Returns:
        The figure.

    Raises:
        InputError: The name does not end in `.png`, or the file cannot be written.
    """
    if path is None:
        return figure
    refuse_if(Path(path).suffix.lower() != ".png", "The path of a figure must end in .png.", path)
    with replacing(path) as file:
        figure.savefig(file, format="png", dpi=DPI)
    return figure
