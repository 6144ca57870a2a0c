"""Ranks of true parameters among posterior draws, against the uniform distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from tati_re.core.errors import AnyPath
from tati_re.core.front_door import front_door
from tati_re.plotting.bands import LEVEL, uniform_band
from tati_re.plotting.figure import COLORS, DARK, GRAY, labeled, new_figure, save

_COLUMNS = 3


@front_door
def plot_ranks(
    fractions: Mapping[str, np.ndarray], level: float = LEVEL, path: AnyPath | None = None
) -> Figure:
    """Plots the distribution functions of rank fractions minus the uniform one, one panel each.

    The gray band holds the whole curve of a correct model with the stated probability. A curve
    outside it is red.

    Args:
        fractions: Fractions of draws below the true value in [0, 1], shape (replications,), by the
            name of the quantity.
        level: Probability of the band of each panel. Default: 0.95.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.
    """
    columns = min(_COLUMNS, len(fractions))
    rows = math.ceil(len(fractions) / columns)
    figure = new_figure(3.2 * columns, 2.4 * rows)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for axes, (name, values) in zip(panels, fractions.items(), strict=False):
        levels, low, high = uniform_band(len(values), level)
        fractions_below = cumulative(values, levels)
        outside = bool(((fractions_below < low) | (fractions_below > high)).any())
        axes.fill_between(levels, low - levels, high - levels, color=GRAY, alpha=0.25, linewidth=0)
        axes.plot(levels, fractions_below - levels, color=COLORS[outside], linewidth=1.2)
        axes.axhline(0, color=GRAY, linewidth=0.6)
        axes.set_xlim(0, 1)
        labeled(axes, "fraction of draws below the truth", "distribution minus uniform")
        axes.set_title(name, loc="left", color=DARK, fontsize=10)
    for axes in panels[len(fractions) :]:
        axes.set_axis_off()
    return save(figure, path)


def cumulative(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The fraction of values at or below each level.

    Args:
        values: Numbers, shape (n,).
        levels: Numbers, shape (levels,).

    Returns:
        Fractions, shape (levels,).
    """
    return np.searchsorted(np.sort(values), levels, side="right") / len(values)
