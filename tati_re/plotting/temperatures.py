"""A temperature ladder, and loss and accuracy against temperature: the cold-posterior curve."""

from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tati_re.analysis.format import SHORT_NOTE
from tati_re.core.errors import AnyPath, refuse_if
from tati_re.core.front_door import front_door
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
from tati_re.prediction.temperature_study import stopping

_LOSSES = (
    ("train_loss", "train, mean of the draws", COLORS[0], "o"),
    ("validation_loss", "validation, mean of the draws", COLORS[2], "s"),
    ("test_loss", "test, mean of the draws", COLORS[1], "^"),
    ("average_loss", "test, posterior average", COLORS[3], "D"),
)
_ACCURACIES = (
    ("test_accuracy", "test, mean of the draws", COLORS[1], "^"),
    ("average_accuracy", "test, posterior average", COLORS[3], "D"),
)


@front_door
def plot_temperatures(frame: pd.DataFrame, path: AnyPath | None = None) -> Figure:
    """Plots losses against temperature, with the accuracies of a classifier below.

    Error bars are two Monte Carlo standard errors. The dashed line marks the Bayesian posterior, T =
    1. The dotted line marks where cooling should stop.

    Args:
        frame: The table from `temperature_curve`.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.
    """
    classes = "test_accuracy" in frame
    figure = new_figure(6.4, 6.0 if classes else 3.8)
    panels = figure.subplots(2 if classes else 1, 1, sharex=True, squeeze=False)[:, 0]
    best, _ = stopping(frame)
    for axes, lines, word in zip(
        panels, (_LOSSES, _ACCURACIES), ("loss", "accuracy"), strict=False
    ):
        for name, label, color, marker in lines:
            if name in frame and frame[name].notna().any():
                errors = 2 * frame[f"{name}_error"] if f"{name}_error" in frame else None
                axes.errorbar(
                    frame["temperature"],
                    frame[name],
                    yerr=errors,
                    color=color,
                    marker=marker,
                    markersize=4,
                    linewidth=1.2,
                    elinewidth=1.0,
                    label=label,
                )
        axes.set_ylabel(word)
        if frame["temperature"].min() <= 1 <= frame["temperature"].max():
            axes.axvline(1.0, color=GRAY, linewidth=0.8, linestyle="--", label="posterior: T = 1")
        axes.axvline(
            best, color=GRAY, linewidth=1.2, linestyle=":", label=f"stop cooling: T = {best:.3g}"
        )
        axes.set_xscale("log")
        plain(axes)
        legend_above(axes, 72)
    losses = frame[[name for name, *_ in _LOSSES if name in frame]].to_numpy()
    if np.nanmin(losses) > 0 and np.nanmax(losses) > 20 * np.nanmin(losses):
        panels[0].set_yscale("log")
    short = (
        "\n" + fill(f"errors {SHORT_NOTE}", 64) if "short" in frame and frame["short"].any() else ""
    )
    panels[-1].set_xlabel(f"temperature T{short}")
    return save(figure, path)


@front_door
def plot_ladder(ladder: pd.DataFrame, path: AnyPath | None = None) -> Figure:
    """Plots accepted and expected swaps between neighboring rungs, and the mean potential.

    Args:
        ladder: The table `run.ladder`.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: There is a single rung.
    """
    pairs = ladder.iloc[:-1]
    refuse_if(pairs.empty, "A ladder of one rung has no swaps to draw.")
    figure = new_figure(8.6, 3.0)
    axes, right = figure.subplots(1, 2)
    axes.bar(pairs["rung"] + 0.5, pairs["acceptance"], width=0.8, color=COLORS[0], label="accepted")
    axes.plot(
        pairs["rung"] + 0.5,
        pairs["expected_acceptance"],
        "_",
        color=DARK,
        markersize=14,
        label="expected",
    )
    axes.axhline(0.01, color=COLORS[1], linewidth=0.8, linestyle="--", label="broken below")
    axes.set_ylim(0, 1)
    every = -(-len(pairs) // 10)
    labeled_rungs = pairs["rung"].to_numpy()[::every]
    axes.set_xticks(labeled_rungs + 0.5, [f"{rung:g}–{rung + 1:g}" for rung in labeled_rungs])
    legend_above(axes)
    labeled(axes, "between rungs, 0 is the target", "fraction of swaps accepted")
    tempered = ladder["likelihood_weight"].nunique() > 1
    x = ladder["likelihood_weight" if tempered else "temperature"]
    right.plot(x, ladder["mean_potential"], "o-", color=COLORS[0], markersize=4, linewidth=0.8)
    if not tempered:
        right.set_xscale("log")
        some = x.to_numpy()[:: -(-len(x) // 6)]
        right.set_xticks(some, [f"{value:.3g}" for value in some])
        right.minorticks_off()
    labeled(
        right,
        "weight of the likelihood" if tempered else "temperature T",
        f"mean {'L' if tempered else 'U'}",
    )
    return save(figure, path)
