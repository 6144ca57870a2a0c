"""Predictions of a regression: values with their intervals, and the intervals' coverage."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from tati_re.plotting.figure import COLORS, DARK, GRAY, legend_above, new_figure, plain, save
from tati_re.prediction.results import RegressionPrediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = np.linspace(0.0, 1.0, 51)


def plot_values(
    predictions: dict[str, RegressionPrediction], inputs: np.ndarray, path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draws the first of several predictions with its intervals, and the coverage of all of them.

    Left: over the input where there is one, else over what came true; the dark band is the interval of the network's
    values over the draws, the light one that of a new observation. Right, with targets and noise: the part of targets
    inside of central intervals against the probability that these promise; below the diagonal the predictions are too
    sure. The gray band is where 95 % of calibrated predictions of so many independent examples lie, level by level.

    Args:
        predictions: By name.
        inputs: What was predicted, `(n, ...)`.
        path: PNG file to write. Default: none.

    Raises:
        InputError: A path that cannot be written.
    """
    name, first = next(iter(predictions.items()))
    known = {label: one for label, one in predictions.items() if one.pit is not None}
    figure = new_figure(9.0 if known else 5.4, 3.8)
    panels = figure.subplots(1, 2, width_ratios=[1.35, 1.0]) if known else [figure.subplots()]
    inputs = np.asarray(inputs).reshape(len(first.mean), -1)
    if inputs.shape[1] == 1:
        _draw_line(panels[0], first, inputs[:, 0], name)
    else:
        _draw_pairs(panels[0], first, name)
    if known:
        _draw_coverage(panels[1], known)
    plain(*panels)
    return save(figure, path)


def _draw_line(axes: Axes, one: RegressionPrediction, x: np.ndarray, name: str) -> None:
    order = np.argsort(x)
    x = x[order]
    if one.noise_std is not None:
        label = f"{one.level:.0%} of observations"
        axes.fill_between(x, one.lower[order, 0], one.upper[order, 0], color=COLORS[4], alpha=0.3, lw=0, label=label)
    label = f"{one.level:.0%} of the draws"
    axes.fill_between(
        x, one.mean_lower[order, 0], one.mean_upper[order, 0], color=COLORS[0], alpha=0.4, lw=0, label=label
    )
    axes.plot(x, one.mean[order, 0], color=COLORS[0], linewidth=1.4, label="mean")
    if one.targets is not None:
        size = 9 if len(x) <= 2000 else 3
        axes.scatter(x, one.targets[order, 0], s=size, color=DARK, linewidths=0, alpha=0.7, label="observed")
    axes.set_xlabel("input")
    axes.set_ylabel("target")
    axes.set_title(name, loc="left", color=DARK, fontsize=10, pad=18)
    legend_above(axes)


def _draw_pairs(axes: Axes, one: RegressionPrediction, name: str) -> None:
    mean = one.mean.reshape(-1)
    true = np.arange(mean.size) if one.targets is None else one.targets.reshape(-1)
    errors = np.maximum([mean - one.lower.reshape(-1), one.upper.reshape(-1) - mean], 0)
    shown = slice(None, None, max(1, mean.size // 400))
    axes.errorbar(
        true[shown], mean[shown], yerr=errors[:, shown], fmt="o", markersize=3, color=COLORS[0], ecolor=COLORS[4],
        elinewidth=0.8, label=f"mean and {one.level:.0%} interval",
    )  # fmt: skip
    if one.targets is not None:
        ends = [min(true.min(), mean.min()), max(true.max(), mean.max())]
        axes.plot(ends, ends, color=GRAY, linewidth=0.8, linestyle="--")
    axes.set_xlabel("input" if one.targets is None else "observed")
    axes.set_ylabel("predicted")
    axes.set_title(name, loc="left", color=DARK, fontsize=10)
    legend_above(axes)


def _draw_coverage(axes: Axes, predictions: dict[str, RegressionPrediction]) -> None:
    count = len(next(iter(predictions.values())).mean)
    half = 1.96 * np.sqrt(_LEVELS * (1 - _LEVELS) / count)
    axes.fill_between(_LEVELS, _LEVELS - half, _LEVELS + half, color=GRAY, alpha=0.25, linewidth=0)
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.8, linestyle="--")
    for number, (name, one) in enumerate(predictions.items()):
        inside = np.abs(2 * one.pit.reshape(-1, 1) - 1) <= _LEVELS
        axes.plot(_LEVELS, inside.mean(axis=0), color=COLORS[number % len(COLORS)], linewidth=1.4, label=name)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.set_xlabel("probability of the interval")
    axes.set_ylabel("part of targets inside")
    axes.legend(frameon=False, fontsize=8, loc="upper left")
