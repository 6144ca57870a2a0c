"""A data set of one or two columns as points."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.data.columns import numbered
from tati_re.data.dataset import Dataset
from tati_re.plotting.figure import COLORS, GRAY, labeled, legend_above, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_points(dataset: Dataset, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draws the examples of a data set: two columns of inputs against each other, or one column against its target.

    Classes have colors and shapes of their own, the values of a regression in the plane a color scale; test points
    are hollow.

    Args:
        dataset: With inputs `(N, 2)`, or `(N, 1)` and one target.
        path: PNG file to write. Default: none.

    Raises:
        InputError: Inputs with other columns, or a path that cannot be written.
    """
    columns = dataset.inputs.shape[1] if dataset.inputs.ndim == 2 else None
    if columns not in (1, 2) or (columns == 1 and dataset.targets.ndim > 1):
        received = f"inputs of shape {dataset.inputs.shape[1:]}"
        raise InputError("plot: the data are not points of a plane.", received, "two columns, or one and a target")
    figure = new_figure(5.0, 4.6 if columns == 2 else 3.2)
    axes = figure.subplots()
    parts: list[Any] = [(dataset.inputs, dataset.targets, "")]
    if dataset.test_inputs is not None:
        parts.append((dataset.test_inputs, dataset.test_targets, ", test"))
    for inputs, targets, words in parts:
        inputs = inputs * dataset.input_scale
        if columns == 1:
            _scatter(axes, inputs[:, 0], targets, COLORS[0], "o", bool(words), "test" if words else "training")
        elif dataset.task in ("regression", "multi_label"):
            _values(figure, axes, inputs, targets, dataset, bool(words))
        else:
            _classes(axes, inputs, targets, dataset, words)
    names = dataset.feature_names or numbered(columns)
    if columns == 2 and 1 / 3 < np.divide(*np.ptp(dataset.inputs, axis=0).clip(1e-300)) < 3:
        axes.set_aspect("equal", adjustable="datalim")
    labeled(axes, names[0], names[1] if columns == 2 else "label")
    if len(axes.get_legend_handles_labels()[0]) > 1:
        legend_above(axes)
    return save(figure, path)


def _scatter(axes: Axes, x: np.ndarray, y: np.ndarray, color: str, marker: str, hollow: bool, label: str) -> None:
    size = 14 if len(x) <= 2000 else 5
    face = "none" if hollow else color
    axes.scatter(x, y, s=size, marker=marker, facecolors=face, edgecolors=color, linewidths=0.7, alpha=0.8, label=label)


def _classes(axes: Axes, inputs: np.ndarray, targets: np.ndarray, dataset: Dataset, words: str) -> None:
    targets = targets.argmax(1) if dataset.task == "one_hot" else targets
    classes = [-1, 1] if dataset.task == "signs" else range(dataset.num_classes or 0)
    for i, number in enumerate(classes):
        chosen = targets == number
        if chosen.any():
            label = f"{number:+d}" if dataset.task == "signs" else str(number)
            color, marker = COLORS[i % len(COLORS)], "os^Dvp"[i % 6]
            x, y = inputs[chosen].T
            _scatter(axes, x, y, color, marker, bool(words), label + words)


def _values(
    figure: Figure, axes: Axes, inputs: np.ndarray, targets: np.ndarray, dataset: Dataset, hollow: bool
) -> None:
    values = targets.reshape(len(targets), -1)[:, 0]
    low, high = dataset.targets.min(), dataset.targets.max()
    edge = GRAY if hollow else "none"
    x, y = inputs.T
    drawn = axes.scatter(x, y, c=values, s=14, cmap="viridis", vmin=low, vmax=high, edgecolors=edge, linewidths=0.7)
    if not hollow:
        figure.colorbar(drawn, ax=axes, label="label")
