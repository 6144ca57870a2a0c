"""Temperatures of groups of parameters with their bands."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from tati_re.core.errors import InputError
from tati_re.plotting.figure import COLORS, DARK, new_figure, plain, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FORMULAS = {"kinetic": "p·p / P", "configurational": "θ·∇U / P"}


def plot_group_temperatures(table: pd.DataFrame, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draws the temperature of each group as a point, in the band where it should lie.

    Args:
        table: Of `analysis.group_temperatures`; a panel for each kind of temperature.
        path: PNG file to write. Default: none.

    Raises:
        InputError: An empty table, or a path that cannot be written.
    """
    if table.empty:
        raise InputError("There are no temperatures to draw.")
    kinds = list(dict.fromkeys(table["temperature"]))
    most = int(table.groupby("temperature").size().max())
    figure = new_figure(7.2, 1.1 + 0.26 * most)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    groups = list(dict.fromkeys(table["group"]))
    for axes, kind in zip(panels, kinds, strict=True):
        axes.use_sticky_edges = False
        part = table[table["temperature"] == kind]
        places = np.array([groups.index(group) for group in part["group"]])
        ends = part[["lower", "upper"]].where(np.isfinite(part["lower"])).to_numpy()
        axes.barh(places, ends[:, 1] - ends[:, 0], left=ends[:, 0], height=0.62, color=COLORS[4], alpha=0.35)
        outside = part["verdict"].isin(("above", "below")).to_numpy()
        for chosen, color, marker in ((~outside, COLORS[0], "o"), (outside, COLORS[1], "D")):
            axes.plot(part["mean"][chosen], places[chosen], marker, color=color, markersize=5, linestyle="none")
        axes.axvline(part["target"].iloc[0], color=DARK, linewidth=0.8, linestyle="--")
        axes.set_xlabel(f"{kind} temperature {_FORMULAS[kind]}")
        plain(axes)
    panels[0].set_yticks(range(len(groups)), groups)
    panels[0].set_ylim(len(groups) - 0.4, -0.6)
    figure.suptitle(
        "band: once in 10,000 outside; diamonds lie outside; no band: too short to tell",
        fontsize=8,
        color=DARK,
        x=0.99,
        ha="right",
    )
    return save(figure, path)
