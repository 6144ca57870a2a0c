"""Figures of landscapes: lines, contours and surfaces, with the trajectory on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.plotting.figure import (
    COLORS,
    DARK,
    GRAY,
    color_bar,
    labeled,
    legend_above,
    new_figure,
    save,
)

if TYPE_CHECKING:
    from tati_re.landscape.scan import Landscape

WORDS = {
    "loss": "mean loss L",
    "potential": "potential U",
    "accuracy": "accuracy",
    "test_loss": "mean loss, test set",
    "test_accuracy": "accuracy, test set",
    "ln_excess_loss": "ln(L − L₀)",
}
_COLUMNS = 3


@front_door
def plot_landscape(
    landscape: Landscape,
    path: AnyPath | None = None,
    kind: str = "auto",
    quantity: str | None = None,
    scales: Sequence[int] | None = None,
) -> Figure:
    """Plots a landscape, with one panel per scale.

    Args:
        landscape: A landscape over one or two coordinates, from `tati_re.landscape.scan` or `load`.
        path: A PNG file to write. Default: None, no file.
        kind: "sweep" (one coordinate), "contour" or "surface" (two coordinates), or "auto", which
            selects sweep or contour. Default: auto.
        quantity: A column of the table. Default: None, `ln_excess_loss` over a plane and the losses
            along a line.
        scales: Scales to plot. Default: None, all scales.

    Returns:
        The figure.

    Raises:
        InputError: There are more than two coordinates, the kind does not fit, or there is no such
            column.
    """
    axes = len(landscape.names)
    kinds = {1: ("sweep",), 2: ("contour", "surface")}.get(axes, ())
    refuse_if(not kinds, "A figure shows one or two coordinates.", axes)
    kind = kinds[0] if kind == "auto" else kind
    refuse_if(kind not in kinds, "kind does not fit the landscape.", kind, " or ".join(kinds))
    if quantity is not None and quantity not in landscape.table:
        raise InputError(
            "quantity is not a column of the table.", quantity, ", ".join(landscape.table.columns)
        )
    parts = [part for part in _scales(landscape) if scales is None or part[0] in scales]
    refuse_if(not parts, "scales: none of them is in the table.", list(scales or ()))
    columns = min(len(parts), _COLUMNS)
    rows = -(-len(parts) // columns)
    if kind == "sweep":
        figure = new_figure(min(4.8 * columns, 12.0), 3.4 * rows)
    else:
        width, height = (3.3, 3.2) if kind == "surface" else (4.6, 4.0)
        figure = new_figure(
            width * columns if columns > 1 else 5.6, height * rows if columns > 1 else 4.6
        )
    for number, (scale, table, trajectory) in enumerate(parts):
        style: dict[str, Any] = {"projection": "3d"} if kind == "surface" else {}
        panel = figure.add_subplot(rows, columns, number + 1, **style)
        if kind == "sweep":
            _sweep(panel, landscape, table, trajectory, quantity)
        elif kind == "contour":
            _contour(figure, panel, landscape, table, trajectory, quantity or "ln_excess_loss")
        else:
            _surface(panel, landscape, table, trajectory, quantity or "ln_excess_loss", scale or 0)
        if scale is not None:
            panel.set_title(f"scale $10^{{{scale}}}$", loc="left", fontsize=9, color=DARK)
    return save(figure, path)


def matrix(
    landscape: Landscape, table: Any, quantity: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A quantity on the grid of a landscape with two axes.

    Args:
        landscape: The landscape.
        table: Its table, or the rows of one scale.
        quantity: Name of the column.

    Returns:
        Coordinates of both axes, shape (n,) and (m,), and the quantity, shape (n, m). Numbers that
        are not finite are nan. In `ln_excess_loss`, the lowest point, minus infinity, has the next
        lowest value.
    """
    first, second = (np.unique(table[name]) for name in landscape.names)
    values = table[quantity].to_numpy(np.float64).reshape(len(first), len(second))
    values = np.where(np.isfinite(values), values, np.nan)
    if quantity == "ln_excess_loss" and not np.isnan(values).all():
        known = np.isfinite(table["loss"].to_numpy(np.float64)).reshape(values.shape)
        values = np.where(np.isnan(values) & known, np.nanmin(values), values)
    return first, second, values


def _scales(landscape: Landscape) -> list[tuple[int | None, Any, Any]]:
    """Scale, rows of the table, and rows of the trajectory in its range."""
    table = landscape.table
    trajectory = landscape.trajectory
    if "scale" not in table:
        return [(None, table, _inside(landscape, table, trajectory))]
    parts = [
        (int(scale), table[table["scale"] == scale]) for scale in dict.fromkeys(table["scale"])
    ]
    return [(scale, part, _inside(landscape, part, trajectory)) for scale, part in parts]


def _inside(landscape: Landscape, table: Any, trajectory: Any) -> Any:
    if trajectory is None:
        return None
    inside = np.ones(len(trajectory), bool)
    for name in landscape.names:
        inside &= trajectory[name].between(table[name].min(), table[name].max()).to_numpy()
    # Rows outside stay as gaps: a line across them would show a way that was never taken.
    names = [column for column in trajectory if column not in ("step", "walker")]
    visible = trajectory.assign(**{name: trajectory[name].where(inside) for name in names})
    return visible if inside.any() else trajectory[:0]


def _sweep(
    panel: Axes, landscape: Landscape, table: Any, trajectory: Any, quantity: str | None
) -> None:
    name = landscape.names[0]
    columns = (
        [quantity] if quantity else [column for column in ("loss", "test_loss") if column in table]
    )
    for color, column in zip(COLORS, columns, strict=False):
        label = {"loss": "training", "test_loss": "test"}.get(column, column)
        panel.plot(table[name], table[column], color=color, linewidth=1.5, label=label)
    if trajectory is not None and len(trajectory) and columns[0] in trajectory:
        panel.plot(
            trajectory[name],
            trajectory[columns[0]],
            ".",
            color=GRAY,
            markersize=2,
            label="trajectory",
            zorder=0,
        )
    labeled(panel, name, WORDS.get(columns[0], columns[0]))
    if len(panel.get_legend_handles_labels()[0]) > 1:
        legend_above(panel)


def _contour(
    figure: Figure, panel: Axes, landscape: Landscape, table: Any, trajectory: Any, quantity: str
) -> None:
    first, second, values = matrix(landscape, table, quantity)
    low = np.nanpercentile(values, 0.5)
    high = np.nanmax(values)
    levels = MaxNLocator(15).tick_values(low, high)
    drawn = panel.contourf(first, second, values.T, levels=levels, cmap="viridis", extend="min")
    panel.contour(first, second, values.T, levels=levels, colors="white", linewidths=0.3, alpha=0.6)
    if trajectory is not None and len(trajectory):
        for _, walker in trajectory.groupby("walker"):
            x, y = (walker[name] for name in landscape.names)
            panel.plot(x, y, color="white", linewidth=0.6, alpha=0.9)
            panel.plot(x, y, ".", color=COLORS[1], markersize=2.5)
            panel.plot(
                x.iloc[-1:],
                y.iloc[-1:],
                "o",
                color=COLORS[1],
                markersize=6,
                markeredgecolor="white",
            )
    labeled(panel, landscape.names[0], landscape.names[1])
    color_bar(figure, panel, drawn, WORDS.get(quantity, quantity))


def _surface(
    panel: Any, landscape: Landscape, table: Any, trajectory: Any, quantity: str, scale: int
) -> None:
    first, second, values = matrix(landscape, table, quantity)
    # In units of the scale: matplotlib puts a common power of ten of a 3-d axis far from its ticks,
    # over others.
    unit = 1.0 if scale in (0, 1) else 10.0**scale
    x, y = np.meshgrid(first / unit, second / unit, indexing="ij")
    see_through = trajectory is not None and len(trajectory)
    panel.plot_surface(
        x,
        y,
        values,
        cmap="viridis",
        linewidth=0.15,
        edgecolor="#00000040",
        alpha=0.75 if see_through else 1.0,
        rcount=60,
        ccount=60,
    )
    if see_through:
        for _, walker in trajectory.groupby("walker"):
            panel.plot(
                walker[landscape.names[0]] / unit,
                walker[landscape.names[1]] / unit,
                walker[quantity],
                color=COLORS[1],
                linewidth=0.7,
                marker=".",
                markersize=1.5,
                zorder=10,
            )
    over = "" if unit == 1 else f" / $10^{{{scale}}}$"
    panel.set_xlabel(landscape.names[0] + over, fontsize=8, labelpad=-4)
    panel.set_ylabel(landscape.names[1] + over, fontsize=8, labelpad=-4)
    panel.tick_params(labelsize=7, pad=-2)
    panel.locator_params(axis="both", nbins=5)
    panel.view_init(elev=28, azim=-55)
    panel.set_box_aspect(None, zoom=0.95)
    # Beside the axis its name is cut off, or lies over wide numbers; the upper part of the panel is
    # empty.
    panel.text2D(0.0, 0.93, WORDS.get(quantity, quantity), transform=panel.transAxes, fontsize=9)


@front_door
def plot_spectrum_of_hessian(
    density: Any,
    path: AnyPath | None = None,
    extremes: np.ndarray | None = None,
    width: float | None = None,
) -> Figure:
    """Plots the spectral density of a Hessian on a logarithmic axis, with extreme eigenvalues as
    ticks.

    Args:
        density: The density from `tati_re.landscape.hessian_density`.
        path: A PNG file to write. Default: None, no file.
        extremes: Eigenvalues to mark. Default: None.
        width: Width of the Gaussians that smooth the density. Default: None, 1/150 of the range.

    Returns:
        The figure.
    """
    ends = [
        density.nodes.min(),
        density.nodes.max(),
        *([] if extremes is None else np.asarray(extremes)),
    ]
    low = min(ends)
    high = max(ends)
    room = 0.04 * (high - low) or max(abs(high), 1.0)
    width = (high - low + 2 * room) / 150 if width is None else width
    grid = np.linspace(low - room, high + room, 1200)
    figure = new_figure(6.4, 3.2)
    panel = figure.subplots()
    values = density.on(grid, width) * density.num_parameters
    floor = (
        0.02 * values[values > 0].min(initial=1.0, where=values[values > 0] > 1e-9)
        if values.any()
        else 1e-3
    )
    floor = max(floor, 1e-3 / (high - low + 1e-300))
    panel.fill_between(
        grid, floor, np.maximum(values, floor), color=COLORS[0], alpha=0.35, linewidth=0
    )
    panel.plot(grid, np.maximum(values, floor), color=COLORS[0], linewidth=1)
    panel.set_yscale("log")
    panel.set_ylim(bottom=floor)
    if extremes is not None:
        panel.plot(
            extremes,
            np.full(len(extremes), floor),
            "|",
            color=COLORS[1],
            markersize=14,
            markeredgewidth=1.5,
            clip_on=False,
            label="eigenvalues by Lanczos",
        )
        legend_above(panel)
    panel.axvline(0, color=GRAY, linewidth=0.6, zorder=0)
    labeled(panel, "eigenvalue of the Hessian of U", "eigenvalues per unit")
    return save(figure, path)
