"""Autocorrelation functions of a run's observables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tati_re.analysis.convergence import MINIMUM_DRAWS, autocorrelation_estimate, autocorrelation_function
from tati_re.core.errors import InputError
from tati_re.plotting.figure import COLORS, GRAY, labeled, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LAGS = 8.0
"""Autocorrelation times that are shown."""


def plot_autocorrelation(
    chains: Mapping[str, np.ndarray], steps_between_rows: float = 1.0, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draws the autocorrelation function of each observable, with its integrated time in the legend.

    The band is the error of a correlation that is zero: two standard errors, by Bartlett's formula with the sum of the
    squares of what is drawn.

    Args:
        chains: Draws `(chains, draws)` by name.
        steps_between_rows: Unit of the lags. Default: 1.
        path: PNG file to write. Default: none.

    Raises:
        InputError: No chain that moves, or a path that cannot be written.
    """
    shown = {
        name: values
        for name, values in chains.items()
        if values.shape[1] >= MINIMUM_DRAWS and np.isfinite(values).all() and (np.ptp(values, axis=1) > 0).all()
    }
    if not shown:
        raise InputError("No observable changes: there is no autocorrelation to draw.")
    figure = new_figure(6.4, 3.4)
    draw_autocorrelation(figure.subplots(), shown, steps_between_rows)
    return save(figure, path)


def draw_autocorrelation(axes: Axes, shown: Mapping[str, np.ndarray], steps_between_rows: float) -> None:
    """The same into a panel, of chains that change."""
    estimates = {name: autocorrelation_estimate(values) for name, values in shown.items()}
    longest = max(time for time, _ in estimates.values())
    for number, (name, values) in enumerate(shown.items()):
        time, needed = estimates[name]
        lags = int(min(values.shape[1] - 1, max(10, np.ceil(_LAGS * longest))))
        function = autocorrelation_function(values)[: lags + 1]
        every = max(1, lags // 1000)
        steps = steps_between_rows * np.arange(lags + 1)
        color = COLORS[number % len(COLORS)]
        said = f"{steps_between_rows * time:,.3g} steps" + (" or more: too short to tell" if needed else "")
        axes.plot(
            steps[::every], function[::every], color=color, linewidth=1.3, label=f"{name}: {said}" if name else said
        )
        if number == 0:
            error = 2 * np.sqrt((1 + 2 * np.cumsum(function[1:] ** 2)) / values.size)
            axes.fill_between(steps[1:], -error, error, color=GRAY, alpha=0.2, linewidth=0)
    axes.axhline(0.0, color=GRAY, linewidth=0.8)
    axes.set_xlim(0, None)
    axes.legend(frameon=False, fontsize=8, title="integrated time", title_fontsize=8)
    labeled(axes, "lag (steps)", "autocorrelation")
