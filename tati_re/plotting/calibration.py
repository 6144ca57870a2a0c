"""Calibration of predicted probabilities, of the optimum and of the posterior average."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from tati_re.core.errors import AnyPath
from tati_re.core.front_door import front_door
from tati_re.plotting.bands import Calibrated
from tati_re.plotting.figure import COLORS, DARK, GRAY, legend_above, new_figure, plain, save
from tati_re.prediction.metrics import (
    calibration,
    class_labels,
    class_probabilities,
    predictive_entropy,
)
from tati_re.prediction.results import ClassPrediction, LabelPrediction, known_labels
from tati_re.prediction.scores import auroc


@front_door
def plot_classes(
    predictions: Mapping[str, ClassPrediction | LabelPrediction],
    outside: Mapping[str, ClassPrediction | LabelPrediction] | None = None,
    path: AnyPath | None = None,
) -> Figure:
    """Plots the calibration of several class predictions for the same labeled inputs.

    The left panel shows reliability, with the number of examples per bin. Several labels at once
    count one by one. The right panel shows the predictive entropy of correct and wrong predictions.
    With predictions for outside inputs, it shows their entropy too, and how well the entropy
    separates them.

    Args:
        predictions: Predictions with labels, by name.
        outside: Predictions for inputs unlike the training data, under the same names. Default:
            None.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: The predictions have no labels.
    """
    single = {name: prediction.pairs() for name, prediction in predictions.items()}
    sets, labels = zip(
        *(
            (prediction.probabilities, known_labels(prediction.labels))
            for prediction in single.values()
        ),
        strict=True,
    )
    figure = new_figure(9.0, max(4.8, 1.7 * len(sets)))
    grid = figure.add_gridspec(1, 2, width_ratios=[1.0, 1.1])
    reliability = draw_reliability(figure, grid[0], sets, labels, list(predictions))
    panels = (
        grid[1].subgridspec(len(sets), 1).subplots(sharex=True, sharey=True, squeeze=False)[:, 0]
    )
    panels[-1].set_xlabel("predictive entropy (nats)")
    plain(*reliability, *panels)
    for panel, (name, prediction) in zip(panels, predictions.items(), strict=True):
        if outside is None:
            draw_entropy(panel, single[name].probabilities, single[name].labels, name)
        else:
            _draw_apart(panel, prediction, outside[name], name)
    return save(figure, path)


def _draw_apart(axes: Axes, inside: Any, outside: Any, name: str) -> None:
    single = inside.pairs().probabilities
    edges = np.linspace(0.0, np.log(single.shape[1]) * len(single) / len(inside.probabilities), 31)
    for prediction, word, color, filled in (
        (inside, "test", COLORS[0], True),
        (outside, "other inputs", COLORS[1], False),
    ):
        draw_stairs(axes, prediction.entropy, edges, word, color, filled)
    area = auroc(inside.entropy, outside.entropy)
    pad = 4 + 14 * legend_above(axes)
    axes.set_title(f"{name}, AUROC {area:.3f}", loc="left", color=DARK, fontsize=10, pad=pad)
    axes.set_ylabel("fraction of predictions")


def draw_stairs(
    axes: Axes,
    values: np.ndarray,
    edges: np.ndarray,
    word: str,
    color: str,
    filled: bool,
    parts: bool = True,
) -> None:
    """Draws a histogram, with the number of values in its label.

    Args:
        axes: The panel.
        values: Numbers, shape (n,). Those outside the edges are clipped to 0 and the last edge.
        edges: Edges of the bins, rising, from 0.
        word: Beginning of the label.
        color: Color of the histogram.
        filled: Whether to fill it; otherwise only its outline is drawn.
        parts: Whether heights are fractions of the values; otherwise they are counts. Default:
            True.
    """
    heights = np.histogram(np.clip(values, 0, edges[-1]), edges)[0] / (
        max(len(values), 1) if parts else 1
    )
    style: dict[str, Any] = {"alpha": 0.35, "linewidth": 0} if filled else {"linewidth": 1.5}
    axes.stairs(heights, edges, fill=filled, color=color, label=f"{word} ({len(values)})", **style)


def draw_reliability(
    figure: Figure,
    place: Any,
    sets: Sequence[np.ndarray],
    labels: Sequence[np.ndarray],
    names: Sequence[str],
) -> tuple[Axes, Axes]:
    """Draws calibration curves in their bands, and counts of confidences below them.

    Args:
        figure: The figure.
        place: The cell of a grid for both panels, a `SubplotSpec`.
        sets: Probabilities of each predictor, shape (n, classes) or as `class_probabilities` takes
            them.
        labels: Labels for each predictor, shape (n,).
        names: Names of the predictors.

    Returns:
        The panel of the curves, and the panel of the counts.
    """
    part = place.subgridspec(2, 1, height_ratios=[3, 1])
    axes = figure.add_subplot(part[0])
    counts = figure.add_subplot(part[1], sharex=axes)
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.8, linestyle="--")
    first = 1.0
    for number, (values, right, name) in enumerate(zip(sets, labels, names, strict=True)):
        result = calibration(values, right)
        color = COLORS[number % len(COLORS)]
        p = class_probabilities(values)
        sure = p.max(axis=1)
        happened = p.argmax(axis=1) == class_labels(right, p.shape[1])
        first = min(first, sure.min())
        curve = Calibrated(sure)
        label = f"{name}, calibration error {result.error:.3f}"
        axes.fill_between(curve.grid, *curve.band(), color=color, alpha=0.15, linewidth=0)
        axes.plot(curve.grid, curve.curve(happened), color=color, linewidth=1.4, label=label)
        width = (result.edges[1] - result.edges[0]) * 0.8 / len(sets)
        middle = (
            0.5 * (result.edges[1:] + result.edges[:-1]) + (number - 0.5 * (len(sets) - 1)) * width
        )
        counts.bar(middle, result.count, width=width, color=color)
    axes.set(ylabel="fraction correct", xlim=(max(0.0, first - 0.03), 1.03), ylim=(-0.03, 1.05))
    axes.tick_params(labelbottom=False)
    axes.legend(
        frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 0.99), borderaxespad=0.1
    )
    _scale_counts(counts)
    counts.set(ylabel="examples", xlabel="confidence (probability of the predicted class)")
    return axes, counts


def _scale_counts(axes: Axes) -> None:
    """A logarithmic axis of counts where some are large, which shows a count of one as well; else a
    plain one.
    """
    axes.autoscale(
        axis="y"
    )  # of a shared axis the limits of the panel before are not those of this one
    if axes.get_ylim()[1] < 30:
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.set_ylim(bottom=0.0)
        return
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.6)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def draw_entropy(axes: Axes, probabilities: np.ndarray, labels: np.ndarray, name: str) -> None:
    """Draws histograms of the predictive entropy of right and of wrong predictions.

    Args:
        axes: The panel.
        probabilities: Probabilities, shape (n, classes) or as `class_probabilities` takes them.
        labels: Labels, shape (n,).
        name: Title of the panel.
    """
    values = class_probabilities(probabilities)
    entropy = predictive_entropy(probabilities)
    right = values.argmax(axis=1) == class_labels(labels, values.shape[1])
    edges = np.linspace(0.0, np.log(values.shape[1]), 21)
    for chosen, word, color, filled in (
        (right, "right", COLORS[0], True),
        (~right, "wrong", COLORS[1], False),
    ):
        draw_stairs(axes, entropy[chosen], edges, word, color, filled, parts=False)
    # One wrong prediction is one, not all of those that are wrong.
    _scale_counts(axes)
    axes.set_title(name, loc="left", color=DARK, fontsize=10)
    axes.set_ylabel("predictions")
    legend_above(axes)
