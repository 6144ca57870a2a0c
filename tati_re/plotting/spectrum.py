"""Spectrum of a covariance, and autocorrelation times of its directions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tati_re.core.errors import InputError
from tati_re.plotting.figure import COLORS, legend_above, new_figure, plain, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def plot_spectrum(tables: Mapping[str, pd.DataFrame], path: str | os.PathLike[str] | None = None) -> Figure:
    """Draws the leading eigenvalues of one or several covariances, and the autocorrelation time along each vector.

    The second panel is there where a time could be told.

    Args:
        tables: Of `analysis.covariance_table` by name, such as one a run or a walker.
        path: PNG file to write. Default: none.

    Raises:
        InputError: No tables, or a path that cannot be written.
    """
    from matplotlib.ticker import LogFormatterSciNotation, MaxNLocator

    if not tables:
        raise InputError("There is no covariance to draw.")
    timed = any(np.isfinite(table["autocorrelation_steps"]).any() for table in tables.values())
    figure = new_figure(8.0 if timed else 4.8, 3.4)
    panels = figure.subplots(1, 2 if timed else 1, squeeze=False, sharex=True)[0]
    shown = ["eigenvalue"] + (["autocorrelation_steps"] if timed else [])
    for axes, column in zip(panels, shown, strict=True):
        for number, (name, table) in enumerate(tables.items()):
            values = table[column].where(table[column] > 0)
            size = 3.5 if len(table) <= 40 else 2
            axes.plot(
                table["number"], values, marker="o", markersize=size, linewidth=0.8,
                color=COLORS[number % len(COLORS)], label=name,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(1.2, 0.5)))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("eigenvector, widest first")
        plain(axes)
    panels[0].set_ylabel("variance along it (eigenvalue)")
    if timed:
        panels[1].set_ylabel("autocorrelation time (steps)")
    if len(tables) > 1:
        legend_above(panels[0])
    return save(figure, path)
