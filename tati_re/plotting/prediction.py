"""Predictions: bands over an input, intervals and their coverage, calibration, entropy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tati_re.core.errors import AnyPath, InputError
from tati_re.core.front_door import front_door
from tati_re.core.renamed import renamed_arguments
from tati_re.plotting.bands import uniform_band
from tati_re.plotting.calibration import draw_entropy, draw_reliability, draw_stairs
from tati_re.plotting.figure import (
    COLORS,
    DARK,
    GRAY,
    labeled,
    legend_above,
    new_figure,
    plain,
    save,
)
from tati_re.prediction.results import (
    ClassPrediction,
    LabelPrediction,
    Prediction,
    RegressionPrediction,
)

_MOST_CLASSES = 2 * len(COLORS)


@renamed_arguments(one="prediction")
@front_door
def plot_prediction(
    prediction: Prediction, along: int | None = None, path: AnyPath | None = None
) -> Figure:
    """Plots a prediction with its intervals, calibration and entropy.

    Values are plotted as by `plot_values`. Class probabilities are plotted over one input with the
    central interval over the draws. With labels there is a reliability curve from isotonic
    regression, with a band that contains the whole curve for 95 % of calibrated predictions. The
    last panel shows the predictive entropy, with labels separately for correct and wrong
    predictions.

    Args:
        prediction: A prediction from `run.predict`.
        along: Input column for the horizontal axis, from 0. Default: None, the only column.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: There is no such column.
    """
    if isinstance(prediction, RegressionPrediction):
        return plot_values({prediction.title: prediction}, None, path, along)
    classes = prediction.pairs() if isinstance(prediction, LabelPrediction) else prediction
    assert isinstance(classes, ClassPrediction)
    columns = _columns(prediction.inputs if prediction.places == 1 else None, 0, along)
    one_input = columns.shape[1] == 1
    over = isinstance(prediction, ClassPrediction) and (along is not None or one_input)
    count = 1 + over + (classes.labels is not None)
    figure = new_figure(4.4 * count, 3.8)
    grid = figure.add_gridspec(1, count)
    drawn = []
    if over:
        drawn.append(figure.add_subplot(grid[0]))
        word = "input" if one_input else f"input {along}"
        _draw_probabilities(drawn[0], classes, columns[:, along or 0], word, one_input)
    last = figure.add_subplot(grid[-1])
    if classes.labels is None:
        entropy = prediction.entropy
        draw_stairs(
            last,
            entropy,
            np.linspace(0, max(entropy.max(), 1e-9), 21),
            "all",
            COLORS[0],
            True,
            False,
        )
        last.set_ylabel("predictions")
    else:
        drawn += draw_reliability(
            figure,
            grid[count - 2],
            [classes.probabilities],
            [classes.labels],
            [prediction.title],
        )
        draw_entropy(last, classes.probabilities, classes.labels, "")
    last.set_xlabel("predictive entropy (nats)")
    plain(*drawn, last)
    return save(figure, path)


def _columns(inputs: np.ndarray | None, count: int, along: int | None) -> np.ndarray:
    """The inputs as columns, of which `along` is one; none of `count` rows where they are not
    known.
    """
    columns = (
        np.zeros((count, 0)) if inputs is None else np.asarray(inputs).reshape(len(inputs), -1)
    )
    if along is not None and not 0 <= along < columns.shape[1]:
        expected = (
            f"0 to {columns.shape[1] - 1}"
            if columns.shape[1]
            else "no along, as the inputs are not drawn"
        )
        raise InputError("along: the inputs have no such column.", along, expected)
    return columns


def _draw_probabilities(
    axes: Axes, prediction: ClassPrediction, x: np.ndarray, name: str, alone: bool
) -> None:
    order = np.argsort(x)
    classes = range(prediction.probabilities.shape[1])
    likely = np.sort(prediction.probabilities.max(axis=0).argsort()[::-1][:_MOST_CLASSES])
    for number, k in enumerate(likely if len(classes) > 2 else classes[1:]):
        color = COLORS[number % len(COLORS)]
        p = prediction.probabilities[order, k]
        dashes = "-" if number < len(COLORS) else "--"
        ends = (
            None
            if prediction.lower is None or prediction.upper is None
            else (prediction.lower[order, k], prediction.upper[order, k])
        )
        label = f"class {prediction.class_values[k]}"
        if alone:
            axes.plot(x[order], p, dashes, color=color, linewidth=1.3, label=label)
            if ends is not None:
                axes.fill_between(x[order], *ends, color=color, alpha=0.25, linewidth=0)
        else:
            errors = None if ends is None else np.maximum([p - ends[0], ends[1] - p], 0)
            axes.errorbar(
                x[order],
                p,
                errors,
                fmt="o",
                markersize=2.5,
                color=color,
                elinewidth=0.6,
                label=label,
            )
    if prediction.training is not None and len(classes) == 2 and alone:
        _draw_training(axes, *prediction.training, DARK, "training data")
    if prediction.labels is not None and len(classes) == 2:
        axes.plot(x, prediction.labels, "|", color=GRAY, markersize=7, label="observed")
    axes.set_ylim(-0.03, 1.03)
    remark = (
        f", the {len(likely)} likeliest of {len(classes)} classes"
        if len(likely) < len(classes)
        else ""
    )
    labeled(axes, name, "probability" + remark)
    legend_above(axes, 48)


@front_door
def plot_values(
    predictions: Mapping[str, RegressionPrediction],
    inputs: np.ndarray | None = None,
    path: AnyPath | None = None,
    along: int | None = None,
) -> Figure:
    """Plots the first of several predictions with its intervals, and the calibration of all of
    them.

    The left panel has the input on its axis if there is a single one, otherwise the observed
    values. The dark band is the interval of the mean, the network output, over the draws. The light
    band is the interval of a new observation, if the loss describes the noise.

    With targets and noise there are two more panels. The middle one shows the fraction of targets
    inside central intervals against their nominal probability. Below the diagonal the predictions
    are overconfident. The right panel shows the distribution of the predictive probabilities below
    the targets (PIT) minus the uniform distribution. A curve that rises to the middle and then
    falls means that the spread is too small; a bow to one side means a shift. The gray bands
    contain the whole curve for 95 % of calibrated predictions with this number of independent
    examples.

    Args:
        predictions: Predictions by name.
        inputs: The inputs, `(n, ...)`. Default: None, the inputs stored in the prediction.
        path: A PNG file to write. Default: None, no file.
        along: Input column for the left panel, from 0. Default: None, the only column, or the
            observed values.

    Returns:
        The figure.
    """
    name, first = next(iter(predictions.items()))
    known = {
        label: prediction for label, prediction in predictions.items() if prediction.pit is not None
    }
    figure = new_figure(12.6 if known else 5.4, 3.8)
    panels = figure.subplots(1, 3, width_ratios=[1.5, 1.0, 1.1]) if known else [figure.subplots()]
    columns = _columns(first.inputs if inputs is None else inputs, len(first.mean), along)
    if columns.shape[1] == 1:
        _draw_line(panels[0], first, columns[:, 0], name)
    else:
        _draw_pairs(
            panels[0], first, name, None if along is None else (columns[:, along], f"input {along}")
        )
    if known:
        _draw_coverage(panels[1], known)
        draw_pit(panels[2], known)
    plain(*panels)
    return save(figure, path)


def _draw_training(axes: Axes, x: np.ndarray, y: np.ndarray, color: str, label: str) -> None:
    """Draws the examples that a run was trained on as small circles."""
    size = 14 if len(x) <= 300 else 4
    axes.scatter(
        x,
        y,
        s=size,
        label=label,
        facecolors="white",
        edgecolors=color,
        linewidths=0.7,
        zorder=2.5,
    )


def _draw_line(axes: Axes, prediction: RegressionPrediction, x: np.ndarray, name: str) -> None:
    order = np.argsort(x)
    x = x[order]
    several = prediction.mean.shape[1] > 1
    for k in range(prediction.mean.shape[1]):
        color = COLORS[k % len(COLORS)]
        if prediction.lower is not None and prediction.upper is not None:
            label = f"{prediction.level:.0%} of observations"
            light = color if several else COLORS[4]
            ends = prediction.lower[order, k], prediction.upper[order, k]
            axes.fill_between(
                x,
                *ends,
                color=light,
                alpha=0.15 if several else 0.3,
                lw=0,
                label="" if k else label,
            )
        label = f"{prediction.level:.0%} interval of the mean"
        ends = (prediction.mean_lower[order, k], prediction.mean_upper[order, k])
        axes.fill_between(x, *ends, color=color, alpha=0.4, lw=0, label="" if k else label)
        axes.plot(
            x,
            prediction.mean[order, k],
            color=color,
            linewidth=1.4,
            label=f"output {k}" if several else "mean",
        )
        if prediction.training is not None:
            inputs, targets = prediction.training
            seen = "" if k else "training data"
            shade = color if several else DARK
            _draw_training(axes, inputs, targets[:, k], shade, seen)
        if prediction.targets is not None:
            dots: dict[str, Any] = {"s": 9 if len(x) <= 2000 else 3, "linewidths": 0, "alpha": 0.7}
            seen = "" if k else "observed"
            axes.scatter(
                x,
                prediction.targets[order, k],
                color=color if several else DARK,
                label=seen,
                **dots,
            )
    axes.set(xlabel="input", ylabel="target")
    axes.set_title(name, loc="left", color=DARK, fontsize=10, pad=4 + 14 * legend_above(axes, 76))


def _draw_pairs(
    axes: Axes, prediction: RegressionPrediction, name: str, over: tuple[np.ndarray, str] | None
) -> None:
    """Means with their intervals over what came true, or over the values `over`, with their
    name.
    """
    every = slice(None, None, max(1, prediction.mean.size // 400))
    interval = prediction.lower, prediction.upper
    word = "mean and {level} interval"
    if prediction.lower is None:
        interval = prediction.mean_lower, prediction.mean_upper
        word = "mean, and {level} interval of the mean"
    mean, lower, upper = (
        np.asarray(values)[every].reshape(-1) for values in (prediction.mean, *interval)
    )
    y = None if prediction.targets is None else prediction.targets[every].reshape(-1)
    where, label = (
        (np.arange(len(prediction.mean)), "number of the input") if over is None else over
    )
    true = np.repeat(where[every], prediction.mean.shape[1])
    if over is None and y is not None:
        true = y
        label = "observed"
    axes.errorbar(
        true,
        mean,
        yerr=np.maximum([mean - lower, upper - mean], 0),
        fmt="o",
        markersize=3,
        color=COLORS[0],
        ecolor=COLORS[4],
        elinewidth=0.8,
        label=word.format(level=f"{prediction.level:.0%}"),
    )
    if over is not None and y is not None:
        axes.plot(true, y, "o", markersize=2.5, color=DARK, zorder=3, label="observed")
    elif y is not None:
        diagonal = [min(true.min(), mean.min()), max(true.max(), mean.max())]
        axes.plot(diagonal, diagonal, color=GRAY, linewidth=0.8, linestyle="--")
    if label == "number of the input":
        axes.locator_params(axis="x", integer=True)
    axes.set(xlabel=label, ylabel="predicted")
    axes.set_title(name, loc="left", color=DARK, fontsize=10)
    legend_above(axes)


def _draw_coverage(axes: Axes, predictions: dict[str, RegressionPrediction]) -> None:
    # Where predictions are calibrated, |2 PIT - 1| is uniform.
    levels, low, high = uniform_band(len(next(iter(predictions.values())).mean))
    axes.fill_between(
        levels, low, high, color=GRAY, alpha=0.25, linewidth=0, label="calibrated, 95 %"
    )
    axes.plot([0, 1], [0, 1], color=GRAY, linewidth=0.8, linestyle="--")
    for number, (name, prediction) in enumerate(predictions.items()):
        inside = np.abs(2 * np.asarray(prediction.pit).reshape(-1, 1) - 1) <= levels
        axes.plot(
            levels,
            inside.mean(axis=0),
            color=COLORS[number % len(COLORS)],
            linewidth=1.4,
            label=name,
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set(xlabel="probability of the interval", ylabel="fraction of targets inside")
    axes.legend(frameon=False, fontsize=8, loc="best")


def draw_pit(axes: Axes, predictions: Mapping[str, RegressionPrediction]) -> None:
    """Draws the distribution function of the PIT minus the uniform one, in its simultaneous band.

    Args:
        axes: The panel.
        predictions: Predictions with targets, by name, all of the same number of rows.
    """
    levels, low, high = uniform_band(len(next(iter(predictions.values())).mean))
    axes.fill_between(levels, low - levels, high - levels, color=GRAY, alpha=0.25, linewidth=0)
    for number, prediction in enumerate(predictions.values()):
        below = (np.asarray(prediction.pit).reshape(-1, 1) <= levels).mean(axis=0)
        axes.plot(levels, below - levels, color=COLORS[number % len(COLORS)], linewidth=1.4)
    axes.axhline(0, color=GRAY, linewidth=0.8, linestyle="--")
    axes.set(
        xlim=(0, 1),
        xlabel="probability below the target (PIT)",
        ylabel="distribution minus uniform",
    )
