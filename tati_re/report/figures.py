"""Figures of a report that no other page has: the ladder, the walk of the replicas, the bias."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tati_re.plotting.figure import COLORS, GRAY, labeled, legend_above, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST_STEPS = 1500
_MOST_REPLICAS = 4


def narrow(figure: Figure) -> None:
    """Fits the traces of `plot_traces` to half a page, without wide legends, which the caption replaces."""
    from matplotlib.ticker import MaxNLocator

    for number, axes in enumerate(figure.axes):
        handles, labels = axes.get_legend_handles_labels()
        if (legend := axes.get_legend()) is not None:
            legend.remove()
        for text in list(axes.texts):
            text.remove()
        if number == 0 and len(labels) > 1:
            axes.legend(handles, labels, frameon=False, fontsize=7, ncols=2, handlelength=1.2, loc="best")
        axes.xaxis.set_major_locator(MaxNLocator(4))


def plot_replicas(rows: pd.DataFrame) -> Figure:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure = new_figure(4.6, 2.9)
    axes = figure.subplots()
    rows = rows[rows["walker"] == 0]
    replicas = np.unique(rows["replica"])
    chosen = replicas[np.unique(np.linspace(0, len(replicas) - 1, _MOST_REPLICAS).astype(int))]
    for number, replica in enumerate(chosen):
        mine = rows[rows["replica"] == replica]
        every = max(1, len(mine) // _MOST_STEPS)
        shift = 0.08 * (number - 0.5 * (len(chosen) - 1))
        axes.plot(
            mine["step"][::every],
            mine["rung"][::every] + shift,
            color=COLORS[number],
            linewidth=0.8,
            label=f"replica {replica}",
        )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    legend_above(axes)
    labeled(axes, "step", "rung")
    return figure


def plot_bias(bias: pd.DataFrame) -> Figure:
    figure = new_figure(4.6, 2.9)
    axes = figure.subplots()
    for number, (rung, part) in enumerate(bias.groupby("rung")):
        color = COLORS[number % len(COLORS)] if number < len(COLORS) else GRAY
        label = f"rung {rung}" if number < len(COLORS) else None
        every = max(1, len(part) // _MOST_STEPS)
        axes.plot(part["energy"][::every], part["bias"][::every], color=color, linewidth=1.1, label=label)
    axes.legend(frameon=False, fontsize=8)
    labeled(axes, "potential U", "bias A(U)")
    return figure
