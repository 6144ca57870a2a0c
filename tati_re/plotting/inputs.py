"""A data set as points, and predictions over inputs: decision boundary with its uncertainty, curve
with its band.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tati_re.core.errors import AnyPath, InputError
from tati_re.core.front_door import front_door
from tati_re.data.columns import numbered
from tati_re.data.dataset import Dataset
from tati_re.plotting.figure import (
    COLORS,
    DARK,
    GRAY,
    color_bar,
    labeled,
    legend_above,
    new_figure,
    plain,
    save,
)

if TYPE_CHECKING:
    from tati_re.landscape.inputspace import InputSpace


@front_door
def plot_points(dataset: Dataset, path: AnyPath | None = None) -> Figure:
    """Plots the examples of a data set: two input columns, or one column against its target.

    Each class has its own color and marker. Regression values in the plane, or the first of several
    labels, use a color scale. Test points are hollow or have an edge.

    Args:
        dataset: The data set, with inputs `(N, 2)`, or `(N, 1)` and one target.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: The inputs have a different shape.
    """
    columns = dataset.inputs.shape[1] if dataset.inputs.ndim == 2 else None
    if columns not in (1, 2) or (columns == 1 and dataset.targets.ndim > 1):
        received = f"inputs of shape {dataset.inputs.shape[1:]}"
        raise InputError(
            "plot: the data are not points of a plane.",
            received,
            "two columns, or one and a target",
        )
    figure = new_figure(5.0, 4.6 if columns == 2 else 3.2)
    axes = figure.subplots()
    parts: list[Any] = [(dataset.inputs, dataset.targets, "")]
    if dataset.test_inputs is not None:
        parts.append((dataset.test_inputs, dataset.test_targets, ", test"))
    for inputs, targets, words in parts:
        inputs = inputs * dataset.input_scale
        if columns == 1:
            _scatter(
                axes,
                inputs[:, 0],
                targets,
                COLORS[0],
                "o",
                bool(words),
                "test" if words else "training",
            )
        elif dataset.task in ("regression", "multi_label"):
            _values(figure, axes, inputs, targets, dataset, bool(words))
        else:
            _classes(axes, inputs, targets, dataset, words)
    names = dataset.feature_names or numbered(columns)
    if columns == 2 and 1 / 3 < np.divide(*np.ptp(dataset.inputs, axis=0).clip(1e-300)) < 3:
        axes.set_aspect("equal", adjustable="datalim")
    labeled(axes, names[0], names[1] if columns == 2 else "label")
    if len(axes.get_legend_handles_labels()[0]) > 1:
        legend_above(axes, 48)
    return save(figure, path)


def _scatter(
    axes: Axes, x: np.ndarray, y: np.ndarray, color: str, marker: str, hollow: bool, label: str
) -> None:
    size = 14 if len(x) <= 2000 else 5
    face = "none" if hollow else color
    axes.scatter(
        x,
        y,
        s=size,
        marker=marker,
        facecolors=face,
        edgecolors=color,
        linewidths=0.7,
        alpha=0.8,
        label=label,
    )


def _classes(
    axes: Axes, inputs: np.ndarray, targets: np.ndarray, dataset: Dataset, words: str
) -> None:
    targets = targets.argmax(1) if dataset.task == "one_hot" else targets
    classes = [-1, 1] if dataset.task == "signs" else range(dataset.num_classes or 0)
    for i, number in enumerate(classes):
        chosen = targets == number
        if chosen.any():
            label = f"{number:+d}" if dataset.task == "signs" else str(number)
            label = str(dataset.class_names[i]) if dataset.class_names else label
            color = COLORS[i % len(COLORS)]
            marker = "os^Dvp"[i % 6]
            x, y = inputs[chosen].T
            _scatter(axes, x, y, color, marker, bool(words), label + words)


def _values(
    figure: Figure,
    axes: Axes,
    inputs: np.ndarray,
    targets: np.ndarray,
    dataset: Dataset,
    hollow: bool,
) -> None:
    values = targets.reshape(len(targets), -1)[:, 0]
    low, high = (
        end(dataset.targets.reshape(len(dataset.targets), -1)[:, 0]) for end in (np.min, np.max)
    )
    edge = GRAY if hollow else "none"
    x, y = inputs.T
    drawn = axes.scatter(
        x, y, c=values, s=14, cmap="viridis", vmin=low, vmax=high, edgecolors=edge, linewidths=0.7
    )
    if not hollow:
        color_bar(figure, axes, drawn, "label" if targets.size == len(targets) else "label 0")


_MOST_POINTS = 2000


@front_door
def plot_input_space(space: "InputSpace", path: AnyPath | None = None) -> Figure:
    """Plots predictions over a grid of one or two inputs.

    With two inputs and two classes: the probability of the second class with the boundary at 1/2,
    and its spread over the draws. With more classes: the most probable class, paler where it is
    less certain, and the predictive entropy. For a regression: mean and spread of the first output.
    With one input: curves with bands of the central interval.

    Args:
        space: A grid over one or two inputs from `tati_re.landscape.input_space`.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: The space is not such a grid.
    """
    axes = space.axes
    if axes is None or len(axes) > 2:
        raise InputError(
            "A figure shows a grid of one or two inputs.",
            "none" if axes is None else f"{len(axes)}",
        )
    if space.prediction.kind == "multi_label":
        raise InputError(
            "A figure cannot show several labels per example.",
            expected="the table, which contains each label",
        )
    classes = space.prediction.kind == "classification"
    if len(axes) == 1:
        figure = new_figure(6.0, 3.6)
        _curves(figure.subplots(), space, classes)
        _note_others(figure, space)
        return save(figure, path)
    first, second = (space.names[k] for k in space.along)
    figure = new_figure(9.6, 4.2)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    x = axes[0].values
    y = axes[1].values
    prediction: Any = space.prediction
    quantity = "standard deviation over the parameters"
    if classes and len(prediction.class_values) == 2:
        p, shade = (
            _plane(space, values[:, 1]) for values in (prediction.probabilities, prediction.std)
        )
        drawn = left.contourf(x, y, p, levels=np.linspace(0, 1, 21), cmap="RdBu_r", alpha=0.85)
        color_bar(
            figure,
            left,
            drawn,
            f"probability of class {prediction.class_values[1]}",
            ticks=MaxNLocator(6),
        )
        for panel, color in ((left, DARK), (right, "white")):
            panel.contour(x, y, p, levels=[0.5], colors=color, linewidths=1.4)
    elif classes:
        best = _plane(space, prediction.probabilities.argmax(axis=1).astype(float))
        sure = _plane(space, prediction.probabilities.max(axis=1))
        colors = np.array(
            [to_rgb(COLORS[k % len(COLORS)]) for k in range(len(prediction.class_values))]
        )
        image = 1 - (1 - colors[best.astype(int)]) * sure[..., None]
        half = 0.5 * (x[1] - x[0])
        tall = 0.5 * (y[1] - y[0])  # of a pixel, which has its point in the middle
        extent = (x[0] - half, x[-1] + half, y[0] - tall, y[-1] + tall)
        left.imshow(image, origin="lower", extent=extent, aspect="auto", interpolation="nearest")
        for k in np.unique(best).astype(int):
            left.plot(
                [], [], "s", color=COLORS[k % len(COLORS)], label=f"{prediction.class_values[k]}"
            )
        left.set_title(
            "most probable class",
            loc="left",
            fontsize=9,
            color=DARK,
            pad=4 + 14 * legend_above(left, 48),
        )
        shade = _plane(space, prediction.entropy)
        quantity = "entropy (nats)"
    else:
        mean, shade = (
            _plane(space, values[:, 0]) for values in (prediction.mean, prediction.parameter_std)
        )
        drawn = left.contourf(x, y, mean, levels=15, cmap="viridis")
        color_bar(figure, left, drawn, f"mean{_of_which(prediction)}", ticks=MaxNLocator(6))
    levels = np.linspace(0, shade.max() if shade.max() > 0 else 1.0, 16)
    drawn = right.contourf(x, y, shade, levels=levels, cmap="viridis")
    color_bar(figure, right, drawn, quantity, ticks=MaxNLocator(6))
    for panel in (left, right):
        _points(panel, space, classes)
        panel.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xlabel=first)
        plain(panel)
    left.set_ylabel(second)
    _note_others(figure, space)
    return save(figure, path)


def _note_others(figure: Figure, space: "InputSpace") -> None:
    """Says where the inputs stay that do not vary."""
    if space.others:
        figure.supxlabel(space.others, fontsize=8, color=GRAY)


def _of_which(prediction: Any) -> str:
    return " of output 0" if prediction.mean.shape[1] > 1 else ""


def _plane(space: "InputSpace", values: np.ndarray) -> np.ndarray:
    """Values on the grid, rows along the second input."""
    assert space.axes is not None
    return values.reshape([axis.num_points for axis in space.axes]).T


def _points(panel: Axes, space: "InputSpace", classes: bool) -> None:
    if space.examples is None:
        return
    prediction: Any = space.prediction
    inputs, labels = (values[:: -(-len(values) // _MOST_POINTS)] for values in space.examples)
    inputs = inputs[:, list(space.along)]
    if not classes:
        panel.scatter(
            inputs[:, 0], inputs[:, 1], s=5, color="white", edgecolors=GRAY, linewidths=0.4
        )
        return
    labels = (
        labels.argmax(axis=1) if labels.ndim > 1 and labels.shape[1] > 1 else labels.reshape(-1)
    )
    for value in np.unique(labels):
        (x, y) = inputs[labels == value].T
        two = prediction.class_values.size == 2
        number = max(0, int(value))  # classes are 0, 1, ..., or -1 and 1
        color = ("#2166AC", "#B2182B")[number] if two else COLORS[number % len(COLORS)]
        panel.scatter(
            x,
            y,
            s=9,
            marker="os^Dvp"[number % 6],
            facecolors=color,
            edgecolors="white",
            linewidths=0.4,
        )


def _curves(panel: Axes, space: "InputSpace", classes: bool) -> None:
    (column,) = space.along
    x = space.inputs[:, column]
    prediction: Any = space.prediction
    if classes:
        names = [f"p of class {value}" for value in prediction.class_values]
        values = prediction.probabilities
        low = prediction.lower
        high = prediction.upper
        chosen = [1] if len(names) == 2 else range(len(names))
    else:
        names = [f"mean{_of_which(prediction)}"]
        chosen = [0]
        values = prediction.mean
        low = prediction.mean_lower
        high = prediction.mean_upper
        if prediction.lower is not None:
            panel.fill_between(
                x,
                prediction.lower[:, 0],
                prediction.upper[:, 0],
                color=COLORS[0],
                alpha=0.12,
                linewidth=0,
                label="with noise",
            )
    for number, k in enumerate(chosen):
        color = COLORS[number % len(COLORS)]
        panel.fill_between(x, low[:, k], high[:, k], color=color, alpha=0.35, linewidth=0)
        panel.plot(x, values[:, k], color=color, linewidth=1.4, label=names[k])
    if space.examples is not None and not classes:
        inputs, labels = space.examples
        panel.plot(
            inputs[:, column],
            labels.reshape(len(labels), -1)[:, 0],
            ".",
            color=GRAY,
            markersize=4,
            zorder=0,
        )
    panel.legend(frameon=False, fontsize=8)
    labeled(panel, space.names[column], "probability" if classes else "prediction")
