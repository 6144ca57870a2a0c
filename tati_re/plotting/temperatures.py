"""Loss and accuracy against temperature: the cold-posterior curve."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tati_re.analysis.format import SHORT_NOTE
from tati_re.plotting.figure import COLORS, GRAY, new_figure, plain, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def plot_temperatures(frame: pd.DataFrame, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draws losses, and the accuracies of a classifier below them, against temperature.

    Error bars are two Monte Carlo errors. The dashed line is the Bayesian posterior, T = 1; the dotted one is where
    cooling should stop by the validation loss.

    Args:
        frame: As `temperature_curve` gives it.
        path: PNG file to write. Default: none.

    Raises:
        InputError: A path that cannot be written.
    """
    from tati_re.prediction.temperature_study import stopping

    classes = "test_accuracy" in frame
    figure = new_figure(6.4, 6.0 if classes else 3.8)
    panels = figure.subplots(2 if classes else 1, 1, sharex=True, squeeze=False)[:, 0]
    best, _ = stopping(frame)
    for axes, lines, word in zip(panels, (_LOSSES, _ACCURACIES), ("loss", "accuracy"), strict=False):
        _draw(axes, frame, lines)
        axes.set_ylabel(word)
        if frame["temperature"].min() <= 1 <= frame["temperature"].max():
            axes.axvline(1.0, color=GRAY, linewidth=0.8, linestyle="--")
        axes.axvline(best, color=GRAY, linewidth=1.2, linestyle=":", label=f"stop cooling: T = {best:.3g}")
        axes.set_xscale("log")
        plain(axes)
        axes.legend(frameon=False, fontsize=8)
    if _spread(frame):
        panels[0].set_yscale("log")
    short = f"\nerrors {SHORT_NOTE}" if "short" in frame and frame["short"].any() else ""
    panels[-1].set_xlabel(f"temperature T{short}")
    return save(figure, path)


def _draw(axes: Axes, frame: pd.DataFrame, lines: tuple) -> None:
    for name, label, color, marker in lines:
        if name in frame and frame[name].notna().any():
            errors = 2 * frame[f"{name}_error"] if f"{name}_error" in frame else None
            axes.errorbar(
                frame["temperature"], frame[name], yerr=errors, color=color, marker=marker, markersize=4,
                linewidth=1.2, elinewidth=1.0, label=label,
            )  # fmt: skip


def _spread(frame: pd.DataFrame) -> bool:
    """Whether the losses are all above 0 and differ by more than a factor of 20."""
    found = frame[[name for name, *_ in _LOSSES if name in frame]].to_numpy()
    found = found[found == found]
    return bool(found.min() > 0 and found.max() > 20 * found.min())
