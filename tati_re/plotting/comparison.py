"""The posterior average beside the fits it began from: a dot for each, a panel for each score."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tati_re.core.errors import AnyPath
from tati_re.core.front_door import front_door
from tati_re.plotting.figure import COLORS, DARK, GRAY, new_figure, plain, save
from tati_re.prediction.held_out_table import SCORES

_SHOWN = ("negative_log_likelihood", "rmse", "accuracy", "crps", "calibration_error", "coverage_90")
_WIDTH = 2.1
_LABELS = 1.5
"""Inches of a panel, and of the names at the left."""


@front_door
def plot_comparison(frame: pd.DataFrame, path: AnyPath | None = None) -> Figure:
    """Plots the scores of the posterior average, the ensemble of its fits, one fit, and a mixture.

    Args:
        frame: The table `run.comparison`.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure, with one panel per score. The gray line marks a coverage of 90 %.
    """
    scores = [name for name in _SHOWN if name in frame.columns and frame[name].notna().any()]
    figure = new_figure(_LABELS + _WIDTH * len(scores), 1.7)
    panels = figure.subplots(1, max(1, len(scores)), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, scores, strict=False):
        _draw(axes, frame, name)
    panels[0].set_yticks(range(len(frame)), list(frame.index))
    panels[0].set_ylim(len(frame) - 0.5, -0.5)
    return save(figure, path)


def _draw(axes: Axes, frame: pd.DataFrame, name: str) -> None:
    if name == "coverage_90":
        axes.axvline(0.9, color=GRAY, linewidth=0.8)
    for place, value in enumerate(frame[name]):
        color = COLORS[place % len(COLORS)]
        axes.plot([value], [place], marker="o", markersize=6, color=color, linestyle="none")
        axes.annotate(
            f"{value:.3g}" if value == value else "not known",
            (value if value == value else frame[name].mean(), place),
            textcoords="offset points",
            xytext=(0, 6),
            ha="center",
            fontsize=7,
            color=DARK,
        )
    axes.margins(x=0.25)
    axes.locator_params(axis="x", nbins=3)
    axes.set_xlabel(SCORES[name])
    plain(axes)
