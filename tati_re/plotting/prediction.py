"""A prediction at a glance: band over an input, calibration, entropy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from tati_re.core.errors import InputError
from tati_re.plotting.calibration import draw_entropy, draw_reliability, draw_stairs
from tati_re.plotting.figure import COLORS, GRAY, labeled, legend_above, new_figure, plain, save
from tati_re.plotting.regression import plot_values
from tati_re.prediction.results import ClassPrediction, LabelPrediction, Prediction, RegressionPrediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_prediction(one: Prediction, along: int | None = None, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draws a prediction.

    Values: as `plot_values`. Classes: with one input, or `along` one, their probabilities over it with the central
    interval over the draws; with labels the reliability by isotonic regression, in the band that holds the whole curves
    of 95 % of calibrated predictions; and the predictive entropy, of right and wrong predictions where labels are
    known.

    Args:
        one: Of `run.predict`.
        along: Column of the inputs, from 0. Default: the only one.
        path: PNG file to write. Default: none.

    Raises:
        InputError: No such column, or a path that cannot be written.
    """
    if isinstance(one, RegressionPrediction):
        return plot_values({"posterior average": one}, None, path, along)
    shown = one.pairs() if isinstance(one, LabelPrediction) else one
    assert isinstance(shown, ClassPrediction)
    columns = np.zeros((0, 0)) if one.inputs is None else one.inputs.reshape(len(one.inputs), -1)
    if along is not None and not 0 <= along < columns.shape[1]:
        raise InputError("along: the inputs have no such column.", along, f"0 to {columns.shape[1] - 1}")
    over = isinstance(one, ClassPrediction) and (along is not None or columns.shape[1] == 1)
    count = 1 + over + (shown.labels is not None)
    figure = new_figure(4.4 * count, 3.8)
    grid = figure.add_gridspec(1, count)
    drawn = []
    if over:
        drawn.append(figure.add_subplot(grid[0]))
        _draw_probabilities(drawn[0], shown, columns[:, along or 0], f"input {along or 0}", columns.shape[1] == 1)
    last = figure.add_subplot(grid[-1])
    if shown.labels is None:
        draw_stairs(last, one.entropy, np.linspace(0, max(one.entropy.max(), 1e-9), 21), "all", COLORS[0], True, False)
        last.set_ylabel("predictions")
    else:
        part = grid[count - 2].subgridspec(2, 1, height_ratios=[3, 1])
        above = figure.add_subplot(part[0])
        below = figure.add_subplot(part[1], sharex=above)
        draw_reliability(above, below, [shown.probabilities], [shown.labels], ["posterior average"])
        draw_entropy(last, shown.probabilities, shown.labels, "")
        drawn += [above, below]
    last.set_xlabel("predictive entropy (nats)")
    plain(*drawn, last)
    return save(figure, path)


def _draw_probabilities(axes: Axes, one: ClassPrediction, x: np.ndarray, name: str, alone: bool) -> None:
    order = np.argsort(x)
    classes = range(one.probabilities.shape[1])
    for number, k in enumerate(classes if len(classes) > 2 else classes[1:]):
        color, p = COLORS[number % len(COLORS)], one.probabilities[order, k]
        ends = None if one.lower is None or one.upper is None else (one.lower[order, k], one.upper[order, k])
        label = f"class {one.class_values[k]}"
        if alone:
            axes.plot(x[order], p, color=color, linewidth=1.3, label=label)
            if ends is not None:
                axes.fill_between(x[order], *ends, color=color, alpha=0.25, linewidth=0)
        else:
            errors = None if ends is None else np.maximum([p - ends[0], ends[1] - p], 0)
            axes.errorbar(x[order], p, errors, fmt="o", markersize=2.5, color=color, elinewidth=0.6, label=label)
    if one.labels is not None and len(classes) == 2:
        axes.plot(x, one.labels, "|", color=GRAY, markersize=7, label="observed")
    axes.set_ylim(-0.03, 1.03)
    labeled(axes, name, "probability")
    legend_above(axes)
